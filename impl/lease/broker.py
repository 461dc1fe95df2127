"""First come, first served: a broker's policy over an inventory of units of one type.

Theory of operation. Every ticket begins when it is granted, so a request can be granted when as many units are free now
(`Calendar`). Those for which there is no room wait in the order in which they came, and a later one does not overtake
an earlier one, or large requests would wait for ever. With `backfill` a later one may go first where that does not
delay the first that waits: it ends before room comes for that one, or takes only what is to spare then. A request that
waits is denied at its end, and at once where it could never be granted, or where none are to wait (`wait: false`).

An extension is answered at once, as a ticket whose term runs out while its holder waits would be lost (paper, Table 1,
invariant 6). Its holder has the units, so they are its own before anyone's who waits: as many or fewer are granted.
More are granted if they are free and nobody waits for them; otherwise it gets the longer term for what it has.

What is decided counts until the record says what became of it; the calendar itself is the records, and nothing else.
The order of arrival is in no record. After a restart those that wait are taken by their ends, the nearest first, and
before all that come later.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from leasehold.impl.lease.inventory import Inventory
from leasehold.impl.lease.ticket import properties_of
from leasehold.impl.policy.policy import Decision, Lease, Question


@dataclass(frozen=True, slots=True)
class Holding:
    """Units until a time."""

    units: int
    until: int


class Calendar:
    """Which lease holds how much until when, rebuilt from records at any time. Two are equal that hold the same.

    A ticket counts from the moment that it is granted until the broker's record of it is closed, so everything in the
    calendar is held *now*, and over the time to come holdings only end: the most that is held at any time of a term is
    what is held at its beginning. That is why `free` needs no end of a term. Ends are looked at to foresee when room
    comes. A holding whose term is over counts as long as its record says so: the clock of this actor may not have come
    to it yet, and a promise is taken back by a record alone.
    """

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
        holds = lease.state in ("ticketed", "extending")
        self._put(lease.name, Holding(lease.data["units"], lease.data["term_end"]) if holds else None)

    def _put(self, lease: str, holding: Holding | None) -> None:
        self._held -= self.of(lease)
        self._holdings.pop(lease, None)
        if holding is not None:
            self._holdings[lease] = holding
            self._held += holding.units

    def room_comes(self, units: int, capacity: int) -> tuple[int, int]:
        """The time at which units fit, if every holding goes at its end, and the number to spare then.

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


@dataclass(frozen=True, slots=True)
class _Request:
    """A request that waits.

    Attributes:
        question: which asked for it; None after a restart, until it is asked again.
    """

    units: int
    end: int
    question: Question | None


