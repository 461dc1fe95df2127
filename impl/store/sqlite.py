"""The store in one SQLite file: the embedded default, one file for each actor.

Theory of operation. The file is in WAL mode with synchronous=FULL: a commit is one append and one fsync, and a commit
that was torn by a crash fails its checksum and is not there. Calls are made directly on the event loop: one takes about
0.2 ms, less than it would cost to hand it to a thread.

Ownership is a lock on a file beside it (PATH.lock), and an epoch in the file that every commit compares in its own
transaction. The lock keeps a second copy out; the epoch stops the first one where the lock did not hold, because
somebody removed the lock file, or because a network file system forgot it. A file that was itself removed or replaced
under a running actor is noticed as well: what is written to a removed file would be acknowledged and gone.

Opening moves the log into the file (a checkpoint) before anything is read. After an fsync that failed, what was read
again could be in the system's cache alone; moved, it is written anew. What no program can mend is a disk that lost the
log and says that it did not.

A third file (PATH.reserve) takes space and holds nothing. Where a commit or the opening finds the disk full, that file
gives its space up, and it is tried once more: `low` says so from then on, until there is twice as much space again,
which is looked for once in a while. Meanwhile leases can end, and the actor lets none begin. A file without space is a
reserve that was given up, also for the process that opens the store next; a small disk keeps a smaller one, or none. A
commit that found no space has written nothing that counts (its transaction is rolled back, and the number of commits is
compared), unlike one whose fsync failed. The log is moved into the file when it has grown to half the reserve, so that
what is given up suffices to move it: a log that fits beside the file but not into it could not even be opened.

A store whose last commits are missing is whole, and looks well: its log was cut off, a backup was put in its place, or
it was removed and would begin empty. The leases that it has forgotten would be given away once more. So a second file
(PATH.mark) has the epoch and the number of the newest commit, and a store that has come less far is refused. It is
written after the commit is durable, and is not synced itself: after a power failure it may be behind the store, and
never ahead of it. Stores in databases have no such file; there the peers know (impl/actor/messages.py).

The file holds one actor: `actor` (its name, its epoch, the number of its commits), `record`, `word` and `event`. Its
layout's version is SQLite's user_version. A new file can be read by its owner alone.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import re
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple, TypeVar
from zlib import crc32

from leasehold.impl import files
from leasehold.impl.store.failures import error_of, failure_of, is_disk_full
from leasehold.impl.store.owned import PAGE, OwnedStore, Row
from leasehold.impl.store.store import Batch, EventRange, Older, RecordKey, StoreError

T = TypeVar("T")

VERSION = 3
_PROGRAM = 0x4C454153  # SQLite's application_id of our files, "LEAS"
_WAIT_SECONDS = 2.0  # for another program, such as a backup, that holds SQLite's own lock
_SQL = files.table(__package__, "statements.yaml")["sqlite"]
RESERVE_BYTES = 4 << 20
RESERVE_PART = 8  # of what is free, at most
LOOK_SECONDS = 5.0
_MARK = re.compile(rb"epoch ([0-9]{20}), commit ([0-9]{20}), crc ([0-9a-f]{8})\n")

log = logging.getLogger("leasehold.store")


async def _unlocked(call: Callable[[], T]) -> T:
    """Waits for another program that holds SQLite's lock; the event loop goes on meanwhile."""
    waited, pause = 0.0, 0.005
    while True:
        try:
            return call()
        except sqlite3.OperationalError as error:
            if waited > _WAIT_SECONDS or not getattr(error, "sqlite_errorname", "").startswith("SQLITE_BUSY"):
                raise
        await asyncio.sleep(pause)
        waited, pause = waited + pause, min(2 * pause, 0.1)


def _code(error: sqlite3.Error | OSError) -> tuple[str, str]:
    """The driver and the code by which the table of failures knows an error."""
    if isinstance(error, OSError):
        return "system", errno.errorcode.get(error.errno or 0, "")
    return "sqlite", getattr(error, "sqlite_errorname", "")


async def _checkpoint(connection: sqlite3.Connection) -> None:
    """Moves the log into the file; where another program reads on, what it reads stays there."""
    waited, pause = 0.0, 0.005
    while connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] and waited <= _WAIT_SECONDS:
        await asyncio.sleep(pause)
        waited, pause = waited + pause, min(2 * pause, 0.1)


