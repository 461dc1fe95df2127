"""A fork server for actors: each is forked from one process that has imported all that an actor needs.

Starting Python and importing takes most of a case's processor time. A forked actor is a process as any other: it leads
a session, is killed and reaped, and runs the same command. The fork server has one thread, as only such a process can
fork safely; it takes orders and reports ends as lines of JSON, and when its socket is closed, it kills all that it has
started.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NoReturn

from leasehold.impl.fleet import ProcessHandle

PRELOADED = ("leasehold.cli.run", "leasehold.impl.store.sqlite", "leasehold.impl.transport.http")


class ForkServer:
    """Starts actors; for any thread. Its process is started with the first of them, and ended by `close`."""

    def __init__(self) -> None:
        self._orders: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._starting: list[Future[ForkedProcess]] = []  # of those whose start was ordered, in order
        self._children: dict[int, ForkedProcess] = {}
        self._lock = threading.Lock()

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> ProcessHandle:
        """Starts `leasehold ARGUMENTS...` in a session of its own.

        Args:
            arguments: the words behind the command.
            environment: variables beside those of this process.
            log: what it prints is appended to this file.
        """
        order = {"arguments": list(arguments), "environment": dict(environment), "log": str(log)}
        child: Future[ForkedProcess] = Future()
        with self._lock:
            if self._orders is None:
                self._orders = self._begin()
            self._starting.append(child)
            self._orders.sendall(json.dumps(order).encode() + b"\n")
        return child.result()

    def close(self) -> None:
        """Ends the process, and with it whatever it has started."""
        with self._lock:
            orders, process, self._orders = self._orders, self._process, None
        if orders is not None and process is not None:
            orders.shutdown(socket.SHUT_WR)
            process.wait()

    def _begin(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", __name__, str(theirs.fileno())]
            # In a session of its own: Ctrl-C is for the campaign, which ends what it has started in order.
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], start_new_session=True)
        threading.Thread(target=self._listen, args=(ours,), daemon=True).start()
        return ours

    def _listen(self, told: socket.socket) -> None:
        with told, told.makefile() as lines:
            for line in lines:
                what = json.loads(line)
                with self._lock:
                    if "started" in what:
                        child = self._children[what["started"]] = ForkedProcess(what["started"])
                        self._starting.pop(0).set_result(child)
                    else:
                        self._children.pop(what["ended"]).end(what["code"])
        with self._lock:
            for waits in self._starting:
                waits.set_exception(OSError("the process that starts actors has ended"))
            self._starting.clear()


class ForkedProcess:
    """A process that was started."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ended = threading.Event()

    def end(self, code: int) -> None:
        self.returncode = code
        self._ended.set()

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired("leasehold", timeout or 0.0)
        assert self.returncode is not None
        return self.returncode

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            if self.returncode is None:
                os.kill(self.pid, number)


# The process that forks


def serve(orders: socket.socket) -> NoReturn:
    """Does what it is told until nobody tells it any more."""
    for name in PRELOADED:
        importlib.import_module(name)
    woken, wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    heard_from: list[Any] = [orders, woken]
    alive: set[int] = set()
    lines = b""
    while True:
        ready, _, _ = select.select(heard_from, [], [])
        if woken in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(woken, 1024)
        _reap(orders, alive)
        if orders not in ready:
            continue
        if not (heard := orders.recv(1 << 16)):
            break
        *whole, lines = (lines + heard).split(b"\n")
        for line in whole:
            pid = _fork(json.loads(line), (orders.fileno(), woken, wakes))
            alive.add(pid)
            _tell(orders, started=pid)
    for pid in alive:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    sys.exit(0)


def _reap(orders: socket.socket, alive: set[int]) -> None:
    while alive:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        alive.discard(pid)
        _tell(orders, ended=pid, code=os.waitstatus_to_exitcode(status))


def _tell(orders: socket.socket, **what: int) -> None:
    with contextlib.suppress(BrokenPipeError):
        orders.sendall(json.dumps(what).encode() + b"\n")


def _fork(order: dict[str, Any], private: Sequence[int]) -> int:
    """Answers when the child leads its session, so that signals to that find it."""
    led, leads = os.pipe()
    if pid := os.fork():
        os.close(leads)
        os.read(led, 1)
        os.close(led)
        return pid
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    for number in (led, leads, *private):
        os.close(number)
    _become(order)


def _become(order: dict[str, Any]) -> NoReturn:
    os.environ.update(order["environment"])
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    for number, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(number, target)
    os.close(log)
    os.close(null)
    sys.argv = ["leasehold", *order["arguments"]]
    runpy.run_module("leasehold", run_name="__main__", alter_sys=True)
    sys.exit(0)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
