"""Actors as processes: which processes an actor is, how they are ended, and the forked ones among them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
import yaml

from leasehold.checker.recovery.lease.processes import actors as module
from leasehold.checker.recovery.lease.processes.actors import FAST, TICK_SECONDS, UNITS, Actors
from leasehold.checker.recovery.processes.forked import ForkedProcess
from leasehold.checker.recovery.processes.proxy import CUT, MUTE, OPEN, TcpProxy
from leasehold.checker.recovery.processes.resources import Unavailable
from leasehold.checker.recovery.processes.servers import SERVERS, Nats, Server
from leasehold.impl.handlers import processes
from leasehold.impl.lease.fleet import BROKER, ROLES, SITE, TENANT


def until(true: Callable[[], object]) -> None:
    """Waits for what comes sooner or later, however busy the machine is."""
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# Actors


@pytest.fixture
def actors(tmp_path: Path) -> Iterator[Actors]:
    made = Actors(tmp_path / "actors")
    yield made
    for process in made.processes.values():
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run(actors: Actors, name: str, script: str) -> subprocess.Popen[bytes]:
    """An actor that is a shell script."""
    actors.processes[name] = process = subprocess.Popen(["sh", "-c", script], start_new_session=True)
    return process


def names(actors: Actors, name: str) -> list[str]:
    """The commands of an actor's processes."""
    found = []
    for seen in actors.members(name):
        with suppress(OSError):
            found.append(Path(f"/proc/{seen.pid}/comm").read_text().strip())
    return sorted(found)


def test_each_actor_has_an_address_of_its_own_and_the_same_settings(actors: Actors) -> None:
    assert actors.listens == actors.addresses
    assert actors.listens.keys() == ROLES.keys()
    assert len({*actors.listens.values()}) == 3
    assert all(address.startswith("http://127.0.0.1:") for address in actors.listens.values())
    assert (actors.units, actors.tick_seconds, UNITS, TICK_SECONDS) == (3, 0.1, 3, 0.1)
    actors.stores[SITE] = "postgresql://somewhere"
    actors.prepare()
    found = {name: yaml.safe_load((actors.folder / f"{name}.yaml").read_text()) for name in ROLES}
    assert {name: config["store"] for name, config in found.items()} == {
        TENANT: "sqlite:tenant.db", BROKER: "sqlite:broker.db", SITE: "postgresql://somewhere"
    }  # fmt: skip
    for config in found.values():
        assert FAST.items() <= config.items()
        assert config["listen"] == actors.listens[config["name"]]


def test_an_actor_is_all_processes_of_its_session_that_live(actors: Actors) -> None:
    process = run(actors, SITE, "sleep 60 & sleep 60 & setsid sleep 60 & echo; wait")
    until(lambda: names(actors, SITE) == ["sh", "sleep", "sleep"])
    assert process.pid in [seen.pid for seen in actors.members(SITE)]
    other = run(actors, BROKER, "sleep 60 & wait")
    until(lambda: names(actors, BROKER) == ["sh", "sleep"])
    assert other.pid not in [seen.pid for seen in actors.members(SITE)]
    away = [seen for seen in processes.everyone() if seen.parent == process.pid and seen.session != process.pid]
    assert len(away) == 1, "a process with a session of its own is a unit's"
    processes.send(away[0], signal.SIGKILL)
    (one, *_) = [seen for seen in actors.members(SITE) if seen.pid != process.pid]
    processes.send(one, signal.SIGSTOP)
    processes.send(one, signal.SIGKILL)
    until(lambda: names(actors, SITE) == ["sh", "sleep"])


def test_a_signal_is_for_the_actor_and_not_for_what_it_runs_under(actors: Actors, tmp_path: Path) -> None:
    file = tmp_path / "file"
    process = run(actors, SITE, "sleep 60 & wait")
    until(lambda: names(actors, SITE) == ["sh", "sleep"])
    actors.signal(SITE, signal.SIGTERM)
    until(lambda: process.poll() is not None)
    assert process.returncode == 0, "the shell ended by itself, as what it waited for did"
    alone = run(actors, BROKER, f"trap 'touch {file}; exit 3' TERM; : > {file}.ready; while :; do read x; done")
    until(lambda: Path(f"{file}.ready").exists())
    actors.signal(BROKER, signal.SIGTERM)
    until(lambda: alone.poll() is not None)
    assert file.exists(), "who runs under nothing hears it"


def test_killed_are_all_processes_of_an_actor_and_of_no_other(actors: Actors) -> None:
    process, other = run(actors, SITE, "sleep 60 & wait"), run(actors, BROKER, "sleep 60 & wait")
    until(lambda: names(actors, SITE) == names(actors, BROKER) == ["sh", "sleep"])
    actors.kill(SITE)
    assert process.returncode == -signal.SIGKILL
    until(lambda: actors.members(SITE) == [])
    assert other.poll() is None
    actors.kill(SITE)


