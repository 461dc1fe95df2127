"""The mounts of this machine below a folder, from /proc/self/mountinfo."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import NamedTuple

from leasehold.impl.drivers.tools import ToolFailed, Tools

MOUNTS = Path("/proc/self/mountinfo")
_ESCAPED = re.compile(r"\\([0-7]{3})")
BUSY_LIMIT = 5.0  # seconds for which a mount that is in use is waited for


class Mount(NamedTuple):
    """A mount.

    Attributes:
        point: where.
        kind: of file system.
        source: the device.
    """

    point: Path
    kind: str
    source: str


def mounts() -> list[Mount]:
    """All mounts, in the order in which they were made."""
    found = []
    for line in MOUNTS.read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, source, *_ = after.split(" ")
        found.append(Mount(Path(_plain(before.split(" ")[4])), kind, _plain(source)))
    return found


def mount_at(point: Path) -> Mount | None:
    """The mount at a place, the last one where there are several."""
    return next((mount for mount in reversed(mounts()) if mount.point == point), None)


def below(folder: Path) -> list[Mount]:
    """The mounts at a folder and below it, the last first."""
    return [mount for mount in reversed(mounts()) if mount.point == folder or folder in mount.point.parents]


def unmount_below(folder: Path, tools: Tools) -> None:
    """Unmounts all that is mounted at a folder and below it.

    Raises:
        ToolFailed: something there is in use.
        Cancelled: the action was cancelled.
    """
    deadline = time.monotonic() + BUSY_LIMIT
    while found := below(folder):
        try:
            tools.run("umount", found[0].point)
        except ToolFailed as error:
            if "not mounted" in error.words:
                continue
            if time.monotonic() > deadline:
                raise
            tools.pause(0.05)  # processes that were killed a moment ago may still have files open


def _plain(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), text)
