"""The table of databases' errors: its codes are those of the drivers, and each means one thing."""

from __future__ import annotations

import errno
import sqlite3
from collections import Counter

import psycopg.errors
import pytest
from pymysql.constants import CR, ER  # type: ignore[import-untyped]

from leasehold.impl.files import table
from leasehold.impl.store.failures import find, meaning
from leasehold.impl.store.store import Transient

ROWS = table("leasehold.impl.store", "failures.yaml")
CODES = [(driver, code) for row in ROWS.values() for driver, codes in row.get("codes", {}).items()
         for code in codes.split()]  # fmt: skip
# Errors of the server that the driver's list lacks: a user without a password, a transaction that may only read, a
# connection that was killed, a statement that took too long.
MARIADB = {1698, 1792, 1927, 1969, *(v for names in (CR, ER) for v in vars(names).values() if isinstance(v, int))}


def known(driver: str, code: str) -> bool:
    """Whether a driver has a code, or codes that begin so."""
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


@pytest.mark.parametrize(("driver", "code", "what", "again"), [
    ("system", "ENOSPC", "the disk is full", True), ("system", "EDQUOT", "the disk is full", True),
    ("sqlite", "SQLITE_FULL", "the disk is full", True), ("sqlite", "SQLITE_IOERR_WRITE", "the disk failed", False),
    ("sqlite", "SQLITE_READONLY_DBMOVED", "the file was removed", False),
    ("sqlite", "SQLITE_READONLY_CANTLOCK", "it can only be read", False),
    ("postgresql", "57P03", "the server is starting", True), ("postgresql", "53300", "no more connections", True),
    ("postgresql", "08006", "the connection", True), ("postgresql", "28P01", "refuses the user", False),
    ("mariadb", "1053", "the server is starting", True), ("mariadb", "2013", "the connection", True),
    ("mariadb", "1045", "refuses the user", False), ("mariadb", "99999", "the database failed", False),
])  # fmt: skip
def test_what_a_code_means_and_whether_to_try_again(driver: str, code: str, what: str, again: bool) -> None:
    error = meaning(driver, code, "broker.db", "its words")
    assert what in error.reason
    assert "(its words)" in error.reason
    assert isinstance(error, Transient) == again
    assert bool(error.remedy) == (find(driver, code) is not None)
