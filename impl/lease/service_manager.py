"""Fixed demand with renewal: a service manager's policy that keeps a lease as long as somebody wants it.

Theory of operation. A client says what it wants of a lease: how many units, until when, and for how long a term each
time. The policy asks for the first term, uses tickets as soon as they are there, asks for a longer one when the end
comes near, and closes the lease when the demand is over. Guests leave a while before a lease ends (`leave_time`), so
it asks for terms that are longer by as much: what a client has asked for it can use. A client that wants another
number of units says so, and the next renewal asks for them.

Wishes are the one thing here that is in no record, so they are handed out as bytes, by lease, to be kept among the
actor's durable words (`changed_wishes`) in the commit that takes the client's word, and given back after a restart
(`restore`). A wish whose lease has no record after a restart was never asked for: it is asked for then.

A holder that shrinks its lease may say which units it gives back (`victims`). The policy always names as many as the
new ticket is smaller by, where too few were said lost ones first: a guest leaves the units that are named, and a unit
that the site had to choose would be torn down below it. Guests may wait for other leases (`after`): they join when each
of these is active.

What was asked for and did not come is asked for again, but `retry_after` ticks later: a broker that denies, or a site
that cannot give what the ticket says, would be asked without a pause. That is volatile; a restart asks once more. A
lease that could not even begin, as nobody is known to play the broker, is tried again after pauses that double; one
that no record could take is given up.

A lease is looked at when something is heard of it, and at the next time at which the clock alone may change what is
decided of it: those that wait cost nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from heapq import heappop, heappush
from typing import Any

import msgspec
from msgspec.structs import replace

from leasehold.impl.core.values import LARGEST
from leasehold.impl.lease.demand import DemandError, LeaseDemand, check_number, property_lists
from leasehold.impl.policy.policy import Decision, Lease, Question, Undecided

MACHINE = "service_manager"
_RUNS = ("active", "active_ticketed")
_JOINED = ("active", "extending_ticket", "active_ticketed", "extending_lease")  # its guests run
_OVER = ("closed", "failed")
_ENDS = ("closing", *_OVER)  # nothing is wanted of the lease any more
DOUBLINGS = 6  # of the pause after which a lease that cannot begin is tried again


class FixedDemand:
    """The policy.

    Args:
        renew_before: ticks before the guests have to leave a lease at which it is renewed; shorter terms are renewed at
            half of them.
        retry_after: ticks after which something is asked for again.
        max_units: of a lease; the constant of the specification, which the server gives.
        held_joins: whether guests wait for this policy; a constant of the specification as well.
        leave_limit: ticks that a guest may take to leave; a constant of the specification.
        clock_margin: ticks before the end of a lease by which its guests have left; a constant, too.
    """

    quick = True

    def __init__(
        self,
        *,
        renew_before: int = 2,
        retry_after: int = 1,
        max_units: int = LARGEST,
        held_joins: bool = False,
        leave_limit: int = 0,
        clock_margin: int = 0,
    ) -> None:
        for name, value in (("renew_before", renew_before), ("retry_after", retry_after)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise DemandError(f"{name} is {value!r}; it needs a number of ticks, 1 or more")
        self._renew_before, self._retry_after, self._max_units = renew_before, retry_after, max_units
        self._held_joins, self._leave_time = held_joins, leave_limit + clock_margin
        self._latest = LARGEST - self._leave_time
        self._wishes: dict[str, LeaseDemand] = {}
        self._leases: dict[str, Lease] = {}
        self._questions: dict[str, Question] = {}
        self._asked: dict[str, int] = {}  # when a ticket was last asked for
        self._tried: dict[str, tuple[int, int]] = {}  # the end of the ticket last used to extend, and when
        self._refused: dict[str, int] = {}  # how often a lease could not begin
        self._before: tuple[str, LeaseDemand | None] = ("", None)  # the demand that the last command was about
        self._dirty: set[str] = set()
        self._ended: set[str] = set()  # leases that were over when they were recovered
        self._next: dict[str, int] = {}  # when a lease is looked at again, by the clock alone
        self._due: list[tuple[int, str]] = []  # the same as a heap; what differs from `_next` does not count

    # What clients say.

    def demand(
        self,
        lease: str,
        units: int,
        until: int,
        term: int,
        *,
        now: int,
        start: int = 0,
        type: str = "",
        properties: Mapping[str, Any] | None = None,
        configuration: Mapping[str, Any] | None = None,
        local: Mapping[str, Any] | None = None,
        after: Collection[str] = (),
    ) -> Iterable[Decision]:
        """Units are wanted.

        Raises:
            DemandError: the numbers make no sense, or the lease is wanted or there already.
        """
        if lease in self._wishes or lease in self._leases:
            raise DemandError(
                f"lease {lease!r} was asked for already; another demand is another lease: give it a new name"
            )
        check_number("units", units, 1, "at least one unit", self._max_units)
        check_number("until", until, now + 1, f"a time after now, which is {now}", self._latest)
        check_number("term", term, 1, "at least one tick")
        check_number("start", start, 0, "a time")
        if start >= until:
            raise DemandError(f"start is {start}, and the demand is over at {until}; let it start earlier")
        if after and not self._held_joins:
            raise DemandError(
                "guests wait for other leases only where the constant `held_joins` is true; set it, alike at all actors"
            )
        for other in after:
            if other not in self._wishes and other not in self._leases:
                raise DemandError(f"there is no lease {other[:60]!r} to wait for here, or it is over; leave it out")
        wish = LeaseDemand(
            units,
            until,
            term,
            start,
            False,
            type,
            dict(properties or {}),
            dict(configuration or {}),
            dict(local or {}),
            tuple(after),
        )
        self._command(lease, wish)
        demanded = self._demand(lease, now)
        self._plan(lease, now)
        return [demanded]

    def flex(
        self, lease: str, units: int, *, now: int, soon: bool = False, victims: Collection[int] = ()
    ) -> Iterable[Decision]:
        """Another number of units is wanted: from the next renewal on, or at once by an extension of the term.

        `victims` are the numbers of units that the holder gives back.

        Raises:
            DemandError: there is no such demand, or the term cannot be extended any more.
        """
        wish = self._wish(lease)
        check_number("units", units, 1, f"at least one unit; to have none, {_closing(lease)}", self._max_units)
        view = self._leases.get(lease)
        if soon and view is not None and view.data["ticket_end"] >= wish.until + self._leave_time:
            raise DemandError(
                f"lease {lease!r} has its ticket until {view.data['ticket_end']}, and its demand ends at {wish.until}: "
                f"no term is left in which to change it; give the demand a later end first: `leasehold extend {lease} "
                "--until ...`"
            )
        lease_units = frozenset(view.data["lease_units"]) if view is not None else frozenset()
        if strange := sorted(set(victims) - lease_units):
            raise DemandError(f"lease {lease!r} has no unit {strange[0]}; its units are {_listed(lease_units)}")
        if len(victims) > max(0, len(lease_units) - units):
            raise DemandError(
                f"lease {lease!r} has {len(lease_units)} units and is to have {units}, so it gives back "
                f"{max(0, len(lease_units) - units)} and not {len(victims)}"
            )
        self._command(lease, replace(wish, units=units, soon=soon, victims=tuple(sorted(victims))))
        return self._look(lease, now)

    def prolong(self, lease: str, until: int, *, now: int) -> Iterable[Decision]:
        """The demand lasts until a later time.

        Raises:
            DemandError: there is no such demand, or the time is not later.
        """
        wish = self._wish(lease)
        check_number(
            "until", until, now + 1, f"a time after now, which is {now}; to end it now, {_closing(lease)}", self._latest
        )
        if until < wish.until:
            raise DemandError(
                f"until is {until}, and lease {lease!r} is wanted until {wish.until} already: terms only get longer; "
                f"to end it sooner, {_closing(lease)} then"
            )
        self._command(lease, replace(wish, until=until))
        return self._look(lease, now)

    def stop(self, lease: str, *, now: int) -> Iterable[Decision]:
        """The demand is over now.

        Raises:
            DemandError: there is no such demand.
        """
        self._command(lease, replace(self._wish(lease), until=now))
        return self._look(lease, now)

    def _command(self, lease: str, wish: LeaseDemand) -> None:
        """A client's command changes a demand."""
        self._before = lease, self._wishes.get(lease)
        self._set(lease, wish)

    def take_back(self, lease: str, now: int) -> None:
        """The last command is refused, so the demand is as it was before."""
        (named, wish), self._before = self._before, ("", None)
        if named == lease and wish is not None:
            self._set(lease, wish)
        elif named == lease and lease in self._wishes:
            self._drop(lease)

    def refused(self, decision: Decision, reason: str, now: int, *, final: bool) -> None:
        """A lease could not begin: it is tried again after a pause, or given up where no later time would help."""
        lease = decision.lease
        if decision.event != "demand" or lease not in self._wishes or lease in self._leases:
            return
        if final:
            self._drop(lease)
        else:
            self._refused[lease] = self._refused.get(lease, 0) + 1
            self._plan(lease, now)

    def wish(self, lease: str) -> LeaseDemand | None:
        """The demand for a lease."""
        return self._wishes.get(lease)

    def undecided(self, lease: str, now: int) -> Undecided | None:
        """Returns what the open question of a lease waits for."""
        question, wish = self._questions.get(lease), self._wishes.get(lease)
        if question is None:
            return None
        data = self._leases[lease].data
        if question.call == "schedule_redeem":
            return Undecided("its ticket is for later", self._redeems(data, wish))
        if question.call == "schedule_join":
            missing = [other for other in self._after(lease) if not self._joined(other)]
            return Undecided(f"its guests wait for {', '.join(missing)} to be active", data["lease_end"])
        if lease in self._tried:
            again = self._tried[lease][1] + self._retry_after
            return Undecided("its site has not extended it, and is asked again", again)
        return None

    @staticmethod
    def _redeems(data: Mapping[str, Any], wish: LeaseDemand | None) -> int:
        """Returns the tick at which a ticket is redeemed: when its term has begun and its units are of use."""
        start: int = data["ticket_start"]
        return start if wish is None else max(start, wish.start)

    # What lasts.

    def wishes(self, lease: str) -> bytes:
        """The demand for a lease, to be kept; empty where there is none."""
        wish = self._wishes.get(lease)
        return b"" if wish is None else msgspec.json.encode(wish)

    def changed_wishes(self) -> dict[str, bytes]:
        """The wishes that have changed since they were last handed out, by lease."""
        dirty, self._dirty = self._dirty, set()
        return {lease: self.wishes(lease) for lease in sorted(dirty)}

    def restore(self, lease: str, kept: bytes) -> None:
        """Takes back what `wishes` gave. Called after a restart, before the clock goes on.

        Raises:
            DemandError: the bytes are no wish.
        """
        try:
            wish = msgspec.json.decode(kept, type=LeaseDemand)
        except ValueError as e:
            raise DemandError(
                f"what was kept of lease {lease!r} is no wish: {e}; drop the word to do without it"
            ) from None
        self._wishes[lease] = wish
        self._look_at(lease, 0)
        if lease in self._ended:
            self._drop(lease)

    # What the core says.

    def recovered(self, lease: Lease) -> None:
        self._note(lease)
        if lease.state in _ENDS:
            self._ended.add(lease.name)

    def begin(self, question: Question, now: int) -> Iterable[Decision]:
        self._note(question.lease)
        self._questions[question.lease.name] = question
        return self._look(question.lease.name, now)

    def changed(self, lease: Lease, now: int) -> Iterable[Decision]:
        before = self._leases.get(lease.name)
        self._note(lease)
        decisions = self._look(lease.name, now)
        if before is None or before.state != lease.state:
            for other, question in tuple(self._questions.items()):  # those whose guests wait for this one
                if question.call == "schedule_join" and lease.name in self._after(other):
                    decisions += self._look(other, now)
        return decisions

    def _after(self, lease: str) -> tuple[str, ...]:
        wish = self._wishes.get(lease)
        return () if wish is None else wish.after

    def tick(self, now: int) -> Iterable[Decision]:
        self._ended.clear()
        self._before = "", None
        decisions: list[Decision] = []
        while self._due and self._due[0][0] <= now:
            at, lease = heappop(self._due)
            if self._next.get(lease) == at:
                decisions += self._look(lease, now)
        return decisions

    def _note(self, lease: Lease) -> None:
        question = self._questions.get(lease.name)
        if question is not None and question.lease.state != lease.state:
            del self._questions[lease.name]
        if lease.state in _OVER:
            self._leases.pop(lease.name, None)
        else:
            self._leases[lease.name] = lease
        if lease.state not in _ENDS:
            self._refused.pop(lease.name, None)
            if lease.state == "ticketing":
                self._asked.pop(lease.name, None)  # the demand has come; an extension is another matter
            self._given_back(lease)
            return
        self._asked.pop(lease.name, None)
        self._tried.pop(lease.name, None)
        if self._wishes.pop(lease.name, None) is not None:
            self._dirty.add(lease.name)

    def _given_back(self, lease: Lease) -> None:
        """Units that the lease has no more are no victims of a later shrink."""
        wish = self._wishes.get(lease.name)
        if wish is not None and wish.victims and lease.state in _JOINED:
            left = tuple(n for n in wish.victims if n in lease.data["lease_units"])
            if left != wish.victims:
                self._set(lease.name, replace(wish, victims=left))

    def _look(self, name: str, now: int) -> list[Decision]:
        """The decisions for a lease now."""
        decisions = self._decisions(name, now)
        self._plan(name, now)
        return decisions

    def _plan(self, name: str, now: int) -> None:
        """The lease is looked at again when the clock alone may change what is decided of it."""
        self._next.pop(name, None)
        later = min((at for at in self._times(name, now) if at > now), default=None)
        if later is not None:
            self._look_at(name, later)

    def _look_at(self, name: str, at: int) -> None:
        self._next[name] = at
        heappush(self._due, (at, name))

    def _times(self, name: str, now: int) -> Iterator[int]:
        """The times that decisions for a lease depend on."""
        lease, wish = self._leases.get(name), self._wishes.get(name)
        if name in self._asked:
            yield self._asked[name] + self._pause(name)
        if name in self._questions and lease is not None:
            yield lease.data["ticket_start"]
        if name in self._tried:
            yield self._tried[name][1] + self._retry_after
        if wish is not None:
            yield from (wish.start, wish.until)
            if now >= wish.until:  # the close is said until it is heard
                yield now + 1
            if lease is not None and lease.state in _RUNS:
                yield self._used_until(lease) - self._before_end(wish)

    def _used_until(self, lease: Lease) -> int:
        """The time at which the guests have to leave a lease that is as its ticket says."""
        end: int = lease.data["ticket_end"]
        return end - self._leave_time

    def _before_end(self, wish: LeaseDemand) -> int:
        """Returns the number of ticks by which a lease is renewed before its guests have to leave."""
        return min(self._renew_before, max(1, wish.term // 2))

    def _decisions(self, name: str, now: int) -> list[Decision]:
        lease, wish = self._leases.get(name), self._wishes.get(name)
        if wish is not None and now >= wish.until:
            heard = name not in self._refused
            if lease is None:  # the demand may be on its way to the machine, which takes a close in any state
                self._drop(name)
            return [self._say(name, "close", {})] if heard else []
        if lease is None or lease.state == "nascent":
            return [] if wish is None or self._early(name, now) else [self._demand(name, now)]
        answer = self._answer(name, lease, wish, now)
        if answer:
            return answer
        return [] if wish is None else self._renew(lease, wish, now)

    def _answer(self, name: str, lease: Lease, wish: LeaseDemand | None, now: int) -> list[Decision]:
        """The answer to a question whose time has come."""
        question = self._questions.get(name)
        if question is None:
            return []
        fields: dict[str, Any] = {}
        if question.call == "schedule_redeem":
            if now < self._redeems(lease.data, wish):
                return []
            event = "redeem_now"
        elif question.call == "schedule_join":
            if not all(self._joined(other) for other in self._after(name)):
                return []
            event = "join_now"
        else:
            tried = self._tried.get(name)
            if tried and tried[0] == lease.data["ticket_end"] and now < tried[1] + self._retry_after:
                return []
            self._tried[name] = lease.data["ticket_end"], now
            event, fields = "extend_now", {"victims": _victims(lease, wish)}
        del self._questions[name]
        return [question.answer(event, **fields)]

    def _joined(self, lease: str) -> bool:
        """Returns whether the guests of another lease run.

        One that is not known, or over, keeps nobody waiting for ever.
        """
        view = self._leases.get(lease)
        return lease not in self._wishes if view is None else view.state in _JOINED

    def _renew(self, lease: Lease, wish: LeaseDemand, now: int) -> list[Decision]:
        used = self._used_until(lease)
        until = min(max(now, used) + wish.term, wish.until)
        if lease.state not in _RUNS or now >= lease.data["lease_end"] or until <= used:
            return []
        if not wish.soon and used - now > self._before_end(wish):
            return []
        if self._early(lease.name, now):
            return []
        self._asked[lease.name] = now
        if wish.soon:
            self._set(lease.name, replace(wish, soon=False))
        fields = {"units": wish.units, "end": until + self._leave_time, **property_lists(wish)}
        return [self._say(lease.name, "extend", fields)]

    def _early(self, lease: str, now: int) -> bool:
        """Returns whether a lease was asked for less than a pause ago."""
        return lease in self._asked and now < self._asked[lease] + self._pause(lease)

    def _pause(self, lease: str) -> int:
        """Returns the number of ticks after which a ticket that was asked for is asked for again."""
        return self._retry_after << min(self._refused.get(lease, 0), DOUBLINGS)

    def _demand(self, lease: str, now: int) -> Decision:
        wish = self._wishes[lease]
        self._asked[lease] = now
        end = min(max(now, wish.start) + wish.term, wish.until) + self._leave_time
        fields = {"units": wish.units, "start": wish.start, "end": end, "type": wish.type}
        return self._say(lease, "demand", fields | property_lists(wish))

    @staticmethod
    def _say(lease: str, event: str, fields: dict[str, Any]) -> Decision:
        return Decision(lease, MACHINE, event, fields)

    def _wish(self, lease: str) -> LeaseDemand:
        wish = self._wishes.get(lease)
        if wish is None:
            raise DemandError(f"nothing is wanted of lease {lease!r}: it is over, or was never asked for")
        return wish

    def _set(self, lease: str, wish: LeaseDemand) -> None:
        self._wishes[lease] = wish
        self._dirty.add(lease)

    def _drop(self, lease: str) -> None:
        del self._wishes[lease]
        self._asked.pop(lease, None)
        self._refused.pop(lease, None)
        self._dirty.add(lease)


def _victims(lease: Lease, wish: LeaseDemand | None) -> frozenset[int]:
    """The units that a lease gives back: as many as its ticket is smaller by."""
    lease_units, lost = frozenset(lease.data["lease_units"]), lease.data["lease_lost"]
    fewer = len(lease_units) - lease.data["ticket_units"]
    named = [n for n in (wish.victims if wish is not None else ()) if n in lease_units]
    if fewer <= 0:
        return frozenset()
    others = sorted(lease_units - set(named), key=lambda n: (n not in lost, -n))
    return frozenset([*named, *others][:fewer])


def _closing(lease: str) -> str:
    return f"say `leasehold close {lease}`"


def _listed(units: Collection[int]) -> str:
    return ", ".join(map(str, sorted(units))) or "none"