class FirstComeFirstServed:
    """The policy.

    Args:
        inventory: of which it promises units.
        type: of which type, where the inventory has several. A broker arbitrates one.
        wait: whether a request may wait for units.
        backfill: whether a later request may go before one that waits, where that does not delay it.
    """

    quick = True

    def __init__(self, inventory: Inventory, *, type: str = "", wait: bool = True, backfill: bool = False) -> None:
        self.type = inventory.the_type(type)
        self.capacity = len(inventory.numbers(self.type))
        self.calendar = Calendar()
        self._wait, self._backfill = wait, backfill
        self._waiting: dict[str, _Request] = {}
        self._soonest: float = inf  # no request that waits, and has been asked, ends before
        self._recovered: dict[str, _Request] = {}
        self._promised: dict[str, tuple[int, Decision]] = {}  # what was decided beyond the calendar, and the decision
        self._more = 0  # the sum of it

    @property
    def free(self) -> int:
        """Units that are neither on a ticket nor promised by a decision that is on its way."""
        return self.capacity - self.calendar.held - self._more

    @property
    def waiting(self) -> tuple[str, ...]:
        """The leases whose requests wait, in their order."""
        return tuple(self._waiting)

    def recovered(self, lease: Lease) -> None:
        self.calendar.note(lease)
        if lease.state == "ticketing":
            self._recovered[lease.name] = _Request(lease.data["requested_units"], lease.data["requested_end"], None)

    def begin(self, question: Question, now: int) -> Iterable[Decision]:
        self._settle()
        lease = question.lease
        self.calendar.note(lease)
        extends = question.call == "extend"
        asked = _Request(lease.data["requested_units"], lease.data["requested_end"], question)
        before = self._decided(lease.name)
        if asked.units > self.capacity or now >= (lease.data["term_end"] if extends else asked.end):
            self._waiting.pop(lease.name, None)
            return [question.answer("denied"), *self._serve(now)]
        if before is not None and before.state_epoch == question.state_epoch:
            return [self._promise(lease, before)]
        if extends:
            return [self._extension(question, asked.units), *self._serve(now)]
        self._waiting[lease.name] = asked  # one that is asked again keeps its place
        self._soonest = min(self._soonest, asked.end)
        decisions = self._serve(now)
        if not self._wait and lease.name in self._waiting:
            del self._waiting[lease.name]
            decisions = [*decisions, question.answer("denied")]
        return decisions

    def changed(self, lease: Lease, now: int) -> Iterable[Decision]:
        self._settle()
        self.calendar.note(lease)
        if lease.state not in ("ticketing", "extending"):
            self._decided(lease.name)
        if lease.state != "ticketing":
            self._waiting.pop(lease.name, None)
        return self._serve(now)

    def tick(self, now: int) -> Iterable[Decision]:
        self._settle()
        over: list[tuple[str, Question]] = []
        if now >= self._soonest:
            over = [(name, r.question) for name, r in self._waiting.items() if now >= r.end and r.question is not None]
            for name, _ in over:
                del self._waiting[name]
            self._soonest = min((r.end for r in self._waiting.values()), default=inf)
        return [*(question.answer("denied") for _, question in over), *self._serve(now)]

    def _settle(self) -> None:
        """Ends the recovery: what was told in any order gets one."""
        self._waiting.update(sorted(self._recovered.items(), key=lambda item: (item[1].end, item[0])))
        self._recovered = {}

    def _serve(self, now: int) -> list[Decision]:
        decisions: list[Decision] = []
        served: list[str] = []
        first: _Request | None = None  # the first that has to wait
        for name, request in self._waiting.items():
            if now >= request.end:
                continue  # the next tick takes it away
            question, fits = request.question, request.units <= self.free
            if question is not None and fits and (first is None or self._goes_before(request, first)):
                served.append(name)
                decisions.append(self._promise(question.lease, self._grant(question, request.units)))
            else:
                first = first or request
                if not self._backfill:
                    break
        for name in served:
            del self._waiting[name]
        return decisions

    def _goes_before(self, later: _Request, first: _Request) -> bool:
        if self._promised:
            return False  # what is decided is not in the calendar yet, so it cannot foresee
        comes, spare = self.calendar.room_comes(first.units, self.capacity)
        return later.end <= comes or later.units <= spare

    def _extension(self, question: Question, wanted: int) -> Decision:
        held = self.calendar.of(question.lease.name)
        if wanted - held > self.free or self._waiting:
            wanted = min(wanted, held)
        if wanted - held > self.free:  # only where more is promised than there is: the inventory was larger once
            return question.answer("denied")
        return self._promise(question.lease, self._grant(question, wanted))

    def _promise(self, lease: Lease, decision: Decision) -> Decision:
        more = max(0, decision.fields["units"] - self.calendar.of(lease.name))
        self._promised[lease.name] = (more, decision)
        self._more += more
        return decision

    def _decided(self, lease: str) -> Decision | None:
        """Drops the decision for a lease, which counts no more beside its record."""
        more, decision = self._promised.pop(lease, (0, None))
        self._more -= more
        return decision

    def _grant(self, question: Question, units: int) -> Decision:
        before = properties_of(question.lease.data["properties"]).get("ticket", 0)
        told = {"ticket": before + 1, "type": self.type}
        return question.answer("granted", units=units, properties=told)
