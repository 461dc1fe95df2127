"""Verifying while it happens: events per second against all properties of the lease, with many leases."""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import time
import tracemalloc
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from leasehold.checker.verify.database import IN_MEMORY, VerifyDatabase
from leasehold.checker.verify.history import HistoryVerification
from leasehold.checker.verify.system import CutsOfSystem
from leasehold.impl.events.event import AnyEvent, StepEvent, write
from tests.benchmarks import places
from tests.benchmarks.many_leases import SHARED, UNITS, Recording, actors, history, recorded
from tests.benchmarks.measure import Missing, Row, Section, Table, say

BATCH = 1000  # events that come at once
HOW = """
Real events of the lease ([many_leases.py](../tests/benchmarks/many_leases.py)): service manager, broker and sites of
two units each. They come in an order in which they may have happened, {batch:,} at a time, and each time all {queries}
queries are asked of what is new. Reading lines, digests and signatures is not part of it. Nothing may be found: a
violation or a fault ends the benchmark. Seconds are those of the processor, of the verifier and of the database's
thread that serves it together, as others used the machine meanwhile.

- *Live* leases have begun and are not over. {moving} of them move, from the demand to the end of the second extension
  by about 45 events each, at {sites} sites, the next one as soon as one is over. Their histories are recorded at ten
  sites, and the others have copies in which lease and site have other names. The other live leases
  have asked for a ticket and wait for the answer: the first step of a recorded lease, with other names.
- *Plain inserts* of the same events, one row each, one transaction for a batch, in the same database: an upper bound.
- *Everything again*: the same queries asked of all of history for each batch, as without increments.
"""
MOVING = 100
MANY = 10_000  # live leases of which not everything is asked again: that would take an hour


