"""A timer ends what it times as soon as it is due and its guard holds, at whatever moment of a tick that is.

And what is over is forgotten when it has been so for long enough, and not before.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from leasehold.faults.simulation.clock import SimulatedClock, TrueTime
from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.actor.environment import ActorError, ActorOptions
from leasehold.impl.handlers.simulated import SimulatedHandler, SimulatedUnits
from leasehold.impl.notices import Consumed, Kind, Notice
from leasehold.impl.store.memory import Disk, MemoryStore
from leasehold.impl.store.store import Batch, RecordKey
from tests.impl.actor.alone import GatedHandler, alone, program_of
from tests.systems import TESTS, files_of

LAMPLIGHTER = files_of("impl/actor/systems/lamplighter")


class FailsOnce(MemoryStore):
    """A store of which one commit fails when it is told to."""

    failing = False

    async def _commit(self, batch: Batch) -> None:
        if self.failing:
            self.failing = False
            raise OSError("no commit now")
        await super()._commit(batch)


@pytest.mark.parametrize("ticks", [2, 3], ids=["at its tick", "after its tick"])
@pytest.mark.parametrize("failing", [False, True], ids=["by a lamp", "after a store that failed"])
async def test_it_does_not_wait_for_the_next_tick(tmp_path: Path, failing: bool, ticks: int) -> None:
    program = program_of(tmp_path, LAMPLIGHTER)

    handler, clock, store = GatedHandler(), SimulatedClock(), FailsOnce()
    actor = alone(program, "keeper", store, {"burn": handler}, clock)
    await actor.start()
    await actor.begin("own:1", "keeper", "begin", {}, {})
    held = RecordKey("own:1", "keeper")
    if failing:
        handler.gate.set()
        await asyncio.sleep(0.05)
        store.failing = True
        with pytest.raises(ActorError, match="could not be committed"):
            await actor.tell("own:1", "keeper", "nothing")
        await clock.time.elapse(ticks)
        assert not actor.running, "so that it hears of no tick"
    else:
        await clock.time.elapse(ticks)
        await asyncio.sleep(0.05)
        handler.gate.set()
    assert actor.table.instances[held].state == "away"
    await asyncio.sleep(5)
    assert actor.running
    assert actor.table.instances[held].state == "over"
    await actor.stop()


async def test_a_handler_that_does_not_end_in_time_is_given_up_and_its_lease_goes_on() -> None:
    """The unit's timer ends its action, and the lease that waits for the unit hears of it in the same turn."""
    world = SimulatedUnits(
        delay=lambda action, chance: 100 if action.verb == "setup" and action.unit == "unit-0" else 0
    )

    async with Cluster(units=2, settings={"handler_limit": 3}, handler=SimulatedHandler(world)) as c:
        lease = "tenant:1"
        await c.tenant.command("service_manager", "demand", lease, 2, 60, 30)
        await asyncio.sleep(1)
        await c.time.elapse(2)
        await asyncio.sleep(1)
        assert c.state(lease)[2] == "priming"
        await c.time.elapse()
        await asyncio.sleep(1)
        unit = c.site.table.instances[RecordKey("-", "unit[0]")]
        assert unit.state != "priming"
        assert c.state(lease)[2] != "priming"


PAIR = TESTS / "impl/actor/systems/pair"
EARLY, LATE = RecordKey("own:1", "early"), RecordKey("own:1", "late[1]")
KEEP = ActorOptions(seed=0, retire_after=5)


