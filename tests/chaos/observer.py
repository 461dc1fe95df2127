"""Looks at a fleet from outside: processes, locks and sockets, as the kernel shows them. It imports nothing of the
product, so that no mistake is shared.
"""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class UnitProcess:
    """A process in a unit: who it is, and for whom it runs."""

    pid: int
    parent: str
    start: str
    session: str
    unit: str
    lease: str


def look(pid: str, folder: str) -> UnitProcess | None:
    """A process of a unit whose home lies in a folder; None where it is none, or has ended."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = dict(word.partition("=")[::2] for word in file.read().decode(errors="replace").split("\0"))
        if not variables.get("HOME", "").startswith(folder) or "LEASEHOLD_UNIT" not in variables:
            return None
        fields = status(pid)
    except OSError:
        return None
    if fields[0] in "ZX":
        return None
    of = variables["LEASEHOLD_UNIT"], variables["LEASEHOLD_LEASE"]
    return UnitProcess(int(pid), fields[1], fields[19], fields[3], *of)


def status(pid: str) -> list[str]:
    """The fields of /proc/PID/stat from the third on: state, parent, group, session and so on.

    Raises:
        OSError: there is no such process.
    """
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().decode(errors="replace").rpartition(") ")[2].split()


def begins(process: UnitProcess, folder: str) -> bool:
    """Whether a process is about to make a unit's first one: it is still in the session of the actor that starts it.

    The session's number says nothing alone: a leader outside this PID namespace has 0, and one that has ended is not
    to be found.
    """
    with suppress(OSError):
        return status(process.parent)[3] == process.session and look(process.parent, folder) is None
    return False


def unit_processes(folder: Path) -> Iterator[UnitProcess]:
    """All processes in units of a fleet."""
    for pid in os.listdir("/proc"):
        if pid.isdecimal() and (found := look(pid, str(folder))) is not None:
            yield found


class Observer(threading.Thread):
    """Looks all the time whether a unit is in two hands.

    Attributes:
        violations: what was seen, each once.
        looks, most: how often it has looked; the most units that it has seen in use at once.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.folder = folder
        self.violations: dict[str, None] = {}
        self.looks = self.most = 0
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            self.look()

    def look(self) -> None:
        found: dict[str, dict[tuple[str, str], UnitProcess]] = {}
        for process in unit_processes(self.folder):
            found.setdefault(process.unit, {})[process.session, process.lease] = process
        self.looks += 1
        self.most = max(self.most, len(found))
        for unit, users in found.items():
            # Processes are looked at one after the other: those that are still there now were there together.
            folder = str(self.folder)
            still = [p for p in users.values() if look(str(p.pid), folder) == p and not begins(p, folder)]
            if len(still) > 1:
                words = " and ".join(sorted(f"{p.lease} (session {p.session})" for p in still))
                self.violations[f"{unit} is in two hands: {words}"] = None

    def close(self) -> None:
        self._ended.set()
        self.join()


def held_locks(folder: Path) -> list[str]:
    """The units below a folder whose lock is held by some process."""
    held = []
    for lock in sorted(folder.glob("*/lock")):
        with open(lock, "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                held.append(lock.parent.name)
    return held


def open_files(pid: int) -> int:
    """How many files a process has open."""
    with suppress(OSError):
        return len(os.listdir(f"/proc/{pid}/fd"))
    return 0


def tracebacks(folder: Path) -> list[str]:
    """The last lines of all tracebacks in the actors' logs."""
    found = []
    for log in folder.glob("*.log"):
        for line in log.read_text(errors="replace").splitlines():
            if "Traceback (most recent call last)" in line:
                found.append(f"{log.name}: {line[-300:]}")
    return found


def ask(control: Path, method: str, place: str, given: Any = None) -> Any:
    """Asks an actor through its control socket; None where it does not answer, or says no."""
    connection = http.client.HTTPConnection("actor", timeout=3)
    with suppress(OSError, ValueError, http.client.HTTPException), socket.socket(socket.AF_UNIX) as plug:
        plug.settimeout(3)
        plug.connect(str(control))
        connection.sock = plug
        connection.request(method, place, None if given is None else json.dumps(given))
        answer = connection.getresponse()
        body = answer.read()
        if answer.status == 200:
            return json.loads(body)
    return None


def wait(until: Any, seconds: float) -> bool:
    """Waits until something is so; returns whether it came."""
    deadline = time.monotonic() + seconds
    while not (so := until()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return bool(so)
