"""The part that the policies of brokers share: what was promised of which stock, and who waits.

Theory of operation. A request can be granted when as many units of its type are free over its whole term at one site
(`Pool`): at the site that it names, or at one of those that its holder can reach. The term begins now or later (advance
reservation). A request may be content with fewer units, and, where the specification's `other_terms` lets a broker
grant them, with a term that ends sooner or begins later (G, Table 3); it gets as much as there is, or the first term
that there is room for. The rest wait; whom a policy serves first is its own (`order`), and none that comes later in
that order takes what an earlier one waits for, or large requests would wait for ever. With `backfill` a later one may
go first where that does not delay the first that waits: it ends before room comes for that one, or takes only what is
to spare then. A request that waits is denied in the last tick of its term, so that its holder hears why before its own
clock ends it; and at once where it could never be granted, or where none are to wait (`wait: false`). Whoever is denied
is told why, and who waits is told on request (`undecided`): who is before it, who has the units, and when room comes.

An extension is answered at once, as a ticket whose term runs out while its holder waits would be lost (paper, Table 1,
invariant 6). Its holder has the units, so they are its own before anyone's who waits: as many or fewer are granted.
More are granted if they are free and nobody waits for them; otherwise it gets the longer term for what it has, unless
that is reserved by others. The units stay where they are: another stock of the same site and type will do, where the
first ends too soon.

A ticket that has become smaller counts as before until the broker hears that the lease has become smaller, too
(`counted` of the record): the site may still hold the units.

A broker whose store is new may have issued tickets of which it knows nothing. So of units that it had before (S: a
lost server is waited out) it promises nothing until each of these is over: until the longest term that it grants
(`longest_term`) has passed or, of units that were delegated to it, until the term of their delegation ends. Requests
wait meanwhile. That no unit is used twice then is proved of the system `grace_period`.

Each record has the turn of its last question, so after a restart those that wait are taken in the order in which they
came.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

from leasehold.impl.core.values import LARGEST
from leasehold.impl.lease.calendar import Calendar, Holding, holding_of
from leasehold.impl.lease.delegations import Delegated, Delegations, FolderFault
from leasehold.impl.lease.inventory import Inventory
from leasehold.impl.lease.stock import Pool, Pools, Stock, stocks_of
from leasehold.impl.lease.ticket import properties_of
from leasehold.impl.policy.directory import Directory
from leasehold.impl.policy.policy import Decision, Lease, Question, Undecided
from leasehold.impl.words import counted

REQUEST_PROPERTIES = ("site", "sites", "least_units")  # that it understands
OTHER_TERMS = ("least_ticks", "latest_start")  # where it may grant other terms
log = logging.getLogger("leasehold.broker")

NAMED = 3  # leases that are named as those that have what a request waits for


@dataclass(frozen=True, slots=True)
class Request:
    """A request for a ticket.

    Attributes:
        lease: for which lease.
        units: how many units are asked for.
        start, end: the term that is asked for.
        type: of the units; empty where the broker has one type only.
        sites: at one of which they are to be; None: at any.
        least: units with which it is content.
        least_ticks: of a term with which it is content; 0: of the whole one.
        latest_start: until when its term may begin; 0: it begins as is asked for.
        properties: the request properties.
        question: which asked for it; None after a restart, until it is asked again.
    """

    lease: str
    units: int
    start: int
    end: int
    type: str
    sites: tuple[str, ...] | None
    least: int
    least_ticks: int
    latest_start: int
    properties: dict[str, object]
    question: Question | None

    @classmethod
    def of(cls, lease: Lease, question: Question | None) -> Request:
        """The request of a record that waits for its policy."""
        data, properties = lease.data, properties_of(lease.data["request"])
        site, sites = properties.get("site"), properties.get("sites")
        reached = tuple(str(one) for one in sites) if isinstance(sites, list | tuple) else None
        return cls(
            lease.name,
            data["requested_units"],
            data["requested_start"],
            data["requested_end"],
            str(data["type"] or "")[:60],
            (str(site)[:64],) if site else reached,
            min(number_among(properties, "least_units") or data["requested_units"], data["requested_units"]),
            number_among(properties, "least_ticks") or 0,
            number_among(properties, "latest_start") or 0,
            properties,
            question,
        )


class TicketOffer(NamedTuple):
    """The units and the term that a pool has for a request."""

    units: int
    start: int
    end: int


class Arbiter:
    """A broker's policy, but for the order in which requests are served.

    Args:
        inventory: of which it promises units.
        type: the only type that it promises; left out: all that there are.
        wait: whether a request may wait for units.
        backfill: whether a later request may go before one that waits, where that does not delay it.
        longest_term: ticks from now until the end of a term, at most; a broker with a new store promises nothing of its
            inventory for as long. 0: there is no longest term, and the operator sees to it that it was not used before.
        other_terms: whether it may grant other terms than are asked for; a constant of the specification.
        clock_margin: ticks that the clock of a site may be ahead of the broker's; a constant of the specification.
        directory: the actors that the broker trusts; left out: tickets name no site.
        delegations: units that others have handed on to the broker, besides those of the inventory.
    """

    quick = False
    decides = frozenset({"allocate", "extend"})
    reads: tuple[str, ...] = ()  # request properties that the order of a policy depends on

    def __init__(
        self,
        inventory: Inventory,
        *,
        type: str = "",
        wait: bool = True,
        backfill: bool = False,
        longest_term: int = 0,
        other_terms: bool = False,
        clock_margin: int = 0,
        directory: Directory | None = None,
        delegations: Delegations | None = None,
    ) -> None:
        self._configured, self._type, self._delegations = stocks_of(inventory, type), type, delegations
        self._delegated: tuple[Delegated, ...] = ()
        self.pools = Pools(self._configured)
        self._wait, self._backfill, self._directory = wait, backfill, directory
        if isinstance(longest_term, bool) or not isinstance(longest_term, int) or longest_term < 0:
            raise ValueError(f"longest_term is {longest_term!r:.40}; it has to be a number of ticks, or 0 for none")
        self._longest, self._margin, self._other_terms = longest_term, clock_margin, other_terms
        self._since: int | None = None
        self._waiting: dict[str, Request] = {}
        self._soonest: float = inf  # no request that waits, and has been asked, ends before
        self._recovered: dict[tuple[int, int, str], Request] = {}  # by their turns; those of before there were, by end
        self._promised: dict[str, tuple[Decision, Pool]] = {}

    # To be said by a policy

    def order(self, now: int) -> Iterable[Request]:
        """The requests that wait, in the order in which they are served; read one by one, while they are.

        One that is left out waits for something else than units, and is in nobody's way.
        """
        raise NotImplementedError

    def unfit(self, asked: Request) -> str:
        """Returns, in words, which request property is not as this policy reads it; empty where they all are."""
        return ""

    def limit(self, lease: Lease, asked: Request, now: int) -> tuple[int, str]:
        """The most units that an extension is given, if they are free, and in words why no more."""
        return asked.units, ""

    def held_up(self, request: Request, now: int) -> str:
        """Returns, in words, what a request that `order` leaves out waits for; empty where it is not left out."""
        return ""

    def local(self, lease: Lease, asked: Request, offer: TicketOffer, now: int) -> dict[str, Any]:
        """Returns the fields that a record keeps for this policy with the ticket that is granted now; empty: none."""
        return {}

    # What is known

    @property
    def capacity(self) -> int:
        """The number of units of all stocks."""
        return sum(pool.stock.units for pool in self.pools)

    @property
    def calendar(self) -> Calendar:
        """All that was promised, as the records say."""
        return self.pools.held

    @property
    def free(self) -> int:
        """Units that are neither on a ticket nor promised by a decision that is on its way."""
        return self.capacity - sum(pool.booked.held for pool in self.pools)

    @property
    def waiting(self) -> tuple[str, ...]:
        """The leases whose requests wait, in the order in which they came."""
        return tuple(self._waiting)

    # The interface of a policy

    def opened(self, since: int | None) -> None:
        self._since = since
        self._wait_out()

    def recovered(self, lease: Lease) -> None:
        self._note(lease)
        if lease.state == "ticketing":
            self._recovered[lease.turn, lease.data["requested_end"], lease.name] = Request.of(lease, None)

    def begin(self, question: Question, now: int) -> Iterable[Decision]:
        self._settle()
        lease = question.lease
        self._note(lease)
        asked = Request.of(lease, question)
        before = self._decided(lease.name)
        impossible = self._impossible(lease, asked, now)
        if impossible:
            self._waiting.pop(lease.name, None)
            return [_deny(question, impossible), *self._serve(now)]
        if before is not None and before[0].state_epoch == question.state_epoch:
            return [self._promise(lease, *before)]
        if question.call == "extend":
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
            self._decided(lease.name)
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
            _deny(
                question,
                self.held_up(r, now) or f"no units came free before the end of the term: {self._in_its_way(r, now)}",
            )
            for r, question in over
        ]
        for request, _ in over:
            del self._waiting[request.lease]
        self._soonest = min((r.end for r in self._waiting.values()), default=inf)
        return [*served, *late, *self._serve(now)]

    def undecided(self, lease: str, now: int) -> Undecided | None:
        """Returns what a request that waits waits for; the end of its term is when it is denied."""
        request = self._waiting.get(lease)
        if request is None:
            return None
        if reason := self.held_up(request, now):
            return Undecided(reason, request.end)
        wanted = self._eligible(request)
        before = next((other for other in self.order(now) if set(self._eligible(other)) & set(wanted)), request)
        if before is not request and not self._backfill:
            return Undecided(f"{before.lease} came before it: {self._in_its_way(before, now)}", request.end)
        reason = self._in_its_way(request, now)
        if wanted and (quiet := min(pool.quiet_until for pool in wanted)) > now:
            return Undecided(reason, min(quiet, request.end))
        rooms = [
            pool.booked.room_from(request.least, pool.stock.units, request.start, request.end, now)
            for pool in wanted
            if request.least <= pool.stock.units
        ]
        room = min((at for at in rooms if at is not None), default=None)
        if room is None:
            reason += "; no room comes before the end of its term unless one of these ends early"
        return Undecided(reason, request.end if room is None else room)

    def _in_its_way(self, request: Request, now: int) -> str:
        """Returns, in words, which leases have the units that a request waits for."""
        pools = self._eligible(request)
        if pools and (quiet := min(pool.quiet_until for pool in pools)) > now:
            new = f"the broker's store is new since tick {self._since}, and tickets that it may have issued before"
            return f"{new} count until tick {quiet}"
        found = [pool.booked.soonest_in_the_way(request.start, request.end, now, NAMED) for pool in pools]
        holdings = {lease: holding for some, _ in found for lease, holding in some.items()}
        first = sorted(holdings.items(), key=lambda item: (item[1].until, item[0]))[:NAMED]
        others = sum(number for _, number in found) - len(first)
        named = [
            f"{lease} has {h.units} {f'from tick {h.start} ' if h.start > now else ''}until tick {h.until}"
            for lease, h in first
        ]
        more = [f"{others} more leases have others"] if others > 0 else []
        most = max((pool.stock.units for pool in pools), default=0)
        where = f" at one of {', '.join(pool.stock.site for pool in pools)}" if len(pools) > 1 else ""
        return ", ".join([f"it wants {request.units} of {counted(most, 'unit')}{where}", *named, *more])

    def query(self, now: int) -> dict[str, Any]:
        inventory = [
            {
                "type": pool.stock.type,
                "site": self._site(pool.stock),
                "units": pool.stock.units,
                "from": pool.stock.start,
                "until": pool.stock.end,
                "free": pool.free(now),
            }
            for pool in self.pools
            if pool.stock.units
        ]
        return {
            "inventory": inventory,
            "partitionable": False,  # units are whole
            "call_interval": 0,  # it decides at once
            "advance_time": 0,  # and on any term that has not begun
            "longest_term": self._longest,
            "request_properties": [*REQUEST_PROPERTIES, *self.reads, *(OTHER_TERMS if self._other_terms else ())],
            "waiting": len(self._waiting),
        }

    # Bookkeeping

    def _look_at_delegations(self) -> None:
        """Takes the units that were handed on to the broker as they are now.

        Of those that are called back nothing more is promised; once no ticket is out that was cut from them, that is
        said.
        """
        if self._delegations is None:
            return
        try:
            stocks, called_back = self._delegations.stocks, self._delegations.called_back
        except FolderFault as fault:
            log.error("the delegations are as they were before: %s", fault)
            return
        if stocks != self._delegated:
            self._delegated = stocks
            handed_on = [
                Stock(one.type, one.units, one.site, one.start, one.end, one.name, one.start)
                for one in stocks
                if self._type in ("", one.type)
            ]
            self.pools.renew([*self._configured, *handed_on])
            self._wait_out()
        for one in called_back:
            pool = self.pools.find((one.site, one.type, one.name))
            if pool is None or not (pool.promised or pool.booked.held):
                self._delegations.withdrawn(one.name)

    def _wait_out(self) -> None:
        """Stocks that the broker had before its store was new are quiet until what it may have promised is over."""
        for pool in self.pools:
            stock = pool.stock
            if self._since is None or stock.issued > self._since + self._margin:
                pool.quiet_until = 0
            elif stock.delegation:
                pool.quiet_until = min(stock.end, self._since + self._longest) if self._longest else stock.end
            else:
                pool.quiet_until = self._since + self._longest

    def _settle(self) -> None:
        """Ends the recovery: what was told in any order gets one; and takes the delegations as they are now."""
        self._look_at_delegations()
        if self._recovered:
            self._waiting.update({request.lease: request for _, request in sorted(self._recovered.items())})
            self._recovered = {}

    def _note(self, lease: Lease) -> None:
        promised = self._promised.get(lease.name)
        for pool in (self.pools.of(lease.name), self.pools.note(lease, holding_of(lease))):
            if pool is not None and (promised is None or promised[1] is not pool):
                pool.settle(lease.name)

    def _promise(self, lease: Lease, decision: Decision, pool: Pool) -> Decision:
        data, fields = lease.data, decision.fields
        units, end = fields["units"], data["requested_end"] + fields["longer"]
        start = data["start"] if lease.state == "extending" else data["requested_start"] + fields["later"]
        self._promised[lease.name] = decision, pool
        pool.promised.add(lease.name)
        before = self.pools.of(lease.name)
        more = max(units, before.calendar.of(lease.name) if before is not None else 0)
        pool.booked.put(lease.name, Holding(more, end, start))
        return decision

    def _decided(self, lease: str) -> tuple[Decision, Pool] | None:
        """Drops the decision for a lease, which counts no more beside its record."""
        decided = self._promised.pop(lease, None)
        for pool in (self.pools.of(lease), decided[1] if decided is not None else None):
            if pool is not None:
                pool.settle(lease)
        return decided

    # Deciding

    def _eligible(self, request: Request) -> list[Pool]:
        """The pools that a request may be served from, whether they have room or not."""
        pools = [pool for pool in self.pools if pool.stock.units and request.type in ("", pool.stock.type)]
        return [pool for pool in pools if request.sites is None or self._site(pool.stock) in (*request.sites, "")]

    def _site(self, stock: Stock) -> str:
        """The site of a stock; empty where it is not known yet."""
        return stock.site or (self._directory.player("authority") if self._directory is not None else "")

    def _impossible(self, lease: Lease, asked: Request, now: int) -> str:
        """Returns why a request can never be granted; empty where it may be."""
        if unfit := self.unfit(asked):
            return unfit
        types = list(dict.fromkeys(pool.stock.type for pool in self.pools if pool.stock.units))
        type = asked.type or (types[0] if len(types) == 1 else "")
        if lease.state == "extending":  # of more units than there are it gets those that it has, as of others
            return "the ticket has ended" if now >= lease.data["term_end"] else self._too_long(asked, now)
        if not types:
            return "this broker has no units"
        if type and type not in types:
            return f"this broker has units of type {', '.join(types)}, and not of {type}"
        if not type:
            return f"this broker has units of several types ({', '.join(types)}); say which are wanted"
        pools = self._eligible(asked)
        if not pools:
            return self._elsewhere(asked, type)
        if self._directory is not None and not any(self._site(pool.stock) for pool in pools):
            return f"it is not known which site has the units of type {type}; the broker's inventory has to say it"
        most = max(pool.stock.units for pool in pools)
        if asked.least > most:
            at_one = " at one site" if len(pools) > 1 else ""
            return f"there are {most} units of type {type}{at_one}, and {asked.least} were asked for"
        if not self._other_terms and (asked.least_ticks or asked.latest_start):
            return "this broker grants no other terms than are asked for; the constant `other_terms` would let it"
        if now >= asked.end:
            return "the term that was asked for has ended"
        if asked.start >= asked.end:
            return f"a term cannot begin at {asked.start} and end at {asked.end}"
        if too_long := self._too_long(asked, now):
            return too_long
        last = max((pool.stock.end for pool in pools if pool.stock.units >= asked.least), default=0)
        first = min((pool.stock.start for pool in pools if pool.stock.units >= asked.least), default=0)
        if asked.least_ticks or asked.latest_start:
            return ""
        if asked.end > last or max(asked.start, now) < first:
            return f"the units of type {type} are this broker's from tick {first} until {last}"
        return ""

    def _too_long(self, asked: Request, now: int) -> str:
        if not self._longest or asked.end <= now + self._longest:
            return ""
        return (
            f"this broker grants no term beyond {self._longest} ticks from now, and one until {asked.end} was asked for"
        )

    def _elsewhere(self, asked: Request, type: str) -> str:
        """Returns why no site that a request may be served at has units of its type."""
        sites = list(dict.fromkeys(self._site(p.stock) for p in self.pools if p.stock.type == type and p.stock.units))
        wanted = ", ".join(asked.sites or ()) or "none"
        return f"this broker has units of type {type} at {', '.join(sites)}, and the holder can have them at {wanted}"

    def _serve(self, now: int) -> list[Decision]:
        decisions: list[Decision] = []
        first: dict[Pool, Request] = {}  # those that have to wait, by the pool that they wait for
        for request in self.order(now):
            if now >= request.end:
                continue  # the next tick takes it away
            pools = self._eligible(request)
            fit = [
                (offer, pool.room(offer.start, offer.end, now), pool)
                for pool in pools
                if (offer := self._offer(pool, request, now)) is not None
                and (pool not in first or self._goes_before(offer, first[pool], pool, now))
            ]
            if request.question is not None and fit:
                del self._waiting[request.lease]
                offer, _, pool = max(fit, key=lambda one: (one[0].units, -one[0].start, one[0].end, one[1]))
                grant = self._grant(request.question, request, offer, pool.stock, now)
                decisions.append(self._promise(request.question.lease, grant, pool))
            else:
                for pool in pools:
                    first.setdefault(pool, request)
                if not self._backfill and all(pool in first for pool in self.pools if pool.stock.units):
                    break
        return decisions

    def _offer(self, pool: Pool, request: Request, now: int) -> TicketOffer | None:
        """The best that a pool has for a request; None: not even the least with which it is content."""
        whole = TicketOffer(request.units, request.start, request.end)
        if (offer := self._at_most(pool, whole, request.least, now)) is not None:
            return offer
        return next(
            (
                offer
                for other in self._other_offers(pool, request, now)
                if (offer := self._at_most(pool, other, request.least, now)) is not None
            ),
            None,
        )

    @staticmethod
    def _other_offers(pool: Pool, request: Request, now: int) -> Iterator[TicketOffer]:
        """Yields the other terms with which a request is content, the better ones first: as soon, as long as can be."""
        begins, ticks = max(request.start, now), request.end - request.start
        if request.latest_start:
            holdings = pool.booked.in_the_way(begins, request.latest_start + ticks, now).values()
            for start in sorted({h.until for h in holdings if begins < h.until <= request.latest_start}):
                yield TicketOffer(request.units, start, start + ticks)
        if request.least_ticks:
            holdings = pool.booked.in_the_way(begins, request.end, now).values()
            ends = {pool.stock.end, *(h.start for h in holdings)}
            for end in sorted((e for e in ends if begins + request.least_ticks <= e < request.end), reverse=True):
                yield TicketOffer(request.units, request.start, end)

    @staticmethod
    def _at_most(pool: Pool, wanted: TicketOffer, least: int, now: int) -> TicketOffer | None:
        """Returns as much of an offer as there is, if it is enough."""
        room = pool.room(wanted.start, wanted.end, now)
        return wanted._replace(units=min(wanted.units, room)) if room >= least else None

    def _goes_before(self, later: TicketOffer, first: Request, pool: Pool, now: int) -> bool:
        if not self._backfill or pool.promised or not pool.calendar.all_begun(now):
            return False  # else it cannot be foreseen when room comes
        if first.least > pool.stock.units:
            return True  # it waits for another pool
        comes, spare = pool.calendar.room_comes(first.least, pool.stock.units)
        return later.end <= comes or later.units <= spare

    def _waited_for(self) -> set[Pool]:
        """The pools that a request waits for."""
        pools: set[Pool] = set()
        for request in self._waiting.values():
            pools.update(self._eligible(request))
            if len(pools) == sum(pool.stock.units > 0 for pool in self.pools):
                break
        return pools

    def _grant(
        self, question: Question, asked: Request, offer: TicketOffer, stock: Stock, now: int, reason: str = ""
    ) -> Decision:
        """A ticket for what is offered."""
        before = properties_of(question.lease.data["properties"]).get("ticket", 0)
        if not reason and offer != (asked.units, asked.start, asked.end):
            reason = f"of {asked.units} units from tick {asked.start} until {asked.end} there are {offer.units}"
            reason += f" from tick {offer.start} until {offer.end}"
        fields = {"properties": {"ticket": before + 1, **stock.properties}, "reason": reason}
        if local := self.local(question.lease, asked, offer, now):
            fields["local"] = local
        later, longer = offer.start - asked.start, offer.end - asked.end
        return question.answer("granted", units=offer.units, later=later, longer=longer, **fields)

    def _extension(self, question: Question, asked: Request, now: int) -> Decision:
        lease = question.lease
        own = self.pools.of(lease.name)
        assert own is not None, "a ticket that is extended was cut from a stock"
        current = own.calendar.of(lease.name)
        others = [p for p in self.pools if p is not own and (p.stock.site, p.stock.type) == own.stock.source[:2]]
        waited_for = self._waited_for()
        most, why = self.limit(lease, asked, now)
        if most < 1:
            return _deny(question, why)
        for pool in (own, *others):
            room = pool.room(now, asked.end, now, lease.name)
            wanted = min(asked.units, current) if pool in waited_for or asked.units > room else asked.units
            wanted = min(wanted, most)
            if max(wanted, current) > room:  # a smaller ticket counts as before, as the site may not hear of it in time
                continue
            reason = ""
            if wanted < asked.units:
                few = "others wait for units" if pool in waited_for else f"{room} units are free until {asked.end}"
                few = why if wanted == most < asked.units else few
                reason = f"{asked.units} units of type {pool.stock.type} were asked for, and {few}"
            offer = TicketOffer(wanted, asked.start, asked.end)
            return self._promise(lease, self._grant(question, asked, offer, pool.stock, now, reason), pool)
        return _deny(question, f"all units of type {own.stock.type} are promised to others before {asked.end}")


def number_among(properties: Mapping[str, object], name: str) -> int | None:
    """A whole number from 0 on among request properties; None where there is none that could be meant."""
    value = properties.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST else None


def _deny(question: Question, reason: str) -> Decision:
    return question.answer("denied", reason=reason)