async def test_a_lease_is_forgotten_when_all_its_machines_here_have_been_over_for_long_enough() -> None:
    """One that were forgotten before the others could be begun anew, by a message that comes late once more."""
    program, disk = program_of(PAIR), Disk()

    clock = SimulatedClock()
    actor = alone(program, "early", MemoryStore(disk), {}, clock, "late", options=KEEP)
    await actor.start()
    for key in (EARLY, LATE):
        await actor.begin(*key, "go", {}, {})
    await actor.tell(*EARLY, "stop")
    await clock.time.elapse(20)
    assert set(actor.table.instances) == set(disk.records) == {EARLY, LATE}
    with pytest.raises(ActorError, match="there is, or was, a lease own:1"):
        await actor.begin(*EARLY, "go", {}, {})
    await actor.tell(*LATE, "stop")
    await clock.time.elapse(KEEP.retire_after - 1)
    assert set(actor.table.instances) == {EARLY, LATE}
    await clock.time.elapse()
    assert (actor.table.instances, disk.records, "own:1" in actor.table.pruned) == ({}, {}, True)
    with pytest.raises(ActorError, match="there is, or was, a lease own:1"):
        await actor.begin(*LATE, "go", {}, {})
    with pytest.raises(ActorError, match="no late\\[1\\] of lease own:1: it is over and forgotten"):
        await actor.tell(*LATE, "stop")
    assert actor.table.new_name("own") == "own:2"
    await actor.begin("own:2", "late[1]", "go", {}, {})
    assert actor.table.new_name("own") == "own:3"
    await actor.begin("own:4", "late[0]", "go", {}, {})
    assert actor.table.new_name("own") == "own:5"
    await actor.stop()


@pytest.mark.parametrize("restarted", [False, True])
async def test_how_long_it_has_been_over_is_counted_from_its_end(restarted: bool) -> None:
    """Whatever it hears after its end, and though the actor begins anew."""
    program, disk = program_of(PAIR), Disk()

    clock = SimulatedClock(TrueTime(100))
    actor = alone(program, "early", MemoryStore(disk), {}, clock, "late", options=KEEP)
    await actor.start()
    await actor.begin(*EARLY, "go", {}, {})
    await clock.time.elapse(3)
    await actor.tell(*EARLY, "stop")
    await clock.time.elapse(2)
    await actor.tell(*EARLY, "stop")
    if restarted:
        await actor.stop()
        actor = alone(program, "early", MemoryStore(disk), {}, clock, "late", options=KEEP)
        await actor.start()
        await asyncio.sleep(0)  # from now on it hears of ticks
    await clock.time.elapse(2)
    assert EARLY in actor.table.instances
    await clock.time.elapse()
    assert (actor.table.instances, disk.records) == ({}, {})
    assert not actor.table._ended
    await actor.stop()


async def test_whether_a_record_is_over_its_state_says() -> None:
    """A migration may have given it a state that is an end, or is none any more."""
    program, disk = program_of(PAIR), Disk()

    clock = SimulatedClock()
    actor = alone(program, "early", MemoryStore(disk), {}, clock, "late", options=KEEP)
    await actor.start()
    for key in (EARLY, RecordKey("own:2", "early")):
        await actor.begin(*key, "go", {}, {})
    await actor.tell(*EARLY, "stop")
    over, alive = actor.table.instances[EARLY], actor.table.instances[RecordKey("own:2", "early")]
    del over.metadata["over"]
    alive.metadata["over"] = 0
    rows = {held.key: actor.rows.write(held) for held in (over, alive)}
    await actor.stop()
    disk.records, disk.order = rows, None
    await clock.time.elapse(50)
    actor = alone(program, "early", MemoryStore(disk), {}, clock, "late", options=KEEP)
    await actor.start()
    await asyncio.sleep(0)  # from now on it hears of ticks
    await clock.time.elapse(KEEP.retire_after - 1)
    assert len(actor.table.instances) == 2
    await clock.time.elapse(20)
    assert set(actor.table.instances) == set(disk.records) == {alive.key}
    await actor.stop()


