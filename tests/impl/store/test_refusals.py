"""Opening what cannot be opened: what is said, and that nothing was changed or left behind."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sqlite3
import stat
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from leasehold.impl import files
from leasehold.impl.store.mariadb import MariadbStore, _digest
from leasehold.impl.store.memory import MemoryStore
from leasehold.impl.store.postgresql import _SETUP_LOCK, PostgresqlStore
from leasehold.impl.store.sqlite import SqliteStore
from leasehold.impl.store.store import Batch, Busy, RecordKey, StoreError, Transient

pytestmark = pytest.mark.real_time

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


async def test_a_new_file_can_be_read_by_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = SqliteStore(tmp_path / "site.db")
        await store.open("site")
        await store.commit(Batch(puts={RecordKey("a", "m"): b"1"}))
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {f"site.db{end}": 0o600 for end in ("", "-wal", "-shm", ".lock", ".mark", ".reserve")}
    await store.close()
    assert {path.name for path in tmp_path.iterdir()} == {f"site.db{end}" for end in ("", ".lock", ".mark", ".reserve")}


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


async def test_another_program_that_writes_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.impl.store.sqlite._WAIT_SECONDS", 0.01)
    store = SqliteStore(tmp_path / "site.db")
    await store.open("site")
    with closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match=r"another program holds a lock on it .*; stop that program"):
            await store.commit(Batch())
    assert await store.open("site") == 2
    await store.close()


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


async def test_who_holds_the_lock_is_told(tmp_path: Path) -> None:
    holder = SqliteStore(tmp_path / "site.db")
    await holder.open("site")
    with pytest.raises(StoreError, match=rf"in use by another copy .* \(process {os.getpid()}\); stop that copy"):
        await SqliteStore(tmp_path / "site.db").open("site")
    await holder.close()


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
async def test_postgresql_is_durable_even_where_the_session_begins_otherwise(place: Any) -> None:
    store = PostgresqlStore(place.url.replace("options=", "options=-csynchronous_commit%3Doff%20"))
    await store.open("site")
    assert await store._row("SHOW synchronous_commit") == ("on",)
    await store.close()


@POSTGRESQL
async def test_postgresql_whose_tables_were_dropped(place: Any) -> None:
    store = place.store()
    await store.open("site")
    await place.ask("DROP TABLE leasehold_record")
    with pytest.raises(StoreError, match=r"its tables are not those of Leasehold .*; use a database of its own"):
        await store.commit(Batch())
    await store.close()


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
async def test_mariadb_whose_tables_were_dropped(place: Any) -> None:
    store = place.store()
    await store.open("site")
    await place.ask("DROP TABLE leasehold_record")
    with pytest.raises(StoreError, match="its tables are not those of Leasehold"):
        await store.commit(Batch(puts={RecordKey("a", "m"): b"1"}))
    await store.close()


@MARIADB
async def test_mariadb_goes_on_where_creating_the_tables_stopped(place: Any) -> None:
    """Each CREATE commits by itself, so a crash may leave some tables."""
    store = place.store()
    await store.open("site")
    await store.close()
    await place.ask("DROP TABLE leasehold_word")
    await place.ask("DELETE FROM leasehold_schema")
    assert await store.open("site") == 2
    await store.commit(Batch(metadata={"w": b"1"}))
    assert await store.metadata() == {"w": b"1"}
    await store.close()


@pytest.mark.long
@POSTGRESQL
def test_postgresql_of_another_encoding_is_refused(place: Any) -> None:
    """It would keep no text that is not of that encoding, or other bytes than were meant."""
    name = f"leasehold_test_{uuid.uuid4().hex}"
    asyncio.run(place.ask(f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0"))
    try:
        message = refusal(PostgresqlStore(f"postgresql://postgres@127.0.0.1:5432/{name}"))
    finally:
        asyncio.run(place.ask(f"DROP DATABASE {name} WITH (FORCE)"))
    assert "the database's encoding is SQL_ASCII; create it with ENCODING 'UTF8'" in message


def said_by(store: Any, monkeypatch: pytest.MonkeyPatch, **settings: object) -> None:
    """The server says that some of its settings are these; no test may give the server others."""
    name = "_ask" if isinstance(store, MariadbStore) else "_row"
    ask = getattr(store, name)

    async def asked(query: str, *values: object) -> Any:
        answer = await ask(query, *values)
        if name == "_ask" and "@@max_allowed_packet" in query:
            ((packet, flush),) = answer
            return [(settings.get("packet", packet), settings.get("flush", flush))]
        if name == "_row" and "fsync" in query:
            return (*answer[:-1], settings["fsync"])
        return answer

    monkeypatch.setattr(store, name, asked)


@POSTGRESQL
def test_postgresql_that_may_lose_what_it_committed_is_refused(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    store = place.store()
    said_by(store, monkeypatch, fsync="off")
    assert "the server may lose what it committed (fsync is off); set fsync = on" in refusal(store)


@MARIADB
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"flush": 0}, "the server may lose what it committed (innodb_flush_log_at_trx_commit is 0); set innodb_flush"),
        ({"flush": 2}, "the server may lose what it committed (innodb_flush_log_at_trx_commit is 2); set innodb_flush"),
        ({"packet": 2**24 - 1}, "the server takes packets of 16777215 bytes, and a record may need 16777216; set its"),
        ({"flush": 1, "packet": 2**24}, ""),
        ({"flush": 3, "packet": 2**24 + 1}, ""),
    ],
)
def test_mariadb_that_cannot_keep_every_record_is_refused(
    place: Any, settings: dict[str, object], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = place.store()
    said_by(store, monkeypatch, **settings)
    if words:
        assert words in refusal(store)
    else:
        assert asyncio.run(_opens(store)) == 1


async def _opens(store: Any) -> int:
    epoch: int = await store.open("site")
    await store.close()
    return epoch


@POSTGRESQL
@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
async def test_postgresql_is_spoken_to_in_utf8_whatever_is_said_outside(
    place: Any, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment of the actor's user may name another encoding, in which not every key can be written."""
    monkeypatch.setenv("PGCLIENTENCODING", encoding)
    store = place.store()
    await store.open("日本")
    await store.commit(Batch(puts={RecordKey("日本:1", "m"): b"1"}, metadata={"語": b"2"}))
    assert [key async for key, _ in store.records()] == [RecordKey("日本:1", "m")]
    assert await store.metadata() == {"語": b"2"}
    assert await store.owners() == ["日本"]


