"""Asks all properties of what is new in the tables, again and again, and keeps what each run shows first."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

from leasehold.checker.verify.own import check_found
from leasehold.checker.verify.queries import CHECKED, PropertyQuery
from leasehold.checker.verify.schema import VIOLATION, WITNESS, Cursor, Table, Tables
from leasehold.checker.verify.sql.dialects import Dialect

PARAMETER = CHECKED.removeprefix(":")
CHUNK = 400  # values of one IN (...)


@dataclass(frozen=True, slots=True)
class DecidedCut:
    """A cut that violates a property, or is a witness of it."""

    query: PropertyQuery
    run: int
    cut: int


class IncrementalCheck:
    """The properties of a system, asked of each cut once.

    Args:
        dialect: of the database; given, the database prepares each query once.

    Attributes:
        checked: the entry up to which they were asked; to be kept by whoever goes on later.
    """

    def __init__(self, queries: Iterable[PropertyQuery], checked: int = -1, dialect: Dialect | None = None) -> None:
        self.queries, self.checked, self.dialect = list(queries), checked, dialect
        self._texts = [q.text if dialect is None else prepared(q.text, dialect) for q in self.queries]

    def ask(self, cursor: Cursor) -> list[DecidedCut]:
        """The cuts that decide a property, of those that were entered since it was asked last.

        The connection has executed what `Dialect.session` says.
        What is entered meanwhile must not be seen by some of the queries alone: a transaction of its own (REPEATABLE
        READ), or the connection that writes.
        """
        cursor.execute("SELECT COALESCE(MAX(entry), -1) FROM cut")
        ((last,),) = cursor.fetchall()
        cursor.execute("SELECT COALESCE(MAX(ended), -1) FROM run")
        ((ended,),) = cursor.fetchall()
        newest = max(last, ended)
        if newest <= self.checked:
            return []
        decided = []
        for query, text in zip(self.queries, self._texts, strict=True):
            if self.dialect is None:
                cursor.execute(query.since(self.checked))
            else:
                cursor.execute(text, {PARAMETER: self.checked})
            decided += [DecidedCut(query, run, cut) for run, cut in cursor.fetchall()]
        self.checked = newest
        return decided


class KeptFindings:
    """The violations and witnesses of a history, in their tables: at most one of each property and run.

    Args:
        check: asks for them.
        tables: of the database.
        own: the names of the queries of a user's own, which may yield what is no cut (own.py).

    Attributes:
        covered: by `sometimes` property, how many runs show it.
    """

    def __init__(self, check: IncrementalCheck, tables: Tables, own: Container[str] = ()) -> None:
        self.check, self.tables, self._own = check, tables, own
        self.covered = {query.of: 0 for query in check.queries if query.yields == "witnesses"}
        self._violations = 0

    def ask(self, cursor: Cursor) -> list[DecidedCut]:
        """Asks all properties of what is new; returns the violations of which a run has had none before.

        Raises:
            OwnQueryError: a query of a user's own yields what is no cut.
        """
        decided = self.check.ask(cursor)
        for one in decided:
            if one.query.name in self._own:
                check_found(cursor, one.query, one.run, one.cut)
        decided.sort(key=lambda one: (one.run, one.cut, one.query.name))
        violations = self._new(cursor, VIOLATION, [one for one in decided if one.query.yields == "violations"])
        witnesses = self._new(cursor, WITNESS, [one for one in decided if one.query.yields == "witnesses"])
        for one in witnesses:
            self.covered[one.query.of] += 1
        self._write(cursor, VIOLATION, violations, self._violations)
        self._write(cursor, WITNESS, witnesses, sum(self.covered.values()))
        self._violations += len(violations)
        return violations

    def load(self, cursor: Cursor, checked: int, covered: Mapping[str, int]) -> list[DecidedCut]:
        """Goes on where another was, which has asked up to the entry `checked`; returns the violations of before."""
        self.check.checked = checked
        self.covered |= covered
        queries, name = {query.name: query for query in self.check.queries}, self.tables.dialect.identifier("name")
        cursor.execute(f"SELECT {name}, run, cut FROM violation ORDER BY number")
        violations = [
            DecidedCut(queries.get(query) or PropertyQuery(query, "violations", "", query), run, cut)
            for query, run, cut in cursor.fetchall()
        ]
        self._violations = len(violations)
        return violations

    def _new(self, cursor: Cursor, table: Table, decided: list[DecidedCut]) -> list[DecidedCut]:
        """The first cut of each property and run of which the table has none."""
        first: dict[tuple[int, str], DecidedCut] = {}
        for one in decided:
            first.setdefault((one.run, one.query.of), one)
        known = known_of(cursor, table.name, (one.run for one in decided))
        return [one for key, one in first.items() if key not in known]

    def _write(self, cursor: Cursor, table: Table, decided: list[DecidedCut], before: int) -> None:
        if decided:
            rows = [(at, one.run, one.query.of, one.query.name, one.cut) for at, one in enumerate(decided, before + 1)]
            cursor.executemany(self.tables.inserts[table.name], rows)


def known_of(cursor: Cursor, table: str, runs: Iterable[int]) -> set[tuple[int, str]]:
    """The run and property of what `violation` or `witness` has of some runs."""
    numbers, pairs = sorted(set(runs)), set[tuple[int, str]]()
    for at in range(0, len(numbers), CHUNK):
        among = ", ".join(map(str, numbers[at : at + CHUNK]))
        cursor.execute(f"SELECT run, property FROM {table} WHERE run IN ({among})")
        pairs |= {tuple(row) for row in cursor.fetchall()}
    return pairs


def prepared(text: str, dialect: Dialect) -> str:
    """A query with its parameter as the database's driver takes it."""
    named = dialect.named.format(PARAMETER)
    return text if named == CHECKED else text.replace("%", "%%").replace(CHECKED, named)
