"""Fresh places for stores, with the bare driver's loop beside each: the same rows, the same transactions, nothing else.

The bare loops are as good as the drivers make them: statements are prepared, rows are ready-made tuples, what can be
sent together is. Each keeps records in a table like the store's own, on the same server or disk, equally durable.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import socket
import sqlite3
import tempfile
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from leasehold.impl.store.store import Store
from leasehold.impl.store.url import store_from_url
from tests.benchmarks.measure import Missing

Transaction: TypeAlias = Sequence[tuple[str, str, bytes]]  # rows that are upserted at once
HOST = "127.0.0.1"
POSTGRESQL = f"postgresql://postgres@{HOST}:5432/test"


Commit: TypeAlias = Callable[[Transaction], Awaitable[None]]


class Place(ABC):
    """Where one run keeps its rows; used once."""

    def __init__(self, url: str) -> None:
        self.url = url

    def store(self) -> Store:
        return store_from_url(self.url)

    @abstractmethod
    def opened(self) -> contextlib.AbstractAsyncContextManager[Commit]:
        """The bare driver, with a fresh table: what commits one transaction."""

    async def bare(self, transactions: Sequence[Transaction]) -> float:
        """Seconds of a bare loop over transactions, one after the other."""
        async with self.opened() as commit:
            begun = time.perf_counter()
            for rows in transactions:
                await commit(rows)
            return time.perf_counter() - begun

    async def grouped(self, transactions: Sequence[Transaction]) -> float:
        """Seconds of a bare group commit of the same rows: each lease is a client that waits until its row is durable.

        One loop commits what waits as one transaction, and tells the clients; it does nothing else.
        """
        of_client: dict[tuple[str, str], list[tuple[str, str, bytes]]] = {}
        for rows in transactions:
            for row in rows:
                of_client.setdefault(row[:2], []).append(row)
        loop = asyncio.get_running_loop()
        waiting: list[tuple[tuple[str, str, bytes], asyncio.Future[None]]] = []
        more = asyncio.Event()

        async def client(rows: Sequence[tuple[str, str, bytes]]) -> None:
            for row in rows:
                durable = loop.create_future()
                waiting.append((row, durable))
                more.set()
                await durable

        async def group(commit: Commit) -> None:
            while True:
                await more.wait()
                more.clear()
                taken, waiting[:] = list(waiting), []
                await commit([row for row, _ in taken])
                for _, durable in taken:
                    durable.set_result(None)

        async with self.opened() as commit:
            begun = time.perf_counter()
            committing = loop.create_task(group(commit))
            await asyncio.gather(*map(client, of_client.values()))
            seconds = time.perf_counter() - begun
            committing.cancel()
            return seconds


class Sqlite(Place):
    """A file in WAL mode with synchronous=FULL, as the store has it."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        super().__init__(f"sqlite:{self.folder / 'actor.db'}")

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[Commit]:
        with contextlib.closing(sqlite3.connect(self.folder / "bare.db", isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("CREATE TABLE bare (lease TEXT, machine TEXT, body BLOB, PRIMARY KEY (lease, machine))")
            put = "INSERT INTO bare VALUES (?, ?, ?) ON CONFLICT (lease, machine) DO UPDATE SET body = excluded.body"

            async def commit(rows: Transaction) -> None:
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany(put, rows)
                connection.execute("COMMIT")

            yield commit


class Postgresql(Place):
    """A schema of its own; the bare driver uses `executemany`, which psycopg sends in pipeline mode."""

    def __init__(self, schema: str) -> None:
        self.schema = schema
        super().__init__(f"{POSTGRESQL}?options=-csearch_path%3D{schema}")

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[Commit]:
        import psycopg

        async with await psycopg.AsyncConnection.connect(self.url, autocommit=True) as connection:
            await connection.execute(
                'CREATE TABLE bare (lease text COLLATE "C", machine text COLLATE "C", body bytea,'
                " PRIMARY KEY (lease, machine)) WITH (fillfactor = 70)"
            )
            put = "INSERT INTO bare VALUES (%b, %b, %b) ON CONFLICT (lease, machine) DO UPDATE SET body = excluded.body"
            async with connection.cursor() as cursor:

                async def commit(rows: Transaction) -> None:
                    async with connection.transaction():
                        await cursor.executemany(put, rows)

                yield commit


class Mariadb(Place):
    """A database of its own; the bare driver writes one statement of many rows, as `executemany` would.

    It is not `executemany` itself, as aiomysql cannot escape bytes with every PyMySQL that it installs with.
    """

    def __init__(self, database: str) -> None:
        self.database = database
        super().__init__(f"mariadb://root@{HOST}:3306/{database}")

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[Commit]:
        import aiomysql

        async with aiomysql.connect(host=HOST, user="root", db=self.database, charset="utf8mb4") as connection:
            cursor = await connection.cursor()
            await cursor.execute(
                "CREATE TABLE bare (lease VARBINARY(1024), machine VARBINARY(255), body LONGBLOB,"
                " PRIMARY KEY (lease, machine)) ENGINE=InnoDB ROW_FORMAT=DYNAMIC"
            )

            async def commit(rows: Transaction) -> None:
                values = ",".join([f"('{lease}','{machine}',X'{body.hex()}')" for lease, machine, body in rows])
                await cursor.execute(f"INSERT INTO bare VALUES {values} ON DUPLICATE KEY UPDATE body = VALUES(body)")
                await connection.commit()

            yield commit


@contextlib.contextmanager
def sqlite() -> Iterator[Sqlite]:
    # Beside this file, as a temporary folder may be one in memory, where nothing is ever durable.
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent, prefix=".run-") as folder:
        yield Sqlite(folder)


@contextlib.contextmanager
def postgresql() -> Iterator[Postgresql]:
    _answers("PostgreSQL", "psycopg", 5432)
    import psycopg

    name = f"leasehold_bench_{uuid.uuid4().hex}"
    with psycopg.connect(POSTGRESQL, autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute(f"CREATE SCHEMA {name}".encode())
        try:
            yield Postgresql(name)
        finally:
            connection.execute(f"DROP SCHEMA {name} CASCADE".encode())


@contextlib.contextmanager
def mariadb() -> Iterator[Mariadb]:
    _answers("MariaDB", "aiomysql", 3306)
    name = f"leasehold_bench_{uuid.uuid4().hex}"
    _mariadb_does(f"CREATE DATABASE {name}")
    try:
        yield Mariadb(name)
    finally:
        _mariadb_does(f"DROP DATABASE {name}")


def _mariadb_does(statement: str) -> None:
    import pymysql

    with contextlib.closing(pymysql.connect(host=HOST, user="root", autocommit=True)) as connection:
        connection.cursor().execute(statement)


KINDS: dict[str, Callable[[], contextlib.AbstractContextManager[Place]]] = {
    "SQLite": sqlite,
    "PostgreSQL": postgresql,
    "MariaDB": mariadb,
}


def _answers(server: str, driver: str, port: int) -> None:
    if importlib.util.find_spec(driver) is None:
        raise Missing(f"{driver} is not installed")
    try:
        socket.create_connection((HOST, port), timeout=2).close()
    except OSError as error:
        raise Missing(f"{server} does not answer at {HOST}:{port} ({error})") from None
