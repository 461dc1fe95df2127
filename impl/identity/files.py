"""Files that are there whole or not at all, also after a crash: written beside their place, synced, then moved."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def create(path: Path, content: bytes, mode: int) -> None:
    """Writes a file that must not exist yet; nobody can read more of it than `mode` says, at any moment.

    Raises:
        FileExistsError: it exists; it was not touched.
        OSError: it could not be written; nothing is left behind.
    """
    with _beside(path, content, mode) as written:
        os.link(written, path)  # unlike a rename, this never replaces a file
        os.unlink(written)


def replace(path: Path, content: bytes, mode: int) -> None:
    """Writes a file, in place of one that may exist: whose mode is then kept. A reader sees the old or the new, whole.

    Raises:
        OSError: it could not be written; the old file stands.
    """
    with suppress(FileNotFoundError):
        mode = stat.S_IMODE(path.stat().st_mode)
    target = Path(os.path.realpath(path))  # a link stays a link
    with _beside(target, content, mode) as written:
        os.rename(written, target)


@contextmanager
def _beside(path: Path, content: bytes, mode: int) -> Iterator[Path]:
    temporary = path.parent / f".{path.name}.{secrets.token_hex(8)}"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        with open(handle, "wb") as file:
            os.fchmod(file.fileno(), mode)  # the umask may have taken more away than was meant
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
