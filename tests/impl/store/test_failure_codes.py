"""The table of databases' errors: its codes are those of the drivers, and each means one thing."""

from __future__ import annotations

import errno
import sqlite3
from collections import Counter

import aiomysql
import psycopg.errors
import pytest
from pymysql.constants import CR, ER  # type: ignore[import-untyped]

from leasehold.impl.files import table
from leasehold.impl.store.failures import connection_refused, error_named, error_of, failure_of
from leasehold.impl.store.mariadb import MariadbStore
from leasehold.impl.store.memory import MemoryStore
from leasehold.impl.store.owned import OwnedStore
from leasehold.impl.store.postgresql import PostgresqlStore
from leasehold.impl.store.sqlite import SqliteStore
from leasehold.impl.store.store import Broken, StoreError, Transient

ROWS = table("leasehold.impl.store", "failures.yaml")
CODES = [
    (driver, code) for row in ROWS.values() for driver, codes in row.get("codes", {}).items() for code in codes.split()
]
# Errors of the server that the driver's list lacks: a user without a password, a transaction that may only read, a
# connection that was killed, a statement that took too long.
MARIADB = {1698, 1792, 1927, 1969, *(v for names in (CR, ER) for v in vars(names).values() if isinstance(v, int))}


def known(driver: str, code: str) -> bool:
    """Returns whether a driver has a code, or codes that begin so."""
    match driver:
        case "sqlite":
            return hasattr(sqlite3, code)
        case "postgresql":
            return bool(psycopg.errors.lookup(code.ljust(5, "0")))  # raises KeyError where there is none
        case "mariadb":
            return int(code) in MARIADB
    return code in errno.errorcode.values()


def test_a_code_stands_once() -> None:
    assert [code for code, times in Counter(CODES).items() if times > 1] == []


@pytest.mark.parametrize(("driver", "code"), CODES)
def test_a_code_is_one_of_the_driver(driver: str, code: str) -> None:
    assert known(driver, code)


@pytest.mark.parametrize(
    ("driver", "code", "what", "again"),
    [
        ("system", "ENOSPC", "the disk is full", True),
        ("system", "EDQUOT", "the disk is full", True),
        ("sqlite", "SQLITE_FULL", "the disk is full", True),
        ("sqlite", "SQLITE_IOERR_WRITE", "the disk failed", False),
        ("sqlite", "SQLITE_READONLY_DBMOVED", "the file was removed", False),
        ("sqlite", "SQLITE_READONLY_CANTLOCK", "it can only be read", False),
        ("postgresql", "57P03", "the server is starting", True),
        ("postgresql", "53300", "no more connections", True),
        ("postgresql", "08006", "the connection", True),
        ("postgresql", "28P01", "refuses the user", False),
        ("mariadb", "1053", "the server is starting", True),
        ("mariadb", "2013", "the connection", True),
        ("mariadb", "1045", "refuses the user", False),
        ("mariadb", "99999", "the database failed", False),
    ],
)
def test_what_a_code_means_and_whether_to_try_again(driver: str, code: str, what: str, again: bool) -> None:
    error = error_of(driver, code, "broker.db", "its words")
    assert what in error.reason
    assert "(its words)" in error.reason
    assert isinstance(error, Transient) == again
    assert bool(error.remedy) == (failure_of(driver, code) is not None)


def test_the_longest_beginning_of_a_code_counts() -> None:
    """A class of codes has one meaning, and a code of it may have another."""
    assert [failure_of("postgresql", code) for code in ("40001", "40", "4", "")] == [
        failure_of("postgresql", "40P01")
    ] * 2 + [None] * 2
    assert failure_of("postgresql", "57P03") is not failure_of("postgresql", "57P02")
    assert failure_of("sqlite", "SQLITE_READONLY_DBMOVED") is not failure_of("sqlite", "SQLITE_READONLY_DIRECTORY")
    assert failure_of("mariadb", "40001") is None  # of another driver


def test_what_may_pass_by_itself_is_tried_again() -> None:
    """An actor whose store fails so waits for it, also when it starts; all else is for an operator to mend."""
    passing = [
        "busy_server",
        "conflict",
        "full",
        "locked",
        "lost",
        "no_files",
        "no_memory",
        "slow",
        "starting",
        "unreachable",
    ]
    assert sorted(row for row in ROWS if ROWS[row].get("transient")) == passing


@pytest.mark.parametrize("row", ROWS)
def test_each_failure_says_what_happened_and_whether_to_try_again(row: str) -> None:
    error = error_named(row, "broker.db", "its\n  words")
    assert error.reason == f"broker.db: {ROWS[row]['what']} (its words)"
    assert error.remedy == ROWS[row]["remedy"]
    assert type(error) is (Transient if ROWS[row].get("transient") else StoreError)
    assert error_named(row, "broker.db", "").reason == f"broker.db: {ROWS[row]['what']}"
    assert len(error_named(row, "", "x" * 1000).reason) < 400


