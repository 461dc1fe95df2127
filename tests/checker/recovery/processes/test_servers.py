"""Servers of a case, each with its data in a folder that goes with the case."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from contextlib import closing
from pathlib import Path

import pytest

from leasehold.checker.recovery.processes.resources import Unavailable
from leasehold.checker.recovery.processes.servers import SERVERS, Nats, Server
from leasehold.impl.handlers import processes
from tests.checker.recovery.processes.test_proxy import connected
from tests.impl.processes.test_fleet import until

LISTENS = (
    "import os, socket, sys, time; s = socket.create_server(('127.0.0.1', int(sys.argv[1])));"
    "p = os.fork() or time.sleep(60); open(sys.argv[2], 'a').write(f'{p}\\n'); print('ready', flush=True);"
    "time.sleep(60)"
)


class Listens(Server):
    """A server of a process and a child of it."""

    kind, programs, driver = "listens", ("sh",), "json"
    script = LISTENS

    def _make(self, template: Path) -> None:
        super()._make(template)
        (template / "made").write_text("once")

    def _command(self) -> list[str]:
        return [sys.executable, "-S", "-c", self.script, str(self.port), str(self.data / "children")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "case").mkdir()
    return tmp_path / "case"


def test_a_server_that_is_killed_takes_its_processes_with_it(folder: Path) -> None:
    """A worker of a database that lives on would hold its data."""
    with closing_server(Listens(folder)) as server:
        server.start()
        until(lambda: (server.data / "children").exists() and (server.data / "children").read_text())
        child = int((server.data / "children").read_text())
        assert processes.look(child) is not None
        server.kill()
        seen = processes.look(child)
        assert seen is None or seen.gone
        server.kill()


def closing_server(server: Server) -> closing[Server]:
    server.close = server.kill  # type: ignore[attr-defined]
    return closing(server)  # type: ignore[type-var]


def test_each_case_has_a_copy_of_data_that_is_made_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Listens(folder)
    (first.data / "made").write_text("changed")
    monkeypatch.setattr(Listens, "_make", lambda self, template: pytest.fail("it is there"))
    other = folder.parent / "other"
    other.mkdir()
    second = Listens(other)
    assert (first.data, second.data) == (folder / "listens", other / "listens")
    assert ((first.data / "made").read_text(), (second.data / "made").read_text()) == ("changed", "once")
    assert first.port != second.port


def test_data_of_which_the_making_failed_are_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = Listens._make

    def fails(self: Listens, template: Path) -> None:
        make(self, template)
        raise Unavailable("no room")

    monkeypatch.setattr(Listens, "_make", fails)
    with pytest.raises(Unavailable, match="no room"):
        Listens(folder)
    monkeypatch.setattr(Listens, "_make", make)
    assert (Listens(folder).data / "made").read_text() == "once"


def test_a_server_that_cannot_be_had_or_does_not_come_up_is_named(folder: Path) -> None:
    class Lacks(Listens):
        programs = ("no-such-server",)

    class Undriven(Listens):
        driver = "no_such_driver"

    class Fails(Listens):
        script = "import sys; sys.exit('it cannot')"

    with pytest.raises(Unavailable, match="no-such-server is not installed"):
        Lacks(folder)
    with pytest.raises(Unavailable, match="the Python package no_such_driver is not installed"):
        Undriven(folder)
    with pytest.raises(Unavailable, match=r"^listens does not come up: it cannot$"):
        Fails(folder).start()


def test_a_server_that_never_listens_is_given_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.checker.recovery.processes.servers.UP_SECONDS", 0.3)

    class Idle(Listens):
        script = "import time; time.sleep(60)"

    with closing_server(Idle(folder)) as server, pytest.raises(Unavailable, match="listens does not come up"):
        server.start()


def test_root_becomes_the_first_user_that_there_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database refuses to run as root; who is not root stays who it is."""
    if os.geteuid() != 0:
        pytest.skip("only root becomes another user")

    class Nobody(Listens):
        users = ("no-such-user", "nobody", "root")

    import pwd

    assert Listens(folder).user is None
    shutil.rmtree(folder / "listens")
    assert Nobody(folder).user == pwd.getpwnam("nobody").pw_uid
    shutil.rmtree(folder / "listens")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert Nobody(folder).user is None


