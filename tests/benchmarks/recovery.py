"""How long an actor with many leases needs from its start until it serves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.lease.inventory import Inventory
from leasehold.impl.store.url import store_from_url
from tests.benchmarks.herd import MOST_UNITS, ROLES, Patterns, fill, patterns_of
from tests.benchmarks.measure import Row, Section, Table, Target, rounds
from tests.benchmarks.places import sqlite

LEASES = 100_000
SECONDS = 10.0
QUIET = "nothing owed"
HOW = f"""
An actor whose SQLite file holds {LEASES:,} leases is started, and asked for something at once. The time is from before
the store is opened until that first answer: every record was read and checked, the policy told of each lease, and the
work of every state begun (the specification had been compiled before). Records came from real steps, and were written
by the real codec. The service manager's leases are active, each with its wish; the broker's are ticketed, and so many
units are in its inventory; of the authority's {MOST_UNITS:,} are active with a unit each, as many as a site may have,
and the others are over and not forgotten yet.

A broker and an authority tell every lease again, as they cannot know who has heard. So each has two rows: with tenants
that are known and silent, every lease is a message, which is signed (a broker's has a signed ticket as well), sent, and
kept to be sent again; with *nothing owed* nobody is known who could be told. A service manager owes nothing while its
leases are active. The file was in the system's cache.
"""


def benchmark(quick: bool) -> Section:
    leases, units = (60, 40) if quick else (LEASES, MOST_UNITS)
    patterns = patterns_of(units)
    runs: dict[str, Callable[[], float]] = {}
    for role in ROLES:
        if role != "service manager":
            runs[f"{role}, {QUIET}"] = partial(_start, patterns, role, leases, units, True)
        runs[f"{role}, every work begun"] = partial(_start, patterns, role, leases, units, False)
    figures = rounds(runs, 1 if quick else 3)
    return section(figures, leases)


def section(figures: Mapping[str, Sequence[float]], leases: int) -> Section:
    """Returns what the seconds of each run, by its name, say."""
    target = (Target(SECONDS, least=False, of_ratio=False),)
    rows = []
    for label, seconds in figures.items():
        role, _, begun = label.partition(", ")
        base = figures.get(f"{role}, {QUIET}", ()) if begun != QUIET else ()
        rows.append(Row(f"{label}, {leases:,} leases", seconds, base, target))
    table = Table("start until the first answer", "s", rows, QUIET)
    return Section("recovery", "Recovery of an actor", HOW, [table])


def _start(patterns: Patterns, role: str, leases: int, units: int, quiet: bool) -> float:
    with sqlite() as place:
        asyncio.run(fill(place.store(), patterns, role, leases, units, quiet))
        return asyncio.run(_started(place.url, role, leases, units))


async def _started(url: str, role: str, leases: int, units: int) -> float:
    name, machine = ROLES[role]
    cluster = Cluster(units=units, store=lambda name: store_from_url(url))
    if role == "broker":
        cluster.inventory = Inventory.parse({"units": [{"name": f"unit-{i}"} for i in range(leases)]})
    begun = time.perf_counter()
    actor = await cluster.start(name)
    await actor.read()
    seconds = time.perf_counter() - begun
    recovered = sum(key.machine == machine for key in actor.table.instances)
    await actor.kill()
    await actor.store.close()
    if recovered != leases:
        raise RuntimeError(f"{recovered} leases were recovered, not {leases}")
    return seconds
