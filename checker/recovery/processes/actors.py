"""The three actors of a case, as processes that can be started in other ways than `leasehold run` alone."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from leasehold.checker.recovery.processes.fork_server import ForkServer
from leasehold.impl.fleet import ROLES, Fleet
from leasehold.impl.handlers import processes

TICK_SECONDS = 0.1
UNITS = 3
STOP_SECONDS = 10.0
FAST = {
    "messages": {"first_pause_seconds": 0.05, "longest_pause_seconds": 0.4, "ask_again_seconds": 0.5},
    "handling": {"tries": 3, "pause_seconds": 0.1, "longest_seconds": 10.0},
    "reopen_pause_seconds": 0.1,
}  # so that what is said again is said soon


class PortAllocator:
    """Hands out TCP ports of this machine, each once; below those that the kernel takes for connections."""

    def __init__(self, first: int = 21_000, last: int = 31_000) -> None:
        self._next, self._first, self._last = first + os.getpid() % 97 * 100, first, last
        self._lock = threading.Lock()

    def take(self) -> int:
        """A port that nobody listens at."""
        with self._lock:
            for _ in range(self._last - self._first):
                port = self._next
                self._next = port + 1 if port < self._last else self._first
                with socket.socket() as one:
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    try:
                        one.bind(("127.0.0.1", port))
                    except OSError:
                        continue
                    return port
        raise OSError("no port is free")


PORTS = PortAllocator()
FORK_SERVER = ForkServer()


class Actors(Fleet):
    """A fleet whose actors may be started with variables of their own, and under another program.

    Attributes:
        environment: variables of an actor's next start, by its name.
        prefix: the words before its command, by its name.
        stores: the URL of an actor's store, where it is not the fleet's.
        stuck: actors that did not end when asked to.
    """

    answer_seconds = 5.0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, UNITS, TICK_SECONDS, store=self._url, more=FAST)
        self.environment: dict[str, dict[str, str]] = {}
        self.prefix: dict[str, list[str]] = {}
        self.stores: dict[str, str] = {}
        self.stuck: set[str] = set()
        for name in ROLES:
            self.listens[name] = self.addresses[name] = f"http://127.0.0.1:{PORTS.take()}"

    def _url(self, name: str) -> str:
        return self.stores.get(name, f"sqlite:{name}.db")

    def start(self, name: str) -> None:
        """Starts an actor; does not wait for it."""
        arguments = ["run", ROLES[name], "--config", str(self.folder / f"{name}.yaml")]
        environment, file = self.environment.get(name, {}), self.folder / f"{name}.log"
        if not (prefix := self.prefix.get(name)):
            self.processes[name] = FORK_SERVER.start(arguments, environment, file)
            return
        with file.open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [*prefix, sys.executable, "-m", "leasehold", *arguments], env={**os.environ, **environment},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def members(self, name: str) -> list[processes.Seen]:
        """The processes of an actor: itself, and the program that it runs under. Units have sessions of their own."""
        session = self.processes[name].pid
        return [seen for seen in processes.everyone() if seen.session == session and not seen.gone]

    def signal(self, name: str, number: signal.Signals) -> None:
        """Sends a signal to the actor itself."""
        members = self.members(name)
        above = {seen.parent for seen in members}
        for seen in members:
            if seen.pid not in above or len(members) == 1:
                processes.send(seen, number)

    def kill(self, name: str) -> None:
        """Ends an actor, and what it runs under, as `kill -9` does."""
        for seen in self.members(name):
            processes.send(seen, signal.SIGKILL)
        self.processes[name].wait()

    def stop(self) -> None:
        """Ends all actors gracefully; who does not end is killed, and is in `stuck`."""
        running = [name for name, process in self.processes.items() if process.poll() is None]
        for name in running:
            self.signal(name, signal.SIGCONT)
            self.signal(name, signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        for name in running:
            try:
                self.processes[name].wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.kill(name)
                self.stuck.add(name)

    def remove(self) -> None:
        """Ends all actors and units at once, and removes the folder."""
        for name in self.processes:
            self.kill(name)
        for _ in range(3):  # a start of a unit that is under way may become a process meanwhile
            self.end_units()
            time.sleep(0.02)
        shutil.rmtree(self.folder, ignore_errors=True)


def found(*programs: str, folders: Sequence[str] = ()) -> dict[str, str]:
    """Where programs are, by name; those that are not there are left out."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin", *folders])
    places = {name: shutil.which(name, path=path) for name in programs}
    return {name: place for name, place in places.items() if place is not None}
