"""Processes are ended in whatever state they are: the actors of a fleet, and the units and programs of a handler.

For each state: how the process ends, whether it counts as stuck, and that nothing of it is left.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from leasehold.impl.handlers import processes
from leasehold.impl.handlers.child import run_program
from leasehold.impl.handlers.handler import HandlerAction, HandlerError
from leasehold.impl.handlers.process import ProcessHandler
from leasehold.impl.processes import fleet as fleets
from leasehold.impl.processes.fleet import SystemFleet
from leasehold.impl.processes.supervisor import Died, Supervisor
from tests.impl.handlers.test_process import base, carrying
from tests.impl.processes.test_fleet import ONE, TWO, fleet
from tests.waiting import wait_until

__all__ = ["base", "fleet"]

pytestmark = pytest.mark.real_time

KILLED, TERMINATED = -signal.SIGKILL, -signal.SIGTERM
PATIENT_SECONDS, SHORT_SECONDS = 30.0, 0.5  # limits that a graceful end never reaches, and that a deaf process does
PYTHON = f"exec {sys.executable} -I -S -c"
SLEEPS = "exec sleep 60"
DEAF = f"{PYTHON} 'import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(60)'"
LISTENS = (
    f"{PYTHON} 'import signal, sys, time; signal.signal(15, lambda *_: sys.exit(7)); print(flush=True); time.sleep(60)'"
)
UNDER = "sleep 60 & echo; wait"  # a shell that ends with what it runs, well
UNDER_DEAF = f"({DEAF}) & wait"


def family(leader: int) -> list[processes.ProcessSnapshot]:
    """The living processes of a session, the leader last."""
    found = [seen for seen in processes.everyone() if seen.session == leader and not seen.gone]
    return sorted(found, key=lambda seen: seen.pid == leader)


def state_of(pid: int) -> str:
    """The letter that /proc has for a process: `T` where it is stopped, `Z` where nobody has waited for it."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


def stop_all(leader: int) -> None:
    _stop(*family(leader))


def stop_leader(leader: int) -> None:
    _stop(family(leader)[-1])


def stop_child(leader: int) -> None:
    _stop(family(leader)[0])


def _stop(*all_: processes.ProcessSnapshot) -> None:
    for seen in all_:
        processes.send(seen, signal.SIGSTOP)
        wait_until(lambda pid=seen.pid: state_of(pid) == "T")  # type: ignore[misc]


def become_zombie(leader: int) -> None:
    wait_until(lambda: state_of(leader) == "Z")


def nothing(leader: int) -> None:
    """The state is as it began."""


class State(NamedTuple):
    """A state of an actor, and how it ends when its fleet is stopped.

    Attributes:
        script: of the shell that begins it.
        members: its processes, once it has begun; 0: it need not have.
        bring: brings it into its state.
        code: the exit code after the stop.
        stuck: it has to be killed.
        over: it has ended before.
    """

    script: str
    members: int
    bring: Callable[[int], None]
    code: int
    stuck: bool = False
    over: bool = False


STATES = {
    "runs": State(SLEEPS, 1, nothing, TERMINATED),
    "has just started": State(f"{PYTHON} 'import time; time.sleep(60)'", 0, nothing, TERMINATED),
    "is stopped": State(SLEEPS, 1, stop_all, TERMINATED),
    "ends by itself": State(LISTENS, 1, nothing, 7),
    "ends by itself and is stopped": State(LISTENS, 1, stop_all, 7),
    "is deaf": State(DEAF, 1, nothing, KILLED, stuck=True),
    "is deaf and stopped": State(DEAF, 1, stop_all, KILLED, stuck=True),
    "runs under a program": State(UNDER, 2, nothing, 0),
    "is stopped under a program": State(UNDER, 2, stop_child, 0),
    "is stopped with the program above it": State(UNDER, 2, stop_all, 0),
    "runs under a program that is stopped": State(UNDER, 2, stop_leader, 0),
    "is deaf under a program": State(UNDER_DEAF, 2, nothing, KILLED, stuck=True),
    "is deaf and stopped under a program": State(UNDER_DEAF, 2, stop_all, KILLED, stuck=True),
    "has ended, and nobody has waited": State("exit 3", 0, become_zombie, 3, over=True),
    "was killed, and nobody has waited": State("kill -9 $$", 0, become_zombie, KILLED, over=True),
}


