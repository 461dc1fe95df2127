"""Looks at a fleet from outside: locks and sockets, as the kernel shows them; outside.py looks at its processes."""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any


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
    """Returns how many files a process has open."""
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