class CommitPosition(NamedTuple):
    """The progress of a store: the epoch of its owner, and the number of its commits. Later ones compare higher."""

    epoch: int
    commits: int

    def __str__(self) -> str:
        return f"epoch {self.epoch}, commit {self.commits}"


class HighWaterMark:
    """The file beside a store that says how far the store has come."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None

    def read(self) -> CommitPosition | None:
        """The mark; None where there is none, or where a power failure left a part of it.

        Raises:
            OSError: it is there, and cannot be read.
        """
        try:
            matched = _MARK.fullmatch(self.path.read_bytes())
        except FileNotFoundError:
            return None
        if matched is None or int(matched[3], 16) != _check(matched[1], matched[2]):
            return None
        return CommitPosition(int(matched[1]), int(matched[2]))

    def write(self, position: CommitPosition) -> None:
        """Raises the mark; the file is created at the first call.

        Raises:
            OSError: it cannot be written.
        """
        if self._file is None:
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        epoch, commits = b"%020d" % position.epoch, b"%020d" % position.commits
        os.pwrite(self._file, b"epoch %b, commit %b, crc %08x\n" % (epoch, commits, _check(epoch, commits)), 0)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _check(*parts: bytes) -> int:
    return crc32(b" ".join(parts))


class DiskReserve:
    """The reserve of one store.

    Args:
        path: of its file.
        size: in bytes.

    Attributes:
        used: whether it was given up, and is not back.
    """

    def __init__(self, path: Path, size: int = RESERVE_BYTES) -> None:
        self.path, self._size, self.used = path, size, False
        self._looked = 0.0

    @property
    def held(self) -> int:
        """The bytes that it has."""
        try:
            return self.path.stat().st_blocks * 512
        except OSError:
            return 0

    def take(self) -> bool:
        """Takes the space, or finds it taken; returns whether it is there."""
        given_up = self.used or (self.path.is_file() and not self.held)
        try:
            handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            log.warning("%s: there is no reserve of space: %s", self.path, error.strerror)
            return False
        try:
            if os.fstat(handle).st_blocks * 512 >= self._size // RESERVE_PART:
                self.used = False
                return True
            free = os.fstatvfs(handle)
            wanted = min(self._size, free.f_bavail * free.f_frsize // RESERVE_PART)
            roomy = free.f_bavail * free.f_frsize >= 2 * self._size or free.f_bavail >= free.f_blocks // 4
            if wanted < 4096 or (given_up and not roomy):
                self.used = True
                return False
            os.posix_fallocate(handle, 0, wanted)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(handle, 0)
            log.warning("%s: there is no reserve of space: %s", self.path, error.strerror)
            return False
        finally:
            os.close(handle)
        if self.used:
            log.warning("%s: there is a reserve of space again", self.path)
        self.used = False
        return True

    def give_up(self) -> bool:
        """Gives the space to others; returns whether there was any."""
        had = self.held > 0
        try:
            os.truncate(self.path, 0)
        except OSError:
            return False
        if had:
            log.error("%s: the disk is full, and the reserve is used to end leases; free some space", self.path)
        self.used, self._looked = True, time.monotonic()
        return had

    def take_again(self) -> None:
        """Takes the space once more, if it was given up and there is enough again; looks rarely."""
        if not self.used or time.monotonic() < self._looked + LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        self.take()


class SqliteStore(OwnedStore):
    """A store in a file, which is created if its folder is there; `connect` opens it as sqlite3.connect does."""

    def __init__(self, path: str | Path, connect: Callable[..., sqlite3.Connection] = sqlite3.connect) -> None:
        super().__init__(str(path))
        self.path = Path(path).absolute()
        self._connect = connect
        self._lock_path = Path(f"{self.path}.lock")
        self._lock: int | None = None
        self._connection: sqlite3.Connection | None = None
        self._file: os.stat_result | None = None  # which file it was when it was opened
        self._mark = HighWaterMark(Path(f"{self.path}.mark"))
        self._reserve = DiskReserve(Path(f"{self.path}.reserve"))
        self._epoch = 0

    @property
    def low(self) -> bool:
        """Returns whether the disk is full, and commits use up the reserve."""
        self._reserve.take_again()  # who refuses what is new, as this says, may have nothing to commit
        return self._reserve.used

    async def _take(self, owner: str) -> int:
        try:
            return await self._begin_epoch(owner)
        except (sqlite3.Error, OSError) as error:
            if not is_disk_full(*_code(error)) or not self._reserve.give_up():
                raise
        await self._drop()
        return await self._begin_epoch(owner)

    async def _begin_epoch(self, owner: str) -> int:
        if not self.path.parent.is_dir():
            raise StoreError(f"{self.place}: there is no folder {self.path.parent}", "create it")
        self._lock = files.lock(self._lock_path)
        if self._lock is None:
            process = self._lock_path.read_text(errors="replace").strip()[:20]
            holder = f" (process {process})" if process else ""
            raise self._busy(owner, holder, "stop that copy, or give this actor a file of its own")
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)
        mark = self._mark.read()
        if mark is not None and not self.path.exists():
            # A new one would be empty, and all leases forgotten.
            if self._epoch:  # it was ours a moment ago, and may come back
                raise StoreError(f"{self.place} was removed while it was in use", "put the file back")
            raise Older(f"{self.place} is gone, and had come to {mark}", self._remedy())
        self._create_file()
        # SQLite would open it to read, and leave a log beside it that cannot be written even when the file can again.
        if not os.access(self.path, os.R_OK | os.W_OK, effective_ids=True):
            raise StoreError(f"{self.place}: the actor's user may not read and write it", "permit both")
        # Only a file that is there is opened, so that nobody but the lines above decides who may read it.
        connection = self._connect(f"{self.path.as_uri()}?mode=rw", uri=True, timeout=0, isolation_level=None)
        self._connection = connection
        # Before anything is changed: the file may be another program's.
        connection.execute("BEGIN")
        await _unlocked(lambda: self._check_layout(connection, owner))
        connection.execute("ROLLBACK")
        mode = (await _unlocked(lambda: connection.execute("PRAGMA journal_mode = WAL"))).fetchone()[0]
        if mode != "wal":
            raise StoreError(
                f"{self.place}: SQLite cannot write a log beside it (it keeps the mode {mode!r})", "move it"
            )
        connection.execute("PRAGMA synchronous = FULL")
        await _checkpoint(connection)
        await _unlocked(lambda: connection.execute("BEGIN IMMEDIATE"))
        version = self._check_layout(connection, owner)
        if not version:
            *tables, actor = _SQL["layout"]
            for statement in tables:
                connection.execute(statement)
            connection.execute(actor, (owner,))
        for before in range(version or VERSION, VERSION):
            for statement in _SQL[f"from_{before}"]:
                connection.execute(statement)
        position = CommitPosition(*connection.execute("SELECT epoch, commits FROM actor").fetchone())
        if mark is not None and position < mark:
            raise Older(f"{self.place} is an older copy: it is at {position}, and had come to {mark}", self._remedy())
        connection.execute("UPDATE actor SET epoch = epoch + 1")
        connection.execute("COMMIT")
        self._epoch = position.epoch + 1
        self._mark.write(CommitPosition(self._epoch, position.commits))
        self._reserve.take()
        page = connection.execute("PRAGMA page_size").fetchone()[0]
        connection.execute(f"PRAGMA wal_autocheckpoint = {max(1, (self._reserve.held or RESERVE_BYTES) // 2 // page)}")
        return self._epoch

    def _remedy(self) -> str:
        return (
            "put the newest one back; if that is lost, wait until the leases that it may have had are over, then "
            f"remove {self._mark.path}, and give the actor a new key in place of the old one, which is revoked"
        )

    async def _look(self, owner: str) -> bool:
        self._epoch, self._connection = 0, self._connect_to_read()
        version = self._check_layout(self._connection, owner)
        if 0 < version < VERSION:
            raise StoreError(
                f"{self.place} was written by an older Leasehold, and has no events", "start its actor with this one"
            )
        return version > 0

    async def _owners(self) -> list[str]:
        try:
            with closing(self._connect_to_read()) as connection:
                return [str(name) for (name,) in connection.execute("SELECT name FROM actor")]
        except sqlite3.Error as error:
            raise StoreError(f"{self.place} is no store of an actor: {error}", "look at the store's URL") from error

    def _connect_to_read(self) -> sqlite3.Connection:
        if not self.path.is_file():
            raise StoreError(
                f"{self.place}: there is no such file", "look at the store's URL, and at the folder that you are in"
            )
        # A file that was closed well has no log beside it; read as it is, it gets none that would stay there.
        how = "mode=ro" if Path(f"{self.path}-wal").exists() else "mode=ro&immutable=1"
        return sqlite3.connect(f"{self.path.as_uri()}?{how}", uri=True)

    def _create_file(self) -> None:
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            pass
        else:
            # The name of a new file is durable only when its folder is.
            files.sync_folder(self.path.parent)
        self._file = os.stat(self.path)

    def _check_layout(self, connection: sqlite3.Connection, owner: str) -> int:
        """The version of the file's layout; 0 if it is empty.

        Raises:
            StoreError: it belongs to another program, version or actor.
        """
        program, version = (
            int(connection.execute(f"PRAGMA {name}").fetchone()[0]) for name in ("application_id", "user_version")
        )
        if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            return 0
        if program != _PROGRAM:
            raise StoreError(f"{self.place} is a database of another program", "give the actor a file of its own")
        if version > VERSION:
            raise self._newer_version(version, VERSION)
        name = connection.execute("SELECT name FROM actor").fetchone()[0]
        if name != owner:
            raise StoreError(
                f"{self.place} belongs to the actor {name!r}, not to {owner!r}",
                f"give {owner!r} a file of its own, or start the actor {name!r}",
            )
        return version

    async def _page(self, after: RecordKey | None) -> Sequence[Row]:
        query = _SQL["next_page" if after else "first_page"]
        return self._open_connection().execute(query, (*(after or ()), PAGE)).fetchall()

    async def _metadata(self) -> Sequence[tuple[str, bytes]]:
        return self._open_connection().execute("SELECT name, body FROM word").fetchall()

    async def _event_page(self, after: int, limit: int) -> Sequence[tuple[int, bytes]]:
        return self._open_connection().execute(_SQL["events"], (after, limit)).fetchall()

    async def _event_range(self) -> EventRange:
        return EventRange(*self._open_connection().execute(_SQL["event_range"]).fetchone())

    async def _commit(self, batch: Batch) -> None:
        connection, before = self._open_connection(), self._commits()
        try:
            await self._try_commit(batch)
        except sqlite3.Error as error:
            if not is_disk_full(*_code(error)) or not self._reserve.give_up():
                raise
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if self._commits() != before:
                raise
            await self._try_commit(batch)
        self._reserve.take_again()

    def _commits(self) -> int:
        return int(self._open_connection().execute("SELECT commits FROM actor").fetchone()[0])

    async def _try_commit(self, batch: Batch) -> None:
        connection = self._open_connection()
        self._check_file()
        await _unlocked(lambda: connection.execute("BEGIN IMMEDIATE"))
        connection.execute("UPDATE actor SET commits = commits + 1")
        position = CommitPosition(*connection.execute("SELECT epoch, commits FROM actor").fetchone())
        if position.epoch != self._epoch:
            raise self._fenced(self._epoch, position.epoch)
        if batch.puts:
            connection.executemany(
                _SQL["put"], [(lease, machine, body) for (lease, machine), body in batch.puts.items()]
            )
        if batch.drops:
            connection.executemany(_SQL["drop"], list(batch.drops))
        for name, body in batch.metadata.items():
            if body:
                connection.execute(_SQL["say"], (name, body))
            else:
                connection.execute(_SQL["unsay"], (name,))
        if batch.prune_events_to:
            connection.execute(_SQL["prune"], (batch.prune_events_to,))
        if batch.events:
            connection.executemany(_SQL["append"], enumerate(batch.events, self._last_event + 1))
        connection.execute("COMMIT")
        self._mark.write(position)

    def _check_file(self) -> None:
        try:
            now = os.stat(self.path)
        except FileNotFoundError:
            now = None
        if now is None or self._file is None or not os.path.samestat(now, self._file):
            raise StoreError(f"{self.place} was removed or replaced while it was in use", "put the file back")

    def _open_connection(self) -> sqlite3.Connection:
        if self._connection is None:
            raise self._not_open()
        return self._connection

    async def _drop(self) -> None:
        if self._connection is not None:
            # Should its last checkpoint fail: the log still holds what that would have moved.
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None
        self._mark.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _meaning(self, error: BaseException) -> StoreError | None:
        if isinstance(error, sqlite3.Error):
            driver, code = _code(error)
            return error_of(driver, code, self.place, f"{error}, {code}" if code else str(error))
        if isinstance(error, OSError):
            message = f"{error.strerror} ({error.filename or self._lock_path})"
            driver, code = _code(error)
            if failure_of(driver, code):
                return error_of(driver, code, self.place, message)
            return StoreError(f"{self.place}: {message}", "see its path and permissions")
        return None