def begun(fleet: SystemFleet, name: str, state: State, folder: Path) -> subprocess.Popen[bytes]:
    """An actor in a state."""
    output = folder / f"{name}.said"
    with output.open("wb") as file:
        fleet.processes[name] = process = subprocess.Popen(
            ["sh", "-c", state.script], start_new_session=True, stdin=subprocess.DEVNULL, stdout=file
        )
    if state.members:
        says = state.script != SLEEPS
        wait_until(lambda: len(family(process.pid)) == state.members and bool(output.read_bytes()) >= says)
    if state.script == SLEEPS:
        wait_until(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n")
    state.bring(process.pid)
    return process


def limit(monkeypatch: pytest.MonkeyPatch, state: State) -> None:
    monkeypatch.setattr(fleets, "STOP_SECONDS", SHORT_SECONDS if state.stuck else PATIENT_SECONDS)


@pytest.mark.parametrize("name", STATES)
def test_a_fleet_that_stops_ends_an_actor_that(
    name: str, fleet: SystemFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside it another one runs, which ends gracefully in any case; a second stop has nothing to do."""
    state = STATES[name]
    limit(monkeypatch, state)
    process, other = begun(fleet, ONE, state, tmp_path), begun(fleet, TWO, STATES["runs"], tmp_path)
    for _ in range(2):
        fleet.stop()
        assert (process.returncode, other.returncode) == (state.code, TERMINATED)
        assert fleet.stuck == ({ONE} if state.stuck else set())
    wait_until(lambda: family(process.pid) == family(other.pid) == [])


@pytest.mark.parametrize("name", STATES)
@pytest.mark.parametrize("end", ["kill", "remove"])
def test_an_actor_is_killed_that(end: str, name: str, fleet: SystemFleet, tmp_path: Path) -> None:
    """One that has ended keeps its code; a killed one is not stuck, and may be killed again."""
    state = STATES[name]
    process = begun(fleet, ONE, state, tmp_path)
    for _ in range(2):
        fleet.kill(ONE) if end == "kill" else fleet.remove()
        assert process.returncode == (state.code if state.over else KILLED)
        assert fleet.stuck == set()
        wait_until(lambda: family(process.pid) == [])


@pytest.mark.parametrize("name", STATES)
def test_a_supervisor_sees_whether_an_actor_has_ended_that(name: str, fleet: SystemFleet, tmp_path: Path) -> None:
    """One that is stopped has not; an end is told once, also that of a zombie."""
    state, supervisor = STATES[name], Supervisor(fleet, pause_seconds=60.0)
    begun(fleet, ONE, state, tmp_path)
    assert supervisor.attend() == ([Died(ONE, state.code)] if state.over else [])
    if not state.over:
        fleet.kill(ONE)
        assert supervisor.attend() == [Died(ONE, KILLED)]
    assert supervisor.attend() == []


# Units

COMMANDS = {
    "sleeps": ["sleep", "600"],
    "is deaf": ["sh", "-c", "trap '' TERM; echo; while :; do sleep 600; done"],
    "has a child": ["sh", "-c", "sleep 600 & echo; wait"],
    "has left a child": ["sh", "-c", "sleep 600 & echo; exec sleep 600"],
}
UNITS = {
    "runs": ("sleeps", 1, nothing, False),
    "is stopped": ("sleeps", 1, stop_all, False),
    "is deaf": ("is deaf", 2, nothing, True),
    "is deaf and stopped": ("is deaf", 2, stop_all, True),
    "has a child that is stopped": ("has a child", 2, stop_child, False),
    "is stopped with its child": ("has a child", 2, stop_all, False),
    "is stopped and its child is not": ("has a child", 2, stop_leader, False),
    "was killed": ("sleeps", 1, lambda leader: _kill_leader(leader), False),
    "was killed before its child, which is stopped": ("has left a child", 2, lambda leader: _orphan(leader), False),
}


def _kill_leader(leader: int) -> None:
    os.kill(leader, signal.SIGKILL)
    wait_until(lambda: (seen := processes.look(leader)) is None or seen.gone)


def _orphan(leader: int) -> None:
    stop_child(leader)
    _kill_leader(leader)


def acted(base: Path, command: list[str], verb: str, number: int, grace: float) -> Any:
    async def act() -> Any:
        handler = ProcessHandler(base, command, grace=grace)
        try:
            return await handler.act(HandlerAction(verb, "tenant:1", "u-0", number, {"end": 7}))
        finally:
            await handler.close()

    return asyncio.run(act())


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_is_torn_down_that(name: str, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that hears SIGTERM is not killed, in whatever state it is; nothing is left of the others either."""
    command, members, bring, killed = UNITS[name]
    leader = acted(base, COMMANDS[command], "setup", 1, PATIENT_SECONDS).facts["pid"]
    wait_until(lambda: len(family(leader)) == members)
    bring(leader)
    sent, send = list[signal.Signals](), processes.send

    def sending(seen: processes.ProcessSnapshot, number: signal.Signals) -> bool:
        sent.append(number)
        return send(seen, number)

    monkeypatch.setattr(processes, "send", sending)
    done = acted(base, COMMANDS[command], "teardown", 2, SHORT_SECONDS if killed else PATIENT_SECONDS)
    assert done.well
    assert (signal.SIGKILL in sent) == killed
    assert (family(leader), carrying(base)) == ([], [])


def test_a_program_that_becomes_a_unit_is_no_member_of_its_actor(base: Path, tmp_path: Path) -> None:
    """Else who stops the actor just then sends the signal to that program, as if the actor were what it runs under."""
    starter, said = tmp_path / "starter.py", tmp_path / "session"
    starter.write_text(f"import os, pathlib; pathlib.Path({str(said)!r}).write_text(str(os.getsid(0))); os._exit(1)\n")

    async def act() -> None:
        handler = ProcessHandler(base, starter=starter)
        with pytest.raises(HandlerError, match="cannot be started"):
            await handler.act(HandlerAction("setup", "tenant:1", "u-0", 1, {"end": 7}))
        await handler.close()

    asyncio.run(act())
    assert int(said.read_text()) != os.getsid(0)


# Programs that answer a handler

PROGRAMS = {
    "runs": ("exec sleep 600", 1, nothing),
    "is stopped": ("exec sleep 600", 1, stop_all),
    "is deaf": ("trap '' TERM; while :; do sleep 600; done", 2, nothing),
    "has a child that is stopped": ("sleep 600 & wait", 2, stop_child),
    "has ended, and its child has its output": ("sleep 600 & exit 0", 1, nothing),
    "has ended, and its child is stopped": ("sleep 600 & exit 0", 1, stop_all),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_action_that_is_cancelled_ends_a_program_that(name: str, tmp_path: Path) -> None:
    """With its whole group, and with every pipe to it."""
    script, members, bring = PROGRAMS[name]
    pid, before = tmp_path / "pid", len(os.listdir("/proc/self/fd"))

    async def act() -> int:
        with ThreadPoolExecutor(1) as threads:
            command = ["/bin/sh", "-c", f"echo $$ >{pid}; {script}"]
            doing = asyncio.ensure_future(run_program(command, b"", dict(os.environ), (), threads))
            while not (pid.exists() and (text := pid.read_text().strip())):
                await asyncio.sleep(0.005)
            leader = int(text)
            while len(family(leader)) != members or ("exit" in script and processes.look(leader) is None):
                await asyncio.sleep(0.005)
            bring(leader)
            await asyncio.sleep(0.05)
            doing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await doing
            return leader

    leader = asyncio.run(act())
    wait_until(lambda: family(leader) == [])
    assert len(os.listdir("/proc/self/fd")) <= before
