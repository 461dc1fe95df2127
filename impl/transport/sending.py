"""What a transport has under way: a sender waits so long for its answer, and no longer than the transport is open."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from leasehold.impl.transport.transport import Answer, Reply


class Sending:
    """The sends of one transport whose answer is awaited."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._tasks: set[asyncio.Task[Reply]] = set()

    async def wait(self, request: Coroutine[Any, Any, Reply]) -> Reply:
        """The answer of a request; UNREACHABLE when it takes too long, or the transport closes meanwhile."""
        task = asyncio.get_running_loop().create_task(request)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await asyncio.wait((task,), timeout=self._seconds)
        finally:
            ended = task.done()
            task.cancel()
        if not ended or task.cancelled():
            return Reply(Answer.UNREACHABLE, "this transport has closed, or there was no answer in time")
        return task.result()

    def cancel(self) -> None:
        """The transport closes: nobody waits any more."""
        for task in tuple(self._tasks):
            task.cancel()
