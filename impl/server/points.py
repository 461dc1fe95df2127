"""Where the process of an actor dies, for tests of recovery: it kills itself as one of its notices is told.

The environment variable LEASEHOLD_POINTS switches it on; without it nobody listens, and it costs nothing.

    LEASEHOLD_POINTS=list:FILE                      every point that is passed is written to a file, a line each
    LEASEHOLD_POINTS=kill:before-send/redeem/2      SIGKILL as `redeem` is about to be sent for the second time

A point is `before-commit`, `after-commit`, `before-send/MESSAGE`, `before-call/TASK` or `after-recovery`. It is counted
from the process's start.
"""

from __future__ import annotations

import os
import signal
from collections import Counter

from leasehold.impl.notices import Kind, Notice, Subscriber

VARIABLE = "LEASEHOLD_POINTS"
_BARE = {Kind.COMMIT: "before-commit", Kind.COMMITTED: "after-commit", Kind.RECOVERED: "after-recovery"}
_NAMED = {Kind.SEND: "before-send", Kind.CALL: "before-call"}


def point(notice: Notice) -> str | None:
    """The point at which a notice is told; None where nobody dies there."""
    if notice.kind in _BARE:
        return _BARE[notice.kind]
    kind = _NAMED.get(notice.kind)
    return None if kind is None else f"{kind}/{notice.name}"


def subscriber() -> Subscriber | None:
    """What the variable asks for; None where it is not set.

    Raises:
        ValueError: it asks for something else.
    """
    asked = os.environ.get(VARIABLE)
    if not asked:
        return None
    verb, _, rest = asked.partition(":")
    if verb == "list" and rest:
        return _Lister(rest)
    name, _, number = rest.rpartition("/")
    if verb != "kill" or not name or not number.isdigit():
        raise ValueError(f"{VARIABLE} is {asked[:80]!r}; write list:FILE or kill:POINT/NUMBER")
    return _Killer(name, int(number))


class _Lister:
    """Writes the points down; a line is whole, or not there."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def __call__(self, notice: Notice) -> None:
        if (name := point(notice)) is not None:
            os.write(self._file, f"{name}\n".encode())


class _Killer:
    """Ends the process at a point."""

    def __init__(self, name: str, number: int) -> None:
        self._name, self._number = name, number
        self._passed: Counter[str] = Counter()

    def __call__(self, notice: Notice) -> None:
        if (name := point(notice)) is None:
            return
        self._passed[name] += 1
        if name == self._name and self._passed[name] == self._number:
            os.kill(os.getpid(), signal.SIGKILL)
