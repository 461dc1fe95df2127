"""Whose records are in a store that nobody has opened yet.

A store is opened in its owner's name, and in a database a name that nobody has would found a new and empty actor. So
whoever comes from outside looks first, without changing anything. A file is opened to read; of a database the table of
actors is read (impl/store/postgresql.py, impl/store/mariadb.py).
"""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

from leasehold.impl.store.sqlite import SqliteStore
from leasehold.impl.store.store import Store, StoreError
from leasehold.impl.words import choices


async def owner_of(store: Store, wanted: str = "") -> str:
    """The actor of a closed store: the one that is wanted, or else the only one.

    Raises:
        StoreError: there is no such actor, there are several and none is named, or the store cannot be read.
    """
    place = str(getattr(store, "place", "the store"))
    there = await _actors(store, place)
    if not there:
        raise StoreError(f"{place} has no records: no actor has opened it yet", "look at the store's URL")
    if wanted and wanted not in there:
        raise StoreError(
            f"{place} has no records of an actor {wanted[:60]!r}{choices(wanted, there)}", "name one of them"
        )
    if not wanted and len(there) > 1:
        raise StoreError(
            f"{place} has the records of several actors: {', '.join(there)}", "name one of them: --actor NAME"
        )
    return wanted or there[0]


async def _actors(store: Store, place: str) -> list[str]:
    if isinstance(store, SqliteStore):
        return _of_file(store, place)
    if place.startswith("postgresql:"):
        return await _of_postgresql(store, place)
    if place.startswith("mariadb:"):
        return await _of_mariadb(store, place)
    raise StoreError(f"{place} keeps nothing between two runs", "name a store of a file or of a database")


def _of_file(store: SqliteStore, place: str) -> list[str]:
    if not store.path.is_file():
        raise StoreError(
            f"{place}: there is no such file", "look at the store's URL, and at the folder that you are in"
        )
    # A file that was closed well has no log beside it; read as it is, it gets none that would stay there.
    how = "mode=ro" if Path(f"{store.path}-wal").exists() else "mode=ro&immutable=1"
    try:
        connection = sqlite3.connect(f"{store.path.as_uri()}?{how}", uri=True)
        try:
            return [str(name) for (name,) in connection.execute("SELECT name FROM actor")]
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise StoreError(f"{place} is no store of an actor: {error}", "look at the store's URL") from error


async def _of_postgresql(store: Store, place: str) -> list[str]:
    import psycopg

    from leasehold.impl.store.postgresql import PostgresqlStore

    assert isinstance(store, PostgresqlStore)
    try:
        async with await psycopg.AsyncConnection.connect(autocommit=True, **store.settings) as connection:
            found = await connection.execute("SELECT to_regclass('leasehold_actor') IS NULL")
            if await found.fetchone() == (True,):
                return []
            rows = await (await connection.execute("SELECT name FROM leasehold_actor ORDER BY name")).fetchall()
            return [str(name) for (name,) in rows]
    except psycopg.Error as error:
        raise StoreError(f"{place}: {error}", "look at the store's URL, and whether its server runs") from error


async def _of_mariadb(store: Store, place: str) -> list[str]:
    import aiomysql

    from leasehold.impl.store.mariadb import MariadbStore

    assert isinstance(store, MariadbStore)
    to = store.address
    try:
        async with asyncio.timeout(20):
            connection = await aiomysql.connect(
                host=to.host, port=to.port, unix_socket=to.socket or None, user=to.user, password=to.password,
                db=to.database, charset="utf8mb4", connect_timeout=10,
            )  # fmt: skip
            try:
                cursor = await connection.cursor()
                if not await cursor.execute("SHOW TABLES LIKE 'leasehold_actor'"):
                    return []
                await cursor.execute("SELECT name FROM leasehold_actor ORDER BY name")
                return [bytes(name).decode() for (name,) in await cursor.fetchall()]
            finally:
                connection.close()
    except (aiomysql.Error, OSError) as error:  # OSError: also that it took too long
        raise StoreError(f"{place}: {error}", "look at the store's URL, and whether its server runs") from error
