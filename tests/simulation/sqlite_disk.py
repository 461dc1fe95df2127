"""SQLite's files on a simulated disk: the real store, and below it a file system that fails as real ones do.

Theory of operation. The store is impl/store/sqlite.py itself. Its connection comes from apsw, which lets SQLite's calls
of the operating system (its VFS) be written in Python: they go to a `FileSystem`, and do there what SQLite's own calls
do on Unix, fsyncs of the folder and result codes included. The connection says what the standard library's would say,
in its methods and errors.

What differs from a real disk: the store's lock and mark, and the file by which it notices that its file was removed,
are real files in a folder; the file of the database is on the simulated disk from the beginning, empty; the index of
the log is in memory (`locking_mode = EXCLUSIVE`), where otherwise it is in shared memory, which no crash outlives
either; SQLite's own locks always succeed; and the SQLite is apsw's, which is not the version of the standard library.
"""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from errno import ENOENT, ENOSPC
from itertools import count
from pathlib import Path
from typing import Any, TypeVar, cast

import apsw

from leasehold.impl.store.owned import without_checksum
from leasehold.impl.store.sqlite import SqliteStore
from leasehold.impl.store.store import RecordKey
from tests.simulation.files import File, FileSystem

T = TypeVar("T")

CHECKPOINT_AFTER = 1000  # pages of the log, as SQLite has it where nothing else is said

# As the standard library's module maps SQLite's result codes, and what SQLite says of each.
_CLASSES: dict[int, type[sqlite3.Error]] = {
    apsw.SQLITE_INTERNAL: sqlite3.InternalError,
    apsw.SQLITE_NOTFOUND: sqlite3.InternalError,
    **dict.fromkeys(
        (
            apsw.SQLITE_ERROR,
            apsw.SQLITE_PERM,
            apsw.SQLITE_ABORT,
            apsw.SQLITE_BUSY,
            apsw.SQLITE_LOCKED,
            apsw.SQLITE_READONLY,
            apsw.SQLITE_INTERRUPT,
            apsw.SQLITE_IOERR,
            apsw.SQLITE_FULL,
            apsw.SQLITE_CANTOPEN,
            apsw.SQLITE_PROTOCOL,
            apsw.SQLITE_EMPTY,
            apsw.SQLITE_SCHEMA,
        ),
        sqlite3.OperationalError,
    ),
    apsw.SQLITE_TOOBIG: sqlite3.DataError,
    apsw.SQLITE_CONSTRAINT: sqlite3.IntegrityError,
    apsw.SQLITE_MISMATCH: sqlite3.IntegrityError,
    apsw.SQLITE_MISUSE: sqlite3.InterfaceError,
    apsw.SQLITE_RANGE: sqlite3.InterfaceError,
}
_WORDS = {
    apsw.SQLITE_CANTOPEN: "unable to open database file",
    apsw.SQLITE_FULL: "database or disk is full",
    apsw.SQLITE_IOERR: "disk I/O error",
    apsw.SQLITE_READONLY: "attempt to write a readonly database",
}


def _translated(error: apsw.Error) -> sqlite3.Error:
    """Returns what the standard library would raise."""
    code = getattr(error, "result", apsw.SQLITE_MISUSE)
    extended = getattr(error, "extendedresult", code)
    translated = _CLASSES.get(code, sqlite3.DatabaseError)(str(error) or _WORDS.get(code, "unknown error"))
    translated.sqlite_errorcode = extended
    translated.sqlite_errorname = str(
        apsw.mapping_extended_result_codes.get(extended) or apsw.mapping_result_codes[code]
    )
    return translated


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        raise _translated(error) from error


class Cursor:
    """What the store uses of the standard library's cursor, which is always one row ahead: so errors come as there."""

    def __init__(self, cursor: apsw.Cursor) -> None:
        self._cursor = cursor
        self._ahead = cursor.fetchone()

    def fetchone(self) -> Any:
        row = self._ahead
        if row is not None:
            with _errors():
                self._ahead = self._cursor.fetchone()
        return row

    def fetchall(self) -> list[Any]:
        return list(iter(self.fetchone, None))


