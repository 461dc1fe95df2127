"""Checksums of what a store keeps, and the high-water mark by which an older store is known.

Theory of operation. A database finds a torn write, but hardly a bit that a disk or a program has changed since. So each
value carries a CRC-32 of its key and itself; one that does not fit is refused, and never read as another value.

A store whose last commits are missing is whole, and looks well: its write-ahead log was cut off, a backup was put in
its place, or it was removed and would begin empty. The leases that it has forgotten would be given away once more. So a
file beside the store has the epoch and the number of the newest commit, and a store that has come less far is refused.
The mark is written after the commit is durable, and is not synced itself: after a power failure it may be behind the
store, and never ahead of it. Stores in databases have no such file; there the peers know (impl/actor/messages.py).
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from leasehold.impl.store.store import StoreError

_SEAL = b"\xc1\xc1"  # no MessagePack, JSON or plain text begins so
_HEAD = len(_SEAL) + 4
_MARK = re.compile(rb"epoch ([0-9]{20}), commit ([0-9]{20}), crc ([0-9a-f]{8})\n")


def with_checksum(key: str, body: bytes) -> bytes:
    """A value with its checksum."""
    return _SEAL + crc32(body, crc32(key.encode())).to_bytes(4) + body


def without_checksum(place: str, key: str, value: bytes) -> bytes:
    """The body of a value that was read from a place; one that was written before there were checksums is as it is.

    Raises:
        StoreError: its checksum does not fit.
    """
    if _SEAL[0] not in value[: len(_SEAL)]:  # one damaged byte does not make it an old value
        return value
    body = value[_HEAD:]
    if value != with_checksum(key, body):
        raise StoreError(
            f"{place} is damaged: {key[:100]!r} does not fit its checksum",
            "put a whole copy of the store in its place",
        )
    return body


class CommitPosition(NamedTuple):
    """The progress of a store: the epoch of its owner, and the number of its commits. Later ones compare higher."""

    epoch: int
    commits: int

    def __str__(self) -> str:
        return f"epoch {self.epoch}, commit {self.commits}"


class HighWaterMark:
    """The file beside a store that says how far the store has come."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None

    def read(self) -> CommitPosition | None:
        """The mark; None where there is none, or where a power failure left a part of it.

        Raises:
            OSError: it is there, and cannot be read.
        """
        try:
            matched = _MARK.fullmatch(self.path.read_bytes())
        except FileNotFoundError:
            return None
        if matched is None or int(matched[3], 16) != _check(matched[1], matched[2]):
            return None
        return CommitPosition(int(matched[1]), int(matched[2]))

    def write(self, position: CommitPosition) -> None:
        """Raises the mark; the file is created at the first call.

        Raises:
            OSError: it cannot be written.
        """
        if self._file is None:
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        epoch, commits = b"%020d" % position.epoch, b"%020d" % position.commits
        os.pwrite(self._file, b"epoch %b, commit %b, crc %08x\n" % (epoch, commits, _check(epoch, commits)), 0)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _check(*parts: bytes) -> int:
    return crc32(b" ".join(parts))
