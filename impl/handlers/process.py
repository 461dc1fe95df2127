"""Units that are process groups: each with its own directory and limits, found by the name of its folder.

Theory of operation (paper, section 4.3.2). A unit's processes outlive the actor, and the actor may die at any point of
an action; the next incarnation continues from the state that it finds. Three rules make that safe.

*A unit's processes hold its lock.* The handler takes the lock and passes it on to the program that becomes the unit
(starter.py); the lock is held without a gap from before the first process starts until the last one that inherited it
has ended. So a unit cannot be made twice, and a half-made one is seen by its lock. Processes are found by their
session, by a random token in their environment, which they have from their first moment on, and at last by the lock
itself. The first two find also processes that closed the lock's file.

*The newest action wins.* An action writes its number down before it looks at the lock; a program that is to become a
unit holds the lock before it looks at the number. So a start that a dying actor left behind either sees the newer
number and ends, or is seen by the newer action. An action with a smaller number is refused, and two actions exclude
each other, also between incarnations.

*A process is identified by its number, its start time and the boot*, so that a reused number is never taken for the
unit (processes.py).

A unit is up while its first process runs. `setup` and `modify` both bring it up, `teardown` removes it; each may be
repeated, from any state. For what a holder runs on its units, `join`, `modify` and `leave` do the same; each lease has
folders of its own then. A process that left the session, the environment and the lock is beyond this handler; that
would take a container.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import signal
import socket
import string
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from leasehold.impl import descriptors
from leasehold.impl.handlers import cgroups, processes
from leasehold.impl.handlers.handler import UNIT_NAME, Done, HandlerAction, HandlerError, NotBegun
from leasehold.impl.handlers.place import (
    TOKEN,
    Cancelled,
    UnitDirectory,
    own_directory,
    pause,
    read_file,
    want,
    write_file,
)
from leasehold.impl.handlers.starter import LACK, LACKING, LIMITS
from leasehold.impl.handlers.threads import act_in_thread, in_thread

IDLE = ("sleep", "infinity")
_OF_RUN = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]*):([0-9]+)/([a-z_]+)\[([0-9]+)\]")  # ORIGIN:NUMBER/ROLE[NUMBER]
PLACEHOLDERS = ("unit", "lease", "term_end", "directory", "index")
UP, DOWN = ("setup", "modify", "join"), ("teardown", "leave")
POINTS = ("guarded", "wanted", "locked", "started", "kept", "asked", "cleared", "removed")
STARTER = Path(__file__).with_name("starter.py")
FILE_BYTES, LOG_BYTES, RESERVE_BYTES = 1 << 30, 16 << 20, 32 << 20
MOST_SHOWN = 8  # processes of a unit that are named
ASKING = 4  # probes at a time
GUARD_LIMIT, START_LIMIT, KILL_LIMIT, BIRTH_LIMIT = 30.0, 15.0, 10.0, 1.0


class ProcessHandler:
    """The handler.

    Args:
        directory: of the units' folders; made with access for its owner alone.
        command: of a unit, as a list of words; `{unit}`, its number `{index}`, `{lease}`, `{term_end}` and
            `{directory}` are replaced.
        limits: of each process of a unit: `cpu_seconds`, `memory_bytes`, `files`, `processes` (those of its user),
            `file_bytes` (the size of each file, 1 GiB where left out). A unit's property `limits` has precedence.
        log_bytes: of a unit's log; a longer one is cut to its last half, which goes to `log.1`.
        reserve_bytes: of the units' disk; with less left no unit is set up, as what runs may need it to end.
        environment: variables for the command, beside PATH, HOME and those that name the unit, lease and term.
        grace: seconds between SIGTERM and SIGKILL.
        parallel: actions at a time; the others wait, and their time has not begun.
        at: called at each point of an action (POINTS), after its step; tests crash there.
        starter: the program that becomes a unit.
        namespace: the network namespace that the units are in, by its name; empty: the machine's.
        cgroup: the control group below which they are put; empty: where the actor is.
    """

    def __init__(
        self,
        directory: str | Path,
        command: Sequence[str] = IDLE,
        *,
        limits: Mapping[str, int] | None = None,
        environment: Mapping[str, str] | None = None,
        grace: float = 5.0,
        parallel: int = 16,
        at: Callable[[str], None] = lambda point: None,
        starter: Path = STARTER,
        log_bytes: int = LOG_BYTES,
        reserve_bytes: int = RESERVE_BYTES,
        namespace: str = "",
        cgroup: str = "",
    ) -> None:
        self._base = own_directory(Path(directory))
        self._command = _checked_command(command)
        self._limits = {"file_bytes": FILE_BYTES, **_checked_limits(limits or {}, "limits")}
        for name, value in (("log_bytes", log_bytes), ("reserve_bytes", reserve_bytes)):
            if type(value) is not int or value < 0:
                raise HandlerError(f"`{name}` is {value!r}; it needs a number of bytes")
        self._log_bytes, self._reserve = log_bytes, reserve_bytes
        self._environment = {"PATH": os.environ.get("PATH", os.defpath), **(environment or {})}
        self._grace, self._at, self._starter = grace, at, starter
        self._namespace, self._cgroup = namespace, cgroup
        self.parallel = parallel
        self._pool = ThreadPoolExecutor(parallel, "process-handler")
        self._asking = ThreadPoolExecutor(ASKING, "process-probe")  # actions may hold all threads of the pool

    async def act(self, action: HandlerAction) -> Done:
        """Does an action.

        Raises:
            Stale: the unit has seen a newer one.
            HandlerError: it could not be done.
        """
        return await act_in_thread(self._pool, self.do, action)

    async def probe(self, unit: str) -> Mapping[str, Any] | None:
        """The unit's folder, its process, whether that runs, and its lease."""
        place = self._place(unit)
        return await in_thread(self._asking, _facts, place)

    async def is_up(self, unit: str) -> bool:
        """Returns whether the unit's first process runs. It waits for no action."""
        return await in_thread(self._asking, self._look, self._place(unit))

    async def left_of(self, unit: str) -> str:
        """The processes of a unit."""
        return await in_thread(self._asking, self.left, unit)

    def facts_of(self, unit: str) -> dict[str, Any] | None:
        """The same as `probe`, in any thread; a log that is too long is cut."""
        place = self._place(unit)
        self._look(place)
        return _facts(place)

    def left(self, unit: str) -> str:
        """The same as `left_of`, in any thread."""
        return _left(self._place(unit))

    def _look(self, place: UnitDirectory) -> bool:
        place.cut_log(self._log_bytes)
        return place.alive()

    async def close(self) -> None:
        self._asking.shutdown(wait=False)
        await asyncio.to_thread(self._pool.shutdown)

    def _place(self, unit: str) -> UnitDirectory:
        folder = _folder_of(unit)
        if not UNIT_NAME.fullmatch(folder):
            raise HandlerError(f"{unit[:80]!r} cannot be the name of a directory, so no unit may have it")
        return UnitDirectory(self._base / folder)

    def do(self, action: HandlerAction, stop: threading.Event) -> Done:
        """Does an action, in any thread; `stop` cancels it.

        Raises:
            Stale, HandlerError, NotBegun: as `act`.
            Cancelled: it was cancelled.
        """
        if action.verb not in (*UP, *DOWN):
            raise HandlerError(f"units that are processes know {', '.join((*UP, *DOWN))}, not {action.verb!r}")
        place = self._place(action.unit)
        try:
            return self._act(place, action, stop)
        except OSError as error:
            if descriptors.is_passing(error) or error.errno in descriptors.FULL:
                raise NotBegun(f"{action.verb} of {action.unit}: {error}") from error
            raise

    def _act(self, place: UnitDirectory, action: HandlerAction, stop: threading.Event) -> Done:
        place.make()
        with place.guarded(stop, GUARD_LIMIT):
            self._point("guarded", stop)
            want(place.wanted, action)
            self._point("wanted", stop)
            if action.verb in DOWN:
                self._down(place, stop)
                return Done(True, "nothing is left of it", {"alive": False})
            kept = self._up(place, action, stop)
            facts = _facts(place)  # while nobody else can act on it
            if facts is None or not facts["alive"]:
                raise HandlerError(f"the command has ended at once; its last words: {_last_words(place)}")
        properties = {"host": socket.gethostname(), "pid": facts["pid"]}
        return Done(True, "it runs on" if kept else "it was started", facts, properties=properties)

    def _point(self, name: str, stop: threading.Event) -> None:
        self._at(name)
        if stop.is_set():
            raise Cancelled

    def _up(self, place: UnitDirectory, action: HandlerAction, stop: threading.Event) -> bool:
        """Makes the unit run for a lease; returns whether it did already."""
        limits = {**self._limits, **_checked_limits(action.properties.get("limits", {}), f"limits of {action.unit}")}
        content = {"lease": action.lease, "term_end": action.term_end}
        self._await_birth(place, stop)
        if place.alive() and place.birth().get("lease") == action.lease:
            write_file(place.lease, content)
            if action.verb == "modify":
                _limit(place, limits)
            self._point("kept", stop)
            return True
        free = os.statvfs(self._base)
        if (left := free.f_bavail * free.f_frsize) < self._reserve:
            raise NotBegun(f"{self._base} has {left} bytes left, and {self._reserve} are kept (`reserve_bytes`)")
        lock = self._clear(place, stop)
        try:
            self._point("locked", stop)
            if read_file(place.lease).get("lease") != action.lease:
                place.remove()  # the files of another lease, which was not torn down
            write_file(place.lease, content)
            place.work.mkdir(mode=0o700, exist_ok=True)
            self._start(place, action, limits, lock)
        finally:
            os.close(lock)  # the unit has it now, or nobody
        self._point("started", stop)
        return False

    def _await_birth(self, place: UnitDirectory, stop: threading.Event) -> None:
        """Gives a start that an earlier incarnation left behind time to end, or to become a unit."""
        deadline = time.monotonic() + BIRTH_LIMIT
        while not place.alive() and time.monotonic() < deadline:
            lock = place.try_lock()
            if lock is not None:
                os.close(lock)
                return
            pause(stop, 0.01)

    def _start(self, place: UnitDirectory, action: HandlerAction, limits: Mapping[str, int], lock: int) -> None:
        end, index = str(action.term_end), str(action.index)
        values = {"unit": action.unit, "lease": action.lease, "term_end": end, "directory": str(place.work)}
        values["index"] = index
        command = [part.format_map(values) for part in self._command]
        if self._namespace:
            command = ["nsenter", f"--net=/run/netns/{self._namespace}", "--", *command]
        birth = {"boot": processes.boot(), "number": action.number, "lease": action.lease, "command": command}
        birth |= {"task": action.task, "incarnation": action.incarnation}
        job = {
            "number": action.number,
            "wanted": str(place.wanted),
            "work": str(place.work),
            "log": str(place.log),
            "file": str(place.born),
            "birth": birth,
            "limits": limits,
            "command": command,
            "nofile": descriptors.limit_of_children(),
            "cgroups": cgroups.member_files(self._cgroup) if self._cgroup else [],
        }
        environment = {
            "HOME": str(place.work),
            **self._environment,
            "LEASEHOLD_UNIT": action.unit,
            "LEASEHOLD_LEASE": action.lease,
            "LEASEHOLD_TERM_END": end,
            "LEASEHOLD_TASK": action.task,
            "LEASEHOLD_INCARNATION": str(action.incarnation),
            TOKEN: place.token,
            "LEASEHOLD_INDEX": index,
            "LEASEHOLD_PROPERTIES": json.dumps(dict(action.properties), default=str),
        }
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-S", str(self._starter)],
                input=json.dumps(job).encode(),
                env=environment,
                capture_output=True,
                pass_fds=(lock,),
                start_new_session=True,  # what is sent to the actor is not for this program
                timeout=START_LIMIT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise HandlerError(f"the program that becomes the unit has not begun within {START_LIMIT:g} s") from None
        if done.returncode or done.stdout:
            message = (done.stdout or done.stderr[-2000:]).decode(errors="replace").strip()
            kind = NotBegun if done.returncode == LACKING or message.startswith(LACK) else HandlerError
            raise kind(f"{command[0]!r} cannot be started: {message or f'exit code {done.returncode}'}")

    def _down(self, place: UnitDirectory, stop: threading.Event) -> None:
        lock = self._clear(place, stop)
        try:
            self._point("cleared", stop)
            place.remove()
            self._point("removed", stop)
        finally:
            os.close(lock)

    def _clear(self, place: UnitDirectory, stop: threading.Event) -> int:
        """Ends all processes of the unit; returns its lock, so that no process is or can become one of it."""
        began, asked = time.monotonic(), set[processes.ProcessSnapshot]()
        while True:
            waited = time.monotonic() - began
            lock = place.try_lock()
            try:
                members = place.members(thorough=lock is None and waited > 0.2)
            except OSError:
                if lock is not None:
                    os.close(lock)
                raise
            if lock is not None:
                if not members:
                    return lock
                os.close(lock)
            if waited > self._grace + KILL_LIMIT:
                who = ", ".join(str(m.pid) for m in members) or "somebody who cannot be found"
                raise HandlerError(f"processes of {place.folder.name} do not end: {who}; nothing of it was removed")
            for member in members:
                if waited >= self._grace:
                    processes.send(member, signal.SIGKILL)
                elif member not in asked:
                    asked.add(member)
                    processes.send(member, signal.SIGTERM)
                    processes.send(member, signal.SIGCONT)  # a stopped process hears nothing else
            self._point("asked", stop)
            pause(stop, 0.01 if waited < 0.5 else 0.05 if waited < 2 else 0.2)


