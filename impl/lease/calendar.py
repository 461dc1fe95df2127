"""Who holds how much until when: a broker's calendar, rebuilt from its records at any time.

Theory of operation. A ticket counts from the moment that it is granted until the broker's record of it is closed, so
everything in the calendar is held *now*, and over the time to come holdings only end: the most that is held at any time
of a term is what is held at its beginning. That is why `free` needs no end of a term. Ends are looked at to foresee
when room comes. A holding whose term is over counts as long as its record says so: the clock of this actor may not have
come to it yet, and a promise is taken back by a record alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from leasehold.impl.policy.policy import Lease


@dataclass(frozen=True, slots=True)
class Holding:
    """Units until a time."""

    units: int
    until: int


class Calendar:
    """Holdings by lease. Two are equal that hold the same."""

    def __init__(self) -> None:
        self._holdings: dict[str, Holding] = {}
        self._held = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Calendar) and self._holdings == other._holdings and self._held == other._held

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Calendar({self._holdings})"

    @property
    def held(self) -> int:
        """How many units are held now, over all leases."""
        return self._held

    def of(self, lease: str) -> int:
        """How many units a lease holds."""
        holding = self._holdings.get(lease)
        return holding.units if holding else 0

    def note(self, lease: Lease) -> None:
        """Takes a lease as its record says."""
        holds = lease.state in ("ticketed", "extending") and lease.data["units"] > 0
        self._put(lease.name, Holding(lease.data["units"], lease.data["term_end"]) if holds else None)

    def _put(self, lease: str, holding: Holding | None) -> None:
        self._held -= self.of(lease)
        self._holdings.pop(lease, None)
        if holding is not None:
            self._holdings[lease] = holding
            self._held += holding.units

    def room_comes(self, units: int, capacity: int) -> tuple[int, int]:
        """When there is room for units if every holding goes at its end, and how many are to spare then.

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

    @classmethod
    def rebuilt(cls, leases: Iterable[Lease]) -> Calendar:
        """The calendar that records make."""
        calendar = cls()
        for lease in leases:
            calendar.note(lease)
        return calendar
