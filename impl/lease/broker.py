"""First come, first served: a broker's policy over an inventory of units of one type.

Theory of operation. A request can be granted when as many units are free over its whole term (`Calendar`), which begins
now or later (advance reservation). Those for which there is no room wait in the order in which they came, and a later
one does not overtake an earlier one, or large requests would wait for ever. With `backfill` a later one may go first
where that does not delay the first that waits: it ends before room comes for that one, or takes only what is to spare
then. A request that waits is denied in the last tick of its term, so that its holder hears why before its own clock
ends it; and at once where it could never be granted, or where none are to wait (`wait: false`). Whoever is denied is
told why, and who waits is told on request (`undecided`): who is before it, who has the units, and when room comes.

An extension is answered at once, as a ticket whose term runs out while its holder waits would be lost (paper, Table 1,
invariant 6). Its holder has the units, so they are its own before anyone's who waits: as many or fewer are granted.
More are granted if they are free and nobody waits for them; otherwise it gets the longer term for what it has, unless
that is reserved by others.

A ticket that has become smaller counts as before until the broker hears that the lease has become smaller, too
(`counted` of the record): the site may still hold the units.

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
from leasehold.impl.policy.policy import Decision, Lease, Question, Undecided
from leasehold.impl.words import counted

NAMED = 3  # leases that are named as those that have what a request waits for


@dataclass(frozen=True, slots=True)
class Holding:
    """Units from one time until another."""

    units: int
    until: int
    start: int = 0


class Calendar:
    """The holdings of leases: how much each holds from when until when, rebuilt from records at any time.

    Two are equal that hold the same. A ticket counts from the moment that it is granted until the broker's record of it
    is closed. A holding whose term is over counts as long as its record says so: the clock of this actor may not have
    come to it yet, and a promise is taken back by a record alone.

    As long as every holding has begun, they only end over the time to come: the most that is held at any time of a term
    is what is held at its beginning. Where some begin later, the times at which they do are looked at.
    """

    def __init__(self) -> None:
        self._holdings: dict[str, Holding] = {}
        self._later: dict[str, Holding] = {}  # those of them that had not begun when they were looked at last
        self._held = 0

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


@dataclass(frozen=True, slots=True)
class _Request:
    """A request that waits.

    Attributes:
        question: which asked for it; None after a restart, until it is asked again.
    """

    units: int
    start: int
    end: int
    question: Question | None

    @classmethod
    def of(cls, lease: Lease, question: Question | None) -> _Request:
        data = lease.data
        return cls(data["requested_units"], data["requested_start"], data["requested_end"], question)


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
        self._booked = Calendar()  # the calendar, and what was decided and is in no record yet
        self._wait, self._backfill = wait, backfill
        self._waiting: dict[str, _Request] = {}
        self._soonest: float = inf  # no request that waits, and has been asked, ends before
        self._recovered: dict[str, _Request] = {}
        self._promised: dict[str, Decision] = {}

    @property
    def free(self) -> int:
        """Units that are neither on a ticket nor promised by a decision that is on its way."""
        return self.capacity - self._booked.held

    @property
    def waiting(self) -> tuple[str, ...]:
        """The leases whose requests wait, in their order."""
        return tuple(self._waiting)

    def recovered(self, lease: Lease) -> None:
        self._note(lease)
        if lease.state == "ticketing":
            self._recovered[lease.name] = _Request.of(lease, None)

    def begin(self, question: Question, now: int) -> Iterable[Decision]:
        self._settle()
        lease = question.lease
        self._note(lease)
        extends = question.call == "extend"
        asked = _Request.of(lease, question)
        before = self._decided(lease)
        impossible = self._impossible(lease, asked, now)
        if impossible:
            self._waiting.pop(lease.name, None)
            return [_deny(question, impossible), *self._serve(now)]
        if before is not None and before.state_epoch == question.state_epoch:
            return [self._promise(lease, before)]
        if extends:
            return [self._extension(question, asked, now), *self._serve(now)]
        self._waiting[lease.name] = asked  # one that is asked again keeps its place
        self._soonest = min(self._soonest, asked.end)
        decisions = self._serve(now)
        if not self._wait and lease.name in self._waiting:
            del self._waiting[lease.name]
            decisions = [
                *decisions,
                _deny(question, f"no {asked.units} units are free, and this broker lets none wait"),
            ]
        return decisions

    def changed(self, lease: Lease, now: int) -> Iterable[Decision]:
        self._settle()
        self._note(lease)
        if lease.state not in ("ticketing", "extending"):
            self._decided(lease)
        if lease.state != "ticketing":
            self._waiting.pop(lease.name, None)
        return self._serve(now)

    def tick(self, now: int) -> Iterable[Decision]:
        self._settle()
        served = self._serve(now)
        if now < self._soonest - 1:
            return served
        over = [(r, r.question) for r in self._waiting.values() if now >= r.end - 1 and r.question is not None]
        late = [
            _deny(question, f"no units came free before the end of the term: {self._in_its_way(r, now)}")
            for r, question in over
        ]
        for _, question in over:
            del self._waiting[question.lease.name]
        self._soonest = min((r.end for r in self._waiting.values()), default=inf)
        return [*served, *late, *self._serve(now)]

    def undecided(self, lease: str, now: int) -> Undecided | None:
        """Returns what a request that waits waits for; the end of its term is when it is denied."""
        request = self._waiting.get(lease)
        if request is None:
            return None
        before, first = next(iter(self._waiting.items()))
        if first is not request and not self._backfill:
            return Undecided(f"{before} came before it: {self._in_its_way(first, now)}", request.end)
        reason = self._in_its_way(request, now)
        room = self._booked.room_from(request.units, self.capacity, request.start, request.end, now)
        if room is None:
            reason += "; no room comes before the end of its term unless one of these ends early"
        return Undecided(reason, request.end if room is None else room)

    def _in_its_way(self, request: _Request, now: int) -> str:
        """Returns, in words, which leases have the units that a request waits for."""
        holdings = self._booked.in_the_way(request.start, request.end, now)
        named = [
            f"{lease} has {h.units} {f'from tick {h.start} ' if h.start > now else ''}until tick {h.until}"
            for lease, h in list(holdings.items())[:NAMED]
        ]
        more = [f"{len(holdings) - NAMED} more leases have others"] if len(holdings) > NAMED else []
        wanted = f"it wants {request.units} of {counted(self.capacity, 'unit')}"
        return ", ".join([wanted, *named, *more])

    def _settle(self) -> None:
        """Ends the recovery: what was told in any order gets one."""
        self._waiting.update(sorted(self._recovered.items(), key=lambda item: (item[1].end, item[0])))
        self._recovered = {}

    def _note(self, lease: Lease) -> None:
        self.calendar.note(lease)
        if lease.name not in self._promised:
            self._booked.put(lease.name, self.calendar.holding(lease.name))

    def _impossible(self, lease: Lease, asked: _Request, now: int) -> str:
        """Returns why a request can never be granted; empty where it may be."""
        wanted = lease.data["type"]
        if wanted and wanted != self.type:
            return f"this broker has units of type {self.type}, and not of {str(wanted)[:60]}"
        if lease.state == "extending":  # of more units than there are it gets those that it has, as of others
            return "the ticket has ended" if now >= lease.data["term_end"] else ""
        if asked.units > self.capacity:
            return f"there are {self.capacity} units of type {self.type}, and {asked.units} were asked for"
        if now >= asked.end:
            return "the term that was asked for has ended"
        return "" if asked.start < asked.end else f"a term cannot begin at {asked.start} and end at {asked.end}"

    def _serve(self, now: int) -> list[Decision]:
        decisions: list[Decision] = []
        served: list[str] = []
        first: _Request | None = None  # the first that has to wait
        for name, request in self._waiting.items():
            if now >= request.end:
                continue  # the next tick takes it away
            question = request.question
            fits = request.units + self._booked.most(request.start, request.end, now) <= self.capacity
            if question is not None and fits and (first is None or self._goes_before(request, first, now)):
                served.append(name)
                decisions.append(self._promise(question.lease, _grant(question, request.units, self.type)))
            else:
                first = first or request
                if not self._backfill:
                    break
        for name in served:
            del self._waiting[name]
        return decisions

    def _goes_before(self, later: _Request, first: _Request, now: int) -> bool:
        if self._promised or not self.calendar.all_begun(now):
            return False  # it cannot be foreseen when room comes
        comes, spare = self.calendar.room_comes(first.units, self.capacity)
        return later.end <= comes or later.units <= spare

    def _extension(self, question: Question, asked: _Request, now: int) -> Decision:
        lease = question.lease
        current = self.calendar.of(lease.name)
        room = self.capacity - self._booked.most(now, asked.end, now, lease.name)
        wanted = min(asked.units, current) if self._waiting or asked.units > room else asked.units
        if max(wanted, current) > room:  # a smaller ticket counts as before, as the site may not hear of it in time
            return _deny(question, f"all units of type {self.type} are promised to others before {asked.end}")
        reason = ""
        if wanted < asked.units:
            few = "others wait for units" if self._waiting else f"{room} units are free until {asked.end}"
            reason = f"{asked.units} units of type {self.type} were asked for, and {few}"
        return self._promise(lease, _grant(question, wanted, self.type, reason))

    def _promise(self, lease: Lease, decision: Decision) -> Decision:
        data, units = lease.data, decision.fields["units"]
        start = data["start"] if lease.state == "extending" else data["requested_start"]
        self._promised[lease.name] = decision
        more = max(units, self.calendar.of(lease.name))
        self._booked.put(lease.name, Holding(more, data["requested_end"], start))
        return decision

    def _decided(self, lease: Lease) -> Decision | None:
        """Drops the decision for a lease, which counts no more beside its record."""
        decision = self._promised.pop(lease.name, None)
        self._booked.put(lease.name, self.calendar.holding(lease.name))
        return decision


def _grant(question: Question, units: int, type: str, reason: str = "") -> Decision:
    """A ticket for the term that was asked for."""
    before = properties_of(question.lease.data["properties"]).get("ticket", 0)
    properties = {"ticket": before + 1, "type": type}
    return question.answer("granted", units=units, later=0, longer=0, properties=properties, reason=reason)


def _deny(question: Question, reason: str) -> Decision:
    return question.answer("denied", reason=reason)
