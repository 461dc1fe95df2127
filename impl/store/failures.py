"""What the errors of databases mean, as tables: code -> (what happened, what to do about it).

An operator reads these at three in the morning, so they name the cause and the remedy; the driver's own words follow in
brackets. What is in no table is said in the driver's words alone.

Some of these another moment may cure, without anybody touching the actor: a server that is started, a lock that is let
go, room on a disk. They are `Transient`, and worth another try; the others wait for an operator.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import TypeAlias

from leasehold.impl.store.store import StoreError, Transient

Meanings: TypeAlias = Mapping[str, tuple[str, str]]

_FULL = ("the disk is full", "free some space on it")
_READ_ONLY = ("it can only be read", "make it writable")
_UNREACHABLE = ("the database cannot be reached", "see that the server runs, and that host and port are right")
_LOST = ("the connection to the database was lost", "see that the server runs and can be reached")
_REFUSED = ("the database refuses the user or the password", "correct the user and the password in the store's URL")
_FORBIDDEN = ("the database user has no permission", "grant it all rights on this database")
_LOCKED = ("another program holds a lock on it", "stop that program")
_BUSY_SERVER = ("the server takes no more connections", "raise the server's limit of connections, or wait")
_DISK = ("the disk failed to read or write", "look into the system's log, and replace the disk if it is failing")
_DAMAGED = ("its content is damaged", "restore it from a backup")
_TABLES = ("its tables are not those of Leasehold", "use a database of its own for Leasehold")
_STARTING = ("the server is starting or stopping", "wait until it has started")
_NO_MEMORY = ("the server is out of memory", "give the server more memory")
_SLOW = ("the database did not answer in time", "see whether the server is overloaded")
_CONFLICT = ("two transactions were in each other's way", "nothing has to be done: it is tried again")
_NO_FILES = ("no more files can be opened", "raise the limit of open files")

# By the name of the extended result code, or of the primary one that it begins with.
SQLITE: Meanings = {
    "SQLITE_AUTH": _FORBIDDEN,
    "SQLITE_BUSY": _LOCKED,
    "SQLITE_CANTOPEN": ("the file cannot be opened", "see that its folder exists and that the actor may write there"),
    "SQLITE_CORRUPT": _DAMAGED,
    "SQLITE_ERROR": _TABLES,
    "SQLITE_FULL": _FULL,
    "SQLITE_IOERR": _DISK,
    "SQLITE_IOERR_SHMSIZE": _FULL,
    "SQLITE_LOCKED": _LOCKED,
    "SQLITE_NOTADB": ("it is not a SQLite file", "give another path, or restore it from a backup"),
    "SQLITE_PERM": ("the file may not be opened", "give the actor's user permission to read and write it"),
    "SQLITE_READONLY": _READ_ONLY,
    "SQLITE_READONLY_DBMOVED": ("the file was removed or replaced", "put the file back"),
    "SQLITE_TOOBIG": ("a value is too large for SQLite", "keep large data elsewhere"),
}

# SQLSTATEs, or the classes that they begin with; MariaDB's error numbers, of which those from 2000 on are the client's.
_CODES: tuple[tuple[tuple[str, str], str, str], ...] = (
    (_BUSY_SERVER, "53300", "1040 1203 1226"),
    (_CONFLICT, "40", "1213"),
    (_DAMAGED, "XX001 XX002", ""),
    (_DISK, "58030", "1030"),
    (_FORBIDDEN, "42501", "1044 1142"),
    (_FULL, "53100", "1021 1114"),
    (_LOCKED, "55P03", "1020 1205"),
    (_LOST, "08 57P01 57P02 57P05", "1317 1927 2002 2006 2013 2014"),
    (_NO_MEMORY, "53200", "1037 1038 1041"),
    (_READ_ONLY, "25006", "1036 1290 1792"),
    (_REFUSED, "28", "1045 1698"),
    (_SLOW, "57014", "1969"),
    (_STARTING, "57P03", "1053"),
    (_TABLES, "42703 42P01", "1054 1146"),
    (_UNREACHABLE, "", "2003"),
    (("there is no such database", "create the database, or correct its name in the store's URL"), "3D000", "1049"),
    (("there is no schema to keep tables in", "create the schema that search_path names"), "3F000", ""),
    (("the database cannot keep a value", "this is a mistake in Leasehold; please report it"), "22", ""),
    (("the server takes no statement of this length", "set its max_allowed_packet to 16 MiB or more"), "", "1153"),
)
POSTGRESQL: Meanings = {code: meaning for meaning, codes, _ in _CODES for code in codes.split()}
MARIADB: Meanings = {code: meaning for meaning, _, codes in _CODES for code in codes.split()}

# By number: what a path of the file system may refuse for a while.
SYSTEM: Meanings = {
    str(errno.ENOSPC): _FULL,
    str(errno.EDQUOT): _FULL,
    str(errno.EMFILE): _NO_FILES,
    str(errno.ENFILE): _NO_FILES,
}

UNREACHABLE = _UNREACHABLE
LOST = _LOST
REFUSED = ("the server refuses the connection", "correct what it complains of")

_TRANSIENT = frozenset(
    (_FULL, _UNREACHABLE, _LOST, _LOCKED, _BUSY_SERVER, _STARTING, _NO_MEMORY, _SLOW, _CONFLICT, _NO_FILES)
)

# PostgreSQL refuses a connection in words alone, without a code. Of its own (FATAL) these pass, and of libpq's, which
# are mostly of a network, those that complain of a password or of TLS do not.
_REFUSALS = {
    "too many": _BUSY_SERVER,
    "connection slots": _BUSY_SERVER,
    "starting up": _STARTING,
    "shutting down": _STARTING,
    "not yet accepting connections": _STARTING,
    "not accepting connections": _STARTING,
    "in recovery mode": _STARTING,
    "terminating connection": _LOST,
}
_LASTING = ("password", "certificate", "support SSL", "authentication", "invalid port", "GSSAPI", "SCRAM")


def refused(place: str, words: str) -> StoreError:
    """The error to raise where PostgreSQL lets no connection come to be, for which there are words alone."""
    if "FATAL:" in words:
        return said(next((what for part, what in _REFUSALS.items() if part in words), REFUSED), place, words)
    return said(REFUSED if any(word in words for word in _LASTING) else UNREACHABLE, place, words)


def meaning(table: Meanings, code: str, place: str, detail: str) -> StoreError:
    """The error to raise: the longest beginning of the code that is in the table says what it means."""
    known = max((key for key in table if code.startswith(key)), key=len, default=None)
    what, remedy = table[known] if known else ("the database failed", "")
    return said((what, remedy), place, detail)


def said(what_and_remedy: tuple[str, str], place: str, detail: str) -> StoreError:
    """The error to raise, with the driver's own words in brackets, on one line."""
    what, remedy = what_and_remedy
    words = " ".join(detail.split())[:300]
    kind = Transient if what_and_remedy in _TRANSIENT else StoreError
    return kind(f"{place}: {what} ({words})" if words else f"{place}: {what}", remedy)
