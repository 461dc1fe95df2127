"""Files beneath a root that a guest may have written: no link in it leads out of it.

Theory of operation. Each folder on the way is opened from the one before, without following a link, and the file is
written beside its place and moved there, so that a link in its place is replaced and not followed.
"""

from __future__ import annotations

import errno
import os
import secrets
from contextlib import suppress
from pathlib import Path, PurePosixPath

from leasehold.impl.handlers.handler import HandlerError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def write_beneath(root: Path, path: str, content: bytes, mode: int = 0o600) -> bool:
    """Writes a file of root's, if it is not there with this content; returns whether it was written.

    Args:
        root: the folder.
        path: of the file, as seen from the root; `/etc/motd`. Folders that are missing are made.
        content: of the file.
        mode: of the file.

    Raises:
        HandlerError: a folder on the way is a link or a file, or the path leads out of the root.
    """
    *folders, name = _names(path)
    at = os.open(root, _FOLDER)
    try:
        for folder in folders:
            below = _enter(at, folder, path)
            os.close(at)
            at = below
        if _read(at, name, len(content) + 1) == content:
            return False
        fresh = f".{name[:200]}.{secrets.token_hex(8)}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with open(os.open(fresh, flags, mode, dir_fd=at), "wb") as file:
                os.fchmod(file.fileno(), mode)
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.rename(fresh, name, src_dir_fd=at, dst_dir_fd=at)
        except IsADirectoryError:
            os.unlink(fresh, dir_fd=at)
            raise HandlerError(f"{path} is a folder there, and no file") from None
        return True
    finally:
        os.close(at)


def _names(path: str) -> list[str]:
    names = [name for name in PurePosixPath(path).parts if name != "/"]
    if not names or ".." in names or "\0" in path:
        raise HandlerError(f"{path[:80]!r} is no path of a file; write it as /etc/motd")
    return names


def _enter(at: int, folder: str, path: str) -> int:
    with suppress(FileExistsError):
        os.mkdir(folder, 0o755, dir_fd=at)
    try:
        return os.open(folder, _FOLDER, dir_fd=at)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise HandlerError(
                f"{folder} on the way to {path} is no folder, or a link, which is not followed"
            ) from None
        raise


def _read(at: int, name: str, most: int) -> bytes | None:
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
    except OSError:
        return None
    try:
        return os.read(file, most)
    except OSError:  # a folder
        return None
    finally:
        os.close(file)