class Connection:
    """What the store uses of the standard library's connection."""

    def __init__(self, vfs: str, name: str, checkpoint_after: int) -> None:
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
        with _errors():
            self._connection = apsw.Connection(name, flags=flags, vfs=vfs)
            self._connection.execute("PRAGMA locking_mode = EXCLUSIVE")

        def committed(connection: apsw.Connection, database: str, pages: int) -> int:
            """As SQLite does by itself; there an error of it is no error of the commit, and apsw would raise it."""
            if pages >= checkpoint_after:
                with suppress(apsw.Error):
                    connection.wal_checkpoint(database)
            return apsw.SQLITE_OK

        self._connection.set_wal_hook(committed)

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Cursor:
        if "wal_autocheckpoint =" in statement:  # it would take the place of the hook, which says when here
            statement = "SELECT 0"
        with _errors():
            return Cursor(self._connection.execute(statement, tuple(values)))

    @property
    def in_transaction(self) -> bool:
        return not self._connection.get_autocommit()

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]]) -> Cursor:
        with _errors():
            return Cursor(self._connection.executemany(statement, [tuple(row) for row in rows]))

    def close(self) -> None:
        try:
            with _errors():
                self._connection.close()
        finally:
            self._connection.close(True)  # apsw keeps it open where its last checkpoint failed


class SqliteDisk:
    """A disk with the database of one actor.

    Args:
        folder: a real one, for the store's lock.
        seed: of what is left to chance.
        checkpoint_after: how many pages the log has when it is moved into the file.

    Attributes:
        files: what is on it.
        connection: what connections are made of.
    """

    def __init__(self, folder: Path, seed: int = 0, checkpoint_after: int = CHECKPOINT_AFTER) -> None:
        self.path = folder / "actor.db"
        self.checkpoint_after = checkpoint_after
        self.connection: type[Connection] = Connection
        self._stores: list[SqliteStore] = []
        self._open: list[Connection] = []
        files = FileSystem(random.Random(seed))
        files.open(self.path.name, create=True).sync()
        files.sync_folder()
        self.mount(files)

    def mount(self, files: FileSystem) -> None:
        """Puts other files in place of these; what is known of the ones before is forgotten with them."""
        Path(f"{self.path}.mark").unlink(missing_ok=True)
        self.files = files
        self._vfs = _Vfs(files)

    def store(self) -> SqliteStore:
        store = SqliteStore(self.path, connect=self.connect)
        self._stores.append(store)
        return store

    def connect(self, database: str, **_: Any) -> sqlite3.Connection:
        """As sqlite3.connect, to the file of this name on the disk."""
        self._vfs.seed()
        connection = self.connection(self._vfs.name, database, self.checkpoint_after)
        self._open.append(connection)
        return cast(sqlite3.Connection, connection)

    def crash(self) -> None:
        """The power goes, and whoever had the store open is gone, with its lock."""
        self.files.crash()
        self.kill()

    def kill(self) -> None:
        """The process that has the store open ends; the disk goes on, and keeps what is in its cache."""
        self.files.cut_off()
        for connection in self._open:
            with suppress(sqlite3.Error):
                connection.close()
        for store in self._stores:
            if store._lock is not None:
                os.close(store._lock)
                store._lock = None
        self._open.clear()
        self._stores.clear()

    @property
    def records(self) -> dict[RecordKey, bytes]:
        """Returns what somebody reads who looks at the files now."""
        vfs = _Vfs(self.files.copy(random.Random(0)))
        vfs.seed()
        connection = Connection(vfs.name, f"{self.path.as_uri()}?mode=rw", self.checkpoint_after)
        try:
            rows = connection.execute("SELECT lease, machine, body FROM record").fetchall()
        finally:
            connection.close()
        return {RecordKey(*key): without_checksum("the disk", ", ".join(key), body) for *key, body in rows}


# SQLite's calls of the operating system, as its os_unix.c makes them

_numbers = count()


