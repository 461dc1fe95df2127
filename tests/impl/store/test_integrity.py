"""What was damaged is refused and never read as something else; and a store that has forgotten commits is known."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.impl.store.owned import with_checksum, without_checksum
from leasehold.impl.store.sqlite import CommitPosition, HighWaterMark, SqliteStore
from leasehold.impl.store.store import Batch, Older, RecordKey, StoreError

pytestmark = pytest.mark.real_time

KEY = RecordKey("tenant:1", "broker")


def flipped(value: bytes) -> Iterator[bytes]:
    """The value with each of its bits changed."""
    for at in range(len(value)):
        for bit in range(8):
            yield value[:at] + bytes([value[at] ^ 1 << bit]) + value[at + 1 :]


@given(st.binary(max_size=40))
def test_no_changed_bit_is_read(body: bytes) -> None:
    value = with_checksum("a key", body)
    assert without_checksum("here", "a key", value) == body
    for wrong in flipped(value):
        with pytest.raises(StoreError, match=r"here is damaged: 'a key' .*; put a whole copy"):
            without_checksum("here", "a key", wrong)


def test_a_value_is_not_read_under_another_key() -> None:
    with pytest.raises(StoreError, match="is damaged"):
        without_checksum("here", "another", with_checksum("a key", b"body"))


@pytest.mark.parametrize("value", [b"", b"\x93\x01", b"{}", b"1", b"0.5"])
def test_a_value_of_before_there_were_checksums_is_read(value: bytes) -> None:
    assert without_checksum("here", "a key", value) == value


async def filled(path: Path, commits: int = 3) -> SqliteStore:
    """An open store with some commits."""
    store = SqliteStore(path)
    await store.open("site")
    for n in range(commits):
        await store.commit(Batch({KEY: b"record %d" % n}, metadata={"pruned of tenant": b"%d" % n}))
    return store


async def killed(store: SqliteStore) -> None:
    """The process ends without closing the store: its log stays."""
    path = store.path
    for end in ("", "-wal", "-shm"):
        shutil.copy(f"{path}{end}", f"{path}{end}.kept")
    await store.close()
    for end in ("", "-wal", "-shm"):
        os.replace(f"{path}{end}.kept", f"{path}{end}")


async def test_a_damaged_record_or_word_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "site.db"
    await (await filled(path)).close()
    for table, read in (("record", lambda s: anext(s.records())), ("word", lambda s: s.metadata())):
        with closing(sqlite3.connect(path)) as connection:
            (value,) = connection.execute(f"SELECT body FROM {table}").fetchone()
            wrong = bytes([*value[:-1], value[-1] ^ 1])
            connection.execute(f"UPDATE {table} SET body = ?", (wrong,))
            connection.commit()
        store = SqliteStore(path)
        await store.open("site")
        with pytest.raises(StoreError, match=f"is damaged: '{'tenant:1, broker' if table == 'record' else 'pruned'}"):
            await read(store)
        await store.close()


def cut_log(path: Path) -> None:
    log = Path(f"{path}-wal")
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])


def flip_log(path: Path) -> None:
    log = Path(f"{path}-wal")
    content = bytearray(log.read_bytes())
    content[-2000] ^= 4
    log.write_bytes(content)


def remove_log(path: Path) -> None:
    os.unlink(f"{path}-wal")


def remove(path: Path) -> None:
    for end in ("", "-wal", "-shm"):
        os.unlink(f"{path}{end}")


def empty(path: Path) -> None:
    remove(path)
    path.touch()


@pytest.mark.parametrize("harm", [cut_log, flip_log, remove_log, remove, empty], ids=lambda harm: harm.__name__)
async def test_a_store_that_has_forgotten_commits_is_refused(tmp_path: Path, harm: Callable[[Path], Any]) -> None:
    path = tmp_path / "site.db"
    await killed(await filled(path))
    harm(path)
    for _ in range(2):  # what was refused stays so
        with pytest.raises(Older, match=rf"site.db is .*epoch 1, commit 3; .* remove {path}.mark"):
            await SqliteStore(path).open("site")
    os.unlink(f"{path}.mark")  # as the message says
    store = SqliteStore(path)
    await store.open("site")
    await store.close()


async def test_an_older_copy_is_refused_and_the_newest_is_taken(tmp_path: Path) -> None:
    path, copy, newest = tmp_path / "site.db", tmp_path / "copy.db", tmp_path / "newest.db"
    await (await filled(path)).close()
    shutil.copy(path, copy)
    store = SqliteStore(path)
    await store.open("site")
    await store.commit(Batch({KEY: b"newer"}))
    await store.close()
    shutil.copy(path, newest)
    shutil.copy(copy, path)
    with pytest.raises(Older, match=r"is an older copy: it is at epoch 1, commit 3, and had come to epoch 2, commit 4"):
        await SqliteStore(path).open("site")
    shutil.copy(newest, path)
    store = SqliteStore(path)
    assert await store.open("site") == 3
    assert [row async for row in store.records()] == [(KEY, b"newer")]
    await store.close()


async def test_every_commit_is_synced_whatever_the_library_does_by_itself(tmp_path: Path) -> None:
    """SQLite can be built so that a connection begins without syncs."""

    def careless(*place: Any, **options: Any) -> sqlite3.Connection:
        connection = sqlite3.connect(*place, **options)
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    store = SqliteStore(tmp_path / "store.db", connect=careless)
    await store.open("actor")
    assert store._open_connection().execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
    await store.close()


async def test_a_store_of_the_first_layout_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "site.db"
    await (await filled(path)).close()
    os.unlink(f"{path}.mark")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ALTER TABLE actor DROP COLUMN commits")
        connection.execute("UPDATE record SET body = ?", (b"plain",))
        connection.execute("PRAGMA user_version = 1")
        connection.commit()
    store = SqliteStore(path)
    assert await store.open("site") == 2
    assert [row async for row in store.records()] == [(KEY, b"plain")]
    await store.commit(Batch({KEY: b"sealed"}))
    await store.close()
    assert HighWaterMark(Path(f"{path}.mark")).read() == CommitPosition(2, 1)


async def test_a_mark_that_was_removed_is_written_anew_at_the_next_opening(tmp_path: Path) -> None:
    """As an operator does who is told to."""
    store = await filled(tmp_path / "site.db")
    await store.close()
    mark = HighWaterMark(Path(f"{store.path}.mark"))
    mark.path.unlink()
    await store.open("site")
    await store.close()
    assert mark.read() == CommitPosition(2, 3)


@pytest.mark.parametrize("content", [b"", b"epoch 1", b"\0" * 90, b"\xff" * 90])
def test_a_mark_of_which_a_power_failure_left_a_part_says_nothing(tmp_path: Path, content: bytes) -> None:
    mark = HighWaterMark(tmp_path / "site.db.mark")
    mark.write(CommitPosition(3, 4_000))
    assert mark.read() == CommitPosition(3, 4_000)
    mark.close()
    mark.path.write_bytes(content)
    assert mark.read() is None


def test_a_mark_with_a_changed_bit_says_nothing(tmp_path: Path) -> None:
    mark = HighWaterMark(tmp_path / "site.db.mark")
    mark.write(CommitPosition(3, 4_000))
    mark.close()
    for wrong in flipped(mark.path.read_bytes()):
        mark.path.write_bytes(wrong)
        assert mark.read() is None
