"""Space on the disk of a store that is kept for the day on which the disk is full.

Theory of operation. A file has space that the file system has really given to it, and no content. It gives that up when
it is needed, and takes it again as soon as there is twice as much, which is looked for once in a while. A file without
space is a reserve that was given up, also for the process that opens the store next. A small disk keeps a smaller
reserve; one on which none can be had is said so once, and serves all the same.
"""

from __future__ import annotations

import logging
import os
import time
from contextlib import suppress
from pathlib import Path

log = logging.getLogger("leasehold.store")

BYTES = 4 << 20
PART = 8  # of what is free, at most
LOOK_SECONDS = 5.0


class DiskReserve:
    """The reserve of one store.

    Args:
        path: of its file.
        size: in bytes.

    Attributes:
        used: whether it was given up, and is not back.
    """

    def __init__(self, path: Path, size: int = BYTES) -> None:
        self.path, self._size, self.used = path, size, False
        self._looked = 0.0

    @property
    def held(self) -> int:
        """The bytes that it has."""
        try:
            return self.path.stat().st_blocks * 512
        except OSError:
            return 0

    def take(self) -> bool:
        """Takes the space, or finds it taken; returns whether it is there."""
        given_up = self.used or (self.path.is_file() and not self.held)
        try:
            handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            log.warning("%s: there is no reserve of space: %s", self.path, error.strerror)
            return False
        try:
            if os.fstat(handle).st_blocks * 512 >= self._size // PART:
                self.used = False
                return True
            free = os.fstatvfs(handle)
            wanted = min(self._size, free.f_bavail * free.f_frsize // PART)
            roomy = free.f_bavail * free.f_frsize >= 2 * self._size or free.f_bavail >= free.f_blocks // 4
            if wanted < 4096 or (given_up and not roomy):
                self.used = True
                return False
            os.posix_fallocate(handle, 0, wanted)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(handle, 0)
            log.warning("%s: there is no reserve of space: %s", self.path, error.strerror)
            return False
        finally:
            os.close(handle)
        if self.used:
            log.warning("%s: there is a reserve of space again", self.path)
        self.used = False
        return True

    def give_up(self) -> bool:
        """Gives the space to others; returns whether there was any."""
        had = self.held > 0
        try:
            os.truncate(self.path, 0)
        except OSError:
            return False
        if had:
            log.error("%s: the disk is full, and the reserve is used to end leases; free some space", self.path)
        self.used, self._looked = True, time.monotonic()
        return had

    def take_again(self) -> None:
        """Takes the space once more, if it was given up and there is enough again; looks rarely."""
        if not self.used or time.monotonic() < self._looked + LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        self.take()