class _Quiet:
    def excepthook(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        """Errors that SQLite itself passes over, as where it closes after one; whether that is right."""
        return isinstance(error, apsw.Error)


class _Vfs(_Quiet, apsw.VFS):
    def __init__(self, files: FileSystem) -> None:
        self.name = f"leasehold-{next(_numbers)}"
        self._files = files
        super().__init__(self.name, base="")

    def seed(self) -> None:
        """SQLite's own chance, by which it tells logs from each other, begins anew with the disk's."""
        before = apsw.vfs_names()[0]
        apsw.set_default_vfs(self.name)
        try:
            apsw.randomness(0)
            apsw.randomness(1)
        finally:
            apsw.set_default_vfs(before)

    def xRandomness(self, numbytes: int) -> bytes:
        return self._files.chance.randbytes(numbytes)

    def xFullPathname(self, name: str) -> str:
        return name

    def xSleep(self, microseconds: int) -> int:
        return microseconds

    def xAccess(self, pathname: str, flags: int) -> bool:
        name = os.path.basename(pathname)
        return self._files.exists(name) and self._files.open(name).size > 0

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> Any:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        if path is None:
            raise _failed(apsw.SQLITE_CANTOPEN)  # a temporary file; the store's statements need none
        base = os.path.basename(path)
        wanted = flags[0]
        new = not self._files.exists(base)
        if self._files.read_only and wanted & apsw.SQLITE_OPEN_READWRITE:
            wanted = wanted & ~(apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE) | apsw.SQLITE_OPEN_READONLY
        try:
            file = self._files.open(base, create=bool(wanted & apsw.SQLITE_OPEN_CREATE))
        except OSError:
            raise _failed(apsw.SQLITE_CANTOPEN) from None
        flags[1] = wanted
        journal = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL | apsw.SQLITE_OPEN_WAL
        return _VfsFile(self._files, file, named=not (new and flags[0] & journal))

    def xDelete(self, filename: str, syncdir: bool) -> None:
        name = os.path.basename(filename)
        try:
            self._files.unlink(name)
        except OSError as error:
            missing = error.errno == ENOENT
            raise _failed(apsw.SQLITE_IOERR_DELETE_NOENT if missing else apsw.SQLITE_IOERR_DELETE) from None
        if syncdir:
            _call(apsw.SQLITE_IOERR_DIR_FSYNC, self._files.sync_folder)


class _VfsFile(_Quiet):
    """An open file; `named`: its name is durable, or SQLite leaves that to whoever created it."""

    def __init__(self, files: FileSystem, file: File, named: bool) -> None:
        self._files, self._file, self._named = files, file, named

    def xRead(self, amount: int, offset: int) -> bytes:
        return _call(apsw.SQLITE_IOERR_READ, lambda: self._file.read(amount, offset))

    def xWrite(self, data: bytes, offset: int) -> None:
        _call(apsw.SQLITE_IOERR_WRITE, lambda: self._file.write(bytes(data), offset))

    def xTruncate(self, newsize: int) -> None:
        _call(apsw.SQLITE_IOERR_TRUNCATE, lambda: self._file.truncate(newsize))

    def xSync(self, flags: int) -> None:
        _call(apsw.SQLITE_IOERR_FSYNC, self._file.sync)
        if not self._named:
            _call(apsw.SQLITE_IOERR_DIR_FSYNC, self._files.sync_folder)
            self._named = True

    def xFileSize(self) -> int:
        return _call(apsw.SQLITE_IOERR_FSTAT, lambda: self._file.size)

    def xLock(self, level: int) -> None:
        """Who may use the file is decided by the store's lock."""

    def xUnlock(self, level: int) -> None:
        pass

    def xCheckReservedLock(self) -> bool:
        return False

    def xClose(self) -> None:
        pass

    def xSectorSize(self) -> int:
        return 4096

    def xDeviceCharacteristics(self) -> int:
        return apsw.SQLITE_IOCAP_POWERSAFE_OVERWRITE

    def xFileControl(self, op: int, ptr: int) -> bool:
        return False


def _failed(code: int) -> Exception:
    return apsw.exception_for(code)


def _call(code: int, do: Callable[[], T]) -> T:
    """Calls the file system; what it raises becomes a result code of SQLite."""
    try:
        return do()
    except OSError as error:
        raise _failed(apsw.SQLITE_FULL if error.errno == ENOSPC else code) from None
