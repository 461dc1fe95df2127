"""The stocks of a broker: units of one type at one site, which it may promise from one time until another.

They are in its inventory, where they last, or were delegated to it for a term. A ticket is cut from one stock: for no
more units than it has, of its type, for its site, and for a term within its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from leasehold.impl.core.values import LARGEST
from leasehold.impl.lease.calendar import Calendar, Holding
from leasehold.impl.lease.inventory import Inventory
from leasehold.impl.lease.ticket import properties_of
from leasehold.impl.policy.policy import Lease

MOST_PERIODS = 100  # that an answer to a query has of a pool


@dataclass(frozen=True, slots=True)
class Stock:
    """Units that a broker may promise.

    Attributes:
        type: of the units.
        units: how many there are.
        site: which has them; empty where the broker knows one site only.
        start, end: the term within which they may be promised.
        delegation: of which they are; empty: of the broker's inventory.
        issued: the time at which they were given to the broker; 0: it always had them.
    """

    type: str
    units: int
    site: str = ""
    start: int = 0
    end: int = LARGEST
    delegation: str = ""
    issued: int = 0

    @property
    def source(self) -> tuple[str, str, str]:
        """The site, type and delegation, which tickets say."""
        return self.site, self.type, self.delegation

    @property
    def properties(self) -> dict[str, str]:
        """The properties of the tickets that are cut from it."""
        more = {"authority": self.site, "delegation": self.delegation}
        return {"type": self.type, **{name: value for name, value in more.items() if value}}


def stocks_of(inventory: Inventory, type: str = "") -> tuple[Stock, ...]:
    """The stocks of an inventory, in its order; of one type only, where one is named.

    Raises:
        InventoryError: there is no such type.
    """
    types = (inventory.the_type(type),) if type else inventory.types
    counts: dict[tuple[str, str], int] = {}
    for unit in inventory.units:
        if unit.type in types:
            counts[unit.site, unit.type] = counts.get((unit.site, unit.type), 0) + 1
    return tuple(Stock(of, units, site) for (site, of), units in counts.items())


@dataclass(slots=True, eq=False)
class Pool:
    """A stock, and what was promised of it.

    Attributes:
        calendar: what the records say.
        booked: the same, and what was decided and is in no record yet.
        promised: the leases that something was decided for.
        quiet_until: the time before which nothing is promised, as tickets of which no record is kept may count.
    """

    stock: Stock
    calendar: Calendar = field(default_factory=Calendar)
    booked: Calendar = field(default_factory=Calendar)
    promised: set[str] = field(default_factory=set)
    quiet_until: int = 0

    def room(self, start: int, end: int, now: int, without: str = "") -> int:
        """Returns how many units are free over a whole term, those of one lease counted as free."""
        if now < self.quiet_until or max(start, now) < self.stock.start or end > self.stock.end:
            return 0
        return self.stock.units - self.booked.most(start, end, now, without)

    def free(self, now: int) -> list[dict[str, int]]:
        """Returns how many units are free from when until when, in the order of time; what is not said is not free."""
        first, last = max(now, self.quiet_until, self.stock.start), self.stock.end
        holdings = self.booked.in_the_way(first, last, now).values()
        times = sorted({first, last, *(t for h in holdings for t in (h.start, h.until) if first < t < last)})
        periods: list[dict[str, int]] = []
        for start, end in pairwise(times[: MOST_PERIODS + 1]):
            units = max(0, self.stock.units - self.booked.most(start, start + 1, now))
            if periods and periods[-1]["units"] == units and periods[-1]["until"] == start:
                periods[-1]["until"] = end
            elif units:
                periods.append({"from": start, "until": end, "units": units})
        return periods

    def settle(self, lease: str) -> None:
        """Lets the record of a lease count, and no decision beside it."""
        self.promised.discard(lease)
        self.booked.put(lease, self.calendar.holding(lease))


class Pools:
    """All pools of a broker, by what tickets say of their stock.

    A lease is in the pool that its ticket was cut from. The pool of a stock that is there no more keeps what was
    promised of it, and nothing more is promised.
    """

    def __init__(self, stocks: Iterable[Stock]) -> None:
        self._pools: dict[tuple[str, str, str], Pool] = {}
        self._of_lease: dict[str, Pool] = {}
        self.renew(stocks)

    def __iter__(self) -> Iterator[Pool]:
        return iter(self._pools.values())

    def renew(self, stocks: Iterable[Stock]) -> None:
        """There are these stocks from now on."""
        now = {stock.source: stock for stock in stocks}
        for source, pool in self._pools.items():
            if source not in now:
                pool.stock = Stock(pool.stock.type, 0, pool.stock.site, 0, 0, pool.stock.delegation)
        for source, stock in now.items():
            if source in self._pools:
                self._pools[source].stock = stock
            else:
                self._pools[source] = Pool(stock)

    @property
    def held(self) -> Calendar:
        """All that the records say, in one calendar."""
        if len(self._pools) == 1:
            return next(iter(self)).calendar
        held = Calendar()
        for lease, pool in self._of_lease.items():
            held.put(lease, pool.calendar.holding(lease))
        return held

    def find(self, source: tuple[str, str, str]) -> Pool | None:
        """The pool of a stock, by its site, type and delegation."""
        return self._pools.get(source)

    def of(self, lease: str) -> Pool | None:
        """The pool that the ticket of a lease was cut from; None where it has no ticket."""
        return self._of_lease.get(lease)

    def note(self, lease: Lease, holding: Holding | None) -> Pool | None:
        """Takes a lease as its record says; returns its pool."""
        before = self._of_lease.pop(lease.name, None)
        after = self._said(properties_of(lease.data["properties"])) if holding is not None else None
        if before is not None and before is not after:
            before.calendar.put(lease.name, None)
        if after is not None:
            after.calendar.put(lease.name, holding)
            self._of_lease[lease.name] = after
        return after

    def _said(self, properties: Mapping[str, object]) -> Pool:
        """The pool of a ticket with some properties."""
        site, type, delegation = (str(properties.get(name, "")) for name in ("authority", "type", "delegation"))
        pool = self._pools.get((site, type, delegation))
        if pool is None and not delegation:  # a ticket from a time at which the inventory did not say the site
            pool = next((p for p in self if (p.stock.type == type or not type) and not (site and p.stock.site)), None)
        if pool is None:
            pool = self._pools[site, type, delegation] = Pool(Stock(type, 0, site, 0, 0, delegation))
        return pool
