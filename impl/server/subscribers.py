"""The subscribers to a server's notices: an archive, and the crash points of tests."""

from __future__ import annotations

import logging
import os
import signal
import stat
from collections import Counter
from contextlib import suppress
from errno import ENOSPC
from pathlib import Path

import msgspec

from leasehold.impl import files
from leasehold.impl.notices import Consumed, Kind, Notice, Subscriber
from leasehold.impl.server.config import ConfigError

log = logging.getLogger("leasehold.archive")

_encode = msgspec.json.Encoder(order="deterministic").encode


LONGEST_LINE = 2**24  # bytes; a record is far smaller


class Archive:
    """Leases that are over, as lines of JSON: written before their records are dropped.

    Theory of operation. A line is on the disk before the commit that drops the record, so a crash between the two
    leaves a line too many, and never one too few: the lease is forgotten again, and written again. A power failure may
    leave a part of that line: it is cut off. When the file cannot be written nothing is forgotten, and it is tried
    again at the next tick.

    Args:
        path: the file; it is added to.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            how = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe is never waited for
            self._file = os.open(path, how, 0o600)
            if stat.S_ISREG(os.fstat(self._file).st_mode):
                files.sync_folder(path.absolute().parent)
                self._cut_off()
        except OSError as error:
            raise ConfigError(f"archive: {path} cannot be written: {error.strerror or error}") from None

    def _cut_off(self) -> None:
        """Cuts a last line off that is not whole: its lease was not forgotten yet."""
        size = os.fstat(self._file).st_size
        tail = os.pread(self._file, LONGEST_LINE, max(0, size - LONGEST_LINE))
        before = tail.rfind(b"\n", 0, -1) + 1
        try:
            msgspec.json.decode(tail[before:])
            whole = tail.endswith(b"\n")
        except (msgspec.DecodeError, ValueError):
            whole = not tail
        if not whole:
            log.warning("%s ends with a line that is not whole, and is cut off there", self.path)
            os.ftruncate(self._file, size - len(tail) + before)
            os.fdatasync(self._file)

    def __call__(self, notice: Notice) -> None:
        if notice.kind is Kind.FORGET:
            self._keep(notice)

    def _keep(self, notice: Notice) -> None:
        line = {
            "lease": notice.lease,
            "actor": notice.actor,
            "machine": notice.machine,
            "state": notice.name,
            "forgotten": notice.now,
            **notice.data,
        }
        size = os.fstat(self._file).st_size
        try:
            body = _encode(line) + b"\n"
            if os.write(self._file, body) < len(body):
                raise OSError(ENOSPC, os.strerror(ENOSPC))
            os.fdatasync(self._file)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._file, size)  # half a line would spoil the next
            log.error("%s cannot be written, so %s is not forgotten yet: %s", self.path, notice.lease, error.strerror)
            raise Consumed from error

    def close(self) -> None:
        os.close(self._file)


VARIABLE = "LEASEHOLD_POINTS"
_BARE = {Kind.COMMIT: "before-commit", Kind.COMMITTED: "after-commit", Kind.RECOVERED: "after-recovery"}
_NAMED = {Kind.SEND: "before-send", Kind.CALL: "before-call"}


def crash_point(notice: Notice) -> str | None:
    """The point at which a notice is told; None where the process never dies there."""
    if notice.kind in _BARE:
        return _BARE[notice.kind]
    kind = _NAMED.get(notice.kind)
    return None if kind is None else f"{kind}/{notice.name}"


def crash_subscriber() -> Subscriber | None:
    """The subscriber by which an actor's process kills itself as a notice is told, for tests of recovery; or None.

    The environment variable LEASEHOLD_POINTS switches it on; without it nobody listens, and it costs nothing.

        LEASEHOLD_POINTS=list:FILE                    every point that is passed is written to a file, a line each
        LEASEHOLD_POINTS=kill:before-send/redeem/2    SIGKILL as `redeem` is about to be sent for the second time

    A point is `before-commit`, `after-commit`, `before-send/MESSAGE`, `before-call/TASK` or `after-recovery`. It is
    counted from the process's start.

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
        if (name := crash_point(notice)) is not None:
            os.write(self._file, f"{name}\n".encode())


class _Killer:
    """Ends the process at a point."""

    def __init__(self, name: str, number: int) -> None:
        self._name, self._number = name, number
        self._passed: Counter[str] = Counter()

    def __call__(self, notice: Notice) -> None:
        if (name := crash_point(notice)) is None:
            return
        self._passed[name] += 1
        if name == self._name and self._passed[name] == self._number:
            os.kill(os.getpid(), signal.SIGKILL)
