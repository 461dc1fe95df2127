"""One time for all actors of a simulation, and how far each actor's own clock is from it."""

from __future__ import annotations

import asyncio

from leasehold.impl.clock import OnTick


class TrueTime:
    """True time, in ticks. `held`: actors are not notified of ticks, though their clocks show them."""

    def __init__(self) -> None:
        self.now = 0
        self.held = False
        self.clocks: list[SimulatedClock] = []

    def advance(self) -> list[asyncio.Future[None] | asyncio.Task[None]]:
        """One tick passes; returns the tasks in which running actors take it."""
        self.now += 1
        return [] if self.held else self.notify()

    def notify(self) -> list[asyncio.Future[None] | asyncio.Task[None]]:
        """Notifies every running actor of the time."""
        return [task for clock in self.clocks if (task := clock.notify()) is not None]


class SimulatedClock:
    """The clock of one actor; `ahead` is how many ticks it is ahead of true time (or behind, below 0)."""

    def __init__(self, time: TrueTime, ahead: int = 0) -> None:
        self._time, self.ahead = time, ahead
        self._latest = 0
        self._heard: OnTick | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        time.clocks.append(self)

    def now(self) -> int:
        self._latest = max(self._latest, self._time.now + self.ahead, 0)
        return self._latest

    def show(self, now: int) -> None:
        """The clock shows a time from now on, whatever it has shown before; nobody is notified."""
        self.ahead, self._latest = now - self._time.now, now

    def wall(self) -> float:
        """Real time, which events show: true time, a tick being a second."""
        return float(self._time.now)

    async def run(self, on_tick: OnTick) -> None:
        self._heard, self._loop = on_tick, asyncio.get_running_loop()
        try:
            if not self._time.held:
                await on_tick(self.now())  # as a real clock does: what is due is due at the start
            await self._loop.create_future()
        finally:
            self._heard = None

    def notify(self) -> asyncio.Task[None] | None:
        """Tells its actor the time, if that runs."""
        if self._heard is None or self._loop is None:
            return None

        async def tell(heard: OnTick, now: int) -> None:
            await heard(now)

        return self._loop.create_task(tell(self._heard, self.now()))
