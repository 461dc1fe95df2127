"""A database by its URL, with the tables of a system in it.

Theory of operation. `progress` says of which system the tables are, and which verification writes to them: whoever
opens the database is the writer from then on. Each transaction begins with a look at that row, which locks it, so a
verification that another one has taken over from writes nothing more.

SQLite and PostgreSQL make all tables in one transaction. In MariaDB each statement lasts by itself; `progress` comes
first there, and says that the others are being made, so that those that a killed process has left are removed.
"""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
import uuid
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from leasehold.checker.verify.queries import Queries
from leasehold.checker.verify.schema import KEPT, PROGRESS, Tables
from leasehold.checker.verify.sql.dialects import DIALECTS
from leasehold.spec.language.model import Property, System

LEAST_COUNTED = 200  # events after which tables are counted first
IN_MEMORY = "sqlite::memory:"
STATEMENTS = 1000  # that a connection keeps prepared: more than there are queries
SYSTEM, MAKING, WRITER = "system", "making", "writer"  # of `progress`: whose runs these are, or will be; who writes
OF_PLACE = (SYSTEM, MAKING, WRITER)  # the rows of `progress` that are there before a verification begins
LOCK_SECONDS = 30  # for which a lock that another session holds is waited for
CONNECT_SECONDS = 30  # for a connection to PostgreSQL, where its URL says nothing else
ANSWER_SECONDS = 600.0  # for which a server may not answer: a query over a long history takes its time


_CREATE = re.compile(r"CREATE (TABLE|VIEW) (\S+)")
_POSTGRESQL_KEY = "hashtext('leasehold'), hashtext(current_schema()::text)"  # of the lock of who opens a place
MARIADB_LOST = 2013  # the error of the driver, which says also that its time is over
_MARIADB_KEY = "CONCAT('leasehold ', SHA1(DATABASE()))"


class DatabaseError(Exception):
    """A database cannot be used; the message says which, and why."""


