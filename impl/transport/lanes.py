"""The sending end of transports: queues in which frames for one address share requests, and sends with a time limit.

Theory of operation. A queue sends all waiting frames as one request; frames that come while requests are under way
gather for the next. So the busier an address, the more frames share a request, and a lone frame never waits. The number
of a queue's requests under way is limited. Each frame has its own reply.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeAlias

from leasehold.impl.transport.limits import TransportLimits
from leasehold.impl.transport.transport import Delivery, Reply

CLOSED = Reply(Delivery.UNREACHABLE, "this transport is closed")
Post: TypeAlias = Callable[[list[bytes]], Awaitable[list[Reply]]]


class SendQueue:
    """The frames that wait for one address."""

    def __init__(self, post: Post, limits: TransportLimits) -> None:
        """Takes a function that sends one request; it returns one reply for each frame, and raises nothing."""
        self._post, self._limits = post, limits
        self._waiting: deque[tuple[bytes, asyncio.Future[Reply]]] = deque()
        self._workers: set[asyncio.Task[None]] = set()

    @property
    def idle(self) -> bool:
        return not self._waiting and not self._workers

    async def send(self, frame: bytes) -> Reply:
        """Sends a frame, and waits for its reply until the time limit."""
        if len(self._waiting) >= self._limits.waiting:
            return Reply(Delivery.BUSY, f"{len(self._waiting)} frames for this address wait already")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Reply] = loop.create_future()
        self._waiting.append((frame, future))
        # A worker that has ended takes no more frames, and stays among the workers until the loop's next turn.
        if sum(not worker.done() for worker in self._workers) < self._limits.in_flight:
            worker = loop.create_task(self._work())
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)
        try:
            async with asyncio.timeout(self._limits.send_seconds):
                return await future
        except TimeoutError:
            return Reply(Delivery.UNREACHABLE, f"no answer within {self._limits.send_seconds} seconds")

    async def close(self) -> None:
        """Ends all waiting sends with UNREACHABLE."""
        while self._waiting:
            _, future = self._waiting.popleft()
            if not future.done():
                future.set_result(CLOSED)
        for worker in self._workers:
            worker.cancel()
        if self._workers:
            await asyncio.wait(self._workers)

    async def _work(self) -> None:
        while batch := self._next():
            replies = [CLOSED] * len(batch)
            try:
                replies = await self._post([frame for frame, _ in batch])
            finally:
                for (_, future), reply in zip(batch, replies, strict=True):
                    if not future.done():
                        future.set_result(reply)

    def _next(self) -> list[tuple[bytes, asyncio.Future[Reply]]]:
        """Takes as many waiting frames as one request may carry, without those whose senders have stopped waiting."""
        batch: list[tuple[bytes, asyncio.Future[Reply]]] = []
        room = self._limits.body
        while self._waiting and len(batch) < self._limits.batch:
            frame, future = self._waiting[0]
            if not future.done():
                room -= len(frame) + 4
                if room < 0:
                    break
                batch.append((frame, future))
            self._waiting.popleft()
        return batch


class SendingEnd(ABC):
    """The sending end of a transport: open from its start until it is closed, for frames that are not too large."""

    def __init__(self, limits: TransportLimits) -> None:
        self._limits, self._closed = limits, False
        self._tasks: set[asyncio.Task[Reply]] = set()

    async def send(self, address: str, frame: bytes) -> Reply:
        if self._closed:
            return CLOSED
        if len(frame) > self._limits.parcel:
            return self._limits.too_large(frame)
        return await self._send(address, frame)

    @abstractmethod
    async def _send(self, address: str, frame: bytes) -> Reply: ...

    async def _answer_of(self, request: Coroutine[Any, Any, Reply]) -> Reply:
        """The answer of a request; UNREACHABLE when it takes too long, or the transport closes meanwhile."""
        task = asyncio.get_running_loop().create_task(request)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await asyncio.wait((task,), timeout=self._limits.send_seconds)
        finally:
            ended = task.done()
            task.cancel()
        if not ended or task.cancelled():
            return Reply(Delivery.UNREACHABLE, "this transport has closed, or there was no answer in time")
        return task.result()

    def _end_sending(self) -> None:
        """The transport closes: nobody waits any more."""
        self._closed = True
        for task in tuple(self._tasks):
            task.cancel()
