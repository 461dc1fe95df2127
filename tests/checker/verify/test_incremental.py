"""Properties asked again and again: each cut is judged once, and what is new costs the same however much was before."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest

from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.reference import Reference
from leasehold.checker.verify.incremental import IncrementalCheck
from leasehold.checker.verify.own import own_queries
from leasehold.checker.verify.queries import Queries
from leasehold.checker.verify.system import CutsOfSystem
from leasehold.faults.model import Budget
from leasehold.spec import load
from tests.benchmarks.many_leases import recorded
from tests.benchmarks.verify_long import instructions
from tests.checker.verify.databases import KINDS, Database, database
from tests.checker.verify.twin import Run, disturbed, walks

OFTEN = 12


def contention() -> Reference:
    return reference_of(load("contention"), Budget.parse("crash=1"))


def some_runs(world: Reference) -> list[Run]:
    rng = Random(3)
    right = walks(world, rng, 60)
    return [*right, *(disturbed(world, rng, run, 0.1) for run in right)]


def decided(found: list, since: IncrementalCheck | None = None) -> list[tuple[str, int, int]]:  # type: ignore[type-arg]
    return [(one.query.name, one.run, one.cut) for one in found]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_asked_in_parts_is_what_is_asked_at_once(kind: str) -> None:
    world = contention()
    runs = some_runs(world)
    with database(kind, world.system, world.layout) as db:
        queries = list(Queries(db.tables).queries.values())
        check, found, steps = IncrementalCheck(queries), [], 0
        left = {db.recorder.begin(f"run {n}", run[0][0]): run[1:] for n, run in enumerate(runs)}
        while left:  # the runs go on side by side
            for number, run in [*left.items()]:
                if run:
                    (state, action), *left[number] = run
                    db.recorder.step(number, state, action)
                else:
                    db.recorder.end(number)
                    del left[number]
                steps += 1
                if steps % OFTEN == 0:
                    db.write()
                    found += decided(check.ask(db.cursor))
        db.write()
        found += decided(check.ask(db.cursor))
        assert decided(check.ask(db.cursor)) == []
        whole = decided(IncrementalCheck(queries).ask(db.cursor))
        assert len(set(found)) == len(found)
        assert sorted(found) == sorted(whole)
        assert {name for name, _, _ in found} > {"a_guest_is_gone_before_the_end", "quarantine"}


@pytest.mark.parametrize("kind", KINDS)
def test_the_end_of_a_run_is_asked_about_where_nothing_else_comes(kind: str) -> None:
    """The verdicts that it decides come then, and not when another run has its next cut."""
    world = reference_of(load("two_phase_commit"), Budget.parse("crash=1"))
    with database(kind, world.system, world.layout) as db:
        queries = list(Queries(db.tables).queries.values())
        check, before_ends, at_ends = IncrementalCheck(queries), [], []
        for n, run in enumerate(walks(world, Random(3), 8)):
            number = db.recorder.begin(f"run {n}", run[0][0])
            for state, action in run[1:]:
                db.recorder.step(number, state, action)
            db.write()
            before_ends += decided(check.ask(db.cursor))
            db.recorder.end(number)
            db.write()
            at_ends += (ended := decided(check.ask(db.cursor)))
            assert {of for _, of, _ in ended} <= {number}
        assert at_ends
        assert sorted(before_ends + at_ends) == sorted(decided(IncrementalCheck(queries).ask(db.cursor)))


def effort(db: Database, check: IncrementalCheck) -> int:
    """Returns how many steps of its machine SQLite takes to ask all properties, in hundreds."""
    count = 0

    def one_more() -> None:
        nonlocal count
        count += 1

    db.connection.set_progress_handler(one_more, 100)
    check.ask(db.cursor)
    db.connection.set_progress_handler(None, 0)
    return count


@pytest.mark.parametrize("many", ["runs", "cuts"])
def test_effort_does_not_grow_with_history(many: str) -> None:
    world = contention()
    run = max(walks(world, Random(5), 60), key=len)
    with database("sqlite", world.system, world.layout) as db:
        check = IncrementalCheck(Queries(db.tables).queries.values())
        runs = [db.recorder.begin("the first", run[0][0])]
        efforts = []
        for batch in range(40):
            if many == "runs":
                runs.append(db.recorder.begin(f"another {batch}", run[0][0]))
            for state, action in run[1:]:
                db.recorder.step(runs[-1], state, action)
            if many == "runs":
                db.recorder.end(runs[-1])
            db.write()
            efforts.append(effort(db, check))
        early, late = sum(efforts[2:6]), sum(efforts[-4:])
        assert late <= 1.3 * early, efforts


@pytest.mark.long
def test_effort_does_not_grow_with_the_leases_that_are_over() -> None:
    system, recordings = recorded(20, 1)
    first, last = instructions(CutsOfSystem(system), recordings, 220)
    assert last <= 1.1 * first


def test_effort_does_not_grow_with_a_long_run_in_postgresql() -> None:
    world = contention()
    run = max(walks(world, Random(5), 60), key=len)
    with database("postgresql", world.system, world.layout) as db:
        number = db.recorder.begin("the only one", run[0][0])
        pages = []
        for times in (10, 70):
            for _ in range(times):
                for state, action in run[1:]:
                    db.recorder.step(number, state, action)
            db.write()
            db.cursor.execute("ANALYZE")
            new = db.recorder.entry - len(run)
            plans = [db.ask(f"EXPLAIN (ANALYZE, BUFFERS) {q.since(new)}") for q in Queries(db.tables).queries.values()]
            pages.append(sum(_pages(plan) for plan in plans))
        assert pages[1] <= 2 * pages[0], pages


def _pages(plan: list[tuple[str]]) -> int:  # type: ignore[type-arg]
    """The pages that a query has read: those of the whole stand first."""
    found = re.search(r"shared hit=(\d+)(?: read=(\d+))?", " ".join(line for (line,) in plan))
    return sum(int(n or 0) for n in found.groups()) if found else 0


def test_a_property_in_the_language_of_a_users_own(tmp_path: Path) -> None:
    own = tmp_path / "mine.yaml"
    own.write_text("properties: {nobody_waits: {doc: Mine., always: all(a.state != priming for a in authority)}}")
    system = load("contention", more=[own])
    plain = load("contention")
    assert [*system.properties] == [*plain.properties, "nobody_waits"]
    assert system.digest == plain.digest
    world = reference_of(system, Budget.parse("crash=1"))
    with database("sqlite", system, world.layout) as db:
        queries = Queries(db.tables).queries
        assert "authority" in queries["nobody_waits"].text


GOOD = """-- No lease has a unit
-- that it was not given.
SELECT cut.run, cut.number AS cut
FROM cut JOIN authority ON authority.run = cut.run AND cut.number BETWEEN authority.since AND authority.until
WHERE cut.entry > :checked AND authority.state = 'priming; -- :checked'
"""


def test_a_property_in_sql_of_a_users_own(tmp_path: Path) -> None:
    file = tmp_path / "no_stray_unit.sql"
    file.write_text(GOOD.replace("priming; -- :checked", "priming"))
    (query,) = own_queries([file])
    assert (query.name, query.doc) == ("no_stray_unit", "No lease has a unit that it was not given.")
    world = contention()
    with database("sqlite", world.system, world.layout) as db:
        for n, run in enumerate(some_runs(world)):
            number = db.recorder.begin(str(n), run[0][0])
            for state, action in run[1:]:
                db.recorder.step(number, state, action)
        db.write()
        assert IncrementalCheck([query]).ask(db.cursor) != []
