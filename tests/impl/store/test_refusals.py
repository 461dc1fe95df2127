"""Opening what cannot be opened: what is said, and that nothing was changed or left behind."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from leasehold.impl import files
from leasehold.impl.store.mariadb import MariadbStore
from leasehold.impl.store.postgresql import PostgresqlStore
from leasehold.impl.store.sqlite import SqliteStore
from leasehold.impl.store.store import Batch, RecordKey, StoreError

POSTGRESQL = pytest.mark.parametrize("place", ["postgresql"], indirect=True)
MARIADB = pytest.mark.parametrize("place", ["mariadb"], indirect=True)


def refusal(store: Any) -> str:
    async def run() -> str:
        with pytest.raises(StoreError) as caught:
            await store.open("site")
        await store.close()
        assert caught.value.remedy
        return str(caught.value)

    return asyncio.run(run())


def test_a_new_file_can_be_read_by_its_owner_alone(tmp_path: Path) -> None:
    async def run() -> None:
        before = os.umask(0)
        try:
            store = SqliteStore(tmp_path / "site.db")
            await store.open("site")
            await store.commit(Batch(puts={RecordKey("a", "m"): b"1"}))
        finally:
            os.umask(before)
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
        assert modes == {f"site.db{end}": 0o600 for end in ("", "-wal", "-shm", ".lock", ".mark")}
        await store.close()
        assert {path.name for path in tmp_path.iterdir()} == {"site.db", "site.db.lock", "site.db.mark"}

    asyncio.run(run())


def test_a_file_whose_folder_is_missing(tmp_path: Path) -> None:
    message = refusal(SqliteStore(tmp_path / "no" / "site.db"))
    assert message == f"{tmp_path}/no/site.db: there is no folder {tmp_path}/no; create it"
    assert list(tmp_path.iterdir()) == []


def test_a_folder_for_a_file(tmp_path: Path) -> None:
    (tmp_path / "site.db").mkdir()
    assert "the file cannot be opened (unable to open database file" in refusal(SqliteStore(tmp_path / "site.db"))


def test_a_file_that_is_not_of_sqlite_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "site.db"
    file.write_bytes(b"a letter to a friend" * 100)
    assert "it is not a SQLite file (file is not a database, SQLITE_NOTADB); give another" in refusal(SqliteStore(file))
    assert file.read_bytes() == b"a letter to a friend" * 100


def test_a_database_of_another_program_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "site.db"
    with closing(sqlite3.connect(file)) as other:
        other.execute("CREATE TABLE actor (name)")
    before = file.read_bytes()
    assert "is a database of another program; give the actor a file of its own" in refusal(SqliteStore(file))
    assert file.read_bytes() == before


def test_a_file_whose_pages_were_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "site.db"

    async def fill() -> None:
        store = SqliteStore(file)
        await store.open("site")
        await store.commit(Batch(puts={RecordKey(f"tenant:{n}", "m"): b"x" * 500 for n in range(200)}))
        await store.close()

    async def read() -> None:
        store = SqliteStore(file)
        await store.open("site")
        try:
            async for _ in store.records():
                pass
        finally:
            await store.close()

    asyncio.run(fill())
    with file.open("r+b") as damaged:
        damaged.seek(5 * 4096)
        damaged.write(b"\xff" * 20 * 4096)
    with pytest.raises(StoreError, match=r"its content is damaged .*; restore it from a backup"):
        asyncio.run(read())


def test_another_program_that_writes_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.impl.store.sqlite._WAIT_SECONDS", 0.01)

    async def run() -> None:
        store = SqliteStore(tmp_path / "site.db")
        await store.open("site")
        with closing(sqlite3.connect(store.path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreError, match=r"another program holds a lock on it .*; stop that program"):
                await store.commit(Batch())
        assert await store.open("site") == 2
        await store.close()

    asyncio.run(run())


def test_a_lock_is_free_again_when_given_up_and_its_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = files.lock(path)
    assert first is not None
    assert files.lock(path) is None
    os.close(first)
    second = files.lock(path)
    assert second is not None
    assert files.lock(path) is None
    os.close(second)
    assert path.exists()


def test_who_holds_the_lock_is_told(tmp_path: Path) -> None:
    async def run() -> None:
        holder = SqliteStore(tmp_path / "site.db")
        await holder.open("site")
        with pytest.raises(StoreError, match=rf"in use by another copy .* \(process {os.getpid()}\); stop that copy"):
            await SqliteStore(tmp_path / "site.db").open("site")
        await holder.close()

    asyncio.run(run())


def test_a_lock_file_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    """Else who may write to the folder could have any file of the actor's user emptied."""
    precious = tmp_path / "precious"
    precious.write_text("gold")
    (tmp_path / "site.db.lock").symlink_to(precious)
    assert "Too many levels of symbolic links" in refusal(SqliteStore(tmp_path / "site.db"))
    assert precious.read_text() == "gold"


