"""Counts and numbers where they could run over, or where one part of the work ends and the next begins."""

from __future__ import annotations

import asyncio
import copy
from pathlib import Path
from typing import Any

import msgspec
import pytest

from leasehold.faults.simulation.clock import SimulatedClock
from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.actor.actor import SLICE, Actor
from leasehold.impl.actor.environment import (
    ActorError,
    ActorOptions,
    Backoff,
    DecisionLimits,
    Environment,
    EventSettings,
    ProbeSettings,
    RetryPolicy,
)
from leasehold.impl.actor.turns import MOST
from leasehold.impl.core.stepping import with_cell
from leasehold.impl.core.work import CallWork
from leasehold.impl.notices import Kind, Notice, SimulatedCrash
from leasehold.impl.store.memory import Disk, MemoryStore
from leasehold.impl.store.owned import PAGE
from leasehold.impl.store.store import Batch, StoreError
from tests.impl.actor.alone import GatedHandler, alone, program_of
from tests.systems import files_of

KEEPER = files_of("impl/actor/systems/keeper")


async def settled(actor: Actor) -> None:
    for _ in range(100_000):
        await asyncio.sleep(0)
        if not (actor.queue or (actor._starting is not None and not actor._starting.done())):
            return
    raise TimeoutError


@pytest.mark.parametrize(
    "count", [MOST, MOST + 1, *(pytest.param(n, marks=pytest.mark.long) for n in (MOST - 1, 2 * MOST, 2 * MOST + 1))]
)
async def test_as_many_requests_as_a_turn_takes_and_one_more_or_less(tmp_path: Path, count: int) -> None:
    program, disk, backup = program_of(tmp_path, KEEPER), Disk(), GatedHandler()

    actor = alone(program, "owner", MemoryStore(disk), {"backup": backup}, SimulatedClock())
    await actor.start()
    before = actor.counts["commits"]
    begun = [actor.begin(f"own:{n}", "owner", "leave", {}, {}) for n in range(1, count + 1)]
    outcomes = await asyncio.gather(*begun)
    assert all(outcome.taken for outcome in outcomes)
    assert {key.lease for key in disk.records} == {f"own:{n}" for n in range(1, count + 1)}
    assert actor.counts["commits"] - before == -(-count // MOST)  # all of a turn in one
    await settled(actor)
    await asyncio.sleep(0)
    assert backup.runs == count
    await actor.stop()


@pytest.mark.parametrize(
    "count",
    [
        PAGE,
        MOST + SLICE + 1,
        *(pytest.param(n, marks=pytest.mark.long) for n in (1, PAGE - 1, PAGE + 1, MOST + SLICE, 2 * PAGE + 1)),
    ],
)
async def test_recovery_begins_the_work_of_every_machine_once(tmp_path: Path, count: int) -> None:
    """It reads the records by pages, and begins what is more than a turn's work between the turns."""
    program, disk = program_of(tmp_path, KEEPER), Disk()

    first = alone(program, "owner", MemoryStore(disk), {"backup": GatedHandler()}, SimulatedClock())
    await first.start()
    await asyncio.gather(*(first.begin(f"own:{n}", "owner", "leave", {}, {}) for n in range(1, count + 1)))
    for _ in range(2):
        await first.kill()
        disk.crash()
        backup = GatedHandler()
        first = alone(program, "owner", MemoryStore(disk), {"backup": backup}, SimulatedClock())
        await first.start()
        await settled(first)
        await asyncio.sleep(0)
        assert len(first.table.instances) == backup.runs == count
    await first.stop()


@pytest.mark.long
async def test_work_that_is_not_wanted_any_more_is_not_begun_by_a_long_recovery(tmp_path: Path) -> None:
    program, disk, count = program_of(tmp_path, KEEPER), Disk(), MOST + 5 * SLICE

    first = alone(program, "owner", MemoryStore(disk), {"backup": GatedHandler()}, SimulatedClock())
    await first.start()
    await asyncio.gather(*(first.begin(f"own:{n}", "owner", "leave", {}, {}) for n in range(1, count + 1)))
    await first.kill()
    disk.crash()
    backup, clock = GatedHandler(), SimulatedClock()
    clock.time.held = True  # nothing but recovery gives the actor work
    again = alone(program, "owner", MemoryStore(disk), {"backup": backup}, clock)
    await again.start()
    last = max(disk.records)
    await again.tell(last.lease, "owner", "back")
    await settled(again)
    await asyncio.sleep(0)
    assert again.table.instances[last].state == "waiting"
    assert backup.runs == count - 1
    await again.stop()


@pytest.mark.long
async def test_numbers_of_actions_rise_on_each_unit_however_many_others_there_are() -> None:
    async with Cluster(units=2) as c:
        lease = await c.lease(2, until=35, term=10)
        upcalls, table = c.site.upcalls, c.site.table
        units = [held for key, held in table.instances.items() if key.machine.startswith("unit")]
        call = CallWork("setup", "handler.setup", ("up", "failed"))
        quiet, busy = units
        numbers = [upcalls.action(quiet, call, 1).number]
        others = [upcalls.action(busy, call, 1).number for _ in range(1 << 16)]
        assert others == sorted(set(others))
        numbers += [upcalls.action(quiet, call, epoch).number for epoch in (1, 1, 2, 2)]
        assert numbers == sorted(set(numbers))
        assert lease


@pytest.mark.long
async def test_numbers_of_actions_rise_over_states_and_restarts() -> None:
    """However many actions the states before asked for: a handler takes a lower number for one that is over."""

    async with Cluster(units=1) as c:
        await c.lease(1, until=35, term=10)
        upcalls = c.site.upcalls
        (unit,) = (held for key, held in c.site.table.instances.items() if key.machine.startswith("unit"))
        call = CallWork("setup", "handler.setup", ("up", "failed"))
        numbers = [upcalls.action(unit, call, 1).number for _ in range((1 << 16) - 1)]
        unit.record = with_cell(unit.record, unit.core.state_epoch_at, unit.state_epoch + 1)
        numbers += [upcalls.action(unit, call, 1).number for _ in range(3)]
        unit.attempts = (0, 0)  # it has started again
        numbers += [upcalls.action(unit, call, 2).number for _ in range(3)]
        unit.record = with_cell(unit.record, unit.core.state_epoch_at, unit.state_epoch + 1)
        numbers += [upcalls.action(unit, call, 2).number]
        assert numbers == sorted(set(numbers))


@pytest.fixture
def small_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("actor", "turns"):
        monkeypatch.setattr(f"leasehold.impl.actor.{module}.MOST", 5)
    monkeypatch.setattr("leasehold.impl.actor.actor.SLICE", 2)


@pytest.mark.parametrize("how", ["stop", "kill", "crash", "store"])
async def test_an_end_in_the_middle_of_a_long_recovery_begins_nothing_more(
    tmp_path: Path, small_turns: None, how: str
) -> None:
    """And a store that fails then: what is still to be begun is begun by the next recovery, once."""
    program, disk, count = program_of(tmp_path, KEEPER), Disk(), 30

    first = alone(program, "owner", MemoryStore(disk), {"backup": GatedHandler()}, SimulatedClock())
    await first.start()
    await asyncio.gather(*(first.begin(f"own:{n}", "owner", "leave", {}, {}) for n in range(1, count + 1)))
    await first.stop()
    store, backup, clock = MemoryStore(disk), GatedHandler(), SimulatedClock()
    clock.time.held = True  # nothing but recovery gives the actor work
    again = alone(program, "owner", store, {"backup": backup}, clock)
    calls: list[str] = []

    def hear(notice: Notice) -> None:
        if notice.kind is Kind.CALL:
            calls.append(notice.lease)
            if how == "crash" and len(calls) == 15:
                raise SimulatedCrash

    again.notices.subscribe(hear)
    await again.start()
    assert len(calls) == 5
    over = asyncio.ensure_future(again.over())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not again.idle
    assert len(calls) < count
    if how == "store":
        commit = store._commit

        async def fails(batch: Batch) -> None:
            store._commit = commit  # type: ignore[method-assign]
            raise StoreError("away")

        store._commit = fails  # type: ignore[method-assign]
        with pytest.raises(ActorError, match="away"):
            await again.begin("own:99", "owner", "leave", {}, {})
        said = len(calls)
        assert said < count
        await asyncio.sleep(60)
        assert again.running
        assert len(calls) - said == count
        assert len(set(calls[said:])) == again.calls.under_way() == count
        await again.stop()
        over.cancel()
        return
    if how == "crash":
        with pytest.raises(SimulatedCrash):
            await over
    else:
        await getattr(again, how)()
        over.cancel()
    said = len(calls)
    assert said < count
    await asyncio.sleep(60)
    assert (len(calls), again.running, again.calls.under_way(), again.idle) == (said, False, 0, True)
    await again.kill()
    assert {task for task in asyncio.all_tasks() if not task.done()} <= {asyncio.current_task()}


async def test_an_actor_is_at_work_until_a_long_recovery_is_done(tmp_path: Path, small_turns: None) -> None:
    program, disk, count = program_of(tmp_path, KEEPER), Disk(), 12

    first = alone(program, "owner", MemoryStore(disk), {"backup": GatedHandler()}, SimulatedClock())
    await first.start()
    await asyncio.gather(*(first.begin(f"own:{n}", "owner", "leave", {}, {}) for n in range(1, count + 1)))
    await first.stop()
    backup, whole = GatedHandler(), copy.deepcopy(disk)
    backup.gate.set()
    again = alone(program, "owner", MemoryStore(disk), {"backup": backup}, SimulatedClock())
    await again.start()
    assert not again.idle
    await asyncio.sleep(1)
    assert (again.idle, backup.runs) == (True, count)
    assert {held.state for held in again.table.instances.values()} == {"waiting"}
    await again.stop()
    deaf = alone(program, "owner", MemoryStore(whole), {}, SimulatedClock())  # it has nobody to call
    await deaf.start()
    assert (deaf.idle, deaf.calls.under_way()) == (False, 0)
    await asyncio.sleep(1)
    assert deaf.idle
    await deaf.stop()


async def test_the_largest_time_and_number_of_a_lease(tmp_path: Path) -> None:
    """What a client may write is carried and kept by all three; what no record can hold is refused."""

    async with Cluster(units=2) as c:
        largest = 2**63 - 1 - 2  # and the ticks in which guests leave
        lease = await c.lease(1, until=largest, term=largest)
        assert c.state(lease) == ("active", "ticketed", "active")
        for name in tuple(c.actors):
            await c.kill(name)
        for name in tuple(c.actors):
            await c.start(name)
        await c.settle()
        assert c.state(lease) == ("active", "ticketed", "active")
        with pytest.raises(ActorError, match=f"{largest} is the most that can ever be had"):
            await c.lease(1, until=largest + 1)


@pytest.mark.parametrize(
    ("kind", "given", "words"),
    [
        (Backoff, {"first_pause_seconds": 0}, "> 0"),
        (Backoff, {"longest_pause_seconds": -1}, "> 0"),
        (Backoff, {"ask_again_seconds": 1e9 + 1}, "<= 1000000000"),
        (Backoff, {"first": 1}, "unknown field `first`"),
        (RetryPolicy, {"tries": 0}, ">= 1"),
        (RetryPolicy, {"tries": 10**9 + 1}, "<= 1000000000"),
        (RetryPolicy, {"pause_seconds": 0}, "> 0"),
        (RetryPolicy, {"longest_seconds": 0}, "> 0"),
        (RetryPolicy, {"tries": 1.5}, "int"),
        (RetryPolicy, {"longest": 1}, "unknown field `longest`"),
    ],
)
def test_a_pause_or_count_that_a_configuration_cannot_give(kind: Any, given: dict[str, Any], words: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=words):
        msgspec.convert(given, kind)


def test_the_least_and_the_largest_that_a_configuration_can_give_and_what_it_leaves_out() -> None:
    for seconds in (0.001, 1e9):
        names = ("first_pause_seconds", "longest_pause_seconds", "ask_again_seconds")
        assert msgspec.convert(dict.fromkeys(names, seconds), Backoff) == Backoff(seconds, seconds, seconds)
    for tries in (1, 10**9):
        given = {"tries": tries, "pause_seconds": 0.5, "longest_seconds": 2}
        assert msgspec.convert(given, RetryPolicy) == RetryPolicy(tries, 0.5, 2)
    assert msgspec.to_builtins([Backoff(), RetryPolicy()]) == [
        {"first_pause_seconds": 0.1, "longest_pause_seconds": 30.0, "ask_again_seconds": 15.0},
        {"tries": 3, "pause_seconds": 0.2, "longest_seconds": 60.0, "at_once": 64},
    ]
    assert (ActorOptions().retire_after, ActorOptions().reopen_pause, ActorOptions().seed) == (600, 1.0, None)


def test_a_handler_that_serves_several_verbs_is_one() -> None:
    one, two = GatedHandler(), GatedHandler()
    assert Environment(handlers={"setup": one, "teardown": one, "modify": two}).each_handler() == [one, two]


def test_the_defaults_of_every_setting() -> None:
    """Defaults are part of the reference: a configuration that leaves a setting out gets these."""
    assert msgspec.to_builtins([ProbeSettings(), DecisionLimits(), EventSettings()]) == [
        {
            "every_seconds": 10.0,
            "patience": 2,
            "at_once": 16,
            "longest_seconds": 5.0,
            "hung_is_missed": False,
            "failed_is_missed": False,
        },
        {"longest_seconds": 5.0, "pause_seconds": 1.0},
        {"keep": 100_000, "most": 1_000_000, "seal_events": 1000, "seal_seconds": 5.0},
    ]
    options = ActorOptions()
    assert (options.backoff, options.retry, options.deciding) == (Backoff(), RetryPolicy(), DecisionLimits())
    assert options.events == EventSettings()


def test_which_handler_serves_a_call() -> None:
    """Names of handlers: of the role and the verb before that of the verb, and of no policy's call."""
    own, general = GatedHandler(), GatedHandler()
    world = Environment(handlers={"guest.modify": own, "modify": general, "guest.only": own})
    asked = [
        ("guest", "handler.modify"),
        ("unit", "handler.modify"),
        ("guest", "handler.only"),
        ("unit", "handler.only"),
        ("guest", "policy.modify"),
        ("guest", "modify"),
        ("guest", "handler."),
    ]
    assert [world.handler(*one) for one in asked] == [own, general, own, None, None, None, None]
