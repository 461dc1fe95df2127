"""A database by its URL, with the tables of a system in it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from leasehold.checker.verify.queries import Queries
from leasehold.checker.verify.schema import KEPT, PROGRESS, Tables
from leasehold.spec.language.model import Property, System
from leasehold.spec.language.sql_dialects import DIALECTS

LEAST_COUNTED = 200  # events after which tables are counted first
IN_MEMORY = "sqlite::memory:"
STATEMENTS = 1000  # that a connection keeps prepared: more than there are queries
SYSTEM = "system"  # of `progress`: whose runs these are


class DatabaseError(Exception):
    """A database cannot be used; the message says which, and why."""


class VerifyDatabase:
    """A connection, and the tables of a system in it.

    Args:
        system: of which runs are kept.
        url: `sqlite:FILE`, `postgresql://...` or `mariadb://...`; the place is empty, or has the tables of this system.

    Attributes:
        begun: the tables were there, with a verification that has begun.
        errors: the class of the driver's errors.

    Raises:
        DatabaseError: nobody answers there, the tables cannot be made, or those that are there are of another system.
    """

    def __init__(self, system: System, url: str = IN_MEMORY) -> None:
        scheme, _, rest = url.partition(":")
        kind = {"postgres": "postgresql", "mysql": "mariadb"}.get(scheme, scheme)
        if kind not in DIALECTS:
            words = "write sqlite:FILE, postgresql://... or mariadb://..."
            raise DatabaseError(f"{scheme[:60]!r} is no kind of database; {words}")
        try:
            self.connection, self.errors = _connect(kind, url, rest)
            self.cursor = self.connection.cursor()
            self.tables = Tables(system, DIALECTS[kind])
            self.begun = self._made_before()
        except ImportError as error:
            raise DatabaseError(f"{kind} needs a driver ({error}): pip install 'leasehold[{kind}]'") from None
        except DatabaseError:
            raise
        except Exception as error:  # each driver has errors of its own, of no common class
            place = url if kind == "sqlite" else kind  # another URL may have a password
            raise DatabaseError(f"{place}: {error}") from error
        self._queries: Queries | None = None
        self._counted = LEAST_COUNTED // 2

    def count(self, events: int) -> None:
        """Has the database count what its tables have, each time that events have doubled.

        PostgreSQL would read a whole history for a third of the queries, as long as it takes the tables for empty.
        """
        if self.tables.dialect.statistics and events >= 2 * self._counted:
            self._counted = events
            names = ", ".join(table.name for table in self.tables.tables())  # those of others may be locked
            self.cursor.execute(f"{self.tables.dialect.statistics} {names}")
            self.connection.commit()

    def _made_before(self) -> bool:
        """Makes the tables; whether they were there, and something in them."""
        mine = self._description()
        if (found := self._found()) is None:
            if self.tables.dialect.name == "sqlite":
                self.cursor.execute("BEGIN IMMEDIATE")  # whoever is killed amid it leaves no half of the tables
            for statement in self.tables.statements():
                self.cursor.execute(statement)
            self.cursor.execute(self.tables.insert(PROGRESS), (SYSTEM, json.dumps(mine)))
        elif found != mine:
            names = [name for name in mine if found.get(name) != mine[name]]
            words = ", ".join(f"{name} {found.get(name)!r} and not {mine[name]!r}" for name in names)
            raise DatabaseError(f"it has runs of another system: {words[:400]}; name an empty database")
        for statement in self.tables.dialect.session:
            self.cursor.execute(statement)
        self.cursor.execute("SELECT COUNT(*) FROM progress")
        ((rows,),) = self.cursor.fetchall()
        self.connection.commit()
        return bool(rows > 1)

    def _description(self) -> dict[str, Any]:
        system = self.tables.system
        constants = {name: value for name, value in system.values().items() if isinstance(value, int | str | None)}
        return {"system": system.name, "digest": system.digest, **constants}

    def _found(self) -> dict[str, Any] | None:
        """Of which system the tables are; None: there are none."""
        name = self.tables.dialect.identifier("name")
        try:
            self.cursor.execute(f"SELECT value FROM progress WHERE {name} = '{SYSTEM}'")
            ((value,),) = self.cursor.fetchall()
        except Exception:  # each driver has errors of its own, of no common class
            self.connection.rollback()
            return None
        return dict(json.loads(value))

    def queries(self, properties: Mapping[str, Property] | None = None) -> Queries:
        """The queries of all properties, or of these."""
        if properties is not None:
            return Queries(self.tables, properties)
        if self._queries is None:
            self._queries = Queries(self.tables)
        return self._queries

    def clear(self) -> None:
        """Removes all runs, so that the tables serve another history."""
        for table in (*self.tables.tables(), *KEPT):
            where = f" WHERE {self.tables.dialect.identifier('name')} <> '{SYSTEM}'" if table is PROGRESS else ""
            self.cursor.execute(f"DELETE FROM {table.name}{where}")
        self.connection.commit()
        self.begun = False

    def close(self) -> None:
        """Closes the connection; what was not committed is gone."""
        self.connection.rollback()  # a statement that is not finished would keep SQLite's lock
        self.connection.close()


def _connect(kind: str, url: str, rest: str) -> tuple[Any, type[Exception]]:
    if kind == "sqlite":
        return sqlite3.connect(rest.removeprefix("//"), cached_statements=STATEMENTS), sqlite3.Error
    if kind == "postgresql":
        import psycopg

        found = psycopg.connect(url)
        found.prepared_max = STATEMENTS
        return found, psycopg.Error
    import pymysql

    parts = urlsplit(url)
    connection = pymysql.connect(
        host=parts.hostname or "127.0.0.1", port=parts.port or 3306, user=unquote(parts.username or "root"),
        password=unquote(parts.password or ""), database=parts.path.strip("/"),
    )  # fmt: skip
    return connection, pymysql.Error
