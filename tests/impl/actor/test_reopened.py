"""Recovery in the process and recovery by a restart come to the same, whichever commit has failed.

An actor whose commit fails opens its store again and recovers, in the same objects that have served before; one that is
restarted begins with new ones. What an object remembers from before must not show. So each commit of a story fails
once, and at its end every actor is compared with a new one on the same disk: its machines, what it sends, calls, owes,
probes, and keeps about itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leasehold.faults.simulation.cluster import SystemCluster
from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.chronicle import COMMITS, HEAD
from leasehold.impl.actor.environment import ActorError, ActorOptions, Backoff, Environment, Probe
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.lease.fleet import SITE
from leasehold.impl.store.memory import Disk, MemoryStore
from leasehold.impl.store.store import Batch, Transient
from tests.impl.virtual import virtual
from tests.systems import load

OPTIONS = ActorOptions(retire_after=2, seed=0, reopen_pause=0.01, backoff=Backoff(0.1, 0.5, 0.5))


class FailsOnce(MemoryStore):
    """A store of which one commit fails, once; nothing of it is durable."""

    commits = 0

    def __init__(self, disk: Disk, number: int) -> None:
        super().__init__(disk)
        self.number = number

    async def _commit(self, batch: Batch) -> None:
        self.commits += 1
        if self.commits == self.number:
            raise Transient("memory: the disk is full")
        await super()._commit(batch)


async def started(cluster: SystemCluster, name: str) -> Actor:
    """Starts an actor as a server does: again, where its store could not be used."""
    try:
        return await SystemCluster.start(cluster, name)
    except Transient:
        actor = cluster.actors[name]
        cluster._publish(name, await actor.start())
        return actor


def face(actor: Actor) -> dict[str, Any]:
    """Returns what an actor shows at rest, but the numbers of its incarnation and commits."""
    table, outbox, own = actor.table, actor.outbox, (COMMITS, HEAD)
    return {
        "machines": {
            key: (held.record[: held.core.below_at], held.addressed, {**held.metadata, "since": None})
            for key, held in table.instances.items()
        },
        "messages": {(p.key, p.neighbour, p.message, p.number) for key in table.instances for p in outbox.of(key)},
        "calls": {(key, task) for key in table.instances for task in actor.calls.of(key)},
        "owed": table.unaddressed,
        "forgotten": table.pruned._of,
        "driven": table.driven,
        "waiting": {key: [above.key for above in table.waiting_for(key)] for key in table.instances},
        "due": {key: held.core.wake(held.record) for key, held in table.instances.items()},
        "probes": len(actor.probes._loops),
        "policies": sorted(actor.environment.policies),
        "kept": {n: body for n, body in table.metadata.items() if n not in own and not n.startswith("epoch of ")},
        "works": (actor.running, actor.queue.closed, len(actor._tasks)),
    }


Story = Callable[[Any], Awaitable[None]]


async def leases(c: Cluster) -> None:
    """Two leases for one unit, one after the other, and a client that tries again."""
    for lease, until in (("tenant:1", 7), ("tenant:2", 30)):
        for _ in range(3):
            with suppress(ActorError):
                await c.lease(1, until, 5, lease)
                break
            await asyncio.sleep(1)
    for _ in range(10):
        await c.advance()
        await asyncio.sleep(1)


async def lines(c: SystemCluster) -> None:
    """A writer writes three lines, each again where that could not be committed."""
    for _ in range(3):
        for _ in range(3):
            with suppress(ActorError):
                await c.host("writer").tell(c.program.only_run, "writer", "write")
                break
            await asyncio.sleep(1)
    await asyncio.sleep(5)


async def nothing(c: SystemCluster) -> None:
    """The machines of a standing system do what they do by themselves."""
    for _ in range(4):
        await c.advance()
        await asyncio.sleep(1)


class Probing(Cluster):
    """A site that asks for its units from time to time."""

    def _environment(self, name: str) -> Environment:
        made = super()._environment(name)
        return replace(made, probes=(Probe("unit", "repaired"),)) if name == SITE else made


def lease_cluster(**rest: Any) -> SystemCluster:
    return Probing(1, **rest)


def standing(folder: Path) -> Callable[..., SystemCluster]:
    return lambda **rest: SystemCluster(compile_system(load(folder)), **rest)


HERE = Path(__file__).parent
SYSTEMS: dict[str, tuple[Callable[..., SystemCluster], Story]] = {
    "lease": (lease_cluster, leases),
    "pipe": (standing(HERE / "pipe"), lines),
    "ring": (standing(HERE / "fixed_ring"), nothing),
}


async def played(make: Callable[..., SystemCluster], story: Story, failing: str, number: int) -> int:
    """Plays a story in which one commit of an actor fails; returns how many commits that actor has made."""
    disks: dict[str, FailsOnce] = {}

    def store(name: str) -> FailsOnce:
        disks[name] = FailsOnce(c.disks[name], number if name == failing and name not in disks else 0)
        return disks[name]

    c = make(store=store, options=OPTIONS)
    try:
        for name in c.disks:
            await started(c, name)
        await story(c)
        await c.settle()
        commits = disks[failing].commits
        before = {name: face(actor) for name, actor in c.actors.items()}
        for name, actor in c.actors.items():
            assert actor.table.metadata == c.disks[name].metadata, (failing, number, name)
        for name in c.disks:
            await c.kill(name)
            await started(c, name)
            await c.settle()
            await asyncio.sleep(5)
            assert face(c.actors[name]) == before[name], (failing, number, name)
    finally:
        for actor in c.actors.values():
            await actor.stop()
    return commits


@pytest.mark.parametrize("system", SYSTEMS)
def test_an_actor_that_recovers_in_its_process_is_as_one_that_was_restarted(system: str) -> None:
    make, story = SYSTEMS[system]
    for name in make().disks:
        number = commits = 0
        while number <= commits:  # 0: none fails
            commits = virtual(played(make, story, name, number))
            number += 1
        assert commits >= 1
