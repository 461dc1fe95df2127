"""Verifying while it happens: events per second against all properties of the lease, with many leases, and for long."""

from __future__ import annotations

import contextlib
import gc
import itertools
import time
import tracemalloc
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from leasehold.checker.verify.cuts import CutsOfSystem
from leasehold.checker.verify.database import IN_MEMORY
from leasehold.checker.verify.history import HistoryVerification
from leasehold.impl.events.event import AnyEvent, write
from leasehold.spec import System
from tests.benchmarks import places
from tests.benchmarks.many_leases import SHARED, TO_TICKET, Recording, actors, history, recorded
from tests.benchmarks.measure import Missing, Row, Section, Table, Target, median, say

BATCH = 1000  # events that come at once
HOW = """
Real events of the lease ([many_leases.py](../tests/benchmarks/many_leases.py)): service manager, broker and sites of
two units each, whose leases live from the demand to the end of their second extension, one after the other; a lease's
life is about 45 events. They come in an order in which they may have happened, {batch:,} at a time; each time all
{queries} queries are asked of what is new. Reading lines, digests and signatures is not part of it. Nothing may be
found: a violation or a fault ends the benchmark.

- *Live* leases have begun and are not over. There are 1,000 that move, at 500 sites; their histories are recorded at
  ten sites, and the others have copies in which lease and site have other names. With 100,000, the other 99,000 have a
  ticket that they do not redeem yet: the first steps of recorded leases, with other names.
- *Long after*: 20 leases live at a time, each unit's next one as soon as the last is over; the first and the last
  tenth of the history are compared.
- *Plain inserts* of the same events, one row each, one transaction for a batch, in the same database: an upper bound.
- *Everything again*: the same queries asked of all of history for each batch, as without increments.
"""


class Following:
    """A verification that is fed in batches."""

    def __init__(self, known: CutsOfSystem, names: Sequence[str], url: str) -> None:
        self.names = names
        self.verification = HistoryVerification(known, names, url=url)

    def feed(self, events: Sequence[AnyEvent]) -> float:
        """Verifies a batch; returns the seconds that it took.

        Raises:
            RuntimeError: something is wrong with them, so the benchmark is.
        """
        by_actor: dict[str, list[AnyEvent]] = defaultdict(list)
        for event in events:
            by_actor[event.actor].append(event)
        began = time.perf_counter()
        for actor, some in by_actor.items():
            self.verification.add(actor, some)
        for name in self.names:
            self.verification.cuts.merge.quiet(name, events[-1].now, events[-1].time)
        found = self.verification.judge()
        seconds = time.perf_counter() - began
        if found or self.verification.cuts.faults:
            raise RuntimeError(f"{[v.property for v in found]} {self.verification.cuts.faults[:3]}")
        return seconds

    def again(self) -> float:
        """Seconds to ask all queries of all of history."""
        check = self.verification.check
        newest, check.checked = check.checked, -1
        began = time.perf_counter()
        check.ask(self.verification.database.cursor)
        check.checked = newest
        return time.perf_counter() - began

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
    "SQLite, in memory": in_memory, "SQLite, a file": partial(fresh, "SQLite"),
    "PostgreSQL": partial(fresh, "PostgreSQL"), "MariaDB": partial(fresh, "MariaDB"),
}  # fmt: skip


# What is measured


def benchmark(quick: bool) -> Section:
    """Events per second by database; with history; with units; memory and bytes of each."""
    moving, rest, many, size = (20, 2, 200, 100) if quick else (1000, 12, 99_000, BATCH)
    system, recordings = recorded(1 if quick else 2, 2 if quick else 10)
    _, long = recorded(2 if quick else 24, 1)
    known = CutsOfSystem(system)
    skipped: list[str] = []
    rates: list[Row] = []
    ages: list[Row] = []
    sizes: list[Row] = []
    for place, opened in PLACES.items():
        try:
            with opened() as url:
                found = live(known, recordings, moving, url, rest, size)
            rates += rows_of(place, f"{moving:,} live", found)
            with opened() as url:
                ages += grown(known, long, url, place, size)
            with opened() as url:
                sizes.append(Row(f"{place}, tables of the verifier", [kept(known, long, url)]))
        except Missing as missing:
            skipped.append(str(missing))
    for place in ("SQLite, in memory", "PostgreSQL"):
        if place == "PostgreSQL" and "PostgreSQL" in " ".join(skipped):
            continue
        with PLACES[place]() as url:
            found = live(known, recordings, moving, url, rest, size, many)
        rates += rows_of(place, f"{moving + many:,} live", found)
    sizes += lines(long)
    tables = [
        Table("events verified", "per second", rates, "what is named"),
        Table("20 leases live, history long", "per second", ages, "the first tenth"),
        Table("memory of a live lease", "bytes", [Row("all that Python holds", [memory(known, recordings, quick)])]),
        Table("an event", "bytes", sizes),
    ]
    how = HOW.format(batch=BATCH, queries=queries_of(system))
    return Section("verify", "Verifying while it happens", how, tables, skipped)


