"""A file system in memory that loses in a crash what a real one may lose.

Theory of operation. Writes go into a page cache, which is what readers see. A file's data and size are durable after an
fsync of the file, a name after an fsync of the folder. In a crash a seeded chance decides over everything else:

- Data: each sector of 512 bytes has one of the contents that it had in the cache since the last fsync, or the one
  before. So writes are lost, torn between sectors, and there while earlier ones are not. Sectors that were not written
  to stay as they are ("power-safe overwrite", which SQLite relies on too).
- Size: changes of one file's size happen in their order, as a journal makes it; some of the last may be missing. Within
  a size that is there, data that is not there reads as zeros. ext4 with data=ordered writes data before such a size;
  here it may be missing, as on file systems that do not order them. Blocks that a file had, cut off and took again
  never bring back what was in them before.
- Names: creations, renames and removals happen in their order, each whole, as on ext4; some of the last may be missing.
  An fsync of a file does not make its name durable, as POSIX permits, though ext4's does.

An fsync that fails loses the data of the file that was not yet written, and forgets that it had to be written, as Linux
does: readers still see it until the cache drops it, and the next fsync succeeds.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field

SECTOR = 512
_HOW = ("nothing", "everything", "prefix", "writes", "sectors")


class PowerLoss(OSError):
    """What was opened before a crash is gone."""

    def __init__(self) -> None:
        super().__init__(errno.EIO, "the power is gone")


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def _resize(content: bytearray, size: int) -> None:
    if size < len(content):
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))


@dataclass(eq=False, slots=True)
class _Inode:
    """A file, whatever it is called.

    Attributes:
        disk: what is durable.
        cache: what readers see.
        written: by sector: each of its contents since the last fsync, with the operation that made it.
        sizes: each change of size since the last fsync: the operation that made it, the size, whether it is a cut.
    """

    disk: bytearray = field(default_factory=bytearray)
    cache: bytearray = field(default_factory=bytearray)
    written: dict[int, list[tuple[int, bytes]]] = field(default_factory=dict)
    sizes: list[tuple[int, int, bool]] = field(default_factory=list)

    def copy(self) -> _Inode:
        written = {sector: list(contents) for sector, contents in self.written.items()}
        return _Inode(bytearray(self.disk), bytearray(self.cache), written, list(self.sizes))

    def write(self, data: bytes, offset: int, operation: int) -> None:
        end = offset + len(data)
        if end > len(self.cache):
            _resize(self.cache, end)
            self.sizes.append((operation, end, False))
        self.cache[offset:end] = data
        for sector in range(offset // SECTOR, -(-end // SECTOR)):
            content = bytes(self.cache[sector * SECTOR : (sector + 1) * SECTOR])
            self.written.setdefault(sector, []).append((operation, content))

    def truncate(self, size: int, operation: int) -> None:
        self.sizes.append((operation, size, size < len(self.cache)))
        _resize(self.cache, size)

    def sync(self) -> None:
        for _, size, _ in self.sizes:
            _resize(self.disk, size)
        for sector in self.written:
            at = slice(sector * SECTOR, min((sector + 1) * SECTOR, len(self.cache)))
            if at.start < at.stop:
                self.disk[at] = self.cache[at]
        self.written.clear()
        self.sizes.clear()

    def fail_to_sync(self, chance: random.Random) -> None:
        """Some of the data gets to the disk, and all of it counts as written; the size is still to be."""
        for sector, contents in self.written.items():
            at = slice(sector * SECTOR, (sector + 1) * SECTOR)
            if at.stop <= len(self.disk) and len(contents[-1][1]) == SECTOR and chance.random() < 0.5:
                self.disk[at] = contents[-1][1]
        self.written.clear()

    def evict(self) -> None:
        """The cache drops what counts as written; it is read from the disk again."""
        fresh = bytearray(self.disk)
        for _, size, _ in self.sizes:
            _resize(fresh, size)
        for sector, contents in self.written.items():
            at = slice(sector * SECTOR, min((sector + 1) * SECTOR, len(self.cache)))
            if at.start < at.stop:
                fresh[at] = contents[-1][1].ljust(SECTOR, b"\0")[: at.stop - at.start]
        self.cache = fresh

    def crash(self, chance: random.Random) -> None:
        """Decides what is on the disk, and forgets the rest."""
        kept, count = self._chosen(chance)
        done, missing = self.sizes[:count], self.sizes[count:]
        for _, size, _ in done:
            _resize(self.disk, size)
        for sector, contents in self.written.items():
            start = sector * SECTOR
            chosen = None
            for operation, content in contents:
                # After a cut that is not on the disk, what was written there again has no place on the disk either.
                placed = not any(cut and o < operation and size <= start for o, size, cut in missing)
                left = min((size - start for o, size, _ in done if o > operation), default=SECTOR)
                if placed and left > 0 and kept(operation):
                    chosen = content[:left]
            if chosen is not None and start < len(self.disk):
                room = min(SECTOR, len(self.disk) - start)
                self.disk[start : start + room] = chosen.ljust(SECTOR, b"\0")[:room]
        self.cache = bytearray(self.disk)
        self.written.clear()
        self.sizes.clear()

    def _chosen(self, chance: random.Random) -> tuple[Callable[[int], bool], int]:
        """Whether a sector keeps what an operation wrote, asked for each; and how many changes of size are there."""
        written = {operation for contents in self.written.values() for operation, _ in contents}
        operations = sorted(written | {operation for operation, _, _ in self.sizes})
        count = chance.randint(0, len(self.sizes))
        how = chance.choice(_HOW) if operations else "nothing"
        if how == "nothing":
            return (lambda operation: False), 0
        if how == "everything":
            return (lambda operation: True), len(self.sizes)
        if how == "prefix":
            last = chance.choice(operations)  # torn
            count = sum(operation <= last for operation, _, _ in self.sizes)
            return (lambda operation: operation < last or (operation == last and chance.random() < 0.5)), count
        if how == "writes":
            whole = {operation: chance.random() < 0.5 for operation in operations}
            return whole.__getitem__, count
        return (lambda operation: chance.random() < 0.5), count


class FileSystem:
    """One folder of files on one disk.

    Args:
        chance: decides what a crash and a failing fsync leave.

    Attributes:
        operations: how many there were that change the disk: writes, cuts, creations, renames, removals, fsyncs.
        syncing: the last operation is an fsync.
        crash_at: the operation in which the power goes; None: none.
        watch: is called within each operation, at the moment at which the power may go: what is written is in the
            cache, what is to be made durable is not yet.
        capacity: how many bytes all files can have; None: without limit.
        read_only: nothing can be changed.
        failing: how many of the next fsyncs report an error.
        lying: fsyncs do nothing, and report success.
        crashes: how many there were.
    """

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.operations = 0
        self.crash_at: int | None = None
        self.watch: Callable[[], None] | None = None
        self.capacity: int | None = None
        self.read_only = self.lying = self.syncing = False
        self.failing = 0
        self.crashes = 0
        self._cuts = 0
        self._names: dict[str, _Inode] = {}
        self._durable: dict[str, _Inode] = {}
        self._changes: list[dict[str, _Inode | None]] = []

    def copy(self, chance: random.Random) -> FileSystem:
        """The same files, durable or not, on another disk that is well."""
        twin = FileSystem(chance)
        known: dict[_Inode, _Inode] = {}

        def of(inode: _Inode) -> _Inode:
            if inode not in known:
                known[inode] = inode.copy()
            return known[inode]

        twin._names = {name: of(inode) for name, inode in self._names.items()}
        twin._durable = {name: of(inode) for name, inode in self._durable.items()}
        twin._changes = [{n: None if i is None else of(i) for n, i in change.items()} for change in self._changes]
        return twin

    # Names

    def exists(self, name: str) -> bool:
        return name in self._names

    def names(self) -> list[str]:
        return sorted(self._names)

    def open(self, name: str, create: bool = False) -> File:
        """Opens a file, or creates it.

        Raises:
            OSError: it is not there (ENOENT), or cannot be created (EROFS).
        """
        if name not in self._names:
            if not create:
                raise _error(errno.ENOENT)
            self._change({name: _Inode()})
        return File(self, self._names[name])

    def rename(self, old: str, new: str) -> None:
        """Gives a file another name, in one step, also over another file."""
        self._change({old: None, new: self._inode(old)})

    def link(self, old: str, new: str) -> None:
        """Gives a file one more name."""
        self._change({new: self._inode(old)})

    def unlink(self, name: str) -> None:
        self._inode(name)
        self._change({name: None})

    def sync_folder(self) -> None:
        """Makes names durable."""
        self._operation(syncing=True)
        if self._fails():
            raise _error(errno.EIO)
        if not self.lying:
            self._durable = dict(self._names)
            self._changes.clear()

    def _inode(self, name: str) -> _Inode:
        if name not in self._names:
            raise _error(errno.ENOENT)
        return self._names[name]

    def _change(self, change: dict[str, _Inode | None]) -> None:
        self._check_writable()
        self._changes.append(change)
        _apply(self._names, change)
        self._operation()

    # What goes wrong

    def crash(self) -> None:
        """The power goes, and comes back: what was open is gone, and what was not durable is left to chance."""
        self.crashes += 1
        self.crash_at = None
        self.cut_off()
        for change in self._changes[: self.chance.randint(0, len(self._changes))]:
            _apply(self._durable, change)
        self._changes.clear()
        self._names = dict(self._durable)
        for inode in dict.fromkeys(self._names.values()):
            inode.crash(self.chance)

    def cut_off(self) -> None:
        """Whoever had files open is gone; nothing is lost."""
        self._cuts += 1

    def evict(self) -> None:
        """The cache drops everything that counts as written."""
        for inode in dict.fromkeys(self._names.values()):
            inode.evict()

    def used(self) -> int:
        """Bytes of all files."""
        return sum(len(inode.cache) for inode in dict.fromkeys(self._names.values()))

    def _check_writable(self) -> None:
        if self.read_only:
            raise _error(errno.EROFS)

    def _fails(self) -> bool:
        self.failing -= (fails := self.failing > 0)
        return fails

    def _operation(self, syncing: bool = False) -> None:
        self.operations += 1
        self.syncing = syncing
        if self.watch is not None:
            self.watch()
        if self.operations == self.crash_at:
            self.crash()
            raise PowerLoss


class File:
    """An open file. After a crash, or when it was cut off, whatever is asked of it raises PowerLoss."""

    def __init__(self, files: FileSystem, inode: _Inode) -> None:
        self._files, self._file = files, inode
        self._cuts = files._cuts

    @property
    def _inode(self) -> _Inode:
        if self._files._cuts != self._cuts:
            raise PowerLoss
        return self._file

    @property
    def size(self) -> int:
        return len(self._inode.cache)

    def read(self, amount: int, offset: int) -> bytes:
        """Returns what is there, which is less than was asked for at the end of the file."""
        return bytes(self._inode.cache[offset : offset + amount])

    def write(self, data: bytes, offset: int) -> None:
        """Writes into the cache.

        Raises:
            OSError: EROFS; or ENOSPC, when what fits was written.
        """
        inode, files = self._inode, self._files
        files._check_writable()
        end = offset + len(data)
        over = 0
        if files.capacity is not None and end > len(inode.cache):
            over = max(0, min(files.used() - len(inode.cache) + end - files.capacity, len(data)))
        if over < len(data):
            inode.write(data[: len(data) - over], offset, files.operations + 1)
            files._operation()
        if over:
            raise _error(errno.ENOSPC)

    def truncate(self, size: int) -> None:
        inode = self._inode
        self._files._check_writable()
        inode.truncate(size, self._files.operations + 1)
        self._files._operation()

    def sync(self) -> None:
        """Makes data and size durable.

        Raises:
            OSError: EIO; the data is lost, and the next fsync succeeds.
        """
        inode = self._inode
        self._files._operation(syncing=True)
        if self._files._fails():
            inode.fail_to_sync(self._files.chance)
            raise _error(errno.EIO)
        if not self._files.lying:
            inode.sync()


def _apply(names: dict[str, _Inode], change: dict[str, _Inode | None]) -> None:
    for name, inode in change.items():
        if inode is None:
            names.pop(name, None)
        else:
            names[name] = inode
