"""Control groups of this machine, of version 1 or 2, by a path that is alike in all hierarchies.

Theory of operation. In version 1 each controller has a hierarchy of its own; in version 2 one hierarchy has them all; a
machine may have both (hybrid). A path is made in each hierarchy that limits something here, and removed in every
hierarchy, as a container's runtime makes it in all of them. Processes are put in a group below, as a group of version 2
that hands controllers on to groups below it may have none itself.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from leasehold.impl.handlers.handler import HandlerError

MOUNTS = Path("/proc/self/mountinfo")
CONTROLLERS = ("cpu", "memory", "pids")
MEMBERS = "processes"  # the group below, for processes that are no container's
PERIOD = 100_000  # microseconds in which a share of the processors is given
KILL_LIMIT = 10.0  # seconds until processes that were killed have ended


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """A hierarchy of control groups.

    Attributes:
        root: where it is mounted.
        controllers: that it has.
        unified: whether it is of version 2.
    """

    root: Path
    controllers: frozenset[str]
    unified: bool

    def folder(self, path: str) -> Path:
        return self.root / path.lstrip("/")


def hierarchies(mounts: Path = MOUNTS) -> list[Hierarchy]:
    """The hierarchies that are mounted, each once."""
    found: dict[str, Hierarchy] = {}
    for line in mounts.read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        device, point = before.split(" ")[2], Path(before.split(" ")[4])
        if kind == "cgroup":
            found.setdefault(device, Hierarchy(point, frozenset(options.split(",")), False))
        elif kind == "cgroup2":
            with suppress(OSError):
                has = frozenset((point / "cgroup.controllers").read_text().split())
                found.setdefault(device, Hierarchy(point, has, True))
    return list(found.values())


def hierarchy_of(controller: str, among: list[Hierarchy] | None = None) -> Hierarchy:
    """The hierarchy that has a controller.

    Raises:
        HandlerError: this machine has none.
    """
    for hierarchy in hierarchies() if among is None else among:
        if controller in hierarchy.controllers:
            return hierarchy
    raise HandlerError(
        f"this machine has no cgroup controller {controller!r}; see /proc/cgroups, and the kernel's options"
    )


def make(path: str) -> None:
    """Makes a control group for the controllers that limit something here, or finds it."""
    for hierarchy in _limiting():
        if hierarchy.unified:
            wanted = " ".join(f"+{c}" for c in CONTROLLERS if c in hierarchy.controllers)
            (hierarchy.root / "cgroup.subtree_control").write_text(wanted)
        hierarchy.folder(path).mkdir(parents=True, exist_ok=True)


def limit(path: str, *, cpus: float, memory: int, processes: int) -> None:
    """Limits what a control group may use; 0 means no limit.

    Args:
        path: of the group.
        cpus: processors, such as 0.5.
        memory: bytes.
        processes: how many there may be, threads counted.

    Raises:
        HandlerError: the machine has no such controller, or the group uses more memory at the moment.
    """
    among = hierarchies()
    quota = int(cpus * PERIOD)
    for controller, value in (("cpu", quota), ("memory", memory), ("pids", processes)):
        if not value and not any(controller in h.controllers for h in among):
            continue
        hierarchy = hierarchy_of(controller, among)
        name, text = _written(controller, value, hierarchy.unified)
        try:
            (hierarchy.folder(path) / name).write_text(text)
        except OSError as error:
            if error.errno == errno.EBUSY:
                raise HandlerError(f"memory: the unit uses more than {memory} bytes at the moment") from None
            raise HandlerError(f"{name} of {path} cannot be {text!r}: {error.strerror}") from None


def _written(controller: str, value: int, unified: bool) -> tuple[str, str]:
    """The file of a limit, and what is written there."""
    match controller, unified:
        case "cpu", True:
            return "cpu.max", f"{value or 'max'} {PERIOD}"
        case "cpu", False:
            return "cpu.cfs_quota_us", str(value or -1)
        case "memory", True:
            return "memory.max", str(value or "max")
        case "memory", False:
            return "memory.limit_in_bytes", str(value or -1)
    return "pids.max", str(value or "max")


def limits(path: str) -> dict[str, str]:
    """The limits of a control group, as the kernel says them, by controller."""
    found = {}
    for hierarchy in hierarchies():
        for controller in CONTROLLERS:
            if controller in hierarchy.controllers:
                with suppress(OSError):
                    file = hierarchy.folder(path) / _written(controller, 0, hierarchy.unified)[0]
                    found[controller] = file.read_text().strip()
    return found


def member_files(path: str) -> list[str]:
    """The files to which a process writes itself to be in the group for processes below a control group."""
    files = []
    for hierarchy in _limiting():
        folder = hierarchy.folder(path) / MEMBERS
        folder.mkdir(exist_ok=True)
        files.append(str(folder / "cgroup.procs"))
    return files


def exists(path: str) -> tuple[bool, bool]:
    """Returns whether a control group is there whole, and whether there is anything of it."""
    whole = all(hierarchy.folder(path).is_dir() for hierarchy in _limiting())
    return whole, any(hierarchy.folder(path).is_dir() for hierarchy in hierarchies())


def processes_in(path: str) -> set[int]:
    """The processes in a control group, and in those below it."""
    return {pid for folder in _folders(path) for pid in _members(folder)}


def remove(path: str) -> None:
    """Ends all processes in a control group and removes it, with those below it, in every hierarchy.

    Raises:
        HandlerError: a process does not end.
    """
    deadline = time.monotonic() + KILL_LIMIT
    while True:
        folders = list(_folders(path))
        for folder in folders:
            for pid in _members(folder):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for folder in folders:
            with suppress(OSError):  # it is there a moment longer than its processes
                folder.rmdir()
        if not any(hierarchy.folder(path).is_dir() for hierarchy in hierarchies()):
            return
        if time.monotonic() > deadline:
            pids = ", ".join(map(str, sorted(processes_in(path)))) or "none"
            raise HandlerError(f"the control group {path} is not removed; processes in it: {pids}")
        time.sleep(0.01)


def _limiting() -> list[Hierarchy]:
    return [hierarchy for hierarchy in hierarchies() if hierarchy.controllers.intersection(CONTROLLERS)]


def _folders(path: str) -> Iterator[Path]:
    """The folders of a control group and of those below it, in every hierarchy, the deepest first."""
    for hierarchy in hierarchies():
        for folder, _, _ in os.walk(hierarchy.folder(path), topdown=False):
            yield Path(folder)


def _members(folder: Path) -> list[int]:
    try:
        return [int(line) for line in (folder / "cgroup.procs").read_text().split() if line != "0"]
    except OSError:
        return []
