"""Processes of a fleet: which an actor is, which are ready, and how they are ended. They are shell scripts here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from leasehold.impl.handlers import processes
from leasehold.impl.lease.fleet import Fleet
from leasehold.impl.processes import fleet as fleets
from leasehold.impl.processes.fleet import FleetError, SystemFleet

ONE, TWO, THREE = "coordinator", "participant-0", "participant-1"
DEAF = f"exec {sys.executable} -S -c 'import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)'"


def until(true: Callable[[], object]) -> None:
    """Waits for what comes sooner or later, however busy the machine is."""
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[SystemFleet]:
    made = SystemFleet("two_phase_commit", tmp_path / "fleet", {"participants": 2})
    yield made
    for process in made.processes.values():
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run(fleet: SystemFleet, name: str, script: str = "sleep 60 & wait") -> subprocess.Popen[bytes]:
    """An actor that is a shell script."""
    fleet.processes[name] = process = subprocess.Popen(["sh", "-c", script], start_new_session=True)
    return process


def names(fleet: SystemFleet, name: str) -> list[str]:
    """The commands of an actor's processes."""
    found = []
    for seen in fleet.members(name):
        with suppress(OSError):
            found.append(Path(f"/proc/{seen.pid}/comm").read_text().strip())
    return sorted(found)