REFUSALS = [
    ("server", "FATAL: sorry, too many clients already", "the server takes no more connections", True),
    ("server", "FATAL: remaining connection slots are reserved", "the server takes no more connections", True),
    ("server", "FATAL: the database system is starting up", "the server is starting or stopping", True),
    ("server", "FATAL: the database system is shutting down", "the server is starting or stopping", True),
    ("server", "FATAL: the database system is not yet accepting connections", "the server is starting", True),
    ("server", "FATAL: the database system is not accepting connections", "the server is starting", True),
    ("server", "FATAL: the database system is in recovery mode", "the server is starting or stopping", True),
    ("server", "FATAL: terminating connection due to administrator command", "the connection to the database", True),
    ("server", 'FATAL: database "leases" does not exist', "the server refuses the connection", False),
    ("server", 'FATAL: password authentication failed for user "me"', "the server refuses the connection", False),
    ("libpq", "connection to server failed: Connection refused", "the database cannot be reached", True),
    ("libpq", "could not translate host name: too many tries", "the database cannot be reached", True),
    ("libpq", "timeout expired", "the database cannot be reached", True),
    ("libpq", "fe_sendauth: no password supplied", "the server refuses the connection", False),
    ("libpq", "SSL error: certificate verify failed", "the server refuses the connection", False),
    ("libpq", "server does not support SSL, but SSL was required", "the server refuses the connection", False),
    ("libpq", "authentication method requirement failed", "the server refuses the connection", False),
    ("libpq", 'invalid port number: "0"', "the server refuses the connection", False),
    ("libpq", "GSSAPI continuation error", "the server refuses the connection", False),
    ("libpq", "incorrect server signature in SCRAM exchange", "the server refuses the connection", False),
]


@pytest.mark.parametrize(("source", "words", "what", "again"), REFUSALS, ids=[words for _, words, _, _ in REFUSALS])
def test_a_connection_of_postgresql_that_does_not_come_to_be(source: str, words: str, what: str, again: bool) -> None:
    """There are words alone: of the server's the network's are no sign, and of libpq's those of a server are none."""
    error = connection_refused("db", words)
    assert error.reason.startswith(f"db: {what}")
    assert words in error.reason
    assert isinstance(error, Transient) == again


MARIA, POST = MariadbStore("mariadb://db/leases"), PostgresqlStore("postgresql://db/leases")
LITE = SqliteStore("/x/site.db")
MEANINGS: list[tuple[OwnedStore, BaseException, str, bool]] = [
    (MARIA, TimeoutError(), "was lost (no answer within 60 seconds); see", True),
    (MARIA, ConnectionResetError(104, "reset by peer"), "was lost ([Errno 104] reset by peer); see", True),
    (MARIA, aiomysql.InterfaceError("(0, 'Not connected')"), "was lost ((0, 'Not connected')); see", True),
    (MARIA, aiomysql.OperationalError(0, "gone"), "was lost (gone); see", True),
    (MARIA, aiomysql.OperationalError(1045, "no entry"), "refuses the user or the password (no entry, 1045)", False),
    (MARIA, aiomysql.OperationalError(2013, "lost"), "was lost (lost, 2013)", True),
    (MARIA, aiomysql.ProgrammingError(77777, "odd"), "the database failed (odd, 77777)", False),
    (POST, psycopg.errors.lookup("53100")("no room"), "the disk is full (no room, 53100)", True),
    (POST, psycopg.errors.lookup("42601")("odd"), "the database failed (odd, 42601)", False),
    (POST, psycopg.OperationalError("timeout expired"), "the database cannot be reached (timeout expired)", True),
    (POST, psycopg.OperationalError("FATAL: no entry"), "refuses the connection (FATAL: no entry)", False),
    (LITE, sqlite3.OperationalError("locked"), "/x/site.db: the database failed (locked)", False),
    (LITE, OSError(errno.EMFILE, "Too many open files", "/x/f"), "no more files can be opened (Too many", True),
    (LITE, OSError(errno.ENOSPC, "No space"), "the disk is full (No space (/x/site.db.lock))", True),
    (LITE, OSError(errno.EACCES, "Denied", "/x/f"), "/x/site.db: Denied (/x/f); see its path and permissions", False),
    (LITE, OSError("odd"), "see its path and permissions", False),
]


@pytest.mark.parametrize(("store", "error", "words", "again"), MEANINGS, ids=[repr(e) for _, e, _, _ in MEANINGS])
def test_what_a_driver_s_error_means(store: OwnedStore, error: BaseException, words: str, again: bool) -> None:
    meant = store._meaning(error)
    assert meant is not None
    assert words in str(meant)
    assert isinstance(meant, Transient) == again


@pytest.mark.parametrize("store", [MARIA, POST, LITE, MemoryStore()], ids=lambda store: type(store).__name__)
def test_an_error_that_is_no_driver_s_is_left_as_it_is(store: OwnedStore) -> None:
    """A mistake in here must not look like one of a database."""
    for error in (ValueError("odd"), KeyError("odd"), KeyboardInterrupt(), Broken("told already")):
        assert store._meaning(error) is None


def test_a_connection_of_postgresql_that_was_there_is_lost() -> None:
    """The words of libpq for one that it has no code for are not those for one which never came to be."""
    store = PostgresqlStore("postgresql://db/leases")
    store._connection = object()  # type: ignore[assignment]
    meant = store._meaning(psycopg.OperationalError("server closed the connection unexpectedly"))
    assert isinstance(meant, Transient)
    assert "the connection to the database was lost (server closed" in meant.reason
