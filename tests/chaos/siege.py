"""Attacks on a running actor from outside: connections, clients, and a lack of descriptors; and how soon it answers.

It imports nothing of the product, so that no mistake is shared.
"""

from __future__ import annotations

import http.client
import os
import resource
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

CROWD = 300
HALF_OPEN = 1000
ADDRESSES = 5
# Besides what it waits for a processor.
ANSWER_SECONDS = 1.0
CALM_SECONDS = 3.0  # after a start or a pause, in which an actor may be slow


def half_open(port: int, many: int = HALF_OPEN, says: bytes = b"", addresses: int = 1) -> Callable[[], None]:
    """Holds connections to a port over which no whole request comes; returns what lets them go."""
    held: list[socket.socket] = []
    for number in range(many):
        plug = socket.socket()
        held.append(plug)
        plug.setblocking(False)
        with suppress(OSError):
            plug.bind((f"127.0.0.{1 + number % addresses}", 0))
            plug.connect_ex(("127.0.0.1", port))
    for plug in held if says else ():
        with suppress(OSError):
            plug.send(says)

    def end() -> None:
        for plug in held:
            plug.close()

    return end


class Crowd(threading.Thread):
    """Many clients at once at a control socket.

    Attributes:
        answers: how many had each status; 0 is none.
    """

    def __init__(self, control: Path, many: int = CROWD) -> None:
        super().__init__(daemon=True)
        self.control, self.many = control, many
        self.answers: dict[int, int] = {}

    def run(self) -> None:
        plugs = []
        for _ in range(self.many):
            plug = socket.socket(socket.AF_UNIX)
            plugs.append(plug)
            plug.settimeout(10)
            with suppress(OSError):
                plug.connect(str(self.control))
                plug.sendall(b"GET /about HTTP/1.1\r\nHost: actor\r\nConnection: close\r\n\r\n")
        for plug in plugs:
            status = 0
            with suppress(OSError, ValueError, IndexError):
                status = int(plug.recv(64).split()[1])
            self.answers[status] = self.answers.get(status, 0) + 1
            plug.close()


def few_descriptors(pid: int, spare: int = 2) -> Callable[[], None] | None:
    """Leaves a process so many descriptors more than it has; returns what gives them back."""
    with suppress(OSError, ValueError):
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        top = max(int(name) for name in os.listdir(f"/proc/{pid}/fd"))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (min(top + 1 + spare, before[1]), before[1]))

        def end() -> None:
            with suppress(OSError, ValueError):
                resource.prlimit(pid, resource.RLIMIT_NOFILE, before)

        return end
    return None


def seconds_of_answer(control: Path) -> tuple[float, int]:
    """Asks at a control socket who is there; returns how long that took, and the status; 0 for none."""
    began, status = time.monotonic(), 0
    connection = http.client.HTTPConnection("actor")
    with suppress(OSError, http.client.HTTPException), socket.socket(socket.AF_UNIX) as plug:
        plug.settimeout(10)
        plug.connect(str(control))
        connection.sock = plug
        connection.request("GET", "/about")
        status = connection.getresponse().status
    return time.monotonic() - began, status


def waited_for_processor(pid: int) -> float:
    """Returns the seconds for which a process, or this thread, was ready to run and others ran: the machine's load."""
    waited = 0
    for place in (f"/proc/{pid}", f"/proc/self/task/{threading.get_native_id()}"):
        with suppress(OSError, ValueError, IndexError):
            waited += int(Path(place, "schedstat").read_text(encoding="ascii").split()[1])
    return waited / 1e9


class Clock(threading.Thread):
    """Asks each control socket for its actor again and again, and notes how long that takes.

    Attributes:
        longest: seconds of the longest answer of an actor that nobody disturbed, without those that it waited for a
            processor that others used.
        load: the most seconds that it waited so during one answer.
        asked: how often.
        late: what took too long.
        files: the most descriptors that an actor had open.
    """

    def __init__(self, sockets: dict[str, Path], calm: Callable[[str], bool], pid: Callable[[str], int]) -> None:
        super().__init__(daemon=True)
        self._sockets, self._calm, self._pid = sockets, calm, pid
        self.longest, self.load, self.asked, self.files = 0.0, 0.0, 0, 0
        self.late: list[str] = []
        self._over = threading.Event()
        self._up: set[str] = set()  # those that have answered since they were disturbed

    def run(self) -> None:
        while not self._over.wait(0.2):
            for name, path in self._sockets.items():
                if self._calm(name):
                    self._ask(name, path)
                else:
                    self._up.discard(name)

    def _ask(self, name: str, path: Path) -> None:
        pid = self._pid(name)
        before = waited_for_processor(pid)
        took, status = seconds_of_answer(path)
        load = max(0.0, waited_for_processor(pid) - before)
        if not self._calm(name):
            return
        if name not in self._up:
            self._up |= {name} if status else set()
            return
        self.asked += 1
        self.longest, self.load = max(self.longest, took - load), max(self.load, load)
        with suppress(OSError):
            self.files = max(self.files, len(os.listdir(f"/proc/{self._pid(name)}/fd")))
        if took - load > ANSWER_SECONDS or status not in (200, 503):
            said = f"control of {name} answered {status or 'nothing'} after {took:.2f} s"
            self.late.append(f"{said}, {load:.2f} s of them without a processor")

    def close(self) -> None:
        self._over.set()
        self.join()


def bytes_in(folders: Sequence[Path]) -> int:
    """Returns what folders take on their disks."""
    found = 0
    for folder in folders:
        for top, _, names in os.walk(folder):
            for name in names:
                with suppress(OSError):
                    found += os.lstat(os.path.join(top, name)).st_blocks * 512
    return found