def queries_of(system: System) -> int:
    verification = HistoryVerification(CutsOfSystem(system), SHARED)
    verification.close()
    return len(verification.queries.queries)


def rows_of(place: str, what: str, found: dict[str, list[float]]) -> list[Row]:
    words = f"{place}, {what}"
    return [
        Row(f"{words}: verified", found["verified"]),
        Row(f"{words}: plain inserts", found["inserted"], found["verified"]),
        Row(f"{words}: everything again", found["again"], found["verified"]),
    ]


def live(
    known: CutsOfSystem,
    recordings: Sequence[Recording],
    moving: int,
    url: str,
    rest: int,
    size: int,
    waiting: int = 0,
) -> dict[str, list[float]]:
    """Events per second of batches once all leases are live: verified, only inserted, and asked of everything again."""
    following = Following(known, actors(moving), url)
    try:
        events = history(recordings, moving, waiting)
        for batch in batches(itertools.islice(events, TO_TICKET * waiting), 20 * size):
            say(f"tickets for {waiting:,} leases: {len(batch) / following.feed(batch):,.0f} events/s")
        begun: set[str] = set()
        figures: dict[str, list[float]] = {"verified": [], "inserted": [], "again": []}
        insert = plain_inserts(following)
        for batch in batches(events, size):
            everybody = len(begun) >= moving
            begun |= {event.step.lease for event in batch if hasattr(event, "step")}
            seconds = following.feed(batch)
            if not everybody:
                continue
            figures["verified"].append(len(batch) / seconds)
            figures["inserted"].append(len(batch) / insert(batch))
            figures["again"].append(len(batch) / following.again())
            say(f"{figures['verified'][-1]:,.0f} events/s")
            if len(figures["verified"]) == rest:
                break
        return figures
    finally:
        following.close()


def plain_inserts(following: Following) -> Callable[[Sequence[AnyEvent]], float]:
    """What inserts events as they are into a table of the same database."""
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
        began = time.perf_counter()
        database.cursor.executemany(f"INSERT INTO bare VALUES ({', '.join([mark] * 3)})", rows)
        database.connection.commit()
        return time.perf_counter() - began

    return insert


def grown(known: CutsOfSystem, long: Sequence[Recording], url: str, place: str, size: int) -> list[Row]:
    """Events per second in the first and in the last tenth of a long history."""
    following = Following(known, actors(20), url)
    try:
        rates = [len(batch) / following.feed(batch) for batch in batches(history(long, 20), size)]
    finally:
        following.close()
    rates.pop()  # it is not full
    tenth = max(1, len(rates) // 10)
    first, last = rates[:tenth], rates[-tenth:]
    say(f"{place}: {median(first):,.0f}, then {median(last):,.0f} events/s")
    return [
        Row(f"{place}, first tenth of {len(rates) * size:,} events", first),
        Row(f"{place}, last tenth", last, [median(first)] * tenth, [Target(0.9)]),
    ]


def memory(known: CutsOfSystem, recordings: Sequence[Recording], quick: bool) -> float:
    """Bytes that Python holds for each lease more, between two numbers of live leases."""
    counts = (10, 20) if quick else (100, 300)
    held = []
    for count in counts:
        following = Following(known, actors(count), "sqlite::memory:")
        gc.collect()
        tracemalloc.start()
        begun: set[str] = set()
        for batch in batches(history(recordings, count), 100):
            following.feed(batch)
            begun |= {event.step.lease for event in batch if hasattr(event, "step")}
            if len(begun) >= count:
                break
        gc.collect()
        held.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
        following.close()
    return (held[1] - held[0]) / (counts[1] - counts[0])


def kept(known: CutsOfSystem, long: Sequence[Recording], url: str) -> float:
    """Bytes of all tables of the verifier, for each event."""
    following = Following(known, actors(20), url)
    try:
        events = 0
        for batch in batches(history(long, 20), BATCH):
            following.feed(batch)
            events += len(batch)
        return stored(following) / events
    finally:
        following.close()


def stored(following: Following) -> int:
    """The bytes of a database."""
    database = following.verification.database
    question = {
        "sqlite": "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
        "postgresql": "SELECT SUM(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n"
        " ON n.oid = c.relnamespace WHERE c.relkind = 'r' AND n.nspname = current_schema()",
        "mariadb": "SELECT SUM(data_length + index_length) FROM information_schema.tables"
        " WHERE table_schema = DATABASE()",
    }[database.tables.dialect.name]
    if database.tables.dialect.name == "mariadb":
        for table in database.tables.tables():
            database.cursor.execute(f"ANALYZE TABLE {table.name}")
            database.cursor.fetchall()
    database.cursor.execute(question)
    ((size,),) = database.cursor.fetchall()
    return int(size)


def lines(long: Sequence[Recording]) -> list[Row]:
    """Bytes of events as they are written, and as a compressed file."""
    bodies = [body for recording in long for some in recording.bodies.values() for body in some]
    text = b"\n".join(bodies)
    return [
        Row("a line of JSON", [len(text) / len(bodies)]),
        Row("the same in a file, compressed (zlib)", [len(zlib.compress(text, 6)) / len(bodies)]),
    ]
