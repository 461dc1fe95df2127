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
from leasehold.checker.verify.schema import FOREVER

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
            raise OwnQueryError(f"{query.of}.sql: the database does not take it: {error}") from None
        if columns != 2:
            raise OwnQueryError(f"{query.of}.sql: it yields {columns} columns, and two are asked for: run and cut")
    database.connection.commit()


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
        raise OwnQueryError(f"{path}: it cannot be read ({error})") from error
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
        raise OwnQueryError(f"{path}: it begins with {bare[:20]!r}; a property is a query, SELECT ... or WITH ...")
    if CHECKED not in bare:
        words = f"write `cut.entry > {CHECKED}` in its WHERE, or it reads all of history each time"
        raise OwnQueryError(f"{path}: it does not read {CHECKED}; {words}")
    return PropertyQuery(path.stem, "violations", query, path.stem, " ".join(doc))
