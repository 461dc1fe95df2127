"""One time for all actors of one process, and how far each actor's own clock is from it, by an offset and by its rate.

Time advances by ticks from outside: nothing else moves it.
"""

from __future__ import annotations

import asyncio
from fractions import Fraction

from leasehold.impl.clock import OnTick


class TrueTime:
    """True time, in ticks. `held`: actors are not notified of ticks, though their clocks show them."""

    def __init__(self, now: int = 0) -> None:
        self.now = now
        self.held = False
        self.clocks: list[SimulatedClock] = []

    def advance(self) -> list[asyncio.Task[None]]:
        """One tick passes; returns the tasks in which running actors take it."""
        self.now += 1
        return [] if self.held else self.notify()

    async def elapse(self, ticks: int = 1) -> None:
        """Ticks pass one by one; comes back when all running actors have taken each."""
        for _ in range(ticks):
            await asyncio.gather(*self.advance())

    def notify(self) -> list[asyncio.Task[None]]:
        """Notifies every running actor of the time."""
        return [task for clock in self.clocks for task in clock.notify()]


class SimulatedClock:
    """The clock of one actor, or of several whose clocks agree.

    Args:
        time: true time; left out: of its own.
        ahead: how many ticks it is ahead of true time (or behind, below 0).

    Actors read it when true time has ticked: of the ticks that a fast clock has shown since, they see the last.
    """

    def __init__(self, time: TrueTime | None = None, ahead: int = 0) -> None:
        self.time, self.ahead = time or TrueTime(), ahead
        self._rate, self._since, self._drifted = Fraction(1), self.time.now, Fraction(0)
        self._latest = 0
        self._heard: list[tuple[asyncio.AbstractEventLoop, OnTick]] = []
        self.time.clocks.append(self)

    def now(self) -> int:
        self._latest = max(self._latest, self.time.now + self.ahead + self._off // 1, 0)
        return self._latest

    @property
    def rate(self) -> Fraction:
        """Ticks that it shows in a tick of true time."""
        return self._rate

    @rate.setter
    def rate(self, rate: Fraction) -> None:
        self._rate, self._since, self._drifted = rate, self.time.now, self._off

    @property
    def _off(self) -> Fraction:
        """Ticks by which its rates have led it away from true time."""
        return self._drifted + (self._rate - 1) * (self.time.now - self._since)

    def correct(self) -> None:
        """The clock shows true time from now on; if it is ahead, once that has come to what it shows."""
        self.ahead = 0
        self._rate, self._since, self._drifted = Fraction(1), self.time.now, Fraction(0)

    def show(self, now: int) -> None:
        """The clock shows a time from now on, whatever it has shown before; nobody is notified."""
        self.ahead, self._latest = now - self.time.now - self._off // 1, now

    def wall(self) -> float:
        """Real time, which events show: true time, a tick being a second."""
        return float(self.time.now)

    async def run(self, on_tick: OnTick) -> None:
        heard = asyncio.get_running_loop(), on_tick
        self._heard.append(heard)
        try:
            if not self.time.held:
                await on_tick(self.now())  # as a real clock does: what is due is due at the start
            await heard[0].create_future()
        finally:
            self._heard.remove(heard)

    def notify(self) -> list[asyncio.Task[None]]:
        """Tells its running actors the time; returns the tasks in which they take it."""

        async def tell(heard: OnTick, now: int) -> None:
            await heard(now)

        return [loop.create_task(tell(heard, self.now())) for loop, heard in self._heard]
