"""Actors that are forked from one process, which has imported all modules that an actor needs.

The start of Python and its imports take most of a case's processor time. multiprocessing's fork server saves it; it has
one thread, as only such a process can fork safely. A forked actor is a process as any other: it leads a session, and
runs the same command.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path

from leasehold.checker.host.workers import end_with_parent

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["leasehold.cli.run", "leasehold.impl.store.sqlite", "leasehold.impl.transport.http", __name__]
)


class ForkedProcess:
    """A process that runs `leasehold ARGUMENTS...`, with the methods of subprocess.Popen; for any thread.

    Args:
        arguments: the words behind the command.
        environment: variables beside those of this process.
        log: the file to which its output is appended.
    """

    _lock = threading.Lock()  # to start one process, multiprocessing polls the others, which threads may not do at once

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        leads, led = CONTEXT.Pipe(duplex=False)
        self._process = CONTEXT.Process(target=_become, args=(arguments, dict(environment), log, led), daemon=True)
        with leads, self._lock:
            with led:
                self._process.start()
            leads.recv()  # it leads its session, so that signals to that find it
        assert self._process.pid is not None
        self.pid: int = self._process.pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            with self._lock:
                self.returncode = self._process.exitcode
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        wait([self._process.sentinel], timeout)
        if (code := self.poll()) is None:
            raise subprocess.TimeoutExpired("leasehold", timeout or 0.0)
        return code


def _become(arguments: Sequence[str], environment: Mapping[str, str], log: Path, led: Connection) -> None:
    """Runs the command in a session of its own, until it ends or the campaign's process does."""
    os.setsid()
    end_with_parent()
    os.environ.update(environment)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number in (1, 2):
        os.dup2(output, number)
    os.close(output)
    with led:
        led.send(None)
    sys.argv = ["leasehold", *arguments]
    runpy.run_module("leasehold", run_name="__main__", alter_sys=True)
