"""Snapshots: the volumes that holders have had kept when their leases ended, by holder and name.

Theory of operation. A volume is kept by moving its file here, over an older one of the same name: at every moment the
file is in one place or the other, and nothing else says what is kept. Its time of change is when it was kept; its
blocks are what counts against the holder's quota. What has been kept for longer than the site says is removed before
anything is kept or restored.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from leasehold.impl import files
from leasehold.impl.drivers.tools import Tools
from leasehold.impl.handlers.handler import UNIT_NAME, HandlerError
from leasehold.impl.handlers.place import folder_name
from leasehold.impl.words import choices


@dataclass(frozen=True, slots=True)
class Kept:
    """The result of an attempt to keep a volume.

    Attributes:
        kept: whether it is kept.
        words: where it is, or why it is not.
    """

    kept: bool
    words: str


class Snapshots:
    """The snapshots of a site.

    Args:
        folder: of them; on the file system of the volumes.
        quota: bytes that the snapshots of one holder may have.
        retention: seconds for which one is kept.
    """

    def __init__(self, folder: Path, quota: int, retention: float) -> None:
        self._folder, self.quota, self._retention = folder, quota, retention

    def check_name(self, name: str, setting: str) -> None:
        """Refuses what cannot be the name of a file.

        Raises:
            HandlerError: it cannot.
        """
        if not UNIT_NAME.fullmatch(name):
            raise HandlerError(f"{setting}: {name[:60]!r} is no name of a snapshot; letters, digits, `.`, `_`, `-` are")

    def keep(self, holder: str, name: str, volume: Path, tools: Tools) -> Kept:
        """Keeps a volume that is not mounted, if its holder's quota has room for it; else it stays where it is."""
        with self._locked(tools):
            self._forget()
            folder = self._of(holder)
            size = _blocks(volume)
            others = sum(_blocks(file) for file in folder.glob("*") if file.name != name)
            if size + others > self.quota:
                return Kept(False, f"{name} is not kept: {size + others} bytes are over the quota of {self.quota}")
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.utime(volume)
            os.rename(volume, folder / name)
            files.sync_folder(folder)
            files.sync_folder(volume.parent)
            return Kept(True, f"{name} is kept, with {size} bytes")

    @contextmanager
    def opened(self, holder: str, name: str, tools: Tools) -> Iterator[Path]:
        """The file of a snapshot, which stays as it is meanwhile.

        Raises:
            HandlerError: the holder has none of this name.
        """
        with self._locked(tools):
            self._forget()
            folder = self._of(holder)
            if not (folder / name).exists():
                names = sorted(file.name for file in folder.glob("*"))
                raise HandlerError(f"restore: {holder} has no snapshot {name[:60]!r}{choices(name, names)}")
            yield folder / name

    def names(self, holder: str) -> list[str]:
        """The snapshots of a holder."""
        return sorted(file.name for file in self._of(holder).glob("*"))

    def _of(self, holder: str) -> Path:
        return self._folder / folder_name(holder)

    def _forget(self) -> None:
        before = time.time() - self._retention
        for file in self._folder.glob("*/*"):
            with suppress(FileNotFoundError):
                if file.stat().st_mtime < before:
                    file.unlink()
        for folder in self._folder.glob("*"):
            if folder.is_dir():
                with suppress(OSError):
                    folder.rmdir()  # where it is empty

    @contextmanager
    def _locked(self, tools: Tools) -> Iterator[None]:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        while (lock := files.lock(self._folder / "lock")) is None:
            tools.pause(0.01)
        try:
            yield
        finally:
            os.close(lock)


def _blocks(file: Path) -> int:
    return file.stat().st_blocks * 512
