"""The events of an actor: committed with its records, sealed in time, and pruned by the rule."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from leasehold.faults.simulation.clock import SimulatedClock
from leasehold.impl.actor import chronicle
from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.chronicle import HEAD, followers_of
from leasehold.impl.actor.environment import ActorError, ActorOptions, EventSettings, RetryPolicy
from leasehold.impl.actor.ready import Follow, Observe, SealEvents
from leasehold.impl.core.core import Program
from leasehold.impl.events.chain import Head, Verified, verify
from leasehold.impl.events.event import (
    AnyEvent,
    RecoveredEvent,
    RefusedEvent,
    SealEvent,
    StepEvent,
    read,
    record_digest,
)
from leasehold.impl.store.memory import Disk, MemoryStore
from leasehold.impl.store.store import Batch, RecordKey, StoreError
from tests.impl.actor.alone import GatedHandler, alone, program_of
from tests.systems import TESTS

FILES = TESTS / "impl/actor/systems/tower"
RUN = RecordKey("own:1", "ringer")
EVENTS = EventSettings()


class Tower:
    """One actor after another on one disk."""

    def __init__(self, program: Program, settings: EventSettings | None = EVENTS) -> None:
        self.program, self.settings, self.disk, self.clock = program, settings, Disk(), SimulatedClock()
        self.handler = GatedHandler()
        self.handler.gate.set()
        self.actor: Actor

    async def start(self, store: MemoryStore | None = None) -> Actor:
        options = ActorOptions(seed=0, retry=RetryPolicy(at_once=10**9), events=self.settings, reopen_pause=0.1)
        store = store or MemoryStore(self.disk)
        self.actor = alone(self.program, "ringer", store, {"swing": self.handler}, self.clock, options=options)
        await self.actor.start()
        return self.actor

    async def crash(self) -> None:
        await self.actor.kill()
        self.disk.crash()

    async def ring(self, note: Any = None) -> None:
        """Two steps: it rings, and has swung."""
        if RUN in self.actor.table.instances:
            await self.actor.tell(*RUN, "ring", {"note": note})
        else:
            await self.actor.begin(*RUN, "ring", {"note": note}, {})
        await asyncio.sleep(1)

    @property
    def events(self) -> list[AnyEvent]:
        return [read(body) for body in self.disk.events.values()]

    @property
    def kinds(self) -> list[str]:
        return [type(event).__name__.removesuffix("Event") for event in self.events]

    def verified(self) -> Verified:
        head = Head.of(self.disk.metadata[HEAD])
        return verify(self.actor.identity.trust, "own", self.disk.events.items(), head)


@pytest.fixture(scope="module")
def program() -> Program:
    return program_of(FILES)


async def test_each_step_is_an_event_and_a_stop_seals_them(program: Program) -> None:
    t = Tower(program)
    await t.start()
    assert t.disk.events == {}  # nothing has happened yet
    await t.ring({"key": "C"})
    await t.actor.stop()
    assert t.kinds == ["Recovered", "Step", "Step", "Seal"]
    assert t.verified().sealed == 4
    began, swung = (event.step for event in t.events if isinstance(event, StepEvent))
    assert (began.cause, began.event, began.fields, began.source) == ("client", "ring", {"note": {"key": "C"}}, "still")
    assert (began.record.state, began.record.data, began.record.epoch) == (
        "ringing",
        {"rings": 1, "note": {"key": "C"}},
        1,
    )
    assert [(call.task, call.target) for call in began.starts] == [("swing", "handler.swing")]
    assert (swung.cause, swung.event, swung.transition) == ("handler", "swung", "ringer/ringing#swung")
    assert swung.answers is not None
    assert (swung.answers.epoch, swung.answers.well) == (1, True)
    assert [event.commit for event in t.events] == [1, 1, 2, 3]


async def test_an_opaque_value_that_is_large_stands_there_by_its_digest(program: Program) -> None:
    t = Tower(program)
    await t.start()
    await t.ring("x" * 5000)
    await t.actor.stop()
    note = next(event.step.record.data["note"] for event in t.events if isinstance(event, StepEvent))
    assert note == {"sha256": note["sha256"], "bytes": 5002}
    assert max(map(len, t.disk.events.values())) < 1000


async def test_a_restart_goes_on_with_the_chain(program: Program) -> None:
    t = Tower(program)
    for epoch in (1, 2, 3):
        await t.start()
        await t.ring()
        assert t.events[-1].epoch == epoch
        await t.crash()
    assert t.kinds == ["Recovered", "Step", "Step"] * 3
    recovered = [event for event in t.events if isinstance(event, RecoveredEvent)]
    assert [event.machines for event in recovered] == [0, 1, 1]
    for event in recovered[1:]:  # what it has is what the last event has left
        assert isinstance(last := t.events[event.position - 2], StepEvent)
        assert event.records == {last.step.lease: {last.step.machine: record_digest(last.step.record)}}
    assert t.verified().last == 9


@pytest.mark.parametrize(("most", "told_of"), [(0, 0), (1, 1)])
async def test_of_too_many_machines_a_restart_tells_no_digests(
    program: Program, monkeypatch: pytest.MonkeyPatch, most: int, told_of: int
) -> None:
    monkeypatch.setattr(chronicle, "MOST_DIGESTS", most)
    t = Tower(program)
    await t.start()
    await t.ring()
    await t.crash()
    await t.start()
    await t.ring()
    (_, recovered) = (event for event in t.events if isinstance(event, RecoveredEvent))
    assert (recovered.machines, len(recovered.records)) == (1, told_of)


class FailsAt(MemoryStore):
    """Its commits fail at some numbers, with the batch there or not."""

    def __init__(self, disk: Disk, fails: dict[int, bool]) -> None:
        super().__init__(disk)
        self.fails, self.count = fails, 0

    async def _commit(self, batch: Batch) -> None:
        self.count += 1
        if self.fails.get(self.count, True):
            await super()._commit(batch)
        if self.count in self.fails:
            raise StoreError("the disk has failed")


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("at", range(1, 7))
async def test_a_failed_commit_loses_no_event_and_adds_none(program: Program, at: int, kept: bool) -> None:
    t = Tower(program)
    await t.start(FailsAt(t.disk, {at: kept}))
    for _ in range(4):
        try:
            await t.ring()
        except ActorError:
            await asyncio.sleep(5)
    await t.actor.stop()
    assert t.verified().last == len(t.events)
    steps = [event.step for event in t.events if isinstance(event, StepEvent)]
    assert [step.source for step in steps] == ["still", "ringing"] * (len(steps) // 2)
    assert [step.record.epoch for step in steps] == [*range(1, len(steps) + 1)]
    assert t.actor.table.instances[RUN].state_epoch == len(steps) >= 6


async def test_seals_come_after_many_events_and_when_an_actor_is_quiet(program: Program) -> None:
    t = Tower(program, EventSettings(seal_events=4, seal_seconds=3))
    await t.start()
    for _ in range(5):
        await t.ring()
    assert [event.position for event in t.events if isinstance(event, SealEvent)] == [5, 10]  # each after 4 others
    await t.clock.time.elapse(2)
    assert t.kinds[-1] == "Step"
    await t.clock.time.elapse(1)
    assert (t.kinds[-1], t.verified().sealed) == ("Seal", 14)
    commits = t.actor.counts["commits"]
    await t.clock.time.elapse(20)
    assert t.actor.counts["commits"] == commits  # there is nothing to seal
    await t.actor.queue.put(SealEvents("asked"))
    assert t.actor.counts["commits"] == commits
    await t.ring()
    await t.actor.queue.put(SealEvents("asked"))
    assert isinstance(last := t.events[-1], SealEvent)
    assert last.why == "asked"


async def test_what_breaks_a_contract_is_an_event_of_the_next_commit(program: Program) -> None:
    t = Tower(program)
    await t.start()
    await t.ring()
    commits = t.actor.counts["commits"]
    for _ in range(200):
        with pytest.raises(ActorError, match="it breaks the contract"):
            await t.actor.tell(*RUN, "crack")
    t.actor.queue.put_quietly(Observe(RUN, "crack", 2))
    await asyncio.sleep(1)
    assert t.actor.counts["commits"] == commits
    await t.ring()
    refusals = [event for event in t.events if isinstance(event, RefusedEvent)]
    assert len(refusals) == 100  # the others are counted alone
    assert t.actor.counts["refusals without events"] == 101
    first = refusals[0]
    assert (first.lease, first.machine, first.event, first.cause) == (*RUN, "crack", "client")
    text = "it breaks the contract `crack`: a bell cracks only when it has rung for long (ringer.rings >= 5)"
    assert first.reason == text


async def test_refusals_of_a_quiet_actor_are_written_at_a_tick(program: Program) -> None:
    t = Tower(program)
    await t.start()
    await t.ring()
    await t.clock.time.elapse(5)
    with pytest.raises(ActorError):
        await t.actor.tell(*RUN, "crack")
    await t.clock.time.elapse(9)
    assert t.kinds[-2:] == ["Refused", "Seal"]


KEEP = EventSettings(keep=20, most=40, seal_events=1000, seal_seconds=1000)


async def test_the_oldest_events_are_dropped_and_what_is_left_verifies(program: Program) -> None:
    t = Tower(program, KEEP)
    await t.start()
    for _ in range(40):
        await t.ring()
        assert len(t.disk.events) <= 24
    assert t.verified().first > 1
    await t.crash()
    await t.start()
    await t.ring()
    assert t.verified().last - t.verified().first < 24
    assert min(t.disk.events) == t.actor.chronicle.first
    assert "Pruned" in t.kinds
    assert t.kinds[t.kinds.index("Pruned") + 1] == "Seal"


async def test_what_a_follower_has_not_acknowledged_is_kept_up_to_a_bound(
    program: Program, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    t = Tower(program, KEEP)
    await t.start()
    await t.ring()
    await t.actor.queue.put(Follow("verifier", 1))
    for _ in range(15):
        await t.ring()
    assert min(t.disk.events) == 1  # less than a chunk could go
    await t.actor.queue.put(Follow("verifier", 12))
    await t.ring()
    assert min(t.disk.events) == 13
    await t.crash()
    await t.start()  # followers are remembered
    assert t.actor.chronicle.followers() == followers_of(t.disk.metadata) == {"verifier": 12}
    for _ in range(20):
        await t.ring()
        assert len(t.disk.events) <= 43
    assert t.actor.counts["followers overtaken"] > 0
    assert any(getattr(event, "overtaken", ()) == ("verifier",) for event in t.events)
    assert "which these followers have not read: verifier" in caplog.text
    await t.actor.queue.put(Follow("verifier", None))
    await t.ring()
    assert len(t.disk.events) <= 24
    assert t.verified()
    assert followers_of(t.disk.metadata) == {}


async def test_a_follower_acknowledges_what_is_there_and_never_less(program: Program) -> None:
    t = Tower(program)
    await t.start()
    await t.ring()
    await t.actor.queue.put(Follow("one", 3))
    await t.actor.queue.put(Follow("one", 1))
    assert t.actor.chronicle.followers() == {"one": 3}
    with pytest.raises(ActorError, match="event 4 has not been written yet: the last one is 3"):
        await t.actor.queue.put(Follow("one", 4))
    with pytest.raises(ActorError, match="no follower 'two' is known here"):
        await t.actor.queue.put(Follow("two", None))


async def test_events_may_be_off_and_on_again(program: Program) -> None:
    """The chain says how many commits it knows nothing of, and begins anew with the records that are there."""
    t = Tower(program)
    settings = t.settings
    for on in (True, False, True):
        t.settings = settings if on else None
        await t.start()
        await t.ring()
        if not on:
            with pytest.raises(ActorError, match="writes no events"):
                await t.actor.queue.put(Follow("one", 1))
            await t.clock.time.elapse(9)
        await t.crash()
    assert t.kinds == ["Recovered", "Step", "Step", "Recovered", "Found", "Step", "Step"]
    assert isinstance(again := t.events[3], RecoveredEvent)
    assert again.unrecorded == 2
    assert t.verified().last == 7


async def test_a_store_without_events_begins_its_chain_with_its_records(program: Program) -> None:
    t = Tower(program)
    settings, t.settings = t.settings, None
    await t.start()
    await t.ring()
    await t.crash()
    t.settings = settings
    await t.start()
    assert t.kinds == ["Recovered", "Found"]  # before any work


async def test_a_store_whose_events_are_not_those_that_were_committed_is_refused(program: Program) -> None:
    t = Tower(program)
    await t.start()
    await t.ring()
    await t.crash()
    events, head = dict(t.disk.events), t.disk.metadata[HEAD]
    for damaged, words in (
        ({1: events[1], 2: events[2]}, "end at 2, and were committed up to 3"),
        ({**events, 3: events[2]}, "have another one at 3"),
        ({**events, 4: events[3]}, "end at 4, and were committed up to 3"),
        ({}, "end at 0, and were committed up to 3"),
    ):
        t.disk.events = damaged
        with pytest.raises(StoreError, match=f"the events in the store {words}.*; put a whole copy"):
            await t.start()
    t.disk.events = events
    t.disk.metadata[HEAD] = b"nonsense"
    with pytest.raises(StoreError, match="the store's metadata are damaged"):
        await t.start()
    t.disk.metadata[HEAD] = head
    await t.start()
