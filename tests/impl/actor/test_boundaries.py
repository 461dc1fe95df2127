"""Counts and numbers where they could run over, or where one part of the work ends and the next begins."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from leasehold.impl.actor.actor import MOST, SLICE, Actor
from leasehold.impl.actor.environment import ActorError
from leasehold.impl.clock import HandClock
from leasehold.impl.cluster import Cluster
from leasehold.impl.core.work import CallWork
from leasehold.impl.store.memory import Disk, MemoryStore
from leasehold.impl.store.owned import PAGE
from tests.impl.actor.alone import GatedHandler, alone, program_of
from tests.impl.virtual import virtual

KEEPER = {
    "system.yaml": """
system: keeper
roles: {owner: {}}
environment: {leave: {to: owner}, back: {to: owner}}
""",
    "roles/owner.yaml": """
role: owner
events: {saved: The backup is done., leave: The owner goes., back: The owner is back.}
tasks: {backup: {call: handler.backup, answers: [saved]}}
states:
  waiting: {initial: true, on: {leave: {to: saving}}, ignore: {back: it is here}}
  saving: {tasks: [backup], on: {saved: {to: waiting}, back: {to: waiting}}, ignore: {leave: it has gone}}
""",
}


async def settled(actor: Actor) -> None:
    for _ in range(100_000):
        await asyncio.sleep(0)
        if not (actor.queue or (actor._starting is not None and not actor._starting.done())):
            return
    raise TimeoutError


@pytest.mark.parametrize(
    "count", [MOST, MOST + 1, *(pytest.param(n, marks=pytest.mark.long) for n in (MOST - 1, 2 * MOST, 2 * MOST + 1))]
)
def test_as_many_requests_as_a_turn_takes_and_one_more_or_less(tmp_path: Path, count: int) -> None:
    program, disk, backup = program_of(tmp_path, KEEPER), Disk(), GatedHandler()

    async def story() -> None:
        actor = alone(program, "owner", MemoryStore(disk), {"backup": backup}, HandClock())
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

    virtual(story())


@pytest.mark.parametrize(
    "count",
    [
        PAGE,
        MOST + SLICE + 1,
        *(pytest.param(n, marks=pytest.mark.long) for n in (1, PAGE - 1, PAGE + 1, MOST + SLICE, 2 * PAGE + 1)),
    ],
)
def test_recovery_begins_the_work_of_every_machine_once(tmp_path: Path, count: int) -> None:
    """It reads the records by pages, and begins what is more than a turn's work between the turns."""
    program, disk = program_of(tmp_path, KEEPER), Disk()

    async def story() -> None:
        first = alone(program, "owner", MemoryStore(disk), {"backup": GatedHandler()}, HandClock())
        await first.start()
        await asyncio.gather(*(first.begin(f"own:{n}", "owner", "leave", {}, {}) for n in range(1, count + 1)))
        for _ in range(2):
            await first.kill()
            disk.crash()
            backup = GatedHandler()
            first = alone(program, "owner", MemoryStore(disk), {"backup": backup}, HandClock())
            await first.start()
            await settled(first)
            await asyncio.sleep(0)
            assert len(first.table.instances) == backup.runs == count
        await first.stop()

    virtual(story())


@pytest.mark.long
def test_work_that_is_not_wanted_any_more_is_not_begun_by_a_long_recovery(tmp_path: Path) -> None:
    program, disk, count = program_of(tmp_path, KEEPER), Disk(), MOST + 5 * SLICE

    async def story() -> None:
        first = alone(program, "owner", MemoryStore(disk), {"backup": GatedHandler()}, HandClock())
        await first.start()
        await asyncio.gather(*(first.begin(f"own:{n}", "owner", "leave", {}, {}) for n in range(1, count + 1)))
        await first.kill()
        disk.crash()
        backup = GatedHandler()
        again = alone(program, "owner", MemoryStore(disk), {"backup": backup}, HandClock())
        await again.start()
        last = max(disk.records)
        await again.tell(last.lease, "owner", "back")
        await settled(again)
        await asyncio.sleep(0)
        assert again.table.instances[last].state == "waiting"
        assert backup.runs == count - 1
        await again.stop()

    virtual(story())


def test_numbers_of_actions_rise_on_each_unit_however_many_others_there_are() -> None:
    async def story() -> None:
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

    virtual(story())


def test_the_largest_time_and_number_of_a_lease(tmp_path: Path) -> None:
    """What a client may write is carried and kept by all three; what no record can hold is refused."""

    async def story() -> None:
        async with Cluster(units=2) as c:
            largest = 2**63 - 1
            lease = await c.lease(1, until=largest, term=largest)
            assert c.state(lease) == ("active", "ticketed", "active")
            for name in tuple(c.actors):
                await c.kill(name)
            for name in tuple(c.actors):
                await c.start(name)
            await c.settle()
            assert c.state(lease) == ("active", "ticketed", "active")
            with pytest.raises(ActorError, match="is the most"):
                await c.lease(1, until=largest + 1)

    virtual(story())
