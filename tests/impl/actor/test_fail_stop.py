"""What an actor does, and does not do, between the failure of its store and its return."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from leasehold.faults.simulation.clock import SimulatedClock
from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.environment import ActorError
from leasehold.impl.handlers.handler import Done, HandlerAction
from leasehold.impl.store.memory import Disk, MemoryStore
from leasehold.impl.store.store import Batch, RecordKey, Transient
from leasehold.impl.transport.transport import Delivery
from tests.impl.actor.alone import GatedHandler, alone, program_of
from tests.impl.actor.test_boundaries import KEEPER
from tests.impl.actor.test_timers import EARLY, KEEP, LAMPLIGHTER, PAIR


class Fragile(MemoryStore):
    """A store whose disk is away for a while: nothing can be committed, and it cannot be opened."""

    def __init__(self, disk: Disk) -> None:
        super().__init__(disk)
        self.away = False

    def _check(self) -> None:
        if self.away:
            raise Transient("the disk is away", "wait")

    async def _take(self, owner: str) -> int:
        self._check()
        return await super()._take(owner)

    async def _commit(self, batch: Batch) -> None:
        self._check()
        await super()._commit(batch)


class Counted(GatedHandler):
    """It says how many of its calls are under way."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0

    async def act(self, action: HandlerAction) -> Done:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            return await super().act(action)
        finally:
            await asyncio.sleep(0.2)  # it takes a while to end
            self.now -= 1


async def test_calls_of_before_are_given_up_before_recovery_begins_them_again(tmp_path: Path) -> None:
    program, store, backup = program_of(tmp_path, KEEPER), Fragile(Disk()), Counted()

    actor = alone(program, "owner", store, {"backup": backup}, SimulatedClock())
    await actor.start()
    await actor.begin("own:1", "owner", "leave", {}, {})
    await asyncio.sleep(1)
    assert (backup.now, backup.runs) == (1, 1)
    store.away = True
    with pytest.raises(ActorError, match="could not be committed: the disk is away"):
        await actor.begin("own:2", "owner", "leave", {}, {})
    await asyncio.sleep(5)
    assert not actor.running
    assert (backup.now, actor.calls.under_way()) == (0, 0)
    store.away = False
    await asyncio.sleep(5)
    assert actor.running
    assert (backup.now, backup.most, backup.runs) == (1, 1, 2)
    assert RecordKey("own:2", "owner") not in actor.table.instances  # it was not acknowledged, and never was
    backup.gate.set()
    await asyncio.sleep(1)
    assert actor.table.instances[RecordKey("own:1", "owner")].state == "waiting"
    await actor.stop()


async def test_nobody_waits_for_an_actor_that_takes_no_steps(tmp_path: Path) -> None:
    program, store = program_of(tmp_path, KEEPER), Fragile(Disk())

    actor = alone(program, "owner", store, {"backup": GatedHandler()}, SimulatedClock())
    reply = await actor.receive(b"before it has started")
    assert (reply.answer, reply.reason) == (Delivery.UNREACHABLE, "the actor is not taking steps")
    await actor.start()
    assert (await actor.receive(b"garbage")).answer is Delivery.REFUSED
    store.away = True
    first, second = (actor.begin(f"own:{n}", "owner", "leave", {}, {}) for n in (1, 2))
    for waiting in (first, second):
        with pytest.raises(ActorError, match="could not be committed: the disk is away"):
            await waiting
    await asyncio.sleep(0.1)
    assert (await actor.receive(b"garbage")).answer is Delivery.UNREACHABLE
    assert actor.idle  # there is nothing that it could do
    store.away = False
    await asyncio.sleep(5)
    assert (await actor.receive(b"garbage")).answer is Delivery.REFUSED
    await actor.kill()
    assert (await actor.receive(b"garbage")).answer is Delivery.UNREACHABLE
    with pytest.raises(ActorError, match="the actor has ended"):
        await actor.begin("own:3", "owner", "leave", {}, {})


@pytest.mark.parametrize("machine", ["nobody", "owner[0]", "owner[1]", "own er", ""])
async def test_a_client_can_begin_no_machine_that_the_actor_has_not(tmp_path: Path, machine: str) -> None:
    program, disk = program_of(tmp_path, KEEPER), Disk()

    actor: Actor = alone(program, "owner", MemoryStore(disk), {"backup": GatedHandler()}, SimulatedClock())
    await actor.start()
    with pytest.raises(ActorError, match="this actor has no machine"):
        await actor.begin("own:1", machine, "leave", {}, {})
    with pytest.raises(ActorError, match="a lease is named ORIGIN:NUMBER"):
        await actor.begin("own", "owner", "leave", {}, {})
    with pytest.raises(ActorError, match="does not take back"):
        await actor.begin("own:1", "owner", "back", {}, {})
    with pytest.raises(ActorError, match="there is none of this name"):
        await actor.tell("own:1", "owner", "leave")
    assert (actor.table.instances, disk.records) == ({}, {})
    await actor.begin("own:1", "owner", "leave", {}, {})
    with pytest.raises(ActorError, match="there is, or was, a lease own:1"):
        await actor.begin("own:1", "owner", "leave", {}, {})
    await actor.stop()


async def test_a_client_cannot_begin_a_machine_that_belongs_to_the_actor(tmp_path: Path) -> None:
    """All leases see it: one lease's event would be another's unit."""
    program, disk = program_of(tmp_path, LAMPLIGHTER), Disk()

    actor = alone(program, "keeper", MemoryStore(disk), {"burn": GatedHandler()}, SimulatedClock())
    await actor.start()
    for lease, words in (("own:1", "this actor has no machine lamp"), ("-", "no machine lamp|ORIGIN:NUMBER")):
        with pytest.raises(ActorError, match=words):
            await actor.begin(lease, "lamp[0]", "light", {}, {})
    assert (actor.table.instances, disk.records, dict(actor.table.below["lamp"])) == ({}, {}, {})
    await actor.stop()


async def test_a_tick_that_could_not_be_committed_is_made_up_for_by_a_later_one() -> None:
    program, store = program_of(PAIR), Fragile(Disk())

    clock = SimulatedClock()
    actor = alone(program, "early", store, {}, clock, "late", options=KEEP)
    await actor.start()
    await actor.begin(*EARLY, "go", {}, {})
    await actor.tell(*EARLY, "stop")
    await clock.time.elapse(KEEP.retire_after - 1)
    store.away = True
    await clock.time.elapse()  # at which it is to be forgotten
    assert (actor.running, set(store.disk.records)) == (False, {EARLY})
    await clock.time.elapse(3)
    store.away = False
    await asyncio.sleep(5)
    assert (actor.running, set(actor.table.instances)) == (True, {EARLY})
    await clock.time.elapse()
    assert (actor.table.instances, store.disk.records) == ({}, {})
    await actor.stop()
