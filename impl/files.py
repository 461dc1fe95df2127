"""Files that are there whole or not at all, also after a crash, and locks that end with the process that holds them.

Theory of operation. A file is written beside its place, synced, and moved there; then its folder is synced. The
operating system keeps a lock (flock), bound to the open file: it goes when the last process that has the file open
ends, however that ends. The lock's file itself stays when the lock is given up; a file that were removed then could be
held by one process while another creates and locks a new one. For the same reason the path is looked up once more
after its file was locked: somebody may have removed it in between.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import resources
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import yaml

from leasehold.spec.language.read.source import yaml_remedy


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
    sync_folder(path.parent)


def overwrite(path: Path, content: bytes) -> None:
    """Writes and syncs a file in its place, for its owner alone; a crash may leave a part of it."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def append_line(path: Path, line: str, mode: int) -> None:
    """Adds a line to a file, which is made if it is not there, and syncs it. There may be one writer at a time.

    A line that a crash has cut short is removed first; nobody was told that it is there.

    Raises:
        OSError: it could not be written; at most a part of it is there.
    """
    with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode), "r+b") as file:
        size = end = file.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - 65536)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        file.seek(end)
        file.truncate()
        file.write(line.encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    if not size:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def lock(path: Path, wait: bool = False) -> int | None:
    """Takes the lock on a file, which is created if it is not there, for its owner alone.

    Args:
        path: the file; a link is not followed.
        wait: whether to wait for whoever holds the lock, in this process or another.

    Returns:
        The open file, whose closing gives the lock up; None where somebody else holds it.

    Raises:
        OSError: the file cannot be opened.
    """
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            with suppress(FileNotFoundError):
                if os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(file)):
                    return file
        except BlockingIOError:
            os.close(file)
            return None
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def open_plain(path: Path) -> BinaryIO:
    """Opens a file to be read; never waits, as a pipe that nobody writes to would make it.

    Raises:
        OSError: it cannot be read, or is no plain file.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is no plain file")
    return open(handle, "rb")


def table(package: str, file: str) -> Any:
    """The content of a table (YAML) that is shipped with a package."""
    return msgspec.yaml.decode(resources.files(package).joinpath(file).read_bytes())


def mark(path: Path) -> tuple[int, ...]:
    """Returns what differs when a file was written anew."""
    try:
        status = path.stat()
    except OSError:
        return ()
    return (status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_mode)


SETTLED_NS = 100_000_000  # after which the time of a file differs from that of its next change


class FileWatch:
    """Tells whether a file or folder may have changed since it was looked at.

    What has changed a moment ago may do so again within the resolution of its time, so it counts as changed until that
    is over.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._mark: tuple[int, ...] | None = None

    def changed(self) -> bool:
        """Returns whether it has to be read; who cannot read it, and wants to try again, calls `forget`."""
        now, seen = time.time_ns(), mark(self.path)
        if seen == self._mark:
            return False
        changed_ns = seen[2] if seen else 0  # which nobody but the kernel sets
        self._mark = seen if now - changed_ns > SETTLED_NS else None
        return True

    def forget(self) -> None:
        """Makes the file count as changed, as it could not be read."""
        self._mark = None


class Unreadable(Exception):
    """A file that a person has written cannot be read, or is no YAML; the message has its path and the reason."""


def read_yaml(path: Path, plain: bool = False) -> Any:
    """The content of a file that a person has written.

    Args:
        path: of the file.
        plain: whether it may be nothing else than a plain file, as of a pipe one waits for what comes.

    Raises:
        Unreadable: there is none.
    """
    text = ""
    try:
        with open_plain(path) if plain else open(path, "rb") as file:
            text = file.read().decode("utf-8")
        return yaml.load(text, Loader=UniqueKeyLoader)
    except yaml.YAMLError as error:
        raise Unreadable(f"{path}: {yaml_fault(error, text)}") from None
    except RecursionError:
        raise Unreadable(f"{path}: is nested too deep") from None
    except (OSError, ValueError) as error:  # a NUL in the path, bytes that are no UTF-8, a date that is none
        reason = str(getattr(error, "strerror", None) or error)
        raise Unreadable(f"{path}: cannot be read: {reason}".replace("\0", "\\0")) from None


def yaml_fault(error: yaml.YAMLError, text: str) -> str:
    """Returns why a text is no YAML: the place, the parser's words, and the remedy where a text has to be quoted."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return f"is no YAML: {' '.join(str(error).split())}"
    problem = str(getattr(error, "problem", error))
    line = (text.splitlines()[mark.line : mark.line + 1] or [""])[0]
    remedy = "" if problem == "" or "comes twice" in problem else yaml_remedy(line, mark.column + 1, problem)
    return f"is no YAML: line {mark.line + 1}, column {mark.column + 1}: {problem}" + (f"; {remedy}" if remedy else "")


class UniqueKeyLoader(yaml.SafeLoader):
    """YAML in which a key that comes twice is an error, as one of the two would be lost."""

    twice = "the key {!r} comes twice"

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.MarkedYAMLError(problem=self.twice.format(key.value), problem_mark=key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)