def _folder_of(unit: str) -> str:
    """The folder of a unit: its name, or of a machine of a run that in letters that a folder may have."""
    matched = _OF_RUN.fullmatch(unit)
    return unit if matched is None else f"{matched[1]}_{matched[2]}.{matched[3]}-{matched[4]}"


def _facts(place: UnitDirectory) -> dict[str, Any] | None:
    """Facts about a unit; None where nothing is left of it."""
    if not place.folder.exists():
        return None
    birth, members = place.birth(), place.members()
    if not birth and not members and not place.work.exists():
        return None
    return {
        "alive": place.alive(),
        "pid": birth.get("pid", 0),
        "start": birth.get("start", 0),
        "lease": birth.get("lease", read_file(place.lease).get("lease", "")),
        "number": read_file(place.wanted).get("number", 0),
        "directory": str(place.work),
        "processes": len(members),
    }


def _left(place: UnitDirectory) -> str:
    """The processes of a unit, in words; also those that have left its session and keep its lock."""
    if not place.folder.exists():
        return ""
    lock = place.try_lock()
    if lock is not None:
        os.close(lock)
    pids = sorted(member.pid for member in place.members(thorough=lock is None))
    if not pids:
        return "" if lock is not None else "a process that cannot be found keeps its lock"
    more = f" and {len(pids) - MOST_SHOWN} more" if len(pids) > MOST_SHOWN else ""
    return f"{'process' if len(pids) == 1 else 'processes'} {', '.join(map(str, pids[:MOST_SHOWN]))}{more}"