class Stopwatch:
    """Processor seconds of this process, and of the thread of a server that serves a connection."""

    def __init__(self, database: VerifyDatabase) -> None:
        self._stat: Path | None = None
        kind = database.tables.dialect.name
        if kind != "sqlite":
            database.cursor.execute(_THREAD[kind])
            ((thread,),) = database.cursor.fetchall()
            self._stat = Path(f"/proc/{thread}/task/{thread}/stat")

    def seconds(self) -> float:
        served = 0.0
        if self._stat is not None:
            user, system = self._stat.read_text().rpartition(")")[2].split()[11:13]
            served = (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
        return time.process_time() + served


_THREAD = {
    "postgresql": "SELECT pg_backend_pid()",
    "mariadb": "SELECT tid FROM information_schema.processlist WHERE id = CONNECTION_ID()",
}


class Following:
    """A verification that is fed in batches."""

    def __init__(self, known: CutsOfSystem, names: Sequence[str], url: str) -> None:
        self.names = names
        self.verification = HistoryVerification(known, names, url=url)
        self.watch = Stopwatch(self.verification.database)

    def feed(self, events: Sequence[AnyEvent]) -> float:
        """Verifies a batch; returns the seconds that it took.

        Raises:
            RuntimeError: something is wrong with them, so the benchmark is.
        """
        by_actor: dict[str, list[AnyEvent]] = defaultdict(list)
        for event in events:
            by_actor[event.actor].append(event)
        began = self.watch.seconds()
        for actor, some in by_actor.items():
            self.verification.add(actor, some)
        for name in self.names:
            self.verification.cuts.merge.quiet(name, events[-1].now, events[-1].time)
        violations = self.verification.judge()
        seconds = self.watch.seconds() - began
        if violations or self.verification.cuts.faults:
            raise RuntimeError(f"{[v.property for v in violations]} {self.verification.cuts.faults[:3]}")
        return seconds

    def again(self) -> float:
        """Seconds to ask all queries of all of history."""
        check = self.verification.checkpoint.findings.check
        newest, check.checked = check.checked, -1
        began = self.watch.seconds()
        check.ask(self.verification.database.cursor)
        check.checked = newest
        return self.watch.seconds() - began

    def close(self) -> None:
        self.verification.close()


def batches(events: Iterable[AnyEvent], size: int) -> Iterator[list[AnyEvent]]:
    """Events, so many at a time."""
    left = iter(events)
    while some := list(itertools.islice(left, size)):
        yield some


@contextlib.contextmanager
def in_memory() -> Iterator[str]:
    yield IN_MEMORY


@contextlib.contextmanager
def fresh(kind: str) -> Iterator[str]:
    """The URL of an empty place."""
    with places.KINDS[kind]() as place:
        yield place.url


PLACES: dict[str, Callable[[], contextlib.AbstractContextManager[str]]] = {
    "SQLite, in memory": in_memory,
    "SQLite, a file": partial(fresh, "SQLite"),
    "PostgreSQL": partial(fresh, "PostgreSQL"),
    "MariaDB": partial(fresh, "MariaDB"),
}


# What is measured


def benchmark(quick: bool) -> Section:
    """Events per second by database, with few and many live leases; bytes of a live lease."""
    moving, rest, size = (10, 2, 100) if quick else (MOVING, 6, BATCH)
    waiting = (10, 100) if quick else (1000 - MOVING, 100_000 - MOVING)
    system, recordings = recorded(2 if quick else 3, 2 if quick else 10)
    known = CutsOfSystem(system)
    rates: list[Row] = []
    skipped: list[str] = []
    for place, opened in PLACES.items():
        try:
            for others in waiting:
                with opened() as url:
                    figures = live(known, recordings, moving, others, url, size, rest)
                rates += rows_of(f"{place}, {moving + others:,} live", figures)
        except Missing as missing:
            skipped.append(str(missing))
    tables = [
        Table("events verified", "per second", rates, "verified"),
        Table("a live lease, in memory", "bytes", [Row("all that Python holds", [memory(known, recordings, quick)])]),
    ]
    how = HOW.format(batch=size, queries=queries_of(known), moving=moving, sites=moving // UNITS)
    return Section("verify", "Verifying while it happens", how, tables, skipped)


def queries_of(known: CutsOfSystem) -> int:
    following = Following(known, SHARED, IN_MEMORY)
    following.close()
    return following.verification.result.asked


def rows_of(label: str, figures: dict[str, list[float]]) -> list[Row]:
    again = figures["again"]
    return [
        Row(f"{label}: verified", figures["verified"]),
        Row(f"{label}: plain inserts", figures["inserted"], figures["verified"]),
        *([Row(f"{label}: everything again", again, figures["verified"][: len(again)])] if again else []),
    ]


def live(
    known: CutsOfSystem, recordings: Sequence[Recording], moving: int, waiting: int, url: str, size: int, rest: int
) -> dict[str, list[float]]:
    """Events per second of batches once all leases are live: verified, only inserted, and asked of everything again."""
    following = Following(known, actors(moving), url)
    try:
        events = history(recordings, moving, waiting)
        for batch in batches(itertools.islice(events, waiting), 20 * size):
            say(f"{waiting:,} leases begin: {len(batch) / following.feed(batch):,.0f} events/s")
        begun: set[str] = set()
        figures: dict[str, list[float]] = {"verified": [], "inserted": [], "again": []}
        insert = plain_inserts(following)
        for batch in batches(events, size):
            everybody = len(begun) >= moving
            begun |= {event.step.lease for event in batch if isinstance(event, StepEvent)}
            seconds = following.feed(batch)
            if not everybody:
                continue
            figures["verified"].append(len(batch) / seconds)
            figures["inserted"].append(len(batch) / max(insert(batch), 0.001))
            if len(figures["again"]) < 1 and waiting < MANY:
                figures["again"].append(len(batch) / following.again())
            say(f"{waiting + moving:,} live: {figures['verified'][-1]:,.0f} events/s")
            if len(figures["verified"]) == rest:
                break
        return figures
    finally:
        following.close()


def plain_inserts(following: Following) -> Callable[[Sequence[AnyEvent]], float]:
    """Returns what inserts events as they are into a table of the same database."""
    database = following.verification.database
    mark = "?" if database.tables.dialect.name == "sqlite" else "%s"
    kind = database.tables.dialect.columns
    database.cursor.execute(
        f"CREATE TABLE bare (actor {kind['key']}, position {kind['number']}, body {kind['opaque']},"
        " PRIMARY KEY (actor, position))"
    )
    database.connection.commit()

    def insert(events: Sequence[AnyEvent]) -> float:
        rows = [(event.actor, event.position, write(event).decode()) for event in events]
        began = following.watch.seconds()
        database.cursor.executemany(f"INSERT INTO bare VALUES ({', '.join([mark] * 3)})", rows)
        database.connection.commit()
        return following.watch.seconds() - began

    return insert


def memory(known: CutsOfSystem, recordings: Sequence[Recording], quick: bool) -> float:
    """Bytes that Python holds for each lease more, between two numbers of live leases."""
    counts = (10, 20) if quick else (100, 300)
    traced_bytes = []
    for count in counts:
        following = Following(known, actors(count), "sqlite::memory:")
        gc.collect()
        tracemalloc.start()
        begun: set[str] = set()
        for batch in batches(history(recordings, count), 100):
            following.feed(batch)
            begun |= {event.step.lease for event in batch if isinstance(event, StepEvent)}
            if len(begun) >= count:
                break
        gc.collect()
        traced_bytes.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
        following.close()
    return (traced_bytes[1] - traced_bytes[0]) / (counts[1] - counts[0])
