"""The three actors of a case, as processes that are forked, or run under another program."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from leasehold.checker.recovery.processes.forked import ForkedProcess
from leasehold.checker.recovery.processes.resources import PORTS
from leasehold.impl.fleet import ProcessHandle
from leasehold.impl.handlers import processes
from leasehold.impl.lease.fleet import ROLES, Fleet

TICK_SECONDS = 0.1
UNITS = 3
STOP_SECONDS = 10.0
FAST = {
    "messages": {"first_pause_seconds": 0.05, "longest_pause_seconds": 0.4, "ask_again_seconds": 0.5},
    "handling": {"tries": 3, "pause_seconds": 0.1, "longest_seconds": 10.0},
    "reopen_pause_seconds": 0.1,
}  # so that messages are repeated soon


class Actors(Fleet):
    """A fleet whose actors are forked, or run under another program, at addresses of their own.

    Attributes:
        stores: the URL of an actor's store, where it is not the fleet's.
        stuck: actors that did not end when asked to.
    """

    answer_seconds = 5.0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, UNITS, TICK_SECONDS, store=self._url, more=FAST)
        self.stores: dict[str, str] = {}
        self.stuck: set[str] = set()
        for name in ROLES:
            self.listens[name] = self.addresses[name] = f"http://127.0.0.1:{PORTS.take()}"

    def _url(self, name: str) -> str:
        return self.stores.get(name, f"sqlite:{name}.db")

    def _launch(self, name: str, arguments: Sequence[str], log: Path) -> ProcessHandle:
        if self.prefix.get(name):
            return super()._launch(name, arguments, log)
        return ForkedProcess(arguments, self.environment.pop(name, {}), log)

    def members(self, name: str) -> list[processes.ProcessSnapshot]:
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
