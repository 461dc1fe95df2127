"""Asks all properties of what is new in the tables, again and again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from leasehold.checker.verify.queries import PropertyQuery


class QueryCursor(Protocol):
    """As Python's interface of databases has it."""

    def execute(self, query: str) -> Any: ...
    def fetchall(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class DecidedCut:
    """A cut that violates a property, or is a witness of it."""

    query: PropertyQuery
    run: int
    cut: int


class IncrementalCheck:
    """The properties of a system, asked of each cut once.

    Attributes:
        checked: the entry up to which they were asked; to be kept by whoever goes on later.
    """

    def __init__(self, queries: Iterable[PropertyQuery], checked: int = -1) -> None:
        self.queries, self.checked = list(queries), checked

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
        found = []
        for query in self.queries:
            cursor.execute(query.since(self.checked))
            found += [DecidedCut(query, run, cut) for run, cut in cursor.fetchall()]
        self.checked = newest
        return found
