"""The sending side of HTTP: a lane for each address, in which parcels that wait together travel together.

Theory of operation. A lane sends what waits as one request, and while requests are under way what comes gathers for the
next: the busier an address, the more parcels share a request, and a lone parcel never waits. Only so many requests of a
lane are under way at once. Each parcel has its own reply.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from leasehold.impl.transport.limits import Limits
from leasehold.impl.transport.transport import Answer, Reply

Post: TypeAlias = Callable[[list[bytes]], Awaitable[list[Reply]]]


class Lane:
    """What waits for one address."""

    def __init__(self, post: Post, limits: Limits) -> None:
        """Takes what sends one request; it answers one reply to each parcel, and raises nothing."""
        self._post, self._limits = post, limits
        self._waiting: deque[tuple[bytes, asyncio.Future[Reply]]] = deque()
        self._workers: set[asyncio.Task[None]] = set()

    @property
    def idle(self) -> bool:
        return not self._waiting and not self._workers

    async def send(self, parcel: bytes) -> Reply:
        """Sends a parcel, and waits for its reply until the time limit."""
        if len(self._waiting) >= self._limits.waiting:
            return Reply(Answer.BUSY, f"{len(self._waiting)} parcels for this address wait already")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Reply] = loop.create_future()
        self._waiting.append((parcel, future))
        if len(self._workers) < self._limits.in_flight:
            worker = loop.create_task(self._work())
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)
        try:
            async with asyncio.timeout(self._limits.send_seconds):
                return await future
        except TimeoutError:
            return Reply(Answer.UNREACHABLE, f"no answer within {self._limits.send_seconds} seconds")

    async def close(self) -> None:
        """Ends all that waits, UNREACHABLE."""
        gone = Reply(Answer.UNREACHABLE, "this transport is closed")
        while self._waiting:
            _, future = self._waiting.popleft()
            if not future.done():
                future.set_result(gone)
        for worker in self._workers:
            worker.cancel()
        if self._workers:
            await asyncio.wait(self._workers)

    async def _work(self) -> None:
        while batch := self._next():
            replies = [Reply(Answer.UNREACHABLE, "this transport is closed")] * len(batch)
            try:
                replies = await self._post([parcel for parcel, _ in batch])
            finally:
                for (_, future), reply in zip(batch, replies, strict=True):
                    if not future.done():
                        future.set_result(reply)

    def _next(self) -> list[tuple[bytes, asyncio.Future[Reply]]]:
        """As much of what waits as one request may carry; what nobody waits for any more is left out."""
        batch: list[tuple[bytes, asyncio.Future[Reply]]] = []
        room = self._limits.body
        while self._waiting and len(batch) < self._limits.batch:
            parcel, future = self._waiting[0]
            if not future.done():
                room -= len(parcel) + 4
                if room < 0:
                    break
                batch.append((parcel, future))
            self._waiting.popleft()
        return batch
