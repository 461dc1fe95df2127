"""A verification that crashes goes on as if it had not: the same cuts, in the same order, and the same violations."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import psycopg
import pymysql
import pytest

from leasehold.checker.verify.database import DatabaseError, VerifyDatabase
from leasehold.checker.verify.history import HistoryVerification
from leasehold.checker.verify.schema import KEPT, PROGRESS
from leasehold.checker.verify.system import CutsOfSystem
from leasehold.spec import load
from tests.checker.verify.databases import answers
from tests.checker.verify.histories import History, history_of, known
from tests.checker.verify.test_histories import plan_in_two_settings
from tests.planted.table import named

ORDERS = {("violation", "number"), ("witness", "number")}  # in which order they were found depends on when it is asked


@contextlib.contextmanager
def url_of(kind: str, folder: Path) -> Iterator[str]:
    """The URL of an empty place."""
    answers(kind)
    name = f"leasehold_verify_{uuid.uuid4().hex}"
    if kind == "sqlite":
        yield f"sqlite:{folder / name}.db"
    elif kind == "postgresql":
        with psycopg.connect("postgresql://postgres@127.0.0.1:5432/test", autocommit=True) as pg:
            pg.execute(f"CREATE SCHEMA {name}")
            try:
                yield f"postgresql://postgres@127.0.0.1:5432/test?options=-csearch_path%3D{name}"
            finally:
                pg.execute(f"DROP SCHEMA {name} CASCADE")
    else:
        with contextlib.closing(pymysql.connect(host="127.0.0.1", user="root", database="test")) as maria:
            cursor = maria.cursor()
            cursor.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
            try:
                yield f"mariadb://root@127.0.0.1:3306/{name}"
            finally:
                cursor.execute(f"DROP DATABASE {name}")


def tables_of(database: VerifyDatabase) -> dict[str, list[tuple[Any, ...]]]:
    """All that the tables have, in an order of its own."""
    found = {}
    for table in (*database.tables.tables(), *KEPT):
        if table is PROGRESS:
            continue
        names = [column.name for column in table.columns if (table.name, column.name) not in ORDERS]
        columns = ", ".join(map(database.tables.dialect.identifier, names))
        database.cursor.execute(f"SELECT {columns} FROM {table.name}")
        found[table.name] = sorted((tuple(map(str, row)) for row in database.cursor.fetchall()), key=repr)
    return found


@cache
def a_history(seed: int, bug: str = "") -> History:
    plan = plan_in_two_settings(seed)
    if not bug:
        return history_of(plan)
    with named(bug).planted():
        return history_of(plan)


def undisturbed(of: CutsOfSystem, history: History, url: str) -> tuple[dict[str, Any], dict[str, Any]]:
    whole = HistoryVerification(of, history, url=url)
    for actor, events in history.items():
        whole.add(actor, events)
    result = whole.end().as_json()
    try:
        return result, tables_of(whole.database)
    finally:
        whole.close()


def with_crashes(
    of: CutsOfSystem, history: History, url: str, rng: Random
) -> tuple[dict[str, Any], dict[str, Any], int]:
    """Likewise, of events that come by and by, with crashes before, amid and after transactions."""
    crashes = 0
    verification = HistoryVerification(of, history, url=url)
    while True:
        at = {actor: verification.kept.follower(actor).position for actor in history}
        left = {actor: [e for e in events if e.position > at[actor]] for actor, events in history.items()}
        left = {actor: events for actor, events in left.items() if events}
        if not left:
            break
        actor = rng.choice(sorted(left))
        verification.add(actor, left[actor][: rng.choice((1, 2, 5, 20))])
        if rng.random() < 0.6:
            verification.judge()
        if rng.random() < 0.3:
            crashes += 1
            if rng.random() < 0.5:  # amid a transaction
                verification._record(verification.cuts.ready())
                verification.checkpoint.write(verification.cuts)
            verification.close()
            verification = HistoryVerification(of, history, url=url)
    result = verification.end().as_json()
    try:
        return result, tables_of(verification.database), crashes
    finally:
        verification.close()


LATE = 30  # a message is taken of which its sender has moved on
CASES = [("sqlite", 8, "unit_not_saved"), ("postgresql", 8, "unit_not_saved"), ("sqlite", LATE, "")]
MORE = [("sqlite", 13, "unit_not_saved"), ("mariadb", 8, "unit_not_saved")]


@pytest.mark.parametrize(("kind", "seed", "bug"), [*CASES, *(pytest.param(*m, marks=pytest.mark.long) for m in MORE)])
def test_a_crash_changes_nothing(kind: str, seed: int, bug: str, tmp_path: Path) -> None:
    plan = plan_in_two_settings(seed)
    of, history = known(plan.units, plan.lazy), a_history(seed, bug)
    with url_of(kind, tmp_path) as url:
        result, tables = undisturbed(of, history, url)
    rng = Random(seed)
    for _ in range(2 if kind == "sqlite" else 1):
        with url_of(kind, tmp_path) as url:
            other, others, crashes = with_crashes(of, history, url, rng)
        assert crashes > 0
        for name, rows in tables.items():
            assert others[name] == rows, name
        late = {(int(run), int(number)) for _, run, number, *more in others["cut"] if "late" in more}
        assert bool(late) == (seed == LATE)
        cuts = {(int(run), int(number)) for _, run, number, *_ in others["cut"]}
        assert cuts.isdisjoint((run, number - 1) for run, number in late), "no step has led to what it begins with"
        assert without_order(other) == without_order(result)


def without_order(result: dict[str, Any]) -> dict[str, Any]:
    return {**result, "violations": sorted(result["violations"], key=repr)}


def test_a_database_of_another_system_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'kept.db'}"
    VerifyDatabase(load("lease"), url).close()
    with pytest.raises(DatabaseError, match="it has runs of another system: system 'lease' and not 'contention'"):
        VerifyDatabase(load("contention"), url)
    VerifyDatabase(load("lease"), url).close()
    with pytest.raises(DatabaseError, match="max_units"):
        VerifyDatabase(load("lease", {"max_units": "4"}), url)


def test_a_database_serves_one_history_after_another() -> None:
    plan = plan_in_two_settings(8)
    of, history = known(plan.units, plan.lazy), a_history(8)
    database = VerifyDatabase(of.system)
    results = []
    for _ in range(2):
        verification = HistoryVerification(of, history, database=database)
        for actor, events in history.items():
            verification.add(actor, events)
        results.append(verification.end().as_json())
        database.clear()
    database.close()
    assert results[0] == results[1]
    assert results[0]["events"] == sum(map(len, history.values()))


def test_postgresql_counts_its_tables_as_they_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it takes them for empty, and reads all of history for many of the queries."""
    monkeypatch.setattr("leasehold.checker.verify.database.LEAST_COUNTED", 20)
    history = a_history(8)
    with url_of("postgresql", tmp_path) as url:
        with contextlib.closing(HistoryVerification(known(2, True), history, url=url)) as verification:
            for actor, events in history.items():
                verification.add(actor, events)
            verification.end()
            verification.cursor.execute("SELECT reltuples FROM pg_class WHERE oid = 'cut'::regclass")
            ((rows,),) = verification.cursor.fetchall()
        assert rows == verification.result.cuts


def test_tables_are_counted_when_events_have_doubled_and_not_each_time(tmp_path: Path) -> None:
    """Counting reads a part of each table, so it is no matter of each batch."""
    with (
        url_of("postgresql", tmp_path) as url,
        contextlib.closing(VerifyDatabase(known(2, True).system, url)) as database,
    ):
        cursor, asked = database.cursor, list[str]()
        database.cursor = SimpleNamespace(execute=lambda words: (asked.append(words), cursor.execute(words)))
        for events in range(0, 1000, 50):
            database.count(events)
        assert [words.split()[0] for words in asked] == ["ANALYZE"] * 3  # at 200, 400 and 800
