"""Places where the stores under test keep what they keep: a disk in memory, a file, a schema, a database.

A place is fresh for each test, outlives the stores that are made on it, and is removed after the test. Each knows how
its owner's lock gets lost, how a commit fails, and how its tables are made to look newer: things that happen, but not
on request. `renew` makes room for another actor.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sqlite3
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiomysql
import psycopg
import pytest

from leasehold.impl.store.mariadb import MariadbStore
from leasehold.impl.store.memory import Disk, MemoryStore
from leasehold.impl.store.postgresql import PostgresqlStore
from leasehold.impl.store.sqlite import SqliteStore

POSTGRESQL = "postgresql://postgres@127.0.0.1:5432/test"
MARIADB = "mariadb://root@127.0.0.1:3306/"


class MemoryPlace:
    kind = "memory"
    shared = durable = False

    def __init__(self) -> None:
        self.disk = Disk()

    def renew(self) -> None:
        self.disk = Disk()

    def store(self, patience: float = 2.0) -> MemoryStore:
        return MemoryStore(self.disk)

    async def lose_lock(self, store: MemoryStore) -> None:
        self.disk.crash()

    async def fail(self, store: MemoryStore) -> contextlib.AbstractContextManager[Any]:
        @contextlib.contextmanager
        def full() -> Iterator[None]:
            self.disk.capacity = 0
            yield
            self.disk.capacity = None

        return full()

    def remove(self) -> None:
        pass


class SqlitePlace:
    kind = "sqlite"
    shared, durable = False, True

    def __init__(self, folder: Path) -> None:
        self.path = folder / "a store?#%.db"  # characters that mean something in SQLite's own URLs
        self.url = f"sqlite:{self.path}"

    def renew(self) -> None:
        self.path = self.path.with_name(f"{uuid.uuid4()}.db")
        self.url = f"sqlite:{self.path}"

    def store(self, patience: float = 2.0) -> SqliteStore:
        return SqliteStore(self.path)

    async def lose_lock(self, store: SqliteStore) -> None:
        Path(f"{self.path}.lock").unlink()

    async def fail(self, store: SqliteStore) -> contextlib.AbstractContextManager[Any]:
        connection = store._connection
        assert connection is not None
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return contextlib.nullcontext()

    async def make_newer(self, version: int = 99) -> None:
        with contextlib.closing(sqlite3.connect(self.path)) as connection:
            connection.execute(f"PRAGMA user_version = {version}")

    def remove(self) -> None:
        pass


class PostgresqlPlace:
    kind = "postgresql"
    shared = durable = True

    def __init__(self) -> None:
        self.schema = f"leasehold_test_{uuid.uuid4().hex}"
        self.url = f"{POSTGRESQL}?options=-csearch_path%3D{self.schema}&application_name={self.schema}"
        asyncio.run(self.ask(f"CREATE SCHEMA {self.schema}"))

    def renew(self) -> None:
        """Actors share the schema."""

    def store(self, patience: float = 2.0, port: int = 5432) -> PostgresqlStore:
        return PostgresqlStore(self.url.replace(":5432/", f":{port}/"), patience)

    async def ask(self, query: str) -> Any:
        async with await psycopg.AsyncConnection.connect(POSTGRESQL, autocommit=True) as connection:
            await connection.execute(f"SET client_min_messages = warning; SET search_path = {self.schema}")
            found = await connection.execute(query)
            return await found.fetchall() if found.description else []

    @contextlib.asynccontextmanager
    async def row_held(self) -> AsyncIterator[None]:
        """Somebody else holds the records' rows for a while."""
        async with await psycopg.AsyncConnection.connect(POSTGRESQL) as connection:
            await connection.execute(f"SELECT * FROM {self.schema}.leasehold_record FOR UPDATE")
            yield
            await connection.rollback()

    async def waiting(self) -> int:
        """Returns how many stores of this place wait for a lock."""
        query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name ="
        return int((await self.ask(f"{query} '{self.schema}'"))[0][0])

    async def lose_lock(self, store: PostgresqlStore) -> None:
        await store._row("SELECT pg_advisory_unlock_all()")

    async def fail(self, store: PostgresqlStore) -> contextlib.AbstractContextManager[Any]:
        pid = store._open_connection().info.backend_pid
        await self.ask(f"SELECT pg_terminate_backend({pid}, 5000)")
        return contextlib.nullcontext()

    async def cut_all(self) -> None:
        """Ends the connection of every store of this place."""
        await self.ask(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{self.schema}'"
        )

    async def make_newer(self, version: int = 99) -> None:
        await self.ask(f"UPDATE leasehold_schema SET version = {version}")

    def remove(self) -> None:
        asyncio.run(self.ask(f"DROP SCHEMA {self.schema} CASCADE"))


