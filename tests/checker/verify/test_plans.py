"""How databases mean to answer the queries: none reads a table that grows with history from its beginning."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.verify.cuts import ConsistentCuts
from leasehold.checker.verify.queries import PropertyQuery, Queries
from leasehold.checker.verify.system import CutsOfSystem
from leasehold.faults.model import Budget
from leasehold.spec import SHIPPED
from tests.benchmarks.many_leases import actors, history, recorded
from tests.checker.verify.databases import KINDS, Database, database
from tests.systems import load

LIVE = 60  # leases: MariaDB reads a table of a few rows through, whatever indexes it has


def read_through(db: Database, query: PropertyQuery) -> Iterator[str]:
    """The tables that a query reads from the beginning to the end, by the names that it gives them."""
    text = query.since(db.recorder.entry - 5)
    match db.tables.dialect.name:
        case "sqlite":
            for *_, detail in db.ask(f"EXPLAIN QUERY PLAN {text}"):
                yield from re.findall(r"^SCAN (?!json_each)(?!CONSTANT)(\S+)", detail)
        case "postgresql":
            for (line,) in db.ask(f"EXPLAIN {text}"):
                yield from re.findall(r"Seq Scan on (\S+)", line)
        case "mariadb":
            for _, _, table, kind, *_ in db.ask(f"EXPLAIN {text}"):
                if kind in ("ALL", "index") and not table.startswith("<"):  # what a part of the query has yielded
                    yield table


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@pytest.mark.parametrize("system", SHIPPED)
def test_no_query_reads_all_of_history(system: str, kind: str) -> None:
    world = reference_of(load(system), Budget.parse("crash=1"))
    with database(kind, world.system, world.layout) as db:
        queries = Queries(db.tables).queries
        found = {q.name: tables for q in queries.values() if (tables := list(read_through(db, q)))}
        assert found == {}
        assert queries


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_nor_does_it_where_there_is_much(kind: str) -> None:
    system, recordings = recorded(1, phases=1)
    known = CutsOfSystem(system)
    cuts = ConsistentCuts(known, actors(LIVE))
    for event in history(recordings, LIVE):
        cuts.add(event.actor, [event])
    cuts.close()
    with database(kind, system, known.layout) as db:
        numbers: dict[str, int] = {}
        for cut in cuts.ready():
            if cut.action is None:
                numbers[cut.run] = db.recorder.begin(cut.run, cut.state)
            else:
                db.recorder.step(numbers[cut.run], cut.state, cut.action)
        db.write()
        queries = Queries(db.tables).queries.values()
        assert {q.name: tables for q in queries if (tables := list(read_through(db, q)))} == {}
        assert len(numbers) == LIVE


def test_a_query_that_does_is_seen() -> None:
    """As the queries of SQLite were once: it took a history first, and the cuts of each of its rows then."""
    world = reference_of(load("two_phase_commit"), Budget.parse("crash=1"))
    with database("sqlite", world.system, world.layout) as db:
        queries = Queries(db.tables).queries.values()
        freely = [PropertyQuery(q.name, q.yields, q.text.replace("CROSS JOIN", "JOIN"), q.of) for q in queries]
        assert [q.name for q in freely if list(read_through(db, q))] != []