async def test_a_subsidiary_machine_at_its_end_is_never_forgotten(tmp_path: Path) -> None:
    """It belongs to the actor: after a restart a lamp that has burnt down would be a new one."""
    program, disk = program_of(tmp_path, LAMPLIGHTER), Disk()
    lamp, handler = RecordKey("-", "lamp[0]"), GatedHandler()

    clock = SimulatedClock()
    actor = alone(program, "keeper", MemoryStore(disk), {"burn": handler}, clock, options=KEEP)
    await actor.start()
    handler.gate.set()
    await actor.begin("own:1", "keeper", "begin", {}, {})
    for _ in range(2):
        await asyncio.sleep(1)
        await clock.time.elapse(20)
        assert actor.running
        assert set(actor.table.instances) == set(disk.records) == {lamp}
        assert actor.table.below["lamp"][0][0] == "dark"
        await actor.stop()
        actor = alone(program, "keeper", MemoryStore(disk), {"burn": handler}, clock, options=KEEP)
        await actor.start()
    await actor.stop()


async def test_a_subscriber_may_keep_a_lease_from_being_forgotten() -> None:
    """It is asked at each tick, and told since when the lease is over, with whom, and what was in it."""
    program, disk = program_of(PAIR), Disk()

    clock, told = SimulatedClock(), list[Notice]()

    def keep(notice: Notice) -> None:
        if notice.kind is Kind.FORGET:
            told.append(notice)
            if len(told) < 4:
                raise Consumed

    actor = alone(program, "early", MemoryStore(disk), {}, clock, "late", options=KEEP)
    await actor.start()
    actor.notices.subscribe(keep)
    await actor.begin(*EARLY, "go", {}, {})
    await actor.tell(*EARLY, "stop")
    await clock.time.elapse(KEEP.retire_after + 2)
    assert set(actor.table.instances) == set(disk.records) == {EARLY}
    await clock.time.elapse(5)
    assert (actor.table.instances, disk.records) == ({}, {})
    assert [(n.now, n.lease, n.machine, n.name) for n in told] == [(at, *EARLY, "over") for at in (5, 6, 7, 8)]
    assert told[0].data == {"over": 0, "peers": [], "data": {}}
    await actor.stop()


async def test_since_when_a_machine_is_in_its_state_is_kept_with_its_record(tmp_path: Path) -> None:
    """A transition back to the state is none of it; a restart is none, either."""
    program, disk = program_of(tmp_path, LAMPLIGHTER), Disk()
    held = RecordKey("own:1", "keeper")

    clock = SimulatedClock(TrueTime(7))
    actor = alone(program, "keeper", MemoryStore(disk), {"burn": GatedHandler()}, clock)

    def since() -> object:
        return actor.table.instances[held].metadata["since"]

    await actor.start()
    await asyncio.sleep(0)  # from now on it hears of ticks
    await actor.begin(*held, "nothing", {}, {})
    await clock.time.elapse()
    await actor.tell(*held, "begin")
    assert (actor.table.instances[held].state, since()) == ("away", 8)
    await clock.time.elapse(2)
    await actor.tell(*held, "nothing")
    assert since() == 8
    await actor.stop()
    actor = alone(program, "keeper", MemoryStore(disk), {"burn": GatedHandler()}, clock)
    await actor.start()
    assert since() == 8
    await actor.stop()


WAITER = files_of("impl/actor/systems/waiter")


@pytest.mark.parametrize(("first", "then"), [(9, 3), (3, 6), (3, 3)], ids=["sooner", "later", "the same"])
@pytest.mark.parametrize("way", ["stay: true", "to: waiting"])
async def test_a_timer_that_is_put_off_within_its_state_comes_at_its_new_time(
    way: str, first: int, then: int, tmp_path: Path
) -> None:
    program = program_of(tmp_path, {name: text.replace("WAY", way) for name, text in WAITER.items()})
    key = RecordKey("own:1", "waiter")

    clock = SimulatedClock()
    actor = alone(program, "waiter", MemoryStore(), {}, clock)
    await actor.start()
    await asyncio.sleep(0)  # from now on it hears of ticks
    await actor.begin(*key, "wait", {"at": first}, {})
    await actor.tell(*key, "put", {"at": then})
    states = []
    for _ in range(10):
        await clock.time.elapse()
        await asyncio.sleep(0.1)
        states.append(actor.table.instances[key].state)
    assert states == ["waiting"] * (then - 1) + ["over"] * (11 - then)
    await actor.stop()
