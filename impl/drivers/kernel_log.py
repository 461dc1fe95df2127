"""The detector of units that the kernel has killed for memory, and of disks in which it has found an error.

    raises: {unit: [lost]}
    detectors:
      kernel: {name: kernel_log, units: units}

Theory of operation (paper, section 5.4 and Table 2). The kernel tells in its log (/dev/kmsg) which control group a
process was in that it has killed for want of memory, and on which device an error was. Control groups of composed units
(composed.py) have the names of their units, and a volume of a unit is a file in the unit's folder, so either leads to
the unit; an error of the disk that has the folders of all units leads to all. A unit of which a process was killed is
lost once none is left in the group: one that goes on without it is not the site's affair, and is logged.

The log is followed from when the actor watches; of what was before, probes know.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from leasehold.impl.drivers.container import CONTAINER
from leasehold.impl.drivers.driver import named
from leasehold.impl.drivers.mounts import mounts
from leasehold.impl.handlers import cgroups
from leasehold.impl.handlers.handler import UNIT_NAME, HandlerError
from leasehold.impl.handlers.threads import in_thread
from leasehold.impl.raised import RaisedEvent
from leasehold.impl.server.client import Client, ClientError
from leasehold.impl.transport.limits import SparseLog

log = logging.getLogger("leasehold.detectors")

LOST = "lost"
LOG = Path("/dev/kmsg")
BLOCKS = Path("/sys/block")
LARGEST = 8192  # bytes of a record of the log
LIMITED = ([CONTAINER], [cgroups.MEMBERS])  # groups of parts, below that of their limits
EMPTY_WITHIN = 1.0  # seconds in which a group whose first process was killed is empty
# The kernel's words, by what says them: mm/oom_kill.c; fs/ext4/super.c, fs/xfs, fs/btrfs; block/blk-mq.c. A line that
# names a process has the name that the process has given itself, so only the words before that count.
KILLED = re.compile(r"oom-kill:.*?\btask_memcg=([^,]+),task=")
DISK_ERRORS = re.compile(
    r"EXT4-fs error \(device ([^\s)]+)"
    r"|EXT4-fs \(([^\s)]+)\): Remounting filesystem read-only"
    r"|XFS \(([^\s)]+)\): .*(?:[Ss]hutting down|shut down|[Cc]orruption|I/O [Ee]rror)"
    r"|BTRFS (?:error|critical) \(device ([^\s):]+)"
    r"|(?:blk_update_request: )?I/O error, dev ([^\s,]+)"
)


class KernelLogDetector:
    """The detector.

    Args:
        units: the directory of the handler `composed`, which has the folders of the units.
        control: the control socket of an agent, whose units are named by its leases; empty: they are the actor's own.
        pause_seconds: for so long a unit is not told of again.
        log: the kernel's log.
    """

    def __init__(self, units: str, control: str = "", pause_seconds: float = 5.0, log: str | Path = LOG) -> None:
        self._base, self._control, self._log = Path(units).resolve(), control, Path(log)
        self._pause = pause_seconds
        self._told: dict[str, float] = {}
        self._sparse = SparseLog(globals()["log"])
        if not pause_seconds >= 0:
            raise HandlerError(f"pause_seconds: {pause_seconds!r:.40} is below 0")

    async def watch(self) -> AsyncIterator[RaisedEvent]:
        """Yields `lost` for the units of which the kernel says so.

        Raises:
            HandlerError: the log cannot be read.
        """
        try:
            file = os.open(self._log, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise HandlerError(f"{self._log} cannot be read: {error.strerror}; it takes root, or CAP_SYSLOG") from None
        threads, readable, loop = ThreadPoolExecutor(1, "kernel-log"), asyncio.Event(), asyncio.get_running_loop()
        try:
            os.lseek(file, 0, os.SEEK_END)
            loop.add_reader(file, readable.set)
            while True:
                try:
                    record = os.read(file, LARGEST)
                except BlockingIOError:
                    readable.clear()
                    await readable.wait()
                    continue
                except BrokenPipeError:  # records were overwritten before they were read
                    self._sparse.warning(time.monotonic(), "lost", "records of %s are lost", self._log)
                    continue
                line = record.decode(errors="replace").partition(";")[2].partition("\n")[0]
                if (killed := KILLED.match(line)) or DISK_ERRORS.match(line):
                    for raised in await in_thread(threads, self._judged, line, killed and killed[1]):
                        yield raised
        finally:
            loop.remove_reader(file)
            os.close(file)
            threads.shutdown(wait=False)

    # In a thread

    def _judged(self, line: str, group: str | None) -> list[RaisedEvent]:
        """The events that a line of the log leads to."""
        now, found = time.monotonic(), []
        for unit, place in self._on_device(line) if group is None else self._in_group(group):
            if now - self._told.get(unit, -self._pause) < self._pause:
                continue
            if place and not self._is_empty(place):
                self._sparse.warning(now, "goes on", "a process of %s was killed for memory, and it goes on", unit)
                continue
            self._told[unit] = now
            found.append((unit, f"the kernel says: {line[:300]}"))
        names = self._leases() if found and self._control else {}
        return [
            RaisedEvent(LOST, lease=names[unit], reason=reason)
            if unit in names
            else RaisedEvent(LOST, unit=unit, reason=reason)
            for unit, reason in found
        ]

    def _units(self) -> list[str]:
        """The units that have a folder, long names first."""
        with suppress(OSError):
            names = [one.name for one in self._base.iterdir() if UNIT_NAME.fullmatch(one.name)]
            return sorted(names, key=len, reverse=True)
        return []

    def _in_group(self, group: str) -> Iterator[tuple[str, str]]:
        """The unit that a control group belongs to, and the group of the part of it: guests have others below it."""
        names = group.strip("/").split("/")
        for n, name in enumerate(names, 1):
            for unit in self._units():
                if name.startswith(named(self._base, unit, "")):
                    yield unit, "/".join(names[: n + 1] if names[n : n + 1] in LIMITED else names[:n])
                    return

    @staticmethod
    def _is_empty(group: str) -> bool:
        deadline = time.monotonic() + EMPTY_WITHIN
        while cgroups.processes_in(group):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def _on_device(self, line: str) -> Iterator[tuple[str, str]]:
        """The units that have something on the device that a line is about."""
        found = DISK_ERRORS.match(line)
        device = next(filter(None, found.groups())) if found else ""
        made = [(mount.point, mount.source == f"/dev/{device}") for mount in mounts()]
        covering = max((len(point.parts), n, its) for n, (point, its) in enumerate(made) if _holds(point, self._base))
        places = [point for point, its in made if its]
        with suppress(OSError):
            places.append(Path((BLOCKS / device / "loop" / "backing_file").read_text().strip()))
        for unit in self._units():
            if covering[2] or any(_holds(self._base / unit, place) for place in places):
                yield unit, ""

    def _leases(self) -> dict[str, str]:
        """The leases of an agent, by the units that they are about."""
        with suppress(ClientError):
            rows: list[dict[str, Any]] = Client(Path(self._control), EMPTY_WITHIN).get("leases")
            return {row["data"]["what"]["unit"]: row["lease"] for row in rows if row["data"].get("what")}
        return {}


def _holds(folder: Path, place: Path) -> bool:
    return folder == place or folder in place.parents
