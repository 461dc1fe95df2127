"""A disk that fails as disks do, for stores in memory: full, read-only, or with an fsync that reports an error.

Theory of operation. A commit is one write and one fsync. A disk that is full or read-only fails before anything is
written. When an fsync fails, nobody knows what is on the disk: here the batch is there or not, as chance has it (and
the store, which stops at the first error, finds out when it is opened again). A crash takes what no fsync has
acknowledged; a commit that was under way is there whole or not at all, as a journal makes it.
"""

from __future__ import annotations

import random
from enum import Enum

from leasehold.impl.store.memory import Disk, MemoryStore
from leasehold.impl.store.store import Batch, StoreError


class DiskFault(Enum):
    """The faults of a disk."""

    FULL = "the disk is full"
    READ_ONLY = "the file system is read-only"
    FSYNC = "fsync: input/output error"


class FailingDisk(Disk):
    """A disk in memory that can be made to fail.

    Attributes:
        fault: its present fault; None: it works.
        failed: how many commits have failed.
    """

    __slots__ = ("chance", "failed", "fault")

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self.chance = chance
        self.fault: DiskFault | None = None
        self.failed = 0


class FailingStore(MemoryStore):
    """A store on such a disk."""

    disk: FailingDisk

    async def _take(self, owner: str) -> int:
        if self.disk.fault is not None:  # an epoch cannot be written
            raise self._failed()
        return await super()._take(owner)

    async def _commit(self, batch: Batch) -> None:
        fault = self.disk.fault
        if fault is None:
            await super()._commit(batch)
            return
        if fault is DiskFault.FSYNC and self.disk.chance.random() < 0.5:
            await super()._commit(batch)
        raise self._failed()

    def _failed(self) -> StoreError:
        self.disk.failed += 1
        assert self.disk.fault is not None
        return StoreError(f"memory: {self.disk.fault.value}", "see to the disk")
