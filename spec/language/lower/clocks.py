"""Clocks of actors that leave true time: which readings one may show, and what must be known of it for that.

Theory of operation. A clock is read in whole ticks. `now` is true time; a reading is `now` and a lead, which may be
below 0. Let c(t) be the reading at true time t, right after the clock step to t.

    skew     c(t) = t + o(t): an offset of 0 to `ahead` ticks, which may change at any time. c never goes back.
    drift    c(t) is a clock C(t), rounded down. C has any rate from 1 - p to 1 + p (p: `percent` of a tick in a tick),
             which may change at any time, and it is anywhere within its first tick when true time begins.
    both     c(t) is C(t), rounded down, and an offset.

Which readings are there is a question of difference constraints on C (c(t) - o(t) <= C(t) < c(t) - o(t) + 1, and two
bounds on C(t2) - C(t1) for all t1 < t2). These have a solution if no cycle of them contradicts itself, and every cycle
is two readings and the way between. So the readings under drift are those with, for all t1 < t2,

    floor((1 - p)(t2 - t1)) <= c(t2) - c(t1) <= ceil((1 + p)(t2 - t1))

and under both, `ahead` more and `ahead` less (for t1 = 0 only more, as the offset is 0 then). A history is not needed
to go on: what C may be at the last true tick is an interval, the *phase*, whose ends are multiples of the greatest part
of a tick that p is a multiple of. It is kept relative to the reading, so there are finitely many.

Between two clock steps a clock may *gain* a tick; with a clock step it goes on by one, or stands still. So no reading
is left out: a timer is due at its tick. A gain is possible if C can still come to the reading by the next true tick. A
clock step is always possible. Under drift alone a gain is time that passes, so it waits for due timers of all actors as
a clock step does; an offset may change at once, so with one a gain waits for the timers of its own actor alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import NamedTuple, TypeAlias

Phase: TypeAlias = tuple[int, int]


class ClockReading(NamedTuple):
    """A clock between two steps.

    Attributes:
        lead: ticks that it shows more than true time; below 0 if it is behind.
        phase: the interval of what C was at the last true tick less the reading, its end left out, in parts of a tick.
            Its start is no lower than makes a difference. None without drift.
    """

    lead: int
    phase: Phase | None


@dataclass(frozen=True, slots=True)
class ClockBounds:
    """Bounds of how far clocks may leave true time.

    Attributes:
        ahead: ticks, of an offset that may change.
        percent: by how much a rate may differ from 1, below 100.
    """

    ahead: int = 0
    percent: int = 0

    @property
    def parts(self) -> int:
        """The parts of a tick in which phases are counted."""
        return 100 // gcd(100, self.percent)

    @property
    def kind(self) -> str:
        """The kind of the steps in which clocks leave true time."""
        return "drift" if self.percent else "skew"

    @property
    def first(self) -> ClockReading:
        """The reading when true time begins."""
        return ClockReading(0, (0, self.parts) if self.percent else None)

    def gained(self, lead: int, phase: Phase | None) -> ClockReading | None:
        """The reading after a clock has gained a tick; None where it cannot."""
        if phase is None:
            return ClockReading(lead + 1, None) if lead < self.ahead else None
        (low, high), tick = phase, self.parts
        if high + self._drift + self.ahead * tick <= 0:  # it would be too far ahead, even if it stood still then
            return None
        least = self._drift - tick * (self.ahead + 1)  # what is lower comes to the same at the next true tick
        return ClockReading(lead + 1, (max(low - tick, least), high - tick))

    def passed(self, lead: int, phase: Phase | None) -> list[ClockReading]:
        """The readings that are possible after a clock step: first that of a clock that goes on by one, if it can."""
        if phase is None:
            return [ClockReading(lead, None), *([ClockReading(lead - 1, None)] if lead > 0 else [])]
        found = []
        for goes_on in (1, 0):
            (low, high), tick = phase, self.parts
            low = max(low + tick - self._drift - goes_on * tick, -self.ahead * tick)
            high = min(high + tick + self._drift - goes_on * tick, tick)
            if low < tick and high > -self.ahead * tick:
                found.append(ClockReading(lead - 1 + goes_on, (low, high)))
        return found

    @property
    def _drift(self) -> int:
        """The parts of a tick by which a clock leaves true time in a tick, at most."""
        return self.percent * self.parts // 100


TRUE_TIME = ClockBounds()