def test_who_is_stopped_by_a_fault_is_ended_well_too(actors: Actors) -> None:
    running = {name: run(actors, name, "exec sleep 60") for name in ROLES}
    until(lambda: all(names(actors, name) == ["sleep"] for name in ROLES))
    actors.signal(SITE, signal.SIGSTOP)
    running[TENANT].kill()
    running[TENANT].wait()
    actors.stop()
    codes = {name: process.returncode for name, process in running.items()}
    assert codes == {TENANT: -signal.SIGKILL, BROKER: -signal.SIGTERM, SITE: -signal.SIGTERM}
    assert actors.stuck == set()


def test_who_does_not_end_when_asked_to_is_killed_and_named(actors: Actors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STOP_SECONDS", 0.2)
    deaf = run(actors, SITE, f"exec {sys.executable} -S -c 'import signal, time; "
                             "signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(60)'")  # fmt: skip
    until(lambda: ignores_term(deaf.pid))
    actors.stop()
    assert deaf.returncode == -signal.SIGKILL
    assert actors.stuck == {SITE}


def ignores_term(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    ignored = next(line for line in status.splitlines() if line.startswith("SigIgn"))
    return bool(int(ignored.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


def test_removed_are_actors_units_and_the_folder(actors: Actors, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[bool] = []
    monkeypatch.setattr(Actors, "end_units", lambda self: ended.append(self.folder.exists()))
    actors.prepare()
    process = run(actors, SITE, "sleep 60 & wait")
    actors.remove()
    assert process.returncode == -signal.SIGKILL
    assert not actors.folder.exists()
    assert ended == [True] * 3, "also a unit that is just being started"
    actors.remove()


def test_an_actor_is_forked_unless_it_runs_under_another_program(
    actors: Actors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is given for one start holds for that start alone."""
    forked: list[object] = []
    monkeypatch.setattr(module, "ForkedProcess", lambda *given: forked.append(given))
    log = actors.folder / "site.log"
    actors.folder.mkdir()
    actors.environment[SITE] = {"A": "b"}
    for _ in range(2):
        actors._launch(SITE, ["run", "authority"], log)
    assert forked == [(["run", "authority"], {"A": "b"}, log), (["run", "authority"], {}, log)]
    actors.prefix[SITE] = ["sh", "-c", 'echo "$A $*"', "under"]
    actors.environment[SITE] = {"A": "c"}
    under = actors._launch(SITE, ["run", "authority"], log)
    assert under.wait() == 0
    words = log.read_text().split()
    assert (words[0], words[-2:], len(forked)) == ("c", ["run", "authority"], 2)


# Processes that are forked


def test_a_forked_actor_leads_a_session_and_runs_the_command(tmp_path: Path) -> None:
    """Its words are added to the log, it has the variables that it was given, and its code is the command's."""
    log = tmp_path / "log"
    log.write_text("before\n")
    forked = ForkedProcess(["run", "broker", "--config", str(tmp_path / "none.yaml")], {"HOME": "/nowhere"}, log)
    seen = processes.look(forked.pid)
    assert seen is not None
    assert seen.session == forked.pid
    assert forked.wait() == forked.poll() == forked.returncode == 2
    assert log.read_text().startswith("before\n")
    assert "none.yaml" in log.read_text()
    new = tmp_path / "new"
    assert ForkedProcess(["--version"], {}, new).wait() == 0
    assert new.read_text().startswith("leasehold")
    assert new.stat().st_mode & 0o777 == 0o600


def test_a_forked_actor_is_waited_for_and_ended(tmp_path: Path) -> None:
    """It waits for the end of a file that nobody writes."""
    os.mkfifo(tmp_path / "fifo")
    for end in (ForkedProcess.kill, ForkedProcess.terminate):
        forked = ForkedProcess(["run", "broker", "--config", str(tmp_path / "fifo")], {}, tmp_path / "log")
        assert (forked.poll(), forked.returncode) == (None, None)
        with pytest.raises(subprocess.TimeoutExpired):
            forked.wait(0.01)
        end(forked)
        assert (forked.wait(60) == -signal.SIGKILL) == (end is ForkedProcess.kill)
        assert forked.returncode


FORKS = """
import sys
from pathlib import Path
from leasehold.checker.recovery.processes.forked import ForkedProcess
if __name__ == "__main__":
    forked = ForkedProcess(["run", "broker", "--config", sys.argv[1]], {}, Path(sys.argv[2]))
    print(forked.pid, flush=True)
    sys.stdin.read()
    import os, signal
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_forked_actor_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "forks.py").write_text(FORKS)
    command = [sys.executable, str(tmp_path / "forks.py"), str(tmp_path / "fifo"), str(tmp_path / "log")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert processes.look(pid) is not None
    until(lambda: (seen := processes.look(pid)) is None or seen.gone)


# Servers

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
        "mariadb": (("mariadb-install-db", "mariadbd", "mariadb"), "aiomysql"), "nats": (("nats-server",), "nats"),
    }  # fmt: skip


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


def test_a_proxy_whose_answers_are_lost_has_hurt_somebody_only_then(folder: Path) -> None:
    """What was lost before it was opened again counts for good."""
    proxy = TcpProxy(1)
    try:
        for mode in (MUTE, CUT, OPEN):
            proxy.turn(mode)
            assert (proxy.mode, proxy.hurt) == (mode, False)
    finally:
        proxy.close()