class VerifyDatabase:
    """A connection, and the tables of a system in it.

    Args:
        system: of which runs are kept.
        url: `sqlite:FILE`, `postgresql://...` or `mariadb://...`; the place is empty, or has the tables of this system.
        answer_seconds: a server that has not answered for so long is taken for one that hangs.

    Attributes:
        begun: the tables were there, with a verification that has begun.
        errors: the class of the driver's errors.

    Raises:
        DatabaseError: nobody answers there, the tables cannot be made, or those that are there are of another system.
    """

    def __init__(self, system: System, url: str = IN_MEMORY, answer_seconds: float = ANSWER_SECONDS) -> None:
        scheme, _, rest = url.partition(":")
        kind = {"postgres": "postgresql", "mysql": "mariadb"}.get(scheme, scheme)
        if kind not in DIALECTS:
            hint = "write sqlite:FILE, postgresql://... or mariadb://..."
            raise DatabaseError(f"{scheme[:60]!r} is no kind of database; {hint}")
        self._place = url if kind == "sqlite" else kind  # another URL may have a password
        self._writer = uuid.uuid4().hex
        self.answer_seconds = answer_seconds
        self.tables = Tables(system, DIALECTS[kind])
        self._name = self.tables.dialect.identifier("name")
        self.errors: type[Exception] = Exception  # each driver has errors of its own, of no common class
        with self.told():
            try:
                self.connection, errors = _connect(kind, url, rest, answer_seconds)
            except ImportError as error:
                raise DatabaseError(f"it needs a driver ({error}): pip install 'leasehold[{kind}]'") from None
            try:
                self.cursor = self.connection.cursor()
                self.begun = self._made_before()
            except BaseException:
                self.close()
                raise
        self.errors = errors
        self._queries: Queries | None = None
        self._counted = LEAST_COUNTED // 2

    @contextlib.contextmanager
    def told(self) -> Iterator[None]:
        """Errors of the driver are a `DatabaseError` that names the place."""
        try:
            yield
        except (DatabaseError, self.errors) as error:
            if self._is_unanswered(error):
                reason = f"it has not answered for {self.answer_seconds:g} s, and may hang"
                raise DatabaseError(f"{self._place}: {reason}; what was kept is there once it answers") from error
            raise DatabaseError(f"{self._place}: {error}") from error

    def _is_unanswered(self, error: Exception) -> bool:
        """Returns whether the driver has given up waiting for an answer."""
        if self.tables.dialect.name == "postgresql":
            from leasehold.impl.store.answered import Unanswered

            return isinstance(error, Unanswered)
        return error.args[:1] == (MARIADB_LOST,) and "timed out" in str(error)

    def count(self, events: int) -> None:
        """Has the database count what its tables have, each time that events have doubled.

        PostgreSQL would read a whole history for a third of the queries, as long as it takes the tables for empty.
        """
        if self.tables.dialect.statistics and events >= 2 * self._counted:
            self._counted = events
            names = ", ".join(table.name for table in self.tables.tables())  # those of others may be locked
            self.cursor.execute(f"{self.tables.dialect.statistics} {names}")
            self.connection.commit()

    def begin(self) -> None:
        """Begins a transaction that writes.

        Raises:
            DatabaseError: another verification has opened the database since.
        """
        lock = " FOR UPDATE"
        if self.tables.dialect.name == "sqlite":
            lock = ""
            if not self.connection.in_transaction:
                self.cursor.execute("BEGIN IMMEDIATE")
        writers = self._rows(f"SELECT value FROM progress WHERE {self._name} = '{WRITER}'{lock}")
        if [json.loads(value) for (value,) in writers] != [self._writer]:
            raise DatabaseError("another verification has gone on with it since; each needs a database of its own")

    def _made_before(self) -> bool:
        """Makes the tables; whether they were there, and something in them."""
        mine = self._description()
        with self._alone():
            stored = self._found()
            if SYSTEM not in stored:
                self._make(mine, stored)
            elif stored[SYSTEM] != mine:
                raise _of_another_system(stored[SYSTEM], mine)
            self.cursor.execute(f"DELETE FROM progress WHERE {self._name} = '{WRITER}'")
            self.cursor.execute(self.tables.inserts[PROGRESS.name], (WRITER, json.dumps(self._writer)))
            self.connection.commit()
        for statement in self.tables.dialect.session:
            self.cursor.execute(statement)
        self.connection.commit()
        return bool({*stored} - {*OF_PLACE})

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """No other verification opens the database meanwhile; whoever is killed leaves no lock."""
        key, wait = _POSTGRESQL_KEY, LOCK_SECONDS
        take, leave = {
            "sqlite": ("BEGIN IMMEDIATE", ""),
            "postgresql": (f"SELECT pg_advisory_lock({key})", f"SELECT pg_advisory_unlock({key})"),
            "mariadb": (f"SELECT GET_LOCK({_MARIADB_KEY}, {wait})", f"SELECT RELEASE_LOCK({_MARIADB_KEY})"),
        }[self.tables.dialect.name]
        if [*self._rows(take)] == [(0,)]:
            raise DatabaseError("another verification is opening it, and does not get ready")
        yield
        if leave:
            self._rows(leave)

    def _make(self, mine: dict[str, Any], stored: dict[str, Any]) -> None:
        """Makes the tables, in a place that has none of their names, or anew where somebody was killed amid it."""
        d, statements = self.tables.dialect, [*self.tables.statements()]
        begun, created = stored.get(MAKING), [match.groups() for one in statements if (match := _CREATE.match(one))]
        there = self._names()
        if begun is None and (taken := sorted(there & {name.strip(d.quote) for _, name in created})):
            reason = f"it has tables of other kinds under names of ours: {', '.join(taken)}"
            raise DatabaseError(f"{reason[:400]}; name an empty database")
        if begun not in (None, mine):
            raise _of_another_system(begun, mine)
        if begun is not None:  # views, which come last, go first
            for kind, name in (one for one in reversed(created) if one[1] != PROGRESS.name):
                self.cursor.execute(f"DROP {kind} IF EXISTS {name}")
        if d.name == "mariadb":
            create = next(one for one in statements if _CREATE.match(one) and one.split()[2] == PROGRESS.name)
            statements.remove(create)
            if begun is None:  # with its row, in one statement
                values = ", ".join(f"{d.mark} AS {d.identifier(column.name)}" for column in PROGRESS.columns)
                self.cursor.execute(f"{create} SELECT {values}", (MAKING, json.dumps(mine)))
        for statement in statements:
            self.cursor.execute(statement)
        self.cursor.execute(self.tables.inserts[PROGRESS.name], (SYSTEM, json.dumps(mine)))

    def _names(self) -> set[str]:
        """The names of all tables and views of the place."""
        return {
            name
            for (name,) in self._rows(
                {
                    "sqlite": "SELECT name FROM sqlite_master",
                    "postgresql": "SELECT relname FROM pg_class "
                    "WHERE relnamespace = to_regnamespace(current_schema()::text)",
                    "mariadb": "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()",
                }[self.tables.dialect.name]
            )
        }

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        self.cursor.execute(query)
        return [tuple(row) for row in self.cursor.fetchall()]

    def _description(self) -> dict[str, Any]:
        system = self.tables.system
        constants = {name: value for name, value in system.values().items() if isinstance(value, int | str | None)}
        own = {"system": system.name, "digest": system.digest}
        return {**own, **{f"constant {name}" if name in own else name: value for name, value in constants.items()}}

    def _found(self) -> dict[str, Any]:
        """Returns what `progress` has, by name; nothing where it is not there."""
        if PROGRESS.name not in self._names():
            return {}
        return {one: json.loads(value) for one, value in self._rows(f"SELECT {self._name}, value FROM progress")}

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
            names = ", ".join(f"'{name}'" for name in OF_PLACE)
            where = f" WHERE {self._name} NOT IN ({names})" if table is PROGRESS else ""
            self.cursor.execute(f"DELETE FROM {table.name}{where}")
        self.connection.commit()
        self.begun = False

    def close(self) -> None:
        """Closes the connection; what was not committed is gone."""
        with contextlib.suppress(self.errors):  # the connection may be lost
            self.connection.rollback()  # a statement that is not finished would keep SQLite's lock
        with contextlib.suppress(self.errors):
            self.connection.close()


