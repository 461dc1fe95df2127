"""A calendar that looks at every holding whenever it is asked: the twin of `Calendar`, as it was at first."""

from __future__ import annotations

from leasehold.impl.lease.calendar import Holding


class NaiveCalendar:
    """The holdings of leases.

    As long as every holding has begun, they only end over the time to come: the most that is held at any time of a term
    is what is held at its beginning. Where some begin later, the times at which they do are looked at.
    """

    def __init__(self) -> None:
        self._holdings: dict[str, Holding] = {}
        self._later: dict[str, Holding] = {}  # those of them that had not begun when they were looked at last
        self._held = 0

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

    def put(self, lease: str, holding: Holding | None) -> None:
        """A lease holds this and nothing else."""
        self._held -= self.of(lease)
        self._holdings.pop(lease, None)
        self._later.pop(lease, None)
        if holding is not None:
            self._holdings[lease] = holding
            self._held += holding.units
            if holding.start:
                self._later[lease] = holding

    def all_begun(self, now: int) -> bool:
        """Returns whether no holding begins later."""
        if self._later:
            self._later = {lease: h for lease, h in self._later.items() if h.start > now}
        return not self._later

    def most(self, start: int, end: int, now: int, without: str = "") -> int:
        """The most units that are held at any time of a term, those of one lease left out."""
        own = self.of(without)
        if start <= now and self.all_begun(now):
            return self._held - own
        holdings = [h for lease, h in self._holdings.items() if lease != without]
        start = max(start, now)
        times = {start, *(h.start for h in self._later.values() if start < h.start < end)}
        return max(sum(h.units for h in holdings if h.start <= at and (at < h.until or h.until <= now)) for at in times)

    def in_the_way(self, start: int, end: int, now: int) -> dict[str, Holding]:
        """Returns the holdings within a term, by lease, in the order in which they end."""
        start = max(start, now)
        holdings = [(lease, h) for lease, h in self._holdings.items() if h.start < end and not now < h.until <= start]
        return dict(sorted(holdings, key=lambda item: (item[1].until, item[0])))

    def room_from(self, units: int, capacity: int, start: int, end: int, now: int) -> int | None:
        """The first time from which units fit until the end of a term, if every holding goes at its end; or none."""
        ends = {h.until for h in self._holdings.values() if start < h.until < end}
        times = sorted({max(start, now), *(at for at in ends if at > now)})
        return next((at for at in times if units + self.most(at, end, now) <= capacity), None)

    def room_comes(self, units: int, capacity: int) -> tuple[int, int]:
        """The time at which units fit, if every holding has begun and goes at its end, and the number to spare then.

        Args:
            units: no more than the capacity.
            capacity: how many there are.
        """
        free, at = capacity - self._held, 0
        for holding in sorted(self._holdings.values(), key=lambda h: h.until):
            if free >= units and holding.until > at:
                break  # the next goes later; those that go at the same time are all to spare
            free, at = free + holding.units, holding.until
        return at, free - units
