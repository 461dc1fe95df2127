"""The programs that drivers run, and the packages that bring them.

Theory of operation. A program that a driver has started may outlive the actor. It has a session of its own, holds the
lock of its unit and carries the unit's token, so the next action on the unit finds it and ends it (`end_leftovers`)
before it does anything itself. A program whose action is cancelled is killed with its process group, and waited for.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

from leasehold.impl import descriptors
from leasehold.impl.handlers import processes
from leasehold.impl.handlers.handler import HandlerError, NotBegun
from leasehold.impl.handlers.place import TOKEN, Cancelled, UnitDirectory

# The Debian packages that bring the programs.
PACKAGES: Mapping[str, str] = {
    "blkid": "util-linux",
    "btrfs": "btrfs-progs",
    "btrfstune": "btrfs-progs",
    "cp": "coreutils",
    "ip": "iproute2",
    "losetup": "mount",
    "ls": "coreutils",
    "mkfs.btrfs": "btrfs-progs",
    "mkfs.ext4": "e2fsprogs",
    "mkfs.xfs": "xfsprogs",
    "mount": "mount",
    "nsenter": "util-linux",
    "resize2fs": "e2fsprogs",
    "runc": "runc",
    "sync": "coreutils",
    "timeout": "coreutils",
    "umount": "mount",
    "virsh": "libvirt-clients",
    "xfs_growfs": "xfsprogs",
}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
KILL_LIMIT = 10.0  # seconds until programs that were killed have ended
LOOK = 0.02  # seconds between two looks at whether an action was cancelled
_LACKS = [os.strerror(n) for n in (*descriptors.PASSING, *descriptors.FULL)]


class ToolFailed(HandlerError):
    """A program has ended with an error, or does not end. The message has its name and its last words.

    Attributes:
        code: its exit code.
        words: all that it said.
    """

    def __init__(self, message: str, code: int, words: str) -> None:
        super().__init__(message)
        self.code, self.words = code, words


def lacking(program: str) -> str:
    """Returns what to do about a program that is not there; empty where it is."""
    if shutil.which(program, path=PATH) is not None:
        return ""
    package = PACKAGES.get(program)
    return f"{program} is missing; `apt install {package}` brings it" if package else f"{program} is missing"


class Tools:
    """Runs programs for one action on one unit.

    Args:
        place: the unit's directory.
        lock: its lock, which the programs hold; None: nothing is changed, so nothing has to be found.
        stop: set when the action is cancelled.

    Attributes:
        stop: the same.
    """

    def __init__(self, place: UnitDirectory, lock: int | None = None, stop: threading.Event | None = None) -> None:
        self._lock, self.stop = lock, stop or threading.Event()
        # Without BLKID_FILE its library writes what it has found into a cache of the machine.
        self._environment = {"PATH": PATH, "LC_ALL": "C", "HOME": "/", "BLKID_FILE": os.devnull}
        if lock is not None:
            self._environment[TOKEN] = place.token

    def check_stop(self) -> None:
        """A place at which the action may end.

        Raises:
            Cancelled: it was cancelled.
        """
        if self.stop.is_set():
            raise Cancelled

    def pause(self, seconds: float) -> None:
        """Waits a moment.

        Raises:
            Cancelled: the action was cancelled.
        """
        if self.stop.wait(seconds):
            raise Cancelled

    def run(
        self,
        *command: str | Path,
        ends_with: Collection[int] = (0,),
        output: Path | None = None,
        input: IO[bytes] | None = None,
        keep: tuple[int, ...] = (),
        may_wait: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> str:
        """Runs a program to its end; returns its output.

        Args:
            command: the program and its arguments.
            ends_with: the exit codes that mean success.
            output: a file for its output and its errors, where a process stays behind that has them.
            input: the file that is its standard input; None: an empty one.
            keep: further descriptors that it inherits.
            may_wait: whether an error for want of memory, descriptors or space means that the action is tried later.
            environment: further variables.

        Raises:
            ToolFailed: it ended with another code.
            NotBegun: the system lacks something at the moment.
            Cancelled: the action was cancelled; the program has ended.
        """
        words = [str(part) for part in command]
        self.check_stop()
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        log = os.open(output, flags, 0o600) if output is not None else None
        try:
            program = subprocess.Popen(
                words,
                stdin=input or subprocess.DEVNULL,
                stdout=subprocess.PIPE if log is None else log,
                stderr=subprocess.PIPE if log is None else log,
                start_new_session=True,
                pass_fds=keep if self._lock is None else (self._lock, *keep),
                env={**self._environment, **(environment or {})},
            )
        except FileNotFoundError:
            raise HandlerError(lacking(words[0]) or f"{words[0]} cannot be started") from None
        finally:
            if log is not None:
                os.close(log)
        with program:
            out, errors = self._await(program)
        text = out.decode(errors="replace")
        if program.returncode in ends_with:
            return text
        said = errors.decode(errors="replace").strip() or text.strip()
        if may_wait and any(reason in said for reason in _LACKS):
            raise NotBegun(f"{words[0]}: {said.splitlines()[-1][:500]}")
        last = (said.splitlines() or ["nothing"])[-1]
        message = f"{' '.join(words)[:200]} ended with code {program.returncode}; it said: {last[:500]}"
        raise ToolFailed(message, program.returncode, said)

    def _await(self, program: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
        try:
            while True:
                try:
                    out, errors = program.communicate(timeout=LOOK)
                    return out or b"", errors or b""
                except subprocess.TimeoutExpired:
                    self.check_stop()
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
            raise


def silence_of(folder: Path, tools: Tools, seconds: int = 2) -> str:
    """Returns why a folder, perhaps of a network file system, cannot be read; empty where it can, or is not there.

    It is looked at by a program that is killed, as a thread of this process would hang with the file system.
    """
    try:
        tools.run("timeout", "--signal=KILL", str(seconds), "ls", "-A", folder)
    except ToolFailed as error:
        if error.code in (124, 137, -signal.SIGKILL):
            return f"{folder} does not answer within {seconds} s"
        with suppress(OSError):  # as of a file system whose server is gone
            if not folder.exists():
                return ""
        return error.words.splitlines()[-1][:300]
    return ""


def end_leftovers(place: UnitDirectory, tools: Tools) -> int:
    """Ends the programs that an actor left behind when it died; returns the unit's lock.

    Raises:
        HandlerError: one does not end.
        Cancelled: the action was cancelled.
    """
    deadline = time.monotonic() + KILL_LIMIT
    while True:
        lock = place.try_lock()
        if lock is not None:
            return lock
        for member in place.members(thorough=True):
            processes.send(member, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise HandlerError(f"a program keeps the lock {place.folder / 'lock'} and does not end")
        tools.pause(0.01)


def is_gone(error: OSError) -> bool:
    """Returns whether an error says that a file is not there."""
    return error.errno in (errno.ENOENT, errno.ENOTDIR)
