"""A database of each kind with the tables of a system in it, for the tests of queries."""

from __future__ import annotations

import contextlib
import os
import socket
import sqlite3
import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pymysql
import pytest

from leasehold.checker.explore.layout import Layout
from leasehold.checker.verify.recorder import RunRecorder
from leasehold.checker.verify.schema import Tables
from leasehold.checker.verify.sql.dialects import DIALECTS
from leasehold.spec import System

KINDS = ("sqlite", "postgresql", "mariadb")
_PORTS = {"postgresql": 5432, "mariadb": 3306}


class Database:
    """A connection, and the tables of a system in it."""

    def __init__(self, kind: str, system: System, connection: Any, layout: Layout) -> None:
        self.connection = connection
        self.tables = Tables(system, DIALECTS[kind])
        self.recorder = RunRecorder(self.tables, layout)
        self.cursor = connection.cursor()
        for statement in (*self.tables.statements(), *self.tables.dialect.session):
            self.cursor.execute(statement)

    def write(self) -> None:
        self.recorder.write(self.cursor)
        self.connection.commit()

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        self.cursor.execute(query)
        return list(self.cursor.fetchall())


def answers(kind: str) -> None:
    """Skips a test whose database does not answer; where tests must not be skipped, it fails."""
    if kind not in _PORTS:
        return
    try:
        socket.create_connection(("127.0.0.1", _PORTS[kind]), timeout=2).close()
    except OSError as error:
        message = f"{kind} does not answer at 127.0.0.1:{_PORTS[kind]} ({error})"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)


@contextlib.contextmanager
def connected(kind: str) -> Iterator[Any]:
    """A connection to an empty place, which is removed afterwards."""
    name = f"leasehold_verify_{uuid.uuid4().hex}"
    if kind == "sqlite":
        with contextlib.closing(sqlite3.connect(":memory:")) as connection:
            yield connection
    elif kind == "postgresql":
        with psycopg.connect("postgresql://postgres@127.0.0.1:5432/test") as pg:
            pg.execute(f"CREATE SCHEMA {name}")
            pg.execute(f"SET search_path = {name}")
            pg.commit()
            yield pg
            pg.rollback()
            pg.execute(f"DROP SCHEMA {name} CASCADE")
    else:
        with contextlib.closing(pymysql.connect(host="127.0.0.1", user="root", database="test")) as maria:
            cursor = maria.cursor()
            cursor.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
            cursor.execute(f"USE {name}")
            yield maria
            cursor.execute(f"DROP DATABASE {name}")


@contextlib.contextmanager
def database(kind: str, system: System, layout: Layout) -> Iterator[Database]:
    answers(kind)
    with connected(kind) as connection:
        yield Database(kind, system, connection, layout)
