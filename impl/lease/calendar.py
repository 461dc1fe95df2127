"""The calendar of a broker: how much each lease holds from when until when.

What is decided counts until the record says what became of it; the calendar itself is the records, and nothing else.

Theory of operation. The holdings themselves are a dict. Beside it the units that are held are a function of time
(steps.py), which rises where a holding begins and falls where it ends, so that the most that is held in a term, and the
time from which there is room, are asked of it without a look at each holding. A holding whose term is over has fallen
there, and counts all the same: whoever asks at a time adds all that ended until then. So the clock changes nothing of
what is kept.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from leasehold.impl.lease.steps import Steps
from leasehold.impl.policy.policy import Lease


@dataclass(frozen=True, slots=True)
class Holding:
    """Units, of which there is at least one, from one time until a later one."""

    units: int
    until: int
    start: int = 0


class Calendar:
    """The holdings of leases: how much each holds from when until when, rebuilt from records at any time.

    Two are equal that hold the same. A ticket counts from the moment that it is granted until the broker's record of it
    is closed. A holding whose term is over counts as long as its record says so: the clock of this actor may not have
    come to it yet, and a promise is taken back by a record alone.

    As long as every holding has begun, they only end over the time to come: the most that is held at any time of a term
    is what is held at its beginning.
    """

    def __init__(self) -> None:
        self._holdings: dict[str, Holding] = {}
        self._held = 0
        self._level = Steps()  # units that are held over time, as if each holding went at its end
        self._ended = Steps()  # units of holdings that have ended
        self._enders = Steps()  # and their number
        self._beginners = Steps()  # the number of holdings that have begun, of those that begin after time 0
        self._by_end: dict[int, list[str]] = {}  # leases in order, by the end of their holdings

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Calendar) and self._holdings == other._holdings and self._held == other._held

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Calendar({self._holdings})"

    @property
    def held(self) -> int:
        """The number of units that are held or reserved, over all leases."""
        return self._held

    def of(self, lease: str) -> int:
        """Returns the number of units that a lease holds."""
        holding = self._holdings.get(lease)
        return holding.units if holding else 0

    def holding(self, lease: str) -> Holding | None:
        """Returns the holding of a lease; None where it has none."""
        return self._holdings.get(lease)

    def note(self, lease: Lease) -> None:
        """Takes a lease as its record says."""
        self.put(lease.name, holding_of(lease))

    def put(self, lease: str, holding: Holding | None) -> None:
        """A lease holds this and nothing else."""
        before = self._holdings.get(lease)
        if before == holding:
            return
        if before is not None:
            del self._holdings[lease]
            self._count(before, -1)
            ending = self._by_end[before.until]
            del ending[bisect_left(ending, lease)]
            if not ending:
                del self._by_end[before.until]
        if holding is not None:
            self._holdings[lease] = holding
            self._count(holding, 1)
            insort(self._by_end.setdefault(holding.until, []), lease)

    def _count(self, holding: Holding, times: int) -> None:
        units = times * holding.units
        self._held += units
        self._level.change(holding.start, units)
        self._level.change(holding.until, -units)
        self._ended.change(holding.until, units)
        self._enders.change(holding.until, times)
        if holding.start:
            self._beginners.change(holding.start, times)

    def all_begun(self, now: int) -> bool:
        """Returns whether no holding begins later."""
        last = self._beginners.last
        return last is None or last <= now

    def most(self, start: int, end: int, now: int, without: str = "") -> int:
        """The most units that are held at any time of a term, those of one lease left out."""
        own = self._holdings.get(without)
        if start <= now and self.all_begun(now):
            return self._held - (own.units if own else 0)
        start = max(start, now)
        end = max(end, start + 1)
        parts = [(start, end, own.units if own else 0)]
        if own is not None and own.until > now:  # before it has its own, while it does, and after
            begins = min(max(own.start, start), end)
            ends = min(max(own.until, begins), end)
            parts = [(start, begins, 0), (begins, ends, own.units), (ends, end, 0)]
        highest = max(self._level.highest(a, b) - units for a, b, units in parts if a < b)
        return highest + self._ended.level(now)

    def in_the_way(self, start: int, end: int, now: int) -> dict[str, Holding]:
        """Returns the holdings within a term, by lease, in the order in which they end."""
        return dict(self._in_the_way(start, end, now))

    def soonest_in_the_way(self, start: int, end: int, now: int, most: int) -> tuple[dict[str, Holding], int]:
        """Returns the first of the holdings within a term, so many at most, and the number of all of them."""
        first = dict(islice(self._in_the_way(start, end, now), most))
        start = max(start, now)
        if end <= start:
            return first, sum(1 for _ in self._in_the_way(start, end, now))
        over = self._enders.level(start) - self._enders.level(now)
        last = self._beginners.last
        later = 0 if last is None else self._beginners.level(last) - self._beginners.level(end - 1)
        return first, len(self._holdings) - over - later

    def _in_the_way(self, start: int, end: int, now: int) -> Iterator[tuple[str, Holding]]:
        start = max(start, now)
        for times in (self._times_until(now), self._ended.times(start)):
            for time in times:
                for lease in self._by_end[time]:
                    holding = self._holdings[lease]
                    if holding.start < end:
                        yield lease, holding

    def _times_until(self, now: int) -> Iterator[int]:
        """The ends that have come."""
        for time in self._ended.times():
            if time > now:
                return
            yield time

    def room_from(self, units: int, capacity: int, start: int, end: int, now: int) -> int | None:
        """The first time from which units fit until the end of a term, if every holding goes at its end; or none."""
        return self._level.within(capacity - units - self._ended.level(now), max(start, now), end)

    def room_comes(self, units: int, capacity: int) -> tuple[int, int]:
        """The time at which units fit, if every holding has begun and goes at its end, and the number to spare then.

        Args:
            units: no more than the capacity.
            capacity: how many there are.
        """
        free = capacity - self._held
        if free >= units:
            return 0, free - units
        time, ended = self._ended.reaches(units - free) or (self._ended.last or 0, self._held)
        return time, free + ended - units

    @classmethod
    def rebuilt(cls, leases: Iterable[Lease]) -> Calendar:
        """The calendar that records make."""
        calendar = cls()
        for lease in leases:
            calendar.note(lease)
        return calendar


def holding_of(lease: Lease) -> Holding | None:
    """Returns what the record of a lease says that it holds: all that its site may still have for it."""
    if lease.state not in ("ticketed", "extending"):
        return None
    return Holding(lease.data["counted"], lease.data["term_end"], lease.data["start"])
