"""File systems of a case: one in memory that can be full, and one on a loop device that can lose power."""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import subprocess
from pathlib import Path

from leasehold.checker.recovery.processes.actors import found
from leasehold.checker.recovery.processes.servers import Unavailable

SHUTDOWN = 0x8004587D  # _IOR('X', 125, __u32): ext4 and xfs go down as when the power fails
WITHOUT_FLUSH = 2
FULL_BYTES, DEVICE_BYTES = 4 << 20, 24 << 20


class MountedDisk:
    """A file system at `path`, in a folder of the case. Needs root.

    Args:
        folder: of the case.
    """

    def __init__(self, folder: Path) -> None:
        if os.geteuid() != 0:
            raise Unavailable("only root may mount")
        self.path = folder / "disk"
        self.path.mkdir(mode=0o700)
        self._make(folder)
        self.mount()

    def _make(self, folder: Path) -> None: ...

    def mount(self) -> None:
        raise NotImplementedError

    def unmount(self) -> None:
        """Takes it away, also from who still has files open on it."""
        with contextlib.suppress(Unavailable):
            say("umount", "-l", str(self.path))


class TmpfsDisk(MountedDisk):
    """A small one, in memory."""

    def mount(self) -> None:
        say("mount", "-t", "tmpfs", "-o", f"size={FULL_BYTES},mode=0700", "leasehold", str(self.path))

    def fill(self) -> None:
        """Takes all room that is left."""
        with contextlib.suppress(OSError), open(self.path / "filler", "wb", buffering=0) as file:
            for size in (65536, 4096, 1):
                with contextlib.suppress(OSError):
                    while file.write(bytes(size)) == size:
                        pass

    def empty(self) -> None:
        (self.path / "filler").unlink()

    def writable(self, yes: bool) -> None:
        """Whether it may be written to; nobody may have a file open for writing as it becomes read-only."""
        say("mount", "-o", f"remount,{'rw' if yes else 'ro'}", str(self.path))


class LoopDisk(MountedDisk):
    """ext4 on a loop device."""

    def _make(self, folder: Path) -> None:
        self._image = folder / "disk.image"
        with open(self._image, "wb") as file:
            file.truncate(DEVICE_BYTES)
        say("mkfs.ext4", "-q", "-F", str(self._image))

    def mount(self) -> None:
        say("mount", "-o", "loop", str(self._image), str(self.path))

    def lose_power(self) -> None:
        """Nothing more gets to the disk, and what was not flushed never will."""
        folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(folder, SHUTDOWN, struct.pack("I", WITHOUT_FLUSH))
        finally:
            os.close(folder)


def say(program: str, *words: str) -> str:
    """Runs a program; what it prints.

    Raises:
        Unavailable: it is not there, or says no.
    """
    places = found(program)
    if program not in places:
        raise Unavailable(f"{program} is not installed")
    ended = subprocess.run([places[program], *words], capture_output=True, text=True, check=False, timeout=30)
    if ended.returncode:
        raise Unavailable(f"{program} fails: {ended.stderr.strip()[-200:]}")
    return ended.stdout