def ignores_term(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    ignored = next(line for line in status.splitlines() if line.startswith("SigIgn"))
    return bool(int(ignored.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


def test_an_actor_that_leads_no_session_is_ended_too(fleet: SystemFleet) -> None:
    fleet.processes[ONE] = subprocess.Popen(["sleep", "60"])
    assert names(fleet, ONE) == ["sleep"]
    fleet.stop()
    fleet.processes[TWO] = subprocess.Popen(["sleep", "60"])
    fleet.kill(TWO)
    assert [fleet.processes[name].returncode for name in (ONE, TWO)] == [-signal.SIGTERM, -signal.SIGKILL]


def test_an_actor_is_all_processes_of_its_session_that_live(fleet: SystemFleet) -> None:
    process = run(fleet, ONE, "sleep 60 & sleep 60 & setsid sleep 60 & echo; wait")
    until(lambda: names(fleet, ONE) == ["sh", "sleep", "sleep"])
    assert process.pid in [seen.pid for seen in fleet.members(ONE)]
    other = run(fleet, TWO)
    until(lambda: names(fleet, TWO) == ["sh", "sleep"])
    assert other.pid not in [seen.pid for seen in fleet.members(ONE)]
    away = [seen for seen in processes.everyone() if seen.parent == process.pid and seen.session != process.pid]
    assert len(away) == 1, "a process with a session of its own is a unit's"
    processes.send(away[0], signal.SIGKILL)
    (one, *_) = [seen for seen in fleet.members(ONE) if seen.pid != process.pid]
    processes.send(one, signal.SIGSTOP)
    processes.send(one, signal.SIGKILL)
    until(lambda: names(fleet, ONE) == ["sh", "sleep"])


def test_a_signal_is_for_the_actor_and_not_for_what_it_runs_under(fleet: SystemFleet, tmp_path: Path) -> None:
    file = tmp_path / "file"
    process = run(fleet, ONE)
    until(lambda: names(fleet, ONE) == ["sh", "sleep"])
    fleet.signal(ONE, signal.SIGTERM)
    until(lambda: process.poll() is not None)
    assert process.returncode == 0, "the shell ended by itself, as what it waited for did"
    alone = run(fleet, TWO, f"trap 'touch {file}; exit 3' TERM; : > {file}.ready; while :; do read x; done")
    until(lambda: Path(f"{file}.ready").exists())
    fleet.signal(TWO, signal.SIGTERM)
    until(lambda: alone.poll() is not None)
    assert file.exists(), "who runs under nothing hears it"


def test_killed_are_all_processes_of_an_actor_and_of_no_other(fleet: SystemFleet) -> None:
    process, other = run(fleet, ONE), run(fleet, TWO)
    until(lambda: names(fleet, ONE) == names(fleet, TWO) == ["sh", "sleep"])
    fleet.kill(ONE)
    assert process.returncode == -signal.SIGKILL
    until(lambda: fleet.members(ONE) == [])
    assert other.poll() is None
    fleet.kill(ONE)
    with pytest.raises(ValueError, match="there is no actor 'coordinatr'; did you mean coordinator"):
        fleet.kill("coordinatr")


def test_all_processes_have_ended_after_a_stop(fleet: SystemFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that is stopped; one that is deaf is killed, and named; one that has ended already is left alone."""
    monkeypatch.setattr(fleets, "STOP_SECONDS", 0.5)
    good, deaf, ended = run(fleet, ONE, "exec sleep 60"), run(fleet, TWO, DEAF), run(fleet, THREE, "exit 3")
    until(lambda: names(fleet, ONE) == ["sleep"] and ignores_term(deaf.pid) and ended.poll() is not None)
    fleet.signal(ONE, signal.SIGSTOP)
    fleet.stop()
    assert [p.returncode for p in (good, deaf, ended)] == [-signal.SIGTERM, -signal.SIGKILL, 3]
    assert fleet.stuck == {TWO}


def test_removed_are_actors_units_and_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[bool] = []
    monkeypatch.setattr(Fleet, "end_units", lambda self: ended.append(self.folder.exists()))
    fleet = Fleet(tmp_path / "fleet")
    fleet.prepare()
    process = run(fleet, "site")
    fleet.remove()
    assert process.returncode == -signal.SIGKILL
    assert not fleet.folder.exists()
    assert ended == [True] * 3, "also a unit that is just being started"
    fleet.remove()


def test_an_actor_may_be_forked_unless_it_runs_under_another_program(fleet: SystemFleet) -> None:
    """An environment for one start holds for that start alone."""
    forked: list[Any] = []
    fleet.fork = lambda *given: forked.append(given)  # type: ignore[assignment, return-value]
    fleet.folder.mkdir()
    fleet.environment[ONE] = {"A": "b"}
    for _ in range(2):
        fleet.start(ONE)
    assert [(words[:2], variables) for words, variables, _ in forked] == [
        (["run", "coordinator"], {"A": "b"}),
        (["run", "coordinator"], {}),
    ]
    fleet.prefix[ONE] = ["sh", "-c", 'echo "$A $*"', "under"]
    fleet.environment[ONE] = {"A": "c"}
    fleet.start(ONE)
    assert fleet.processes[ONE].wait() == 0
    words = fleet.log(ONE).split()
    assert (words[0], words[-2], len(forked)) == ("c", "--config", 2)


def test_an_actor_may_have_a_store_of_its_own(fleet: SystemFleet) -> None:
    fleet.stores[ONE] = "postgresql://somewhere"
    fleet.prepare()
    found = {name: yaml.safe_load((fleet.folder / f"{name}.yaml").read_text())["store"] for name in fleet.roles}
    assert found == {ONE: "postgresql://somewhere", TWO: f"sqlite:{TWO}.db", THREE: f"sqlite:{THREE}.db"}
    assert [fleet.store(name) for name in (ONE, TWO)] == [found[ONE], f"sqlite:{fleet.folder}/{TWO}.db"]


def test_an_actor_is_ready_when_it_takes_steps(fleet: SystemFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Any] = [None, {"running": False}, {"running": False}, {"running": True, "name": "coordinator"}]
    run(fleet, ONE)
    fleet.about = lambda name: said.pop(0)  # type: ignore[method-assign]
    assert fleet.await_ready(ONE)["name"] == "coordinator"
    assert said == []


@pytest.mark.parametrize(
    ("script", "words"), [("exit 1", "has ended with exit code 1"), ("sleep 60", "does not answer")]
)
def test_an_actor_that_does_not_come_up_is_said_with_its_last_words(
    fleet: SystemFleet, script: str, words: str
) -> None:
    fleet.folder.mkdir()
    (fleet.folder / f"{ONE}.log").write_text("first\nno such key\n")
    process = run(fleet, ONE, script)
    if script.startswith("exit"):
        process.wait()
    with pytest.raises(FleetError, match=f"coordinator {words}; its last words: first | no such key"):
        fleet.await_ready(ONE, limit_seconds=0.0)


@pytest.mark.parametrize(
    ("system", "settings", "words"),
    [
        ("two_phase_commit", {"participants": 2}, ""),
        ("two_phase_commit", {"participants": "2"}, ""),
        ("two_phase_commit", {}, "a run with participants=2, not one with participants=3"),
        ("three_phase_commit", {"participants": 2}, "a run of two_phase_commit, not one of three_phase_commit"),
    ],
)
def test_a_folder_is_of_one_system_and_its_constants(
    fleet: SystemFleet, system: str, settings: dict[str, Any], words: str
) -> None:
    fleet.prepare()
    before = {file.name: file.read_bytes() for file in fleet.folder.iterdir()}
    if words:
        with pytest.raises(FleetError, match=f"{fleet.folder} has {words}; take another folder, or go on as it began"):
            SystemFleet(system, fleet.folder, settings)
    else:
        SystemFleet(system, fleet.folder, settings).prepare()
    assert {file.name: file.read_bytes() for file in fleet.folder.iterdir()} == before


def test_no_actor_is_started_beside_one_that_runs(fleet: SystemFleet) -> None:
    fleet.about = lambda name: {"running": True} if name == TWO else None  # type: ignore[method-assign]
    with pytest.raises(FleetError, match=f"{TWO} runs already in .*; end that run, or take another folder"):
        fleet.__enter__()
    assert not fleet.folder.exists()


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FleetError, match=f"{tmp_path}/file/fleet cannot be used: Not a directory"):
        SystemFleet("two_phase_commit", tmp_path / "file/fleet").__enter__()


@pytest.mark.parametrize(("free", "said"), [(4095, True), (4096, False)])
def test_a_folder_without_room_is_said(
    free: int, said: bool, fleet: SystemFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.folder.mkdir()
    run(fleet, ONE)
    monkeypatch.setattr(fleets.shutil, "disk_usage", lambda folder: SimpleNamespace(free=free))
    with pytest.raises(FleetError) as error:
        fleet.await_ready(ONE, limit_seconds=0.0)
    assert str(error.value).endswith(f"; there is no room left in {fleet.folder}") == said
