"""A lock on a file beside a database: while its holder lives, nobody else gets it.

Theory of operation. The operating system keeps the lock (flock), bound to the open file: it goes with the process that
holds it, however that ends, and programs that the process executes do not inherit it. The file itself stays when the
lock is given up; a file that were removed then could be held by one process while another creates and locks a new one.
For the same reason the file is looked at once more after it was locked: somebody may have removed it in between.
"""

from __future__ import annotations

import fcntl
import os


class Held(Exception):
    """Somebody else holds the lock.

    Attributes:
        process: the holder's process id, as it wrote it there; empty if it has not yet.
    """

    def __init__(self, process: str) -> None:
        super().__init__(process)
        self.process = process


class FileLock:
    """The lock on a file; one who wants it does not wait for it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._file: int | None = None

    def take(self) -> None:
        """Takes the lock; its file is created if it is not there, for its owner alone.

        Raises:
            Held: somebody else holds it, in this process or another.
            OSError: the file cannot be opened.
        """
        while self._file is None:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._is_there(file):
                    os.ftruncate(file, 0)
                    os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
                    self._file = file
            except BlockingIOError:
                raise Held(os.pread(file, 20, 0).decode(errors="replace").strip()) from None
            finally:
                if self._file is None:
                    os.close(file)

    def give_up(self) -> None:
        """Gives the lock up; may be called when it is not held."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _is_there(self, file: int) -> bool:
        try:
            there = os.stat(self.path, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return os.path.samestat(there, os.fstat(file))
