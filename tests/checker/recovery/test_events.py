"""The monitor of events: it agrees with what actors do, and finds each way in which their chains could be wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from leasehold.checker.recovery.events import CommittedEvents, EventMonitor
from leasehold.checker.recovery.lease.random_runs.plan import PlannedEvent, RunPlan
from leasehold.checker.recovery.lease.random_runs.run import RandomRun
from leasehold.checker.recovery.lease.simulation import LeaseSimulation
from leasehold.impl.actor.chronicle import Chronicle, EventDescriber
from leasehold.impl.actor.drafts import StepDraft
from leasehold.impl.actor.ready import Ready
from leasehold.impl.actor.stepper import Stepper
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.events.event import MachineStep
from leasehold.impl.store.memory import MemoryStore
from leasehold.impl.store.store import Batch, RecordKey
from tests.systems import load

DEMANDS = (PlannedEvent(0, "demand", "1", (1, 9, 3)), PlannedEvent(1, "demand", "2", (2, 12, 4)))


def played(*more: PlannedEvent) -> tuple[list[str], int]:
    """Returns what the monitor finds in a run, and how many steps it has compared."""
    run = RandomRun(RunPlan(1, 2, True, 12, (*DEMANDS, *more)))
    run.play()
    return run.events.wrong, run.events.compared


def test_the_events_of_a_run_are_its_steps() -> None:
    wrong, compared = played()
    assert wrong == []
    assert compared > 50


@pytest.mark.parametrize("actor", ["service_manager", "broker", "site"])
def test_a_crash_within_a_turn_loses_none_and_adds_none(actor: str) -> None:
    """At each point at which an actor may stop."""
    for after in range(1, 13):
        wrong, compared = played(PlannedEvent(0, "crash_within", actor, (after, 1)))
        assert wrong == [], after
        assert compared > 40


LEASE, NOBODYS = "service_manager:1", "service_manager:9"


def removes(records: dict[RecordKey, bytes]) -> None:
    del records[RecordKey(LEASE, "broker")]


def adds(records: dict[RecordKey, bytes]) -> None:
    records[RecordKey(NOBODYS, "broker")] = records[RecordKey(LEASE, "broker")]


@pytest.mark.parametrize(
    ("alters", "words"),
    [
        (removes, f"broker: its events have broker of {LEASE}, and its store has none"),
        (adds, f"broker: no event has broker of {NOBODYS}, which has moved"),
    ],
)
def test_records_that_one_side_alone_has_are_found_at_a_recovery(
    alters: Callable[[dict[RecordKey, bytes]], None], words: str
) -> None:
    sim = LeaseSimulation(compile_system(load("lease", {"max_units": 1})), units=1)
    monitor = EventMonitor(CommittedEvents(sim))
    sim.start_all()
    sim.wish("demand", LEASE, 1, 9, 3)
    sim.loop.advance(1.0)
    sim.crash("broker")
    alters(sim.disks["broker"].records)
    sim.start("broker")
    sim.close()
    assert words in monitor.wrong


# Seeded bugs

Seed = Callable[[pytest.MonkeyPatch], None]


def loses_one(patch: pytest.MonkeyPatch) -> None:
    write = Chronicle.write

    async def loses(self: Chronicle, ready: Ready) -> None:
        if len(ready.events) > 1:
            ready.events.pop()
        await write(self, ready)

    patch.setattr(Chronicle, "write", loses)


def adds_one(patch: pytest.MonkeyPatch) -> None:
    write = Chronicle.write

    async def adds(self: Chronicle, ready: Ready) -> None:
        ready.events += [draft for draft in ready.events if isinstance(draft, StepDraft)][:1]
        await write(self, ready)

    patch.setattr(Chronicle, "write", adds)


def leaves_out_what_is_driven(patch: pytest.MonkeyPatch) -> None:
    step = EventDescriber.step
    patch.setattr(EventDescriber, "step", lambda self, draft: _changed(step(self, draft), driven=()))


def says_nothing_of_messages(patch: pytest.MonkeyPatch) -> None:
    step = EventDescriber.step
    patch.setattr(EventDescriber, "step", lambda self, draft: _changed(step(self, draft), sends=()))


def has_the_record_before(patch: pytest.MonkeyPatch) -> None:
    noted = Stepper._record_step

    def notes(self: Stepper, *given: Any) -> Any:
        if (draft := noted(self, *given)) is not None:
            draft.record = draft.before
        return draft

    patch.setattr(Stepper, "_record_step", notes)


def keeps_what_was_undone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ready, "retract", lambda self, record: None)


def is_stored_elsewhere(patch: pytest.MonkeyPatch) -> None:
    """Events are not in the transaction of their records."""
    commit = MemoryStore._commit

    async def apart(self: MemoryStore, batch: Batch) -> None:
        await commit(self, Batch(batch.puts, batch.drops, batch.metadata))

    patch.setattr(MemoryStore, "_commit", apart)


def _changed(step: MachineStep, **fields: Any) -> MachineStep:
    return MachineStep(**{name: getattr(step, name) for name in step.__struct_fields__} | fields)


@pytest.mark.parametrize(
    ("seed", "words"),
    [
        (loses_one, "no event has the step"),
        (adds_one, "an event has"),
        (leaves_out_what_is_driven, "no event has the step setup at unit[0]"),
        (says_nothing_of_messages, "an event has sends [] and the actor"),
        (has_the_record_before, "an event has record"),
        (is_stored_elsewhere, "do not verify: event 1: it is missing"),
    ],
)
def test_a_chain_that_is_not_what_was_done_is_found(seed: Seed, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seed(monkeypatch)
    wrong, _ = played()
    assert words in wrong[0]
