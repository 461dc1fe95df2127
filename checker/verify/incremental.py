"""Asks all properties of what is new in the tables, again and again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from leasehold.checker.verify.queries import CHECKED, PropertyQuery
from leasehold.checker.verify.sql.dialects import Dialect

PARAMETER = CHECKED.removeprefix(":")


class QueryCursor(Protocol):
    """A cursor as Python's database API has it (PEP 249)."""

    def execute(self, query: str, parameters: Any = ...) -> Any: ...
    def fetchall(self) -> Any: ...


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

    def ask(self, cursor: QueryCursor) -> list[DecidedCut]:
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


def prepared(text: str, dialect: Dialect) -> str:
    """A query with its parameter as the database's driver takes it."""
    named = dialect.named.format(PARAMETER)
    return text if named == CHECKED else text.replace("%", "%%").replace(CHECKED, named)