@POSTGRESQL
def test_postgresql_that_is_not_there(place: Any) -> None:
    nowhere = PostgresqlStore("postgresql://me:secret@127.0.0.1:1/leases")
    message = refusal(nowhere)
    assert message.startswith("postgresql://127.0.0.1:1/leases: the database cannot be reached (")
    assert "secret" not in message
    other = place.url.replace("/test?", "/no_such_database?")
    message = refusal(PostgresqlStore(other))
    assert "the server refuses the connection (" in message
    assert 'database "no_such_database" does not exist' in message


@POSTGRESQL
def test_postgresql_that_can_only_be_read(place: Any) -> None:
    """A standby, or a server that was told so."""
    url = place.url.replace("options=", "options=-cdefault_transaction_read_only%3Don%20")
    assert "it can only be read (cannot execute" in refusal(PostgresqlStore(url))


@POSTGRESQL
def test_postgresql_without_a_schema(place: Any) -> None:
    url = place.url.replace(place.schema, "no_such_schema")
    message = refusal(PostgresqlStore(url))
    assert "there is no schema to keep tables in (" in message
    assert "create the schema that search_path names" in message


@POSTGRESQL
def test_postgresql_is_durable_even_where_the_session_begins_otherwise(place: Any) -> None:
    async def run() -> None:
        store = PostgresqlStore(place.url.replace("options=", "options=-csynchronous_commit%3Doff%20"))
        await store.open("site")
        assert await store._row("SHOW synchronous_commit") == ("on",)
        await store.close()

    asyncio.run(run())


@POSTGRESQL
def test_postgresql_whose_tables_were_dropped(place: Any) -> None:
    async def run() -> None:
        store = place.store()
        await store.open("site")
        await place.ask("DROP TABLE leasehold_record")
        with pytest.raises(StoreError, match=r"its tables are not those of Leasehold .*; use a database of its own"):
            await store.commit(Batch())
        await store.close()

    asyncio.run(run())


@MARIADB
def test_mariadb_that_is_not_there(place: Any) -> None:
    store = place.store(port=1)
    assert f"mariadb://127.0.0.1:1/{place.database}: the database cannot be reached (" in refusal(store)
    store = MariadbStore(place.url.replace(place.database, "no_such_database"))
    assert "there is no such database (" in refusal(store)
    message = refusal(MariadbStore(place.url.replace("root@", "leasehold_no_such_user:secret@")))
    assert "the database refuses the user or the password (" in message
    assert "secret" not in message


@MARIADB
def test_mariadb_whose_tables_were_dropped(place: Any) -> None:
    async def run() -> None:
        store = place.store()
        await store.open("site")
        await place.ask("DROP TABLE leasehold_record")
        with pytest.raises(StoreError, match="its tables are not those of Leasehold"):
            await store.commit(Batch(puts={RecordKey("a", "m"): b"1"}))
        await store.close()

    asyncio.run(run())


@MARIADB
def test_mariadb_goes_on_where_creating_the_tables_stopped(place: Any) -> None:
    """Each CREATE commits by itself, so a crash may leave some tables."""

    async def run() -> None:
        store = place.store()
        await store.open("site")
        await store.close()
        await place.ask("DROP TABLE leasehold_word")
        await place.ask("DELETE FROM leasehold_schema")
        assert await store.open("site") == 2
        await store.commit(Batch(metadata={"w": b"1"}))
        assert await store.metadata() == {"w": b"1"}
        await store.close()

    asyncio.run(run())
