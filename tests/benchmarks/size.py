"""What an idle lease takes: memory of the actor that holds it, and room on its disk."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from functools import partial
from pathlib import Path

from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.store.url import store_from_url
from tests.benchmarks.herd import MOST_UNITS, ROLES, Patterns, fill, patterns_of
from tests.benchmarks.measure import Row, Section, Table, rounds
from tests.benchmarks.places import sqlite

LEASES = 10_000
HOW = f"""
An actor recovers {LEASES:,} leases (an authority {MOST_UNITS:,}, each with one unit, the most that a site has) that are
active, or ticketed at the broker, and owe nothing to anybody. Memory is what `tracemalloc` counts between before the
start and after it, over the number of leases; an actor without leases is subtracted. It is all that Python holds for a
lease: record, keys, papers (tickets, as text), what the policy keeps, timers; of an authority also the unit's machine,
and of a service manager the client's wish. On disk it is the SQLite file after its checkpoint, without that of an empty
store.
"""


def benchmark(quick: bool) -> Section:
    units = 20 if quick else MOST_UNITS
    patterns = patterns_of(units)
    memory, disk = [], []
    for role in ROLES:
        leases = units if role == "authority" else 30 if quick else LEASES
        files: list[int] = []
        run = partial(_bytes, patterns, role, leases, units, files)
        (figures,) = rounds({role: run}, 1 if quick else 3).values()
        memory.append(Row(f"{role}, {leases:,} leases", figures))
        disk.append(Row(f"{role}, {leases:,} leases", [size / leases for size in files]))
    tables = [Table("in memory", "bytes", memory), Table("on disk", "bytes", disk)]
    return Section("size", "Size of an idle lease", HOW, tables)


def _bytes(patterns: Patterns, role: str, leases: int, units: int, files: list[int]) -> float:
    """Bytes of memory of a lease; the bytes of the file are added to `files`."""
    sizes = []
    for count in (0, leases):
        with sqlite() as place:
            asyncio.run(fill(place.store(), patterns, role, count, units, True))
            sizes.append(
                (asyncio.run(_held(place.url, role, count, units)), Path(place.folder, "actor.db").stat().st_size)
            )
    (empty, empty_file), (full, full_file) = sizes
    files.append(full_file - empty_file)
    return (full - empty) / leases


async def _held(url: str, role: str, count: int, units: int) -> int:
    """Bytes that an actor takes while it holds its leases."""
    cluster = Cluster(units=units, store=lambda name: store_from_url(url))
    gc.collect()
    tracemalloc.start()
    try:
        actor = await cluster.start(ROLES[role][0])
        await actor.read()
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    if sum(key.lease != "-" for key in actor.table.instances) != count:
        raise RuntimeError(f"not {count} leases were recovered")
    await actor.kill()
    await actor.store.close()
    return taken
