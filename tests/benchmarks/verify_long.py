"""Verifying for long: whether events per second fall with history, and how much an event takes."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from leasehold.checker.verify.cuts import CutsOfSystem
from tests.benchmarks.many_leases import UNITS, Recording, actors, history, recorded
from tests.benchmarks.measure import Missing, Row, Section, Table, Target, median, say
from tests.benchmarks.verify import BATCH, PLACES, Following, batches

GENERATIONS = 60  # of leases at each site
LIVE = 20
HOW = f"""
The leases and events are those of *Verifying while it happens*, {BATCH:,} at a time; {LIVE} leases live at a time, one
after the other. The first and the last tenth of the history are compared. It begins when the first leases are over:
until then there are not yet leases in all stages. Seconds are those of the processor, of the verifier and the database.
"""


def benchmark(quick: bool) -> Section:
    """Events per second in the first and in the last tenth of a long history, by database; bytes of an event."""
    size = 100 if quick else BATCH
    system, long = recorded(3 if quick else GENERATIONS, 1)
    known = CutsOfSystem(system)
    ages: list[Row] = []
    sizes = lines(long)
    skipped: list[str] = []
    for place, opened in PLACES.items():
        try:
            with opened() as url:
                rows, taken = grown(known, long, url, size, place)
        except Missing as missing:
            skipped.append(str(missing))
            continue
        ages += rows
        sizes.append(Row(f"{place}, all tables of the verifier", [taken]))
    tables = [
        Table(f"{LIVE} leases live, after a long history", "events/s", ages, "the first tenth"),
        Table("an event", "bytes", sizes),
    ]
    return Section("verify_long", "Verifying for long", HOW, tables, skipped)


def grown(known: CutsOfSystem, long: Sequence[Recording], url: str, size: int, place: str) -> tuple[list[Row], float]:
    """Events per second in the first and in the last tenth of a long history; bytes that an event takes in the end."""
    generations = long[0].leases // UNITS
    following = Following(known, actors(LIVE), url)
    try:
        some = list(batches(history(long, LIVE), size))
        rates = [len(batch) / following.feed(batch) for batch in some]
        taken = stored(following) / sum(map(len, some))
    finally:
        following.close()
    rates = rates[-(-len(rates) // generations) : -1]  # the last is not full
    tenth = max(1, len(rates) // 10)
    first, last = rates[:tenth], rates[-tenth:]
    say(f"{place}: {median(first):,.0f}, then {median(last):,.0f} events/s")
    rows = [
        Row(f"{place}, first tenth of {sum(map(len, some)):,} events", first),
        Row(f"{place}, last tenth", last, [median(first)] * tenth, [Target(0.9)]),
    ]
    return rows, taken


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
