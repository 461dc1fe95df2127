"""The common part of all stores: who may use one when, and what an error does.

Theory of operation. A store is closed, open, or broken. Any failure while it is open (of a commit, but also of a read,
or a call that was cancelled half way) breaks it: the connection is dropped, so that the database itself rolls back what
was not committed, and every later call is refused with the first reason until `open` starts anew. A store that was
fenced stays so: its incarnation is over, and only a new `open`, which takes the store with a new epoch, can begin
another.

Each store adds its own steps (the abstract methods), and a table of what its driver's errors mean
(impl/store/failures.py). Calls of several tasks take turns, as one connection can do one thing at a time.

Records are read in pages, each by a query of its own that begins after the last key of the one before. So no cursor or
transaction stays open between them: a reader may stop half way, and commits may come in between, which the pages that
are still to come then show.

A database finds a torn write, but hardly a bit that a disk or a program has changed since. So each value carries a
CRC-32 of its key and itself; one that does not fit is refused, and never read as another value.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from zlib import crc32

from leasehold.impl.store.store import (
    Batch,
    Broken,
    Busy,
    EventRange,
    Fenced,
    RecordKey,
    StoreError,
    Unfit,
    check_batch,
    check_name,
)

PAGE = 1000  # records or events in one query
_SEAL = b"\xc1\xc1"  # no MessagePack, JSON or plain text begins so
_HEAD = len(_SEAL) + 4

Row = tuple[str, str, bytes]


class OwnedStore(ABC):
    """A store of which one actor at a time is the owner.

    Attributes:
        place: where the store is, for messages: `broker.db`; never with a password.
        durable: whether it outlives the process, so that what it keeps may be damaged, and carries checksums.
    """

    durable = True

    def __init__(self, place: str) -> None:
        self.place = place
        self._turn = asyncio.Lock()
        self._refusal: StoreError | None = self._not_open()
        self._last_event = 0  # its position

    @property
    def low(self) -> bool:
        """Returns whether its disk is full, and what it keeps for that case is being used up."""
        return False

    async def open(self, owner: str) -> int:
        check_name("the actor's name", owner)
        async with self._turn:
            await self._give_up()
            try:
                with self._explained():
                    epoch = await self._take(owner)
                    self._last_event = (await self._event_range()).last
            except BaseException:
                await self._drop()
                raise
            self._refusal = None
            return epoch

    async def look(self, owner: str) -> None:
        """Opens the store of an actor for reading alone. Its owner goes on; a commit is refused.

        Raises:
            StoreError: the store cannot be read, keeps nothing, or has no such actor.
        """
        async with self._turn:
            await self._give_up()
            try:
                with self._explained():
                    found = await self._look(owner)
            except BaseException:
                await self._drop()
                raise
            if not found:
                await self._drop()
                raise StoreError(f"{self.place} has nothing of an actor {owner[:60]!r}", "name another")
            self._refusal = None

    async def owners(self) -> list[str]:
        """The names of the actors that have records in a closed store; looking changes nothing.

        Raises:
            StoreError: the store cannot be read, or keeps nothing.
        """
        async with self._turn:
            await self._give_up()
            try:
                with self._explained():
                    return await self._owners()
            finally:
                await self._drop()

    async def records(self) -> AsyncIterator[tuple[RecordKey, bytes]]:
        after: RecordKey | None = None
        while True:
            async with self._call():
                page = await self._page(after)
            for lease, machine, body in page:
                key = RecordKey(lease, machine)
                yield key, self._without_checksum(_name(key), body)
            if len(page) < PAGE:
                return
            after = RecordKey(*page[-1][:2])

    async def metadata(self) -> dict[str, bytes]:
        async with self._call():
            return {name: self._without_checksum(name, body) for name, body in await self._metadata()}

    async def events(self, after: int = 0, limit: int | None = None) -> AsyncIterator[tuple[int, bytes]]:
        left = limit
        while left is None or left > 0:
            size = PAGE if left is None else min(PAGE, left)
            async with self._call():
                page = await self._event_page(after, size)
            for position, body in page:
                yield position, self._without_checksum(_event(position), body)
            if len(page) < size:
                return
            after, left = page[-1][0], None if left is None else left - size

    async def event_range(self) -> EventRange:
        async with self._call():
            return await self._event_range()

    async def commit(self, batch: Batch) -> None:
        async with self._call():
            check_batch(batch)
            self._check_pruning(batch)
            await self._commit(_sealed(batch, self._last_event + 1) if self.durable else batch)
            self._last_event += len(batch.events)

    def _check_pruning(self, batch: Batch) -> None:
        last, until = self._last_event, batch.prune_events_to
        if not 0 <= until <= last or (until and until == last + len(batch.events)):
            raise Unfit(f"events up to {until} cannot be dropped, as {last} is the newest one", "keep that one")

    async def close(self) -> None:
        async with self._turn:
            await self._give_up()
            self._refusal = self._not_open()

    @abstractmethod
    async def _take(self, owner: str) -> int:
        """Connects, becomes the owner, and returns the new epoch."""

    @abstractmethod
    async def _look(self, owner: str) -> bool:
        """Connects for reading alone, with no epoch; returns whether there is such an actor."""

    @abstractmethod
    async def _owners(self) -> list[str]:
        """Connects, and reads the names of the actors."""

    @abstractmethod
    async def _page(self, after: RecordKey | None) -> Sequence[Row]:
        """The first PAGE records after a key, in order; None is the beginning."""

    @abstractmethod
    async def _metadata(self) -> Sequence[tuple[str, bytes]]:
        """All metadata."""

    @abstractmethod
    async def _event_page(self, after: int, limit: int) -> Sequence[tuple[int, bytes]]:
        """The first events above a position, in order."""

    @abstractmethod
    async def _event_range(self) -> EventRange:
        """The positions of the first and the last event."""

    @abstractmethod
    async def _commit(self, batch: Batch) -> None:
        """Makes a checked batch durable if the epoch is still ours; else raises Fenced.

        Its events follow `_last_event`.
        """

    @abstractmethod
    async def _drop(self) -> None:
        """Cuts the connection, so that uncommitted changes are rolled back. Never raises; may be called twice."""

    async def _leave(self) -> None:  # noqa: B027 - most stores have nothing to say before they go
        """Lets go of the store in good order, so that the next owner need not wait; `_drop` comes after it."""

    @abstractmethod
    def _meaning(self, error: BaseException) -> StoreError | None:
        """The meaning of a driver's error; None for others: one told already, a mistake in here, a cancelled task."""

    def _fenced(self, epoch: int, newer: int | None) -> Fenced:
        now = "its actor is no longer in it" if newer is None else f"it has a newer owner, of epoch {newer}"
        return Fenced(f"{self.place} is no longer ours (epoch {epoch}): {now}", "stop this copy of the actor")

    def _busy(self, owner: str, holder: str, remedy: str) -> Busy:
        return Busy(f"{self.place} is in use by another copy of the actor {owner!r}{holder}", remedy)

    def _newer_version(self, version: object, known: int) -> StoreError:
        return StoreError(
            f"{self.place} was written by a newer Leasehold: its layout is version {version}, and this one "
            f"knows {known}",
            "run the newer Leasehold, or restore a backup of before",
        )

    def _not_open(self) -> StoreError:
        return StoreError(f"{self.place} is not open", "open it first")

    def _check_usable(self) -> None:
        if self._refusal is not None:
            # A new one each time, as a raised error collects the places where it was raised.
            raise type(self._refusal)(self._refusal.reason, self._refusal.remedy)

    async def _give_up(self) -> None:
        if self._refusal is None:
            await self._leave()
            self._refusal = self._not_open()
        await self._drop()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Raises what an error means, where that says more than the error itself."""
        try:
            yield
        except BaseException as error:
            known = self._meaning(error)
            if known is None:
                raise
            raise known from error

    @asynccontextmanager
    async def _call(self) -> AsyncIterator[None]:
        """One call on the open store; any error but an unfit argument breaks the store."""
        async with self._turn:
            self._check_usable()
            try:
                with self._explained():
                    yield
            except Unfit:
                raise
            except BaseException as error:
                await self._break(error)
                raise

    async def _break(self, error: BaseException) -> None:
        if isinstance(error, Fenced):
            self._refusal = Fenced(error.reason, error.remedy)
        else:
            reason = error.reason if isinstance(error, StoreError) else f"{self.place}: a call ended with {error!r}"
            self._refusal = Broken(f"the store is broken since an earlier error: {reason}", "open it again")
        await self._drop()

    def _without_checksum(self, key: str, value: bytes) -> bytes:
        return without_checksum(self.place, key, value) if self.durable else value


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


def _name(key: RecordKey) -> str:
    return f"{key.lease}, {key.machine}"


def _event(position: int) -> str:
    return f"event {position}"


def _sealed(batch: Batch, first_event: int) -> Batch:
    """The same batch, its values with their checksums; an empty value stays so, as it drops a name."""
    puts = {key: with_checksum(_name(key), body) for key, body in batch.puts.items()}
    metadata = {name: body and with_checksum(name, body) for name, body in batch.metadata.items()}
    events = [with_checksum(_event(at), body) for at, body in enumerate(batch.events, first_event)]
    return Batch(puts, batch.drops, metadata, events, batch.prune_events_to)