@POSTGRESQL
async def test_the_session_of_postgresql(place: Any) -> None:
    """What bounds the wait for a lock, and for a connection of which the other end is gone."""
    store = place.store()
    await store.open("site")
    for name, value in (
        ("lock_timeout", "10s"),
        ("tcp_keepalives_idle", "10"),
        ("tcp_keepalives_interval", "5"),
        ("tcp_keepalives_count", "3"),
        ("synchronous_commit", "on"),
    ):
        assert await store._row(f"SHOW {name}") == (value,)
    await store.close()


@POSTGRESQL
async def test_a_connection_of_postgresql_of_which_the_other_end_is_gone_is_noticed(place: Any) -> None:
    """Within half a minute, whether anything is under way on it or not."""
    store = place.store()
    await store.open("site")
    with socket.socket(fileno=os.dup(store._connection.fileno())) as end:
        options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        idle, interval, count = (end.getsockopt(socket.IPPROTO_TCP, option) for option in options)
        assert idle + interval * count <= 30
        assert end.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert end.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) <= 30_000
    await store.close()


@MARIADB
async def test_the_session_of_mariadb(place: Any) -> None:
    """It may be idle for long, waits for a row but briefly, and locks no gap between the rows of two actors."""
    store = place.store()
    await store.open("site")
    names = "@@wait_timeout, @@innodb_lock_wait_timeout, @@transaction_isolation, @@autocommit"
    if "MariaDB" in (await store._ask("SELECT VERSION()"))[0][0]:
        names = names.replace("transaction_isolation", "tx_isolation")
    assert await store._ask(f"SELECT {names}") == [(31536000, 10, "READ-COMMITTED", 1)]
    ((mode,),) = await store._ask("SELECT @@sql_mode")
    assert "STRICT_ALL_TABLES" in mode
    await store.close()


