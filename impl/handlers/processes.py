"""Processes of this machine, from /proc, identified although their numbers are reused.

A process is identified by its number and its start time. Before a signal is sent, a file descriptor (pidfd) fixes the
process, and only then is its start time compared; so the signal cannot reach another process.

That a file of /proc cannot be opened for want of descriptors or memory says nothing about a process: such an error is
raised, or one that lives would count as gone.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
_LACKS = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}
EXITING = 0x4  # PF_EXITING of the kernel's sched.h: set before a dying process closes its files


@dataclass(frozen=True, slots=True)
class ProcessSnapshot:
    """A snapshot of a process.

    Attributes:
        start: clock ticks from the boot to its beginning (field 22 of its stat file).
        gone: it is ending, or has ended and its parent has not waited for it.
    """

    pid: int
    start: int
    parent: int
    session: int
    gone: bool


def look(pid: int) -> ProcessSnapshot | None:
    """A process by its number; None where there is none.

    Raises:
        OSError: the system lacks what it takes to look.
    """
    try:
        text = (PROC / str(pid) / "stat").read_bytes()
    except OSError as error:
        _check_lack(error)
        return None
    rest = text[text.rindex(b")") + 2 :].split()  # a name may hold anything, also brackets
    gone = rest[0] in (b"Z", b"X") or bool(int(rest[6]) & EXITING)
    return ProcessSnapshot(pid, int(rest[19]), int(rest[1]), int(rest[3]), gone)


def everyone() -> Iterator[ProcessSnapshot]:
    """All processes."""
    for name in os.listdir(PROC):
        if name.isdigit() and (seen := look(int(name))) is not None:
            yield seen


def boot() -> str:
    """The id of this boot of the machine; a file of another boot is about processes that have ended."""
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


def carries(pid: int, variable: bytes) -> bool:
    """Returns whether a process was started with an environment variable, `NAME=value`."""
    try:
        return variable in (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError as error:
        _check_lack(error)
        return False


def holds(pid: int, device: int, inode: int) -> bool:
    """Returns whether a process has a file open."""
    folder = PROC / str(pid) / "fd"
    try:
        names = os.listdir(folder)
    except OSError as error:
        _check_lack(error)
        return False
    for name in names:
        try:
            status = os.stat(folder / name)
        except OSError:
            continue
        if (status.st_dev, status.st_ino) == (device, inode):
            return True
    return False


def send(seen: ProcessSnapshot, number: signal.Signals) -> bool:
    """Sends a signal to a process; returns False where it is gone, even if its number is in use again."""
    try:
        handle = os.pidfd_open(seen.pid)
    except OSError as error:
        _check_lack(error)
        return False
    try:
        now = look(seen.pid)
        if now is None or now.start != seen.start:
            return False
        signal.pidfd_send_signal(handle, number)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)


def _check_lack(error: OSError) -> None:
    if error.errno in _LACKS:
        raise error
