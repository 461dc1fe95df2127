"""The example of a cluster of web servers, and clients that ask it without a pause."""

from __future__ import annotations

import http.client
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, Self

from leasehold.impl.handlers import processes
from leasehold.impl.handlers.command import CommandHandler
from leasehold.impl.handlers.handler import HandlerAction
from leasehold.impl.lease.fleet import Fleet
from leasehold.impl.processes.fleet import free_ports

WEB = Path(__file__).parents[2] / "examples" / "web"
UNIT, MEMBER, BALANCER = (str(WEB / name) for name in ("unit.py", "member.py", "balancer.py"))
TICK_SECONDS = 0.25
DOWNLOAD = 64 * 1024  # bytes, which take a second


def unit_command(folder: Path) -> dict[str, Any]:
    """The settings of the handler of units: `command`."""
    verbs = {verb: [sys.executable, UNIT] for verb in ("setup", "modify", "teardown", "probe")}
    return {"directory": str(folder / "unit_locks"), "environment": {"WEB_DIRECTORY": str(folder)}, **verbs}


def member_command(folder: Path, drain_seconds: float = 30.0) -> dict[str, Any]:
    """The settings of the handler of guests: `command`."""
    verbs = {verb: [sys.executable, MEMBER] for verb in ("join", "modify", "leave")}
    environment = {"WEB_DIRECTORY": str(folder), "WEB_DRAIN_SECONDS": str(drain_seconds)}
    return {"directory": str(folder / "member_locks"), "environment": environment, **verbs}


class Balancer:
    """The load balancer as a process, in a folder of its own; with all that runs below the folder, it ends."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="web-"))  # a socket's path has to be short
        (self.port,) = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()
        for name in self.units():
            self.kill_unit(name)
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self) -> None:
        with (self.folder / "haproxy.log").open("ab") as log:
            listen = f"127.0.0.1:{self.port}"
            command = [sys.executable, BALANCER, str(self.folder), listen]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill(self) -> None:
        """As `kill -9` does."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def ask(self, path: str = "/") -> bytes:
        """Returns what a client gets.

        Raises:
            OSError, http.client.HTTPException: it gets no answer, or not the whole of it.
        """
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request("GET", path)
            found = connection.getresponse()
            text = found.read()
            if found.status != 200:
                raise http.client.HTTPException(f"{found.status} {found.reason}")
            return text
        finally:
            connection.close()

    def members(self) -> set[str]:
        """The units that answer, by their names; each is asked many times over."""
        found: Counter[str] = Counter()
        for _ in range(40):
            try:
                found[self.ask("/unit").decode()] += 1
            except (OSError, http.client.HTTPException):
                return set()
        return set(found)

    def units(self) -> list[str]:
        folder = self.folder / "units"
        return sorted(path.name for path in folder.iterdir()) if folder.exists() else []

    def processes_of(self, unit: str) -> list[processes.ProcessSnapshot]:
        """The processes of a unit, as /proc has them."""
        folder = str(self.folder / "units" / unit)
        return [seen for seen in processes.everyone() if not seen.gone and _works_in(seen.pid, folder)]

    def kill_unit(self, unit: str) -> None:
        """All its processes at once."""
        for seen in self.processes_of(unit):
            processes.send(seen, signal.SIGKILL)


def _works_in(pid: int, folder: str) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/cwd") == folder
    except OSError:
        return False


class Clients:
    """Clients that ask without a pause, each for a page and for a download in turn.

    Attributes:
        failures: what they got, where it was not the whole answer.
        answered: how many requests were answered whole, by path.
    """

    PATHS = ("/", "/download")

    def __init__(self, balancer: Balancer, clients: int = 6) -> None:
        self.failures: list[str] = []
        self.answered: Counter[str] = Counter()
        self._balancer, self._stop = balancer, threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(n,)) for n in range(clients)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, number: int) -> None:
        time.sleep(0.17 * number)  # so that downloads overlap at any moment
        while not self._stop.is_set():
            for path in self.PATHS:
                try:
                    text = self._balancer.ask(path)
                except (OSError, http.client.HTTPException) as error:
                    self.failures.append(f"{path}: {error!r}")
                    time.sleep(0.1)
                else:
                    self.answered[path] += 1
                    if path == "/download" and len(text) != DOWNLOAD:
                        self.failures.append(f"{path}: {len(text)} bytes")


class Hands:
    """The handlers alone, without actors: each does what a site, or a holder, asks for."""

    def __init__(self, balancer: Balancer, drain_seconds: float = 30.0) -> None:
        self.units = CommandHandler(**unit_command(balancer.folder))
        self.guests = CommandHandler(**member_command(balancer.folder, drain_seconds))
        self.told: dict[str, dict[str, Any]] = {}
        self._number = 0

    async def unit(self, verb: str, name: str) -> None:
        """What a site does to a unit."""
        self._number += 1
        done = await self.units.act(HandlerAction(verb, "tenant:1", name, self._number, {"end": 10}))
        assert done.well, done.words
        if verb != "teardown":
            self.told[name] = {"site": "site", "name": name, "fence": self._number, "address": done.facts["address"]}

    async def guest(self, verb: str, name: str) -> str:
        """Returns what a holder does on it; returns its words."""
        self._number += 1
        guest = f"tenant:1/guest[{name.rpartition('-')[2]}]"
        done = await self.guests.act(
            HandlerAction(verb, "tenant:1", guest, self._number, {"lease_end": 10}, properties=self.told[name])
        )
        assert done.well, done.words
        return done.words


def cluster(balancer: Balancer, units: int = 4, drain_seconds: float = 10.0, **more: Any) -> Fleet:
    """The actors, whose units are web servers, and whose holder makes them members."""
    probing = {"every_seconds": 0.5, "patience": 2}
    return Fleet(
        balancer.folder / "actors",
        units,
        TICK_SECONDS,
        more={"probing": probing, **more},
        handler={"name": "command", **unit_command(balancer.folder)},
        guest={"name": "command", **member_command(balancer.folder, drain_seconds)},
        settings={"leave_limit": round((drain_seconds + 5) / TICK_SECONDS)},
    )
