"""Databases that are hurt: nothing is lost or doubled, and the error says what is wrong."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leasehold.checker.recovery.processes.proxy import MUTE, OPEN, TcpProxy
from leasehold.checker.verify.database import DatabaseError, VerifyDatabase
from leasehold.checker.verify.history import HistoryVerification
from leasehold.checker.verify.schema import Tables
from leasehold.impl.events.lines import write_lines
from leasehold.spec import load
from tests.checker.verify.histories import known
from tests.checker.verify.test_follow import SEED
from tests.checker.verify.test_resumed import a_history, tables_of, undisturbed, url_of
from tests.cli.conftest import command

KINDS = ["sqlite", "postgresql", "mariadb"]
SERVERS = KINDS[1:]
END = {"postgresql": "SELECT pg_terminate_backend({})", "mariadb": "KILL {}"}
WHO = {"postgresql": "SELECT pg_backend_pid()", "mariadb": "SELECT CONNECTION_ID()"}
LOCK = {"postgresql": "LOCK TABLE event IN EXCLUSIVE MODE", "mariadb": "LOCK TABLES event WRITE"}


class Parts:
    """A verification of a history whose events come in two parts."""

    def __init__(self, url: str) -> None:
        self.url, self.of, self.history = url, known(2, True), a_history(SEED)

    def open(self) -> HistoryVerification:
        return HistoryVerification(self.of, self.history, url=self.url)

    def give(self, verification: HistoryVerification, share: float = 1.0) -> None:
        """What was not given before, of this share of each actor's events."""
        for actor, events in self.history.items():
            at = verification.kept.follower(actor).position
            verification.add(actor, [e for e in events[: round(share * len(events))] if e.position > at])
        with verification.database.told():
            verification.judge()

    def rest(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Goes on, to the end: the result and the tables."""
        with contextlib.closing(self.open()) as verification:
            self.give(verification)
            return verification.end().as_json(), tables_of(verification.database)

    def whole(self, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
        return undisturbed(self.of, self.history, f"sqlite:{folder / 'whole.db'}")


def same(found: tuple[dict[str, Any], dict[str, Any]], expected: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """Kinds of databases write truth values differently, so the numbers of rows are compared, and the result."""
    assert found[0] == expected[0]
    counts = [
        {name: len(rows) for name, rows in tables.items() if name != "follower"} for _, tables in (found, expected)
    ]
    assert counts[0] == counts[1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("done", [0, 1, 5, -1])
def test_who_is_killed_while_the_tables_are_made_leaves_none_or_what_is_made_anew(
    kind: str, done: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system, statements = load("two_phase_commit"), Tables.statements
    executed = []

    class Killed:
        """A cursor of a process that ends after some statements that make something."""

        def __init__(self, cursor: Any) -> None:
            self.cursor = cursor

        def execute(self, words: str, *values: Any) -> Any:
            if words.startswith(("CREATE", "INSERT")):
                if len(executed) == most:
                    raise KeyboardInterrupt
                executed.append(words)
            return self.cursor.execute(words, *values)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.cursor, name)

    with url_of(kind, tmp_path) as url:
        most = done % (len([*statements(Tables(system, VerifyDatabase(system).tables.dialect))]) + 1)
        made_before = VerifyDatabase._made_before

        def killed(database: VerifyDatabase) -> bool:
            database.cursor = Killed(database.cursor)
            return made_before(database)

        with monkeypatch.context() as patched:
            patched.setattr(VerifyDatabase, "_made_before", killed)
            with pytest.raises(KeyboardInterrupt):
                VerifyDatabase(system, url)
        assert len(executed) == most
        for _ in range(2):
            made = VerifyDatabase(system, url)
            assert not made.begun
            made.close()


@pytest.mark.parametrize("kind", KINDS)
def test_tables_of_others_are_left_alone(kind: str, tmp_path: Path) -> None:
    with url_of(kind, tmp_path) as url:
        made = VerifyDatabase(load("two_phase_commit"), url)
        made.cursor.execute("DROP TABLE progress")
        made.cursor.execute("INSERT INTO run VALUES (1, 'mine', NULL, TRUE, TRUE, 0, 0)")
        made.connection.commit()
        for _ in range(2):
            with pytest.raises(
                DatabaseError, match=r"tables of other kinds under names of ours: .*run.*an empty database"
            ):
                VerifyDatabase(load("two_phase_commit"), url)
        made.cursor.execute("SELECT COUNT(*) FROM run")
        assert [tuple(row) for row in made.cursor.fetchall()] == [(1,)]
        made.close()


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_of_two_verifications_goes_on_alone(kind: str, tmp_path: Path) -> None:
    with url_of(kind, tmp_path) as url:
        parts = Parts(url)
        with contextlib.closing(parts.open()) as first:
            parts.give(first, 0.3)
            with contextlib.closing(parts.open()) as second:
                for share in (0.3, 0.6):  # nothing new; something new
                    with pytest.raises(
                        DatabaseError, match=f"^{kind}.*: another verification has gone on with it since"
                    ):
                        parts.give(first, share)
                    first.database.connection.rollback()
                parts.give(second, 0.6)
        same(parts.rest(), parts.whole(tmp_path))


@pytest.mark.parametrize("kind", SERVERS)
def test_a_connection_that_is_lost_amid_a_transaction(kind: str, tmp_path: Path) -> None:
    with url_of(kind, tmp_path) as url:
        parts = Parts(url)
        with (
            contextlib.closing(parts.open()) as first,
            contextlib.closing(VerifyDatabase(parts.of.system, url)) as other,
        ):
            first.database._writer = other._writer
            parts.give(first, 0.3)
            first.checkpoint.write(first.cuts)
            first.cursor.execute(WHO[kind])
            ((who,),) = first.cursor.fetchall()
            other.cursor.execute(END[kind].format(who))
            with pytest.raises(DatabaseError, match=f"^{kind}: "):
                parts.give(first, 0.6)
        same(parts.rest(), parts.whole(tmp_path))


@pytest.mark.parametrize("kind", SERVERS)
def test_a_lock_that_somebody_holds_is_not_waited_for_without_end(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leasehold.checker.verify.database.LOCK_SECONDS", 1)
    with url_of(kind, tmp_path) as url:
        parts = Parts(url)
        other = VerifyDatabase(parts.of.system, url)
        with contextlib.closing(other), contextlib.closing(parts.open()) as first:
            parts.give(first, 0.3)
            other.cursor.execute(LOCK[kind])
            with pytest.raises(DatabaseError, match=f"^{kind}: .*[Ll]ock"):
                parts.give(first, 0.6)
        same(parts.rest(), parts.whole(tmp_path))


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_that_is_gone_is_named(kind: str, tmp_path: Path) -> None:
    with url_of(kind, tmp_path) as url:
        parts = Parts(url)
        with contextlib.closing(parts.open()) as first:
            parts.give(first, 0.3)
            first.cursor.execute("DROP TABLE event")
            first.database.connection.commit()
            with pytest.raises(DatabaseError, match=f"^{kind}.*event"):
                parts.give(first, 0.6)
        with pytest.raises(DatabaseError, match=f"^{kind}.*event"):
            parts.open()


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    parts = Parts(f"sqlite:{tmp_path / 'full.db'}")
    with contextlib.closing(parts.open()) as first:
        parts.give(first, 0.3)
        first.cursor.execute("PRAGMA page_count")
        ((pages,),) = first.cursor.fetchall()
        first.cursor.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(DatabaseError, match=r"full\.db: database or disk is full"):
            parts.give(first)
    same(parts.rest(), parts.whole(tmp_path))


@contextlib.contextmanager
def through_a_proxy(kind: str, url: str) -> Iterator[tuple[str, TcpProxy]]:
    """The URL by which a database is reached through a proxy."""
    port = {"postgresql": 5432, "mariadb": 3306}[kind]
    proxy = TcpProxy(port)
    try:
        yield url.replace(f":{port}/", f":{proxy.port}/"), proxy
    finally:
        proxy.close()


@pytest.mark.parametrize("kind", SERVERS)
def test_a_server_that_hangs_is_not_waited_for_for_ever(kind: str, tmp_path: Path) -> None:
    """It takes what it is sent, and says nothing; what was kept before is there when it answers again."""
    with url_of(kind, tmp_path) as url, through_a_proxy(kind, url) as (far, proxy):
        parts = Parts(far)
        database = VerifyDatabase(parts.of.system, far, answer_seconds=1.0)
        verification = HistoryVerification(parts.of, parts.history, database=database)
        parts.give(verification, 0.5)
        proxy.turn(MUTE)
        began = time.monotonic()
        with pytest.raises(DatabaseError, match=rf"^{kind}: it has not answered for 1 s, and may hang; what was kept"):
            parts.give(verification)
        database.close()
        assert time.monotonic() - began < 20
        proxy.turn(OPEN)
        same(parts.rest(), parts.whole(tmp_path))


@pytest.mark.parametrize("kind", SERVERS)
def test_a_server_that_does_not_greet_is_not_waited_for_for_ever(kind: str, tmp_path: Path) -> None:
    """A server whose process is stopped has its connections accepted by the system."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as silent:
        url = f"{kind}://somebody@127.0.0.1:{silent.getsockname()[1]}/test"
        url += "?connect_timeout=2" if kind == "postgresql" else ""
        words = ("verify", write_lines_of_nobody(tmp_path), "--db", url, "--db-timeout", "1", "--unsigned")
        done = command(*words, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert f"{kind}: " in done.stderr
    assert ("timeout" if kind == "postgresql" else "it has not answered for 1 s") in done.stderr


def write_lines_of_nobody(folder: Path) -> str:
    path = folder / "site.jsonl"
    path.write_bytes(b"\n".join(write_lines("site", [], 0.0)))
    return str(path)
