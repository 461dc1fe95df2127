"""An event loop whose time is virtual: actors run on it as on asyncio's own, and nothing is left to chance.

Theory of operation. What is ready runs in the order in which it became so. Time stands still while anything is ready,
and goes on only when it is told to, from timer to timer. There are no threads, sockets or signals. So a run depends on
what it is given alone, and an hour of pauses takes no time.
"""

from __future__ import annotations

import asyncio
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from itertools import count
from typing import Any, TypeVar

T = TypeVar("T")

ENDLESS = 1_000_000  # callbacks between two looks at the time: more are a livelock


class Livelock(RuntimeError):
    """Callbacks run without end, though no time passes."""


def _run(future: asyncio.Future[T], func: Callable[..., T], args: tuple[Any, ...]) -> None:
    if future.done():
        return
    try:
        answer = func(*args)
    except Exception as error:
        future.set_exception(error)
    else:
        future.set_result(answer)


class VirtualLoop(asyncio.AbstractEventLoop):
    """The loop.

    Attributes:
        errors: what callbacks and tasks have raised and nobody took, as asyncio describes it.
    """

    def __init__(self) -> None:
        self.errors: list[dict[str, Any]] = []
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._order = count()
        self._now = 0.0
        self._closed = False
        self._running = False

    # Running

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Makes this the running loop for calls in the `with` block."""
        before = events._get_running_loop()
        events._set_running_loop(self)
        self._running = True
        try:
            yield
        finally:
            self._running = before is self
            events._set_running_loop(before)

    def call(self, function: Callable[[], T]) -> T:
        """Calls something as if a callback did, and runs what has become ready by that."""
        with self.inside():
            answer = function()
        self.quiesce()
        return answer

    def quiesce(self) -> None:
        """Runs until nothing is ready; no time passes.

        Raises:
            Livelock: that does not come.
        """
        with self.inside():
            ready = self._ready
            for _ in range(ENDLESS):
                if not ready:
                    return
                handle = ready.popleft()
                if not handle.cancelled():
                    handle._run()
        raise Livelock(f"{ENDLESS:,} callbacks ran, and more are ready, though no time has passed")

    def advance(self, seconds: float) -> None:
        """Lets time pass, from timer to timer."""
        until = self._now + seconds
        self.quiesce()
        while self._timers and self._timers[0][0] <= until:
            self._now = max(self._now, self._timers[0][0])
            while self._timers and self._timers[0][0] <= self._now:
                handle = heappop(self._timers)[2]
                if not handle.cancelled():
                    self._ready.append(handle)
            self.quiesce()
        self._now = until

    def run(self, work: Coroutine[Any, Any, T], patience: float = 3600.0) -> T:
        """Runs a coroutine to its end, and lets as much time pass as it needs.

        Args:
            work: the coroutine.
            patience: seconds of virtual time after which it is given up.

        Raises:
            TimeoutError: it does not end.
        """
        task = self.create_task(work)
        until = self._now + patience
        self.quiesce()
        while not task.done():
            if not self._timers or self._timers[0][0] > until:
                task.cancel()
                self.quiesce()
                raise TimeoutError("what was run on the virtual loop does not end")
            self.advance(self._timers[0][0] - self._now)
        answer: T = task.result()
        return answer

    # The interface of asyncio

    def run_until_complete(self, future: Coroutine[Any, Any, T]) -> T:  # type: ignore[override]
        return self.run(future)

    def time(self) -> float:
        return self._now

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Any = None) -> asyncio.Handle:  # type: ignore[override]
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        heappush(self._timers, (when, next(self._order), handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """A cancelled timer is passed over when its time comes."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: str | None = None, context: Any = None) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        """There are no threads: what would run in one runs in its turn, as a callback."""
        future: asyncio.Future[T] = self.create_future()
        self.call_soon(_run, future, func, args)
        return future

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.errors.append(context)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True
        self._ready.clear()
        self._timers.clear()