@pytest.mark.parametrize(
    ("kind", "url"),
    [
        ("postgresql", "postgresql://postgres@127.0.0.1:5/postgres"),
        ("mariadb", "mariadb://root@127.0.0.1:5/leasehold"),
        ("nats", "nats://127.0.0.1:5/leasehold"),
    ],
)
def test_a_server_is_reached_at_whatever_port_leads_to_it(kind: str, url: str) -> None:
    server = SERVERS[kind].__new__(SERVERS[kind])
    assert server.url(5) == url


def test_servers_are_known_by_their_kind() -> None:
    assert {kind: server.kind for kind, server in SERVERS.items()} == {
        kind: kind for kind in ("postgresql", "mariadb", "nats")
    }
    assert {kind: server.users for kind, server in SERVERS.items() if server.users} == {
        "postgresql": ("postgres", "nobody")
    }


def test_a_server_whose_programs_or_driver_are_missing_is_not_played() -> None:
    assert {kind: (server.programs, server.driver) for kind, server in SERVERS.items()} == {
        "postgresql": (("initdb", "postgres", "psql"), "psycopg"),
        "mariadb": (("mariadb-install-db", "mariadbd", "mariadb"), "aiomysql"),
        "nats": (("nats-server",), "nats"),
    }


def test_a_server_listens_at_this_machine_alone() -> None:
    for kind, programs in (("postgresql", ("postgres",)), ("mariadb", ("mariadbd",)), ("nats", ("nats-server",))):
        server = SERVERS[kind].__new__(SERVERS[kind])
        server.port, server.data, server.places = 5, Path("/data"), {name: f"/bin/{name}" for name in programs}
        words = list(server._command())
        assert words[0] == f"/bin/{programs[0]}"
        text = " ".join(words)
        assert "127.0.0.1" in text
        assert "5" in text.replace("=", " ").split()
        assert kind == "nats" or "/data" in text
        assert "fsync" not in text, "data are made durable as in production"
    assert isinstance(server, Nats)


def test_what_ends_all_connections_of_a_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its clients' alone; a connection that has just ended by itself is no failure."""
    asked: list[tuple[str, ...]] = []

    def run(*words: str) -> str:
        asked.append(words)
        if words[-1].startswith("KILL CONNECTION 7"):
            raise Unavailable("it has ended")
        return "7\n12\n" if words[-1].startswith("SELECT id") else ""

    monkeypatch.setattr("leasehold.checker.recovery.processes.servers.run_program", run)
    for kind in ("mariadb", "postgresql"):
        server = SERVERS[kind].__new__(SERVERS[kind])
        server.port = 5
        server.terminate()
    *mariadb, postgresql = asked
    assert [words[-1] for words in mariadb[1:]] == ["KILL CONNECTION 7", "KILL CONNECTION 12"]
    assert "WHERE db = 'leasehold'" in mariadb[0][-1]
    assert all(words[0] == "mariadb" and " -P 5 -u root " in " ".join(words) for words in mariadb)
    assert postgresql[0] == "psql"
    assert "client backend" in postgresql[-1]
    assert " -p 5 " in " ".join(postgresql)


def test_a_server_comes_up_goes_down_and_comes_up_again(tmp_path: Path) -> None:
    """At its port; whatever becomes of it, it can be killed."""
    folder = tmp_path / "case"
    folder.mkdir()
    try:
        server = SERVERS["nats"](folder)
    except Unavailable as error:
        pytest.skip(str(error))
    try:
        server.kill()
        for _ in range(2):
            server.start()
            connected(server.port).close()
            server.kill()
            with pytest.raises(ConnectionRefusedError):
                connected(server.port)
        assert server.url(5) == "nats://127.0.0.1:5/leasehold"
        with socket.create_server(("127.0.0.1", server.port)):
            pass
    finally:
        server.kill()
