"""Verifying for long: whether events per second fall with history, and how much an event takes."""

from __future__ import annotations

import gc
import zlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from leasehold.checker.verify.database import IN_MEMORY
from leasehold.checker.verify.system import CutsOfSystem
from leasehold.impl.events.event import AnyEvent
from tests.benchmarks.many_leases import UNITS, Recording, actors, history, recorded
from tests.benchmarks.measure import Missing, Row, Section, Table, Target, say
from tests.benchmarks.verify import BATCH, PLACES, Following, batches

GENERATIONS = 60  # of leases at each site
LIVE = 20
ROUNDS = 3
EACH = 100  # instructions of SQLite at a time
HOW = f"""
The leases and events are those of *Verifying while it happens*, {BATCH:,} at a time; {LIVE} leases live at a time, one
after the other. The first and the last tenth of the history are compared, each as a whole, {ROUNDS} times over from an
empty database. It begins when the first leases are over: until then there are not yet leases in all stages. Seconds are
those of the processor, of the verifier and the database. SQLite also counts the instructions of its virtual machine,
which depend on no other work of the computer; once.
"""


def benchmark(quick: bool) -> Section:
    """Events per second in the first and in the last tenth of a long history, by database; bytes of an event."""
    size = 100 if quick else BATCH
    system, long = recorded(3 if quick else GENERATIONS, 1)
    known = CutsOfSystem(system)
    gc.collect()
    gc.freeze()  # what was recorded: the verifier does not hold it
    by_place: dict[str, list[Grown]] = defaultdict(list)
    skipped: dict[str, str] = {}
    try:
        for _ in range(1 if quick else ROUNDS):
            for place in [p for p in PLACES if p not in skipped]:
                try:
                    with PLACES[place]() as url:
                        by_place[place].append(grown(known, long, url, size, place))
                except Missing as missing:
                    skipped[place] = str(missing)
    finally:
        gc.unfreeze()
    events = sum(1 for _ in history(long, LIVE))
    counted = instructions(known, long, size)
    ages: list[Row] = []
    sizes = lines(long)
    for place, some in by_place.items():
        first, last = [one.first for one in some], [one.last for one in some]
        ages.append(Row(f"{place}, first tenth of {events:,} events", first))
        ages.append(Row(f"{place}, last tenth", last, first, [Target(0.9)]))
        sizes.append(Row(f"{place}, all tables of the verifier", [one.stored / events for one in some]))
    tables = [
        Table(f"{LIVE} leases live, after a long history", "events/s", ages, "the first tenth"),
        Table(
            "the same in SQLite, counted",
            "instructions/event",
            [
                Row("first tenth", [counted[0]]),
                Row("last tenth", [counted[1]], [counted[0]], [Target(1.05, least=False)]),
            ],
            "the first tenth",
        ),
        Table("an event", "bytes", sizes),
    ]
    return Section("verify_long", "Verifying for long", HOW, tables, [*skipped.values()])


@dataclass(frozen=True)
class Grown:
    """A long history was verified.

    Attributes:
        first: events per second of its first tenth.
        last: of its last.
        stored: bytes in the database in the end.
    """

    first: float
    last: float
    stored: int


def grown(known: CutsOfSystem, long: Sequence[Recording], url: str, size: int, place: str) -> Grown:
    """Verifies a long history in an empty database."""
    following = Following(known, actors(LIVE), url)
    try:
        first, last = (1 / seconds for seconds in tenths(long, size, following.feed))
        taken = stored(following)
    finally:
        following.close()
    say(f"{place}: {first:,.0f}, then {last:,.0f} events/s: {last / first:.2f}")
    return Grown(first, last, taken)


def instructions(known: CutsOfSystem, long: Sequence[Recording], size: int) -> tuple[float, float]:
    """Instructions of SQLite's virtual machine for an event, in the first and in the last tenth of a long history."""
    count = 0

    def some_more() -> None:
        nonlocal count
        count += EACH

    def feed(batch: Sequence[AnyEvent]) -> float:
        before = count
        following.feed(batch)
        return count - before

    following = Following(known, actors(LIVE), IN_MEMORY)
    try:
        following.verification.database.connection.set_progress_handler(some_more, EACH)
        return tenths(long, size, feed)
    finally:
        following.close()


def tenths(long: Sequence[Recording], size: int, feed: Callable[[Sequence[AnyEvent]], float]) -> tuple[float, float]:
    """What an event costs in the first and in the last tenth, behind the first lives; `feed` tells what a batch did."""
    fed = [(len(batch), feed(batch)) for batch in batches(history(long, LIVE), size)]
    fed = fed[-(-len(fed) * UNITS // long[0].leases) : -1]  # the last one is not full: each batch has costs of its own
    tenth = max(1, len(fed) // 10)
    first, last = (sum(cost for _, cost in some) / sum(n for n, _ in some) for some in (fed[:tenth], fed[-tenth:]))
    return first, last


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
