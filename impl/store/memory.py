"""The twin in memory: what a store is, without a disk.

A `Disk` is what outlives the actor: a store that is closed, or whose actor crashed, loses nothing that was committed,
and another store opens the same disk. Every other store is compared with this one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from leasehold.impl.store.owned import PAGE, OwnedStore, Row
from leasehold.impl.store.store import Batch, EventRange, RecordKey, StoreError, Transient


@dataclass(eq=False, slots=True)
class Disk:
    """The disk that outlives an actor that keeps its records in memory.

    Attributes:
        actor: whose records these are; empty before the first opening.
        epoch: of the last opening.
        records: by key.
        metadata: by name.
        events: by position, in their order.
        capacity: how many bytes of records, metadata and events it can keep; None is without limit. A commit beyond it
            fails as one on a full disk does.
        owner: the store that owns it at present.
        order: the keys in order; None when a commit may have changed them.
    """

    actor: str = ""
    epoch: int = 0
    records: dict[RecordKey, bytes] = field(default_factory=dict)
    metadata: dict[str, bytes] = field(default_factory=dict)
    events: dict[int, bytes] = field(default_factory=dict)
    capacity: int | None = None
    owner: object = None
    order: list[RecordKey] | None = None

    def chain(self) -> list[bytes]:
        """The bytes of the events, in their order."""
        return [self.events[at] for at in sorted(self.events)]

    def crash(self) -> None:
        """The owner's process is gone, and with it its lock; what it committed stays."""
        self.owner = None


class MemoryStore(OwnedStore):
    """A store on a disk in memory; without one given, on a new and empty one."""

    durable = False

    def __init__(self, disk: Disk | None = None) -> None:
        super().__init__("memory")
        self.disk = disk or Disk()
        self._epoch = 0

    async def _take(self, owner: str) -> int:
        disk = self.disk
        if disk.owner is not None:
            raise self._busy(owner, "", "stop the other copy")
        if disk.actor not in ("", owner):
            raise StoreError(f"memory belongs to the actor {disk.actor!r}, not to {owner!r}", "give each actor its own")
        disk.owner, disk.actor = self, owner
        disk.epoch += 1
        self._epoch = disk.epoch
        return disk.epoch

    async def _look(self, owner: str) -> bool:
        self._epoch = 0
        return self.disk.actor == owner

    async def _owners(self) -> list[str]:
        raise StoreError("memory keeps nothing between two runs", "name a store of a file or of a database")

    async def _page(self, after: RecordKey | None) -> Sequence[Row]:
        disk = self.disk
        if disk.order is None:
            disk.order = sorted(disk.records)
        first = 0 if after is None else bisect_right(disk.order, after)
        return [(*key, disk.records[key]) for key in disk.order[first : first + PAGE]]

    async def _metadata(self) -> Sequence[tuple[str, bytes]]:
        return list(self.disk.metadata.items())

    async def _event_page(self, after: int, limit: int) -> Sequence[tuple[int, bytes]]:
        events, (first, last) = self.disk.events, await self._event_range()
        after = max(after, first - 1)
        return [(at, events[at]) for at in range(after + 1, min(last, after + limit) + 1)]

    async def _event_range(self) -> EventRange:
        events = self.disk.events
        return EventRange(next(iter(events)), next(reversed(events))) if events else EventRange(1, 0)

    async def _commit(self, batch: Batch) -> None:
        disk = self.disk
        if disk.epoch != self._epoch:
            raise self._fenced(self._epoch, disk.epoch)
        if disk.capacity is not None and _size_after(disk, batch) > disk.capacity:
            raise Transient("memory: the disk is full", "raise its capacity")
        disk.order = None
        disk.records.update((RecordKey(*key), body) for key, body in batch.puts.items())
        for key in batch.drops:
            disk.records.pop(key, None)
        for name, body in batch.metadata.items():
            disk.metadata[name] = body
            if not body:
                del disk.metadata[name]
        for at in range((await self._event_range()).first, batch.prune_events_to + 1):
            del disk.events[at]
        disk.events.update(enumerate(batch.events, self._last_event + 1))

    async def _drop(self) -> None:
        if self.disk.owner is self:
            self.disk.owner = None

    def _meaning(self, error: BaseException) -> StoreError | None:
        return None


def _size_after(disk: Disk, batch: Batch) -> int:
    records = {**disk.records, **batch.puts}
    dropped = set(batch.drops)
    events = [body for at, body in disk.events.items() if at > batch.prune_events_to]
    return sum(len(body) for key, body in records.items() if key not in dropped) + sum(
        map(len, (*{**disk.metadata, **batch.metadata}.values(), *events, *batch.events))
    )
