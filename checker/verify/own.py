"""Properties of a user: files of SQL. Those in the language are loaded with the system: `spec.load(..., more=...)`.

A file has one query, which yields the cuts (`run`, `cut`) that violate the property. The property has the file's name,
and the comment that the file begins with is its doc. The query reads new cuts alone, by `cut.entry > :checked`. It is
written for one database; the tables and views are those of schema.py.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from pathlib import Path

from leasehold.checker.verify.database import VerifyDatabase
from leasehold.checker.verify.queries import CHECKED, PropertyQuery
from leasehold.checker.verify.schema import FOREVER, Cursor
from leasehold.impl.words import counted

_STRING_OR_COMMENT = re.compile(r"'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/", re.DOTALL)


class OwnQueryError(Exception):
    """A file is no property; the message names it and says why."""


def try_queries(queries: Iterable[PropertyQuery], database: VerifyDatabase, known: Container[str]) -> None:
    """Asks queries of no cut, so that one that the database does not take is found before there are events.

    Raises:
        OwnQueryError: one fails, yields other columns, or has the name of one of the `known` properties.
    """
    for query in queries:
        if query.of in known:
            raise OwnQueryError(f"{query.of}.sql: the system has a property of this name; rename the file")
        try:
            database.cursor.execute(query.since(FOREVER))
            columns = len(database.cursor.description or ())
        except database.errors as error:
            known_tables = ", ".join(table.name for table in database.tables.tables())
            reason = f"the database does not take it: {str(error).rstrip('.')} (tables: {known_tables})"
            raise OwnQueryError(f"{query.of}.sql: {reason}") from None
        if columns != 2:
            reason = f"it yields {counted(columns, 'column')}, and two are asked for: run and cut"
            raise OwnQueryError(f"{query.of}.sql: {reason}")
    database.connection.commit()


def check_found(cursor: Cursor, query: PropertyQuery, run: object, cut: object) -> None:
    """Checks whether what a query of a user yields is a cut.

    Raises:
        OwnQueryError: it is none.
    """
    if isinstance(run, int) and isinstance(cut, int):
        cursor.execute(f"SELECT 1 FROM cut WHERE run = {run:d} AND number = {cut:d}")
        if cursor.fetchall():
            return
    reason = f"it yields run {run!r} and cut {cut!r}, and there is no such cut; yield cut.run and cut.number"
    raise OwnQueryError(f"{query.of}.sql: {reason}")


def own_queries(paths: Iterable[Path]) -> list[PropertyQuery]:
    """The properties of files of SQL.

    Raises:
        OwnQueryError: one cannot be read, has no query or several, changes something, or reads all cuts each time.
    """
    return [_own_query(path) for path in paths]


def _own_query(path: Path) -> PropertyQuery:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise OwnQueryError(f"{path}: it cannot be read: {why}") from error
    doc = []
    for line in text.strip().splitlines():
        if not line.lstrip().startswith("--"):
            break
        doc.append(line.lstrip().removeprefix("--").strip())
    query = text.strip().rstrip(";").rstrip()
    bare = _STRING_OR_COMMENT.sub(" ", query).strip()
    if ";" in bare:
        raise OwnQueryError(f"{path}: it has several statements; a property is one query")
    if not re.match(r"(SELECT|WITH)\b", bare, re.IGNORECASE):
        begins = f"it begins with {bare[:20]!r}" if bare else "it is empty"
        raise OwnQueryError(f"{path}: {begins}; a property is a query, SELECT ... or WITH ...")
    if CHECKED not in bare:
        hint = f"write `cut.entry > {CHECKED}` in its WHERE, or it reads all of history each time"
        raise OwnQueryError(f"{path}: it does not read {CHECKED}; {hint}")
    return PropertyQuery(path.stem, "violations", query, path.stem, " ".join(doc))
