"""How many durable transitions a second one actor makes, against what its store and disk can do at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from leasehold.impl.core.core import Program
from tests.benchmarks.measure import Missing, Row, Section, Table, Target, median, rounds, short
from tests.benchmarks.places import KINDS, Transaction
from tests.benchmarks.workload import EXTENSIONS, lease_program, work

HOW = """
One broker of the shipped `lease`, with 10, 100 and 1,000 leases at once, each from its first request over extensions
(300, 30 and 3 of them) to its end; the policy *first come, first served* answers. Tenants' words come into its queue
as events, neither signed nor sent, as signatures are another matter: they are measured end to end. A transition is a
row, as no turn moved a lease twice. The same rows then go into a fresh table of the same store, by the driver alone
(`sqlite3`; `psycopg`, pipelined; `aiomysql`). *Bare group commit*: as many clients as there were leases, each of which
waits until its row is durable before it hands over the next, and one loop that commits what waits at once. *Bare
driver*: nobody waits; ready-made transactions of as many rows as the actor's are written one after the other. SQLite
has WAL with `synchronous=FULL`; the servers flush at each commit.
"""
SHARE = 0.5
LEASES = {10: 300, 100: 30, 1_000: EXTENSIONS}  # at once, with the extensions of each: about as many transitions


def benchmark(quick: bool) -> Section:
    program = lease_program()
    tables, skipped, notes = [], [], []
    for kind in KINDS:
        try:
            table, note = _kind(program, kind, quick)
        except Missing as missing:
            skipped.append(str(missing))
            continue
        tables.append(table)
        notes.append(note)
    return Section("durable", "Durable transitions of one actor", HOW, tables, skipped, notes)


def _kind(program: Program, kind: str, quick: bool) -> tuple[Table, str]:
    rows, about = [], []
    for leases, extensions in ({10: 2} if quick else LEASES).items():
        done: list[Transaction] = []

        runs: dict[str, Callable[[], float]] = {
            f"actor, {leases} leases": partial(_actor, program, kind, leases, extensions, done),
            f"bare group commit, {leases}": partial(_grouped, kind, done),
            f"bare driver, {leases}": partial(_bare, kind, done),
        }
        ours, grouped, theirs = rounds(runs, 1 if quick else 7).values()
        size = median([len(body) for transaction in done for _, _, body in transaction])
        rows += [
            Row(f"actor, {leases:,} leases at once", ours, grouped, (Target(SHARE),)),
            Row(f"bare group commit, {leases:,} clients", grouped),
            Row("the same, against the bare driver", ours, theirs),
            Row(f"bare driver, {short(sum(map(len, done)) / len(done))} rows to a transaction", theirs),
        ]
        about.append(f"{short(size)} bytes")
    note = f"{kind}: the rows' bodies had a median of {', '.join(dict.fromkeys(about))}."
    return Table(kind, "transitions/s", rows, "the row below"), note


def _actor(program: Program, kind: str, leases: int, extensions: int, done: list[Transaction]) -> float:
    """The actor's rate; what it committed is in `done` after it."""
    with KINDS[kind]() as place:
        worked = asyncio.run(work(program, place.store(), leases, extensions))
    done[:] = worked.transactions
    return worked.rate


def _grouped(kind: str, done: list[Transaction]) -> float:
    """The rate of a bare group commit over the same rows."""
    with KINDS[kind]() as place:
        return sum(map(len, done)) / asyncio.run(place.grouped(done))


def _bare(kind: str, done: list[Transaction]) -> float:
    """The driver's rate over what the actor has committed just before."""
    with KINDS[kind]() as place:
        return sum(map(len, done)) / asyncio.run(place.bare(done))