def _limit(place: UnitDirectory, limits: Mapping[str, int]) -> None:
    for member in place.members():
        for name, value in limits.items():
            try:
                resource.prlimit(member.pid, LIMITS[name], (value, value))
            except ProcessLookupError:
                break  # it has ended
            except (PermissionError, ValueError) as e:
                raise HandlerError(
                    f"{name} of process {member.pid} cannot become {value}: {e}; only root may raise a limit"
                ) from None


def _last_words(place: UnitDirectory) -> str:
    try:
        lines = place.log.read_text(errors="replace")[-4000:].strip().splitlines()
    except OSError:
        lines = []
    return lines[-1] if lines else "none"


def _checked_command(command: Sequence[str]) -> tuple[str, ...]:
    listed = isinstance(command, Sequence) and not isinstance(command, str)
    if not listed or not command or not all(isinstance(part, str) for part in command):
        raise HandlerError(f"`command` is {command!r}; it needs a list of words, as in [python3, -m, http.server]")
    for part in command:
        try:
            fields = [field for _, field, _, _ in string.Formatter().parse(part) if field is not None]
        except ValueError as e:
            raise HandlerError(f"`command` has {part!r}: {e}; write {{{{ and }}}} for brackets") from None
        for field in fields:
            if field not in PLACEHOLDERS:
                raise HandlerError(
                    f"`command` has {{{field}}} in {part!r}, which stands for nothing "
                    f"(there are: {', '.join(PLACEHOLDERS)}; write {{{{ and }}}} for brackets)"
                )
    return tuple(command)


def _checked_limits(limits: object, where: str) -> dict[str, int]:
    if not isinstance(limits, Mapping):
        raise HandlerError(f"{where}: is {str(limits)[:60]!r}; it needs names and numbers, as in {{files: 64}}")
    for name, value in limits.items():
        if name not in LIMITS:
            raise HandlerError(f"{where}: there is no limit {str(name)[:60]!r} (there are: {', '.join(LIMITS)})")
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise HandlerError(f"{where}: {name} is {value!r}; it needs a number of 1 or more")
    return dict(limits)