class MariadbPlace:
    kind = "mariadb"
    shared = durable = True

    def __init__(self) -> None:
        self.database = f"leasehold_test_{uuid.uuid4().hex}"
        self.url = MARIADB + self.database
        asyncio.run(self.ask(f"CREATE DATABASE {self.database}", "test"))

    def renew(self) -> None:
        """Actors share the database."""

    def store(self, patience: float = 2.0, port: int = 3306) -> MariadbStore:
        return MariadbStore(self.url.replace(":3306/", f":{port}/"), patience)

    async def ask(self, query: str, database: str = "") -> Any:
        async with aiomysql.connect(
            host="127.0.0.1", user="root", db=database or self.database, autocommit=True
        ) as connection:
            cursor = await connection.cursor()
            await cursor.execute(query)
            return await cursor.fetchall()

    @contextlib.asynccontextmanager
    async def row_held(self) -> AsyncIterator[None]:
        """Somebody else holds the records' rows for a while."""
        async with aiomysql.connect(host="127.0.0.1", user="root", db=self.database) as connection:
            cursor = await connection.cursor()
            await cursor.execute("SELECT * FROM leasehold_record FOR UPDATE")
            yield
            await connection.rollback()

    async def waiting(self) -> int:
        """Returns how many transactions of this place wait for a row."""
        await asyncio.sleep(0.15)  # InnoDB answers as it did last time to who asks again within a tenth of a second
        query = (
            "SELECT count(*) FROM information_schema.innodb_trx JOIN information_schema.processlist"
            f" ON trx_mysql_thread_id = id WHERE trx_state = 'LOCK WAIT' AND db = '{self.database}'"
        )
        return int((await self.ask(query, "test"))[0][0])

    async def lose_lock(self, store: MariadbStore) -> None:
        await store._ask("SELECT RELEASE_ALL_LOCKS()")

    async def fail(self, store: MariadbStore) -> contextlib.AbstractContextManager[Any]:
        await self.ask(f"KILL CONNECTION {store._connection.thread_id()}")
        return contextlib.nullcontext()

    async def cut_all(self) -> None:
        """Ends every connection to the database."""
        query = f"SELECT id FROM information_schema.processlist WHERE db = '{self.database}'"
        for (number,) in await self.ask(query, "test"):
            with contextlib.suppress(aiomysql.Error):  # it has just ended by itself
                await self.ask(f"KILL CONNECTION {number}", "test")

    async def make_newer(self, version: int = 99) -> None:
        await self.ask(f"UPDATE leasehold_schema SET version = {version}")

    def remove(self) -> None:
        asyncio.run(self.ask(f"DROP DATABASE {self.database}", "test"))


def _place(kind: str, folder: Path) -> Any:
    if kind == "memory":
        return MemoryPlace()
    if kind == "sqlite":
        return SqlitePlace(folder)
    name, port = ("PostgreSQL", 5432) if kind == "postgresql" else ("MariaDB", 3306)
    try:
        socket.create_connection(("127.0.0.1", port), timeout=2).close()
    except OSError as error:
        message = f"{name} does not answer at 127.0.0.1:{port} ({error})"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return PostgresqlPlace() if kind == "postgresql" else MariadbPlace()


@contextlib.asynccontextmanager
async def opened(place: Any, owner: str = "site") -> AsyncIterator[Any]:
    """A store of a place, open for an actor."""
    store = place.store()
    try:
        await store.open(owner)
        yield store
    finally:
        await store.close()


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """A fresh place of the kind that the test is parametrised with; without one, each kind in turn."""
    made = _place(request.param, tmp_path)
    yield made
    made.remove()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    chosen = any(marker.args[0] == "place" for marker in metafunc.definition.iter_markers("parametrize"))
    if "place" in metafunc.fixturenames and not chosen:
        metafunc.parametrize("place", ["memory", "sqlite", "postgresql", "mariadb"], indirect=True)
