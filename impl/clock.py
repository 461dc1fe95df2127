"""The virtual clock: time advances by ticks from outside, and nothing else in an actor reads time."""

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


class HandClock:
    """A clock that a test or a simulation moves by hand; several actors may share one."""

    def __init__(self, now: int = 0) -> None:
        self._now = now
        self._heard: list[OnTick] = []

    def now(self) -> int:
        return self._now

    async def advance(self, ticks: int = 1) -> None:
        """Moves the clock tick by tick; comes back when all actors have taken every tick."""
        for _ in range(ticks):
            self._now += 1
            await asyncio.gather(*(heard(self._now) for heard in tuple(self._heard)))

    async def run(self, on_tick: OnTick) -> None:
        self._heard.append(on_tick)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._heard.remove(on_tick)


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
