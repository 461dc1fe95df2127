"""What real actors live through: the steps of one lease and of one two-phase commit, as they were really taken.

Actors are asked to run one lease (or one transaction) from its beginning to its end, and every transition of every
machine is written down: record, event, time. Nothing is made up, so what is measured on it can happen.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from leasehold.faults.simulation.clock import SimulatedClock
from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.ready import Ready
from leasehold.impl.actor.table import MachineInstance
from leasehold.impl.core.core import Core, Program
from leasehold.impl.core.work import Event, Outcome, Record
from leasehold.spec import System
from tests.impl.actor.test_commit import MACHINES, NAMES, Group


@dataclass(frozen=True)
class Taken:
    """One transition that was taken."""

    before: Record
    event: Event
    now: int
    after: Record


@dataclass
class Life:
    """What one machine lived through, and the compiled role that it is of."""

    core: Core
    steps: list[Taken] = field(default_factory=list)


Lives = dict[str, Life]  # by the machine's name


def watch(actor: Actor, clock: SimulatedClock, lives: Lives) -> None:
    """Writes down every transition that an actor takes from now on."""
    step = actor.stepper.step

    def watched(ready: Ready, instance: MachineInstance, event: Event, outside: bool = False) -> Outcome:
        before, at = instance.record, len(lives.setdefault(instance.key.machine, Life(instance.core)).steps)
        outcome = step(ready, instance, event, outside)
        if outcome.taken:
            # A step may be followed by others of the same turn; each is written where it began.
            now = clock.now()
            after, _ = instance.core.step(before, event, now)
            lives[instance.key.machine].steps.insert(at, Taken(before, event, now, after))
        return outcome

    actor.stepper.step = watched  # type: ignore[method-assign]


async def _lease() -> tuple[System, Program, Lives]:
    lives: Lives = {}
    async with Cluster(units=2) as cluster:
        for actor in cluster.actors.values():
            watch(actor, cluster.clock, lives)
        lease = await cluster.lease(1, until=25, term=10)  # which is extended twice
        while set(cluster.state(lease)) != {"closed"}:
            await cluster.advance()
    return cluster.system, cluster.program, lives


async def _commit() -> tuple[Program, Lives]:
    lives: Lives = {}
    group = Group(frozenset())
    for name in NAMES:
        await group.start(name)
        watch(group.actors[name], group.clock, lives)
    peers = {machine: name for name, machine in MACHINES.items() if name != "chief"}
    await group.actors["chief"].begin("chief:1", "coordinator", "begin", {}, peers)
    await group.decided("chief:1")
    for actor in group.actors.values():
        await actor.stop()
    return group.program, lives


def lease_lives() -> tuple[System, Program, Lives]:
    """One lease of a unit with two extensions, from the demand to the end of its term, at all three roles."""
    return asyncio.run(_lease())


def commit_lives() -> tuple[Program, Lives]:
    """One transaction that all participants agree to."""
    return asyncio.run(_commit())
