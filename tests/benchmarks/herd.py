"""Stores full of leases, without as many slow lives: each record is made by the real steps of one real lease.

One lease runs in a cluster, from the demand to its end. Then the same events go through the compiled core once for each
lease of the herd, and what comes out is written by the real codec, with the metadata (tickets, wishes) that the one
lease had. Leases of an authority have a unit each, and the unit's machine beside it; those for which the site has no
unit are over and not forgotten yet.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.actor.chronicle import RowCodec
from leasehold.impl.actor.table import BELOW, MachineInstance, MachineTable
from leasehold.impl.actor.upcalls import WISH
from leasehold.impl.core.core import Program
from leasehold.impl.core.work import Event
from leasehold.impl.lease.fleet import BROKER, SITE, TENANT
from leasehold.impl.lease.service_manager import FixedDemand
from leasehold.impl.store.store import Batch, RecordKey, Store
from tests.benchmarks.lives import Life, Lives, watch

ROLES = {"service manager": (TENANT, "service_manager"), "broker": (BROKER, "broker"), "authority": (SITE, "authority")}
MOST_UNITS = 4_000  # that one authority may have
_PAGE = 10_000


@dataclass(frozen=True)
class Pattern:
    """What a machine had come to in the life that is copied.

    Attributes:
        life: all of it.
        steps: how many of them had been taken.
        peers: who played the neighbours.
        metadata: what was kept with the record: tickets, wishes.
    """

    life: Life
    steps: int
    peers: list[str]
    metadata: dict[str, Any]

    def held(self, memory: MachineTable, key: RecordKey, number: int, quiet: bool = False) -> MachineInstance:
        """Another lease (or unit) that has come as far, by steps of its own."""
        instance = memory.new(key, *memory.program.machines[key.machine])
        for taken in self.life.steps[: self.steps]:
            instance.record, outcome = instance.core.step(instance.record, _with_unit(taken.event, number), taken.now)
            if not outcome.taken:
                raise RuntimeError(f"{key} does not take {taken.event[0]}: {outcome.reason}")
        instance.peers = [""] * len(self.peers) if quiet else list(self.peers)
        instance.metadata = copy.copy(self.metadata)
        return instance


def _with_unit(event: Event, number: int) -> Event:
    return ("placed", (frozenset({number}), *event[1][1:]), *event[2:]) if event[0] == "placed" else event


@dataclass(frozen=True)
class Patterns:
    """By the machine's name: as it was while the lease was active, and when it was over."""

    program: Program
    active: dict[str, Pattern]
    over: dict[str, Pattern]


async def patterns(units: int) -> Patterns:
    """Those of one lease that a cluster with so many units at its site has run."""
    lives: Lives = {}
    async with Cluster(units=units) as cluster:
        for actor in cluster.actors.values():
            watch(actor, cluster.clock, lives)
        lease = await cluster.lease(1, until=10, term=10)
        if cluster.state(lease) != ("active", "ticketed", "active"):
            raise RuntimeError(f"the lease has come to {cluster.state(lease)}")
        active = _patterns(cluster, lives)
        while set(cluster.state(lease)) != {"closed"}:
            await cluster.advance()
        return Patterns(cluster.program, active, _patterns(cluster, lives))


def _patterns(cluster: Cluster, lives: Lives) -> dict[str, Pattern]:
    instances = {h.key.machine: h for actor in cluster.actors.values() for h in actor.table.instances.values()}
    return {
        machine: Pattern(lives[machine], len(lives[machine].steps), list(h.peers), copy.deepcopy(h.metadata))
        for machine, h in instances.items()
    }


def herd(examples: Patterns, role: str, count: int, units: int, quiet: bool) -> Iterator[MachineInstance]:
    """Leases of a role.

    Args:
        found: what is copied.
        role: as in `ROLES`.
        count: how many.
        units: of the site.
        quiet: nobody is known who could be told anything, as when all has been heard.
    """
    _, machine = ROLES[role]
    below = {core.role for core in examples.program.roles[machine].below}
    memory = MachineTable(examples.program, frozenset({machine, *below}))
    for number in range(count):
        name = f"{TENANT}:{number + 1}"
        full = role == "authority" and number >= units
        pattern = examples.over[machine] if full else examples.active[machine]
        yield pattern.held(memory, RecordKey(name, machine), number % units, quiet)
        if role == "authority" and not full:
            unit = examples.active["unit[0]"].held(memory, RecordKey(BELOW, f"unit[{number}]"), number)
            unit.metadata["lease"] = name
            yield unit


async def fill(store: Store, examples: Patterns, role: str, count: int, units: int, quiet: bool) -> None:
    """Writes a herd into a store."""
    rows, puts = RowCodec(examples.program), dict[RecordKey, bytes]()
    await store.open(ROLES[role][0])
    for instance in herd(examples, role, count, units, quiet):
        puts[instance.key] = rows.write(instance)
        if len(puts) == _PAGE:
            await store.commit(Batch(puts))
            puts = {}
    wishes = _wishes(count) if role == "service manager" else {}
    await store.commit(Batch(puts, (), wishes))
    await store.close()


def _wishes(count: int) -> dict[str, bytes]:
    """Returns what clients want of each lease, as the policy keeps it."""
    policy = FixedDemand()
    for number in range(count):
        policy.demand(f"{TENANT}:{number + 1}", 1, 10, 10, now=0)
    return {WISH + lease: body for lease, body in policy.changed_wishes().items()}


def patterns_of(units: int) -> Patterns:
    return asyncio.run(patterns(units))
