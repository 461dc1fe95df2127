"""The clock of an actor: time in ticks. Nothing else in an actor reads time."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

log = logging.getLogger("leasehold.clock")

STANDS_STILL = 30.0  # seconds by which a clock may be set back before it is followed
OnTick = Callable[[int], Awaitable[None]]


class ActorClock(Protocol):
    """Tells the time in ticks, and when it has changed."""

    def now(self) -> int:
        """The time; it goes back only where the clock was wrong."""
        ...

    async def run(self, on_tick: OnTick) -> None:
        """Calls on every change, until it is cancelled."""
        ...


class RealClock:
    """Real time in ticks of some seconds, counted from 1970, so that all actors agree on when a term ends.

    A calendar clock that is set back by a little stands still here until it has come up again. One that is set back by
    more was ahead before, and is followed, as it would be after a restart: an actor that stood still for hours would
    end no lease meanwhile.
    """

    def __init__(self, tick_seconds: float = 1.0) -> None:
        if not tick_seconds > 0:
            raise ValueError(f"a tick lasts some time, not {tick_seconds} s")
        self.tick_seconds = tick_seconds
        self._latest = 0

    def now(self) -> int:
        shown = int(time.time() / self.tick_seconds)
        back = (self._latest - shown) * self.tick_seconds
        if back > STANDS_STILL:
            log.warning("the clock was set back by %.0f s, and is followed; leases end by the corrected time", back)
            self._latest = shown
        self._latest = max(self._latest, shown)
        return self._latest

    async def run(self, on_tick: OnTick) -> None:
        while True:
            await on_tick(self.now())
            ahead = (self.now() + 1) * self.tick_seconds - time.time()
            # A calendar clock that was set back would make this a long sleep.
            await asyncio.sleep(min(max(ahead, self.tick_seconds / 100), self.tick_seconds))
