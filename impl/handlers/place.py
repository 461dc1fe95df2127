"""A unit's folder on disk, with its newest action, its first process, and two locks.

guard        held by the incarnation that acts on the unit, for as long as the action takes
lock         held by the unit's processes: each inherits it from the one before, from the first on
token        a random word that all of the unit's processes have in their environment, for the life of the folder
wanted.json  the newest action; it stays when the unit is gone, so that older ones are refused
lease.json   the lease that the unit serves and the end of its term; the unit may read it
process.json the unit's first process: number, start time, boot; written by that process itself
log          the output of the unit's command; log.1 has the last of what was cut from it
work/        the unit's own directory, which is removed with the unit
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from leasehold.impl import files
from leasehold.impl.handlers import processes
from leasehold.impl.handlers.handler import UNIT_NAME, HandlerAction, HandlerError, Stale
from leasehold.impl.handlers.processes import ProcessSnapshot

TOKEN = "LEASEHOLD_TOKEN"


class Cancelled(Exception):
    """The action was cancelled; the next one finds its traces."""


class UnitDirectory:
    """One unit's folder.

    Args:
        folder: which.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work, self.log = folder / "work", folder / "log"
        self.wanted, self.born, self.lease = folder / "wanted.json", folder / "process.json", folder / "lease.json"
        self._token = folder / "token"

    def make(self) -> None:
        """Makes the folder, or finds it."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        if not self._token.exists():
            # A link appears whole or not at all, and the first one stays.
            fresh = self.folder / f"token.{os.getpid()}.{threading.get_ident()}"
            files.overwrite(fresh, secrets.token_hex(16).encode())
            try:
                os.link(fresh, self._token)
            except (FileExistsError, FileNotFoundError):
                pass  # another made it meanwhile, and may have removed what was written beside it
            finally:
                fresh.unlink(missing_ok=True)

    @property
    def token(self) -> str:
        """The unit's token; empty where the folder was not made to the end, and nothing can have lived in it."""
        try:
            return self._token.read_text()
        except FileNotFoundError:
            return ""

    @contextmanager
    def guarded(self, stop: threading.Event, limit: float) -> Iterator[None]:
        """Excludes other actions on the unit; one of a past incarnation may still be under way.

        Raises:
            HandlerError: another action has taken longer than the limit, in seconds.
        """
        deadline = time.monotonic() + limit
        while (guard := files.lock(self.folder / "guard")) is None:
            if time.monotonic() > deadline:
                raise HandlerError(
                    f"another process has been acting on {self.folder.name} for {limit:g} s; end that one"
                )
            pause(stop, 0.01)
        try:
            yield
        finally:
            os.close(guard)

    def try_lock(self) -> int | None:
        """Takes the lock of the unit's processes; returns its file descriptor, or None where a process holds it."""
        return files.lock(self.folder / "lock")

    def birth(self) -> dict[str, Any]:
        """The record of the unit's first process, running or ended; empty where there is none."""
        return read_file(self.born)

    def leader(self) -> ProcessSnapshot | None:
        """The unit's first process, running or ended; None where it cannot be identified for sure."""
        birth = self.birth()
        if not birth or birth["boot"] != processes.boot():
            return None
        seen = processes.look(birth["pid"])
        return seen if seen is not None and seen.start == birth["start"] else None

    def alive(self) -> bool:
        """Returns whether the unit's first process runs."""
        leader = self.leader()
        return leader is not None and not leader.gone

    def members(self, thorough: bool = False) -> list[ProcessSnapshot]:
        """All processes of the unit: those of its session, and those that carry its token.

        A session has the number of its first process. While that process is there the number means our session; once
        it is not, the number may be another's, and the token alone counts.

        Args:
            thorough: include processes that hold the lock, but have left the session and dropped the environment.
        """
        token, leader, me = self.token, self.leader(), os.getpid()
        if not token:
            return []
        variable = f"{TOKEN}={token}".encode()
        lock = os.stat(self.folder / "lock") if thorough else None
        return [
            seen
            for seen in processes.everyone()
            if not seen.gone
            and seen.pid != me
            and (
                (leader is not None and seen.session == leader.pid)
                or processes.carries(seen.pid, variable)
                # A child of ours that is just being started has all our files open for a moment.
                or (lock is not None and seen.parent != me and processes.holds(seen.pid, lock.st_dev, lock.st_ino))
            )
        ]

    def cut_log(self, most: int) -> None:
        """Cuts a log that is too long: its last half goes to another file, and the unit writes on at the beginning."""
        try:
            size = self.log.stat().st_size
        except FileNotFoundError:
            return
        if size > most:
            with open(self.log, "rb") as file:
                file.seek(size - most // 2)
                tail = file.read(most // 2)
            os.truncate(self.log, 0)  # first, as space may be what is lacking
            files.overwrite(self.folder / "log.1", tail)

    def remove(self) -> None:
        """Removes the files of a lease, and what was being written when somebody was killed.

        The folder stays, with the number of the newest action. Nobody else writes in it meanwhile: that takes the guard
        or the lock.
        """
        if self.work.exists():
            _remove_tree(self.work)
        for file in (self.born, self.lease):
            file.unlink(missing_ok=True)
        self.sweep(self.wanted, self.born, self.lease)

    def sweep(self, *files: Path) -> None:
        """Removes what was being written of the token and other files when somebody was killed, under the guard."""
        for written in (self._token, *files):
            for file in self.folder.glob(f"{written.name}.*"):
                file.unlink(missing_ok=True)


def own_directory(directory: Path) -> Path:
    """Returns the directory of a handler's units, made where it is missing, with access for its owner alone.

    Raises:
        HandlerError: it cannot be made, or is another user's.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.stat()
    except OSError as e:
        raise HandlerError(f"the units' directory {directory} cannot be made: {e}") from None
    if status.st_uid != os.geteuid():
        raise HandlerError(f"the units' directory {directory} belongs to user {status.st_uid}; name one of your own")
    if status.st_mode & 0o077:
        raise HandlerError(f"the units' directory {directory} is open to others; do `chmod 700 {directory}`")
    return directory.resolve()


def folder_name(name: str) -> str:
    """The name of the folder for a unit or lease: the name itself, or its digest where it cannot be one."""
    return name if UNIT_NAME.fullmatch(name) else f"_{sha256(name.encode()).hexdigest()}"


def pause(stop: threading.Event, seconds: float) -> None:
    """Waits a moment.

    Raises:
        Cancelled: the action was cancelled.
    """
    if stop.wait(seconds):
        raise Cancelled


def read_file(file: Path) -> dict[str, Any]:
    """The content of a file that `write_file` wrote; empty where there is none."""
    try:
        content = json.loads(file.read_bytes())
    except FileNotFoundError:
        return {}
    except ValueError as e:
        raise HandlerError(f"{file} is damaged: {e}; see what lives in that folder, then remove the file") from None
    return content if isinstance(content, dict) else {}


def write_file(file: Path, value: Mapping[str, Any]) -> None:
    """Writes durably, whole or not at all. Only one at a time writes a file."""
    fresh = file.with_name(f"{file.name}.new")
    files.overwrite(fresh, json.dumps(value).encode())
    os.replace(fresh, file)
    files.sync_folder(file.parent)


def want(file: Path, action: HandlerAction) -> None:
    """Writes an action down as the newest one of its unit or lease.

    Raises:
        Stale: there was a newer one.
    """
    seen = read_file(file)
    newest = seen.get("number", action.number)
    if (seen.get("fence", 0), newest) > (action.fence, action.number):
        raise Stale(f"action {action.number} on {action.on} is older than action {newest}, which it has seen")
    task = {"task": action.task, "incarnation": action.incarnation}
    if action.fence:
        task["fence"] = action.fence
    write_file(file, {"number": action.number, "verb": action.verb, "lease": action.lease, **task})


def _remove_tree(folder: Path) -> None:
    """A unit may leave directories that even their owner cannot enter; they are opened first."""
    try:
        shutil.rmtree(folder)
    except PermissionError:
        os.chmod(folder, 0o700)
        for above, below, _ in os.walk(folder):
            for name in below:
                if not os.path.islink(inner := os.path.join(above, name)):
                    os.chmod(inner, 0o700)
        shutil.rmtree(folder)
