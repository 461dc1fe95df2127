"""A database by its URL, with the tables of a system in it."""

from __future__ import annotations

import sqlite3
from typing import Any
from urllib.parse import unquote, urlsplit

from leasehold.checker.verify.schema import Tables
from leasehold.spec.language.model import System
from leasehold.spec.language.sql_dialects import DIALECTS

IN_MEMORY = "sqlite::memory:"


class DatabaseError(Exception):
    """A database cannot be used; the message says which, and why."""


class VerifyDatabase:
    """A connection, and the tables of a system in it.

    Args:
        system: of which runs are kept.
        url: `sqlite:FILE`, `postgresql://...` or `mariadb://...`; the place has to be empty.

    Raises:
        DatabaseError: nobody answers there, or the tables cannot be made.
    """

    def __init__(self, system: System, url: str = IN_MEMORY) -> None:
        scheme, _, rest = url.partition(":")
        kind = {"postgres": "postgresql", "mysql": "mariadb"}.get(scheme, scheme)
        if kind not in DIALECTS:
            raise DatabaseError(f"{scheme[:60]!r} is no kind of database; known are {', '.join(DIALECTS)}")
        try:
            self.connection = _connect(kind, url, rest)
            self.cursor = self.connection.cursor()
            self.tables = Tables(system, DIALECTS[kind])
            for statement in (*self.tables.statements(), *self.tables.dialect.session):
                self.cursor.execute(statement)
            self.connection.commit()
        except ImportError as error:
            raise DatabaseError(f"{kind} needs a driver: {error}") from None
        except Exception as error:  # each driver has errors of its own, of no common class
            raise DatabaseError(f"{kind}: {error}") from error

    def close(self) -> None:
        self.connection.close()


def _connect(kind: str, url: str, rest: str) -> Any:
    if kind == "sqlite":
        return sqlite3.connect(rest.removeprefix("//"))
    if kind == "postgresql":
        import psycopg

        return psycopg.connect(url)
    import pymysql

    parts = urlsplit(url)
    return pymysql.connect(
        host=parts.hostname or "127.0.0.1", port=parts.port or 3306, user=unquote(parts.username or "root"),
        password=unquote(parts.password or ""), database=parts.path.strip("/"),
    )  # fmt: skip