def _of_another_system(stored: dict[str, Any], mine: dict[str, Any]) -> DatabaseError:
    names = [name for name in mine if stored.get(name) != mine[name]]
    differences = ", ".join(f"{name} {stored.get(name)!r} and not {mine[name]!r}" for name in names)
    return DatabaseError(f"it has runs of another system: {differences[:400]}; name an empty database")


def _connect(kind: str, url: str, rest: str, answer_seconds: float) -> tuple[Any, type[Exception]]:
    if kind == "sqlite":
        path = rest.removeprefix("//")
        return sqlite3.connect(path, timeout=LOCK_SECONDS, cached_statements=STATEMENTS), sqlite3.Error
    if kind == "postgresql":
        import psycopg

        from leasehold.impl.store.answered import AnsweredConnection

        connect = psycopg.conninfo.conninfo_to_dict(url).get("connect_timeout", CONNECT_SECONDS)
        answered = AnsweredConnection.connect(url, connect_timeout=connect)
        answered.answer_seconds = answer_seconds
        answered.prepared_max = STATEMENTS
        answered.execute(f"SET lock_timeout = '{LOCK_SECONDS}s'")
        answered.commit()
        return answered, psycopg.Error
    import pymysql

    parts = urlsplit(url)
    connection = pymysql.connect(
        host=parts.hostname or "127.0.0.1",
        port=parts.port or 3306,
        user=unquote(parts.username or "root"),
        password=unquote(parts.password or ""),
        database=parts.path.strip("/"),
        init_command=f"SET SESSION lock_wait_timeout = {LOCK_SECONDS}, innodb_lock_wait_timeout = {LOCK_SECONDS}",
        read_timeout=answer_seconds,
        write_timeout=answer_seconds,
    )
    return connection, pymysql.Error
