"""Durable transitions of an actor against durable steps of dbos, on the same databases."""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from leasehold.impl.core.core import Program
from tests.benchmarks.measure import Missing, Row, Section, Table, Target, rounds
from tests.benchmarks.places import KINDS, POSTGRESQL, Place, Postgresql, Sqlite
from tests.benchmarks.workload import STEPS, lease_program, work

HOW = f"""
The broker of the section on durable transitions, with 100 leases at once, {STEPS} transitions each, against dbos with
100 workflows at once, {STEPS} steps each: one durable step for one transition. A step of dbos adds one to a number, so
what is measured is what dbos does around it, as it comes: its own pools, in a process of its own, from the first
workflow's start to the last one's result. It ran both ways that it has, plain functions in its threads and coroutines
on one event loop; the target counts against the faster one. dbos records each step in a transaction of its own; the
actor commits what has gathered at once, which is most of the difference. Both are durable when they go on, and dbos
does what an actor does not: its steps are any Python, and results are kept.
"""
TIMES = 20
LEASES = 100


def benchmark(quick: bool) -> Section:
    if importlib.util.find_spec("dbos") is None:
        raise Missing("dbos is not installed")
    program, tables, skipped = lease_program(), [], []
    for kind in ("SQLite",) if quick else ("SQLite", "PostgreSQL"):
        try:
            tables.append(_kind(program, kind, quick))
        except Missing as missing:
            skipped.append(str(missing))
    return Section("durable_dbos", "Durable transitions against dbos", HOW, tables, skipped)


def _kind(program: Program, kind: str, quick: bool) -> Table:
    leases = 5 if quick else LEASES

    def actor() -> float:
        with KINDS[kind]() as place:
            return asyncio.run(work(program, place.store(), leases)).rate

    def dbos(way: str) -> Callable[[], float]:
        def run() -> float:
            with KINDS[kind]() as place:
                return _dbos(place, leases, way)

        return run

    ways = ("threads",) if quick else ("threads", "tasks")
    runs = {"actor": actor, **{f"dbos, {way}": dbos(way) for way in ways}}
    ours, *theirs = rounds(runs, 1 if quick else 5).values()
    fastest = max(theirs, key=sum)
    rows = [Row("actor", ours, fastest, (Target(TIMES),))]
    rows += [Row(f"dbos, workflows in {way}", figures) for way, figures in zip(ways, theirs, strict=True)]
    return Table(kind, "transitions/s", rows, "the faster dbos")


def _dbos(place: Place, workflows: int, way: str) -> float:
    match place:
        case Sqlite():
            url, schema = f"sqlite:///{place.folder / 'dbos.db'}", ""
        case Postgresql():
            url, schema = POSTGRESQL, place.schema
        case _:
            raise Missing("dbos keeps its state in SQLite or PostgreSQL")
    script = Path(__file__).with_name("dbos_life.py")
    command = [sys.executable, str(script), url, schema, str(workflows), str(STEPS), way]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise RuntimeError(f"dbos failed: {done.stderr.strip()[-500:]}")
    return float(done.stdout.split()[-1])