@pytest.mark.parametrize("place", ["postgresql", "mariadb"], indirect=True)
async def test_who_held_the_store_may_have_gone_when_that_is_asked(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then nobody is named, and no command is given that would end another's connection."""
    holder, second = place.store(), place.store(patience=0)
    await holder.open("site")
    name = "_ask" if place.kind == "mariadb" else "_row"
    ask = getattr(second, name)

    async def asked(query: str, *values: object) -> Any:
        if "IS_USED_LOCK" in query:
            return [(None,)]
        return () if "pg_locks" in query else await ask(query, *values)

    monkeypatch.setattr(second, name, asked)
    with pytest.raises(Busy) as busy:
        await second.open("site")
    assert busy.value.reason.endswith("is in use by another copy of the actor 'site'")
    assert busy.value.remedy == "stop that copy"
    await holder.close()


@pytest.mark.parametrize("place", ["postgresql", "mariadb"], indirect=True)
async def test_who_creates_the_tables_is_waited_for(place: Any) -> None:
    """Two actors that did it at once would fail, or see tables of which the other had made but some."""
    store, maker = place.store(), place.store()
    if place.kind == "postgresql":
        maker._connection = await psycopg.AsyncConnection.connect(place.url, autocommit=True)
        await maker._row("SELECT pg_advisory_lock(%s)", _SETUP_LOCK)
    else:
        await maker._connect()
        await maker._ask(f"SELECT GET_LOCK('leasehold/setup/{_digest(place.database)}', 10)")
    opening = asyncio.ensure_future(store.open("site"))
    for _ in range(20):
        await asyncio.sleep(0.005)
    assert not opening.done()
    assert await place.store().owners() == []
    await maker._drop()
    assert await opening == 1
    await store.close()


@POSTGRESQL
def test_postgresql_whose_table_of_versions_is_empty(place: Any) -> None:
    async def run() -> None:
        await _opens(place.store())
        await place.ask("DELETE FROM leasehold_schema")

    asyncio.run(run())
    assert "its tables are not those of Leasehold (leasehold_schema is empty)" in refusal(place.store())


@pytest.mark.parametrize("place", ["postgresql", "mariadb"], indirect=True)
async def test_how_long_an_earlier_owner_is_waited_for_is_no_limit_of_commits(place: Any) -> None:
    """A row that a dump or another's statement holds for longer is waited for; the store does not fail."""
    store = place.store(patience=0.1)
    await store.open("site")
    await store.commit(Batch(puts={RecordKey("a", "m"): b"1"}))
    async with place.row_held():
        committed = asyncio.ensure_future(store.commit(Batch(puts={RecordKey("a", "m"): b"2"})))
        await asyncio.sleep(1)
        assert not committed.done()
    await committed
    assert [body async for _, body in store.records()] == [b"2"]
    await store.close()


@MARIADB
async def test_mariadb_that_does_not_answer_is_taken_for_lost(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver waits for ever where the other end is gone without a word."""
    store = place.store()
    await store.open("site")
    await store.commit(Batch(puts={RecordKey("a", "m"): b"1"}))
    monkeypatch.setattr("leasehold.impl.store.mariadb._ANSWER_SECONDS", 0.1)
    async with place.row_held():
        with pytest.raises(Transient, match=r"connection to the database was lost \(no answer within 0 seconds\)"):
            await store.commit(Batch(puts={RecordKey("a", "m"): b"2"}))
    monkeypatch.undo()
    heir = place.store()
    assert await heir.open("site") == 2
    assert [body async for _, body in heir.records()] in ([b"1"], [b"2"])
    await heir.close()
    await store.close()


def test_a_file_beside_which_no_log_can_be_is_refused(tmp_path: Path) -> None:
    """As on a file system without shared memory: SQLite would go on without one, and commit in another way."""

    def connect(url: str, **options: Any) -> sqlite3.Connection:
        return sqlite3.connect(f"{url}&vfs=unix-none", **options)

    message = refusal(SqliteStore(tmp_path / "site.db", connect))
    assert "SQLite cannot write a log beside it (it keeps the mode 'delete'); move it" in message


async def test_the_lock_file_says_which_process_holds_it_and_nothing_else(tmp_path: Path) -> None:
    """Also where a process with a longer number held it before."""
    (tmp_path / "site.db.lock").write_text("12345678901234567890\n" * 3)
    store = SqliteStore(tmp_path / "site.db")
    await store.open("site")
    assert (tmp_path / "site.db.lock").read_text() == f"{os.getpid()}\n"
    await store.close()


@pytest.mark.parametrize(
    "made", [lambda p: p.write_bytes(b"no database" * 99), lambda p: p.write_bytes(b""), Path.mkdir]
)
def test_whose_records_a_file_has_is_asked_of_what_is_no_store(tmp_path: Path, made: Any) -> None:
    path = tmp_path / "site.db"
    with pytest.raises(StoreError, match=f"{path}: there is no such file; look at the store's URL"):
        asyncio.run(SqliteStore(path).owners())
    made(path)
    with pytest.raises(StoreError, match=r"there is no such file|is no store of an actor: .*; look at the store's URL"):
        asyncio.run(SqliteStore(path).owners())
    assert list(tmp_path.iterdir()) == [path]


async def test_whose_records_a_file_has_is_seen_beside_a_log_too(tmp_path: Path) -> None:
    """One that was closed well gets no log by being looked at; that of one that was killed is read, and stays."""
    store = SqliteStore(tmp_path / "site.db")
    await store.open("site")
    shutil.copy(store.path, tmp_path / "copy.db")
    shutil.copy(f"{store.path}-wal", tmp_path / "copy.db-wal")
    await store.close()
    before = {path.name for path in tmp_path.iterdir()}
    assert await SqliteStore(tmp_path / "copy.db").owners() == ["site"]
    assert await store.owners() == ["site"]
    assert {path.name for path in tmp_path.iterdir() if "-shm" not in path.name} == before
    with pytest.raises(StoreError, match="memory keeps nothing between two runs"):
        await MemoryStore().owners()
