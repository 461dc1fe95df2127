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

Leases of a *slice* share properties (G, 3.1), which are kept among the durable words as well (`changed_slices`). A
lease looks at its slice whenever it asks its broker: so one that begins has the slice's properties as they are then,
and one that runs hears of a change with its next extension, or at once with `soon`. Its own properties go before
inherited ones.

Leases of a *group* (`group`) are wanted all or not at all. Their policy redeems nothing before it has the tickets of
all, and closes all when one is over (group.py). Their demands are kept until the end of the group's first term, so that
its members, also those that come late, are told why it has ended.

A lease is looked at when something is heard of it, and at the next time at which the clock alone may change what is
decided of it: those that wait cost nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any

import msgspec
from msgspec.structs import replace

from leasehold.impl.core.values import LARGEST, ValueFault, check_kept
from leasehold.impl.lease.demand import DemandError, LeaseDemand, LeaseGroup, LeaseSlice, check_number, property_lists
from leasehold.impl.lease.group import Groups, end_of_member
from leasehold.impl.policy.directory import Directory, NoSuchPeer
from leasehold.impl.policy.policy import Decision, Lease, Question, Undecided
from leasehold.impl.words import choices

MACHINE = "service_manager"
_RUNS = ("active", "active_ticketed")
_JOINED = ("active", "extending_ticket", "active_ticketed", "extending_lease")  # its guests run
_OVER = ("closed", "failed")
_ENDS = ("closing", *_OVER)  # nothing is wanted of the lease any more
SLICE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
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
        directory: the actors that may be asked; left out: the settings say whom, and nothing is checked.
    """

    quick = True
    decides = frozenset({"schedule_redeem", "schedule_join", "schedule_extension"})

    def __init__(
        self,
        *,
        renew_before: int = 2,
        retry_after: int = 1,
        max_units: int = LARGEST,
        held_joins: bool = False,
        leave_limit: int = 0,
        clock_margin: int = 0,
        directory: Directory | None = None,
    ) -> None:
        for name, value in (("renew_before", renew_before), ("retry_after", retry_after)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise DemandError(f"{name} is {value!r}; it needs a number of ticks, 1 or more")
        self._renew_before, self._retry_after, self._max_units = renew_before, retry_after, max_units
        self._held_joins, self._leave_time = held_joins, leave_limit + clock_margin
        self._latest = LARGEST - self._leave_time
        self._directory = directory
        self._wishes: dict[str, LeaseDemand] = {}
        self._leases: dict[str, Lease] = {}
        self._questions: dict[str, Question] = {}
        self._asked: dict[str, int] = {}  # when a ticket was last asked for
        self._tried: dict[str, tuple[int, int]] = {}  # the end of the ticket last used to extend, and when
        self._refused: dict[str, int] = {}  # how often a lease could not begin
        self._groups = Groups(self._wishes, self._leases)
        self._finished: set[str] = set()  # leases of groups that are over, or were told to close before they began
        self._before: dict[str, LeaseDemand | None] = {}  # the demands that the last command has changed, by lease
        self._dirty: set[str] = set()
        self._slices: dict[str, LeaseSlice] = {}
        self._dirty_slices: set[str] = set()
        self._ended: dict[str, Lease] = {}  # that were over when they were recovered
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
        broker: str = "",
        site: str = "",
        least: int = 0,
        least_term: int = 0,
        latest_start: int = 0,
        group: Mapping[str, Any] | None = None,
        slice: str = "",
    ) -> Iterable[Decision]:
        """Units are wanted: of a broker and at a site, where these are named, and with others of a group or not at all.

        A demand may be content with fewer units, a shorter first term, or one that begins later (`LeaseDemand`). It
        inherits the properties of its slice.

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
        self._check_peers(broker, site)
        check_number("least", least, 0, "units with which the demand is content", units)
        check_number("least_term", least_term, 0, "ticks of a term with which the demand is content", term)
        check_number("latest_start", latest_start, 0, "a time", self._latest)
        if latest_start and latest_start <= max(start, now):
            raise DemandError(f"latest_start is {latest_start}; it needs a time after {max(start, now)}")
        start = max(start, now) if latest_start else start
        if start >= until:
            raise DemandError(f"start is {start}, and the demand is over at {until}; let it start earlier")
        if after and not self._held_joins:
            raise DemandError(
                "guests wait for other leases only where the constant `held_joins` is true; set it, alike at all actors"
            )
        for other in after:
            if other not in self._wishes and other not in self._leases:
                raise DemandError(f"there is no lease {other[:60]!r} to wait for here, or it is over; leave it out")
        if slice and slice not in self._slices:
            raise DemandError(
                f"there is no slice {slice[:60]!r}{choices(slice, sorted(self._slices))}; `leasehold slice` makes one"
            )
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
            broker=broker,
            site=site,
            least=least,
            least_term=least_term,
            latest_start=latest_start,
            slice=slice,
        )
        wishes = {lease: wish} if group is None else self._grouped(lease, wish, group, now)
        self._check_demand(wishes[lease])
        self._command(wishes)
        demanded = self._demand(lease, now)
        self._plan(lease, now)
        return [demanded]

    def _grouped(self, lease: str, wish: LeaseDemand, given: Mapping[str, Any], now: int) -> dict[str, LeaseDemand]:
        """The demands of a group with one more member: all last until the first of them is over.

        Raises:
            DemandError: it cannot be a member.
        """
        own = LeaseGroup.parse(given, self._first_end(wish, now))
        if wish.least_term or wish.latest_start:
            raise DemandError(
                f"all terms of group {own.id[:60]!r} begin and end together, so none is shorter or later; leave out "
                "least_term and latest_start"
            )
        first = self._groups.first(own)
        if first is None or first.group is None:
            return {lease: replace(wish, group=own)}
        used = first.group.end - self._leave_time
        if wish.start >= used:
            raise DemandError(
                f"start is {wish.start}, and the first term of group {own.id[:60]!r} is over at {used}; let it start "
                "earlier, or give its first lease a longer term"
            )
        until = min(wish.until, first.until)
        others = {name: self._wishes[name] for name in self._groups.members(first)}
        changed = {name: replace(other, until=until) for name, other in others.items() if other.until != until}
        return {**changed, lease: replace(wish, until=until, group=first.group)}

    def set_slice(
        self,
        name: str,
        *,
        now: int,
        properties: Mapping[str, Any] | None = None,
        configuration: Mapping[str, Any] | None = None,
        local: Mapping[str, Any] | None = None,
        remove: bool = False,
    ) -> Iterable[Decision]:
        """Says all properties of a slice, or that it is gone.

        Leases that are in it ask with them when they are extended next; those that come, from the beginning.

        Raises:
            DemandError: the name is none; a lease would have more properties than a record holds; or one is in a slice
                that is to go.
        """
        if not SLICE_NAME.fullmatch(name):
            raise DemandError(f"{name[:80]!r} is no name of a slice: letters, digits, `_`, `.` and `-`, 64 at most")
        members = [(lease, wish) for lease, wish in self._wishes.items() if wish.slice == name]
        if remove:
            if name not in self._slices:
                raise DemandError(f"there is no slice {name!r}{choices(name, sorted(self._slices))}")
            if members:
                raise DemandError(f"slice {name!r} has leases ({_first_named(members)}); close them first")
            del self._slices[name]
        else:
            shared = LeaseSlice(dict(properties or {}), dict(configuration or {}), dict(local or {}))
            for lease, wish in members:
                for kind, merged in property_lists(wish, shared).items():
                    try:
                        check_kept(kind, merged)
                    except ValueFault as fault:
                        raise DemandError(f"lease {lease!r} would have too many of the slice: {fault}") from None
            self._slices[name] = shared
        self._dirty_slices.add(name)
        return []

    def _shared(self, wish: LeaseDemand) -> LeaseSlice:
        """The properties that a demand inherits."""
        return self._slices.get(wish.slice, LeaseSlice())

    def _check_peers(self, broker: str, site: str) -> None:
        """Checks whether the broker and the site that a demand names can be asked."""
        for role, name in (("broker", broker), ("authority", site)):
            if name and self._directory is not None:
                try:
                    self._directory.check(role, name)
                except NoSuchPeer as error:
                    raise DemandError(str(error)) from None

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
        self._command({lease: replace(wish, units=units, soon=soon, victims=tuple(sorted(victims)))})
        return self._look(lease, now)

    def prolong(self, lease: str, until: int, *, now: int) -> Iterable[Decision]:
        """The demand lasts until a later time, and so do those of its group.

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
        self._command({name: replace(self._wishes[name], until=until) for name in self._with(lease)})
        return self._look_all(lease, now)

    def stop(self, lease: str, *, now: int) -> Iterable[Decision]:
        """The demand is over now, and with it those of its group.

        Raises:
            DemandError: there is no such demand.
        """
        wish = self._wish(lease)
        ended = f"a client has closed {lease}" if wish.group is not None else ""
        self._command({name: replace(self._wishes[name], until=now, ended=ended) for name in self._with(lease)})
        return self._look_all(lease, now)

    def _command(self, wishes: Mapping[str, LeaseDemand]) -> None:
        """A client's command changes demands."""
        self._before = {lease: self._wishes.get(lease) for lease in wishes}
        for lease, wish in wishes.items():
            self._set(lease, wish)

    def take_back(self, lease: str, now: int) -> None:
        """The last command is refused, so the demands are as they were before."""
        before, self._before = self._before, {}
        for name, wish in before.items() if lease in before else ():
            if wish is not None:
                self._set(name, wish)
            elif name in self._wishes:
                self._drop(name)

    def refused(self, decision: Decision, reason: str, now: int, *, final: bool) -> None:
        """A lease could not begin: it is tried again after a pause, or given up where no later time would help."""
        lease = decision.lease
        if decision.event != "demand" or lease not in self._wishes or lease in self._leases:
            return
        if final and self._wishes[lease].group is None:
            self._drop(lease)
            return
        self._refused[lease] = self._refused.get(lease, 0) + 1
        if final:
            self._end_group(lease, f"{lease} could not begin: {reason}")
        for name in self._with(lease):
            self._plan(name, now)

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
            if wish is not None and wish.group is not None and (missing := self._groups.missing(wish)):
                return Undecided(f"its group {wish.group.id} waits for {missing}", wish.group.end - self._leave_time)
            return Undecided("its ticket is for later", self._redeems(data, wish))
        if question.call == "schedule_join":
            others = [other for other in self._after(lease) if not self._joined(other)]
            return Undecided(f"its guests wait for {', '.join(others)} to be active", data["lease_end"])
        if wish is not None and (behind := self._behind(self._leases[lease], wish)):
            return Undecided(f"its group waits for a longer ticket of {', '.join(behind)}", data["lease_end"])
        if lease in self._tried:
            again = self._tried[lease][1] + self._retry_after
            return Undecided("its site has not extended it, and is asked again", again)
        return None

    def _redeems(self, data: Mapping[str, Any], wish: LeaseDemand | None) -> int:
        """Returns the tick at which a ticket is redeemed: when its term has begun and its units are of use."""
        start: int = data["ticket_start"]
        if wish is None:
            return start
        return max(start, wish.start) if wish.group is None else self._groups.begins(wish)

    def _behind(self, lease: Lease, wish: LeaseDemand) -> list[str]:
        """Returns the members of a group for whose longer tickets a lease waits before it is extended with its own."""
        longer: int = lease.data["ticket_end"]
        return self._groups.behind(wish, longer) if lease.data["lease_end"] < longer else []

    # What lasts.

    def wishes(self, lease: str) -> bytes:
        """The demand for a lease, to be kept; empty where there is none."""
        wish = self._wishes.get(lease)
        return b"" if wish is None else msgspec.json.encode(wish)

    def changed_wishes(self) -> dict[str, bytes]:
        """The wishes that have changed since they were last handed out, by lease."""
        dirty, self._dirty = self._dirty, set()
        return {lease: self.wishes(lease) for lease in sorted(dirty)}

    def changed_slices(self) -> dict[str, bytes]:
        """The slices that have changed since they were last handed out, by name; empty where one is gone."""
        dirty, self._dirty_slices = self._dirty_slices, set()
        kept = {name: self._slices.get(name) for name in sorted(dirty)}
        return {name: b"" if shared is None else msgspec.json.encode(shared) for name, shared in kept.items()}

    def restore_slice(self, name: str, kept: bytes) -> None:
        """Takes back a slice that `changed_slices` gave.

        Raises:
            DemandError: the bytes are no slice.
        """
        try:
            self._slices[name] = msgspec.json.decode(kept, type=LeaseSlice)
        except ValueError as e:
            raise DemandError(f"what was kept of slice {name!r} is none: {e}; drop it to do without it") from None

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
        self._groups.note(lease, wish)
        self._look_at(lease, 0)
        if wish.group is None:
            if lease in self._ended:
                self._drop(lease)
            return
        if reason := self._groups.over.get(wish.group.id, ""):
            self._end_group(lease, reason)
        elif lease in self._ended:
            self._end_group(lease, end_of_member(self._ended[lease]))
        if lease not in self._leases and self._wishes[lease].ended:
            self._finished.add(lease)

    # What the core says.

    def recovered(self, lease: Lease) -> None:
        self._note(lease)
        if lease.state in _ENDS:
            self._ended[lease.name] = lease

    def begin(self, question: Question, now: int) -> Iterable[Decision]:
        self._note(question.lease)
        self._questions[question.lease.name] = question
        return self._look_all(question.lease.name, now)

    def changed(self, lease: Lease, now: int) -> Iterable[Decision]:
        before = self._leases.get(lease.name)
        self._note(lease)
        decisions = self._look_all(lease.name, now)
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
        self._before = {}
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
        self._begins_later(lease)
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
        wish = self._wishes.get(lease.name)
        if wish is None:
            return
        if wish.group is None:
            self._drop(lease.name)
            return
        if lease.state in _OVER:
            self._finished.add(lease.name)
        self._end_group(lease.name, end_of_member(lease))

    def _with(self, lease: str) -> list[str]:
        """A lease, and those of its group."""
        return [lease, *(name for name in self._groups.members(self._wishes.get(lease)) if name != lease)]

    def _end_group(self, lease: str, reason: str) -> None:
        """A lease's group is over, unless it was before; its members are closed as they are looked at."""
        for name in self._with(lease):
            if not self._wishes[name].ended:
                self._set(name, replace(self._wishes[name], ended=reason))

    def _begins_later(self, lease: Lease) -> None:
        """A demand whose first term begins later than was asked for ends as much later."""
        wish, start = self._wishes.get(lease.name), lease.data["ticket_start"]
        if wish is not None and wish.latest_start and lease.data["ticket_units"]:
            later = max(0, start - wish.start)
            until = min(wish.until + later, self._latest)
            self._set(lease.name, replace(wish, until=until, start=wish.start + later, latest_start=0))

    def _given_back(self, lease: Lease) -> None:
        """Units that the lease has no more are no victims of a later shrink."""
        wish = self._wishes.get(lease.name)
        if wish is not None and wish.victims and lease.state in _JOINED:
            left = tuple(n for n in wish.victims if n in lease.data["lease_units"])
            if left != wish.victims:
                self._set(lease.name, replace(wish, victims=left))

    def _look_all(self, lease: str, now: int) -> list[Decision]:
        """The decisions for a lease now, and for those of its group."""
        return [decision for name in self._with(lease) for decision in self._look(name, now)]

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
            yield self._redeems(lease.data, wish)
        if name in self._tried:
            yield self._tried[name][1] + self._retry_after
        if wish is not None:
            yield from (wish.start, wish.until)
            if wish.group is not None:
                yield from (wish.group.end - self._leave_time, wish.group.end)
                if wish.ended and name not in self._finished:
                    yield now + 1
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
        if wish is not None and wish.group is not None and (reason := self._end_of_group(lease, wish, now)):
            self._end_group(name, reason)
            return self._close_member(name, lease, wish.group, now)
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

    def _end_of_group(self, lease: Lease | None, wish: LeaseDemand, now: int) -> str:
        """Returns why the group of a lease is over now; empty where it is not."""
        assert wish.group is not None
        if wish.ended or now >= wish.until:
            return wish.ended or "its time is over"
        if now >= wish.group.end - self._leave_time and (missing := self._groups.missing(wish)):
            return f"its first term was over before it had {missing}"
        if lease is not None and lease.state == "ticketed" and (end := lease.data["ticket_end"]) != wish.group.end:
            return f"the ticket of {lease.name} ends at {end}, and not at {wish.group.end} as was asked"
        return ""

    def _close_member(self, name: str, lease: Lease | None, group: LeaseGroup, now: int) -> list[Decision]:
        """The close of a lease whose group is over; its demand is kept until the first term would have ended."""
        if lease is not None:
            return [] if lease.state in _ENDS else [self._say(name, "close", {})]
        if name not in self._finished:  # the demand may be on its way to the machine, which takes a close in any state
            self._finished.add(name)
            return [] if name in self._refused else [self._say(name, "close", {})]
        if now >= group.end:
            self._drop(name)
        return []

    def _answer(self, name: str, lease: Lease, wish: LeaseDemand | None, now: int) -> list[Decision]:
        """The answer to a question whose time has come."""
        question = self._questions.get(name)
        if question is None:
            return []
        fields: dict[str, Any] = {}
        if question.call == "schedule_redeem":
            if now < self._redeems(lease.data, wish) or (wish is not None and self._groups.missing(wish)):
                return []
            event = "redeem_now"
        elif question.call == "schedule_join":
            if not all(self._joined(other) for other in self._after(name)):
                return []
            event = "join_now"
        else:
            if wish is not None and self._behind(lease, wish):
                return []
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
        if view is not None:
            return view.state in _JOINED
        return lease not in self._wishes or bool(self._wishes[lease].ended)

    def _renew(self, lease: Lease, wish: LeaseDemand, now: int) -> list[Decision]:
        used, end = self._used_until(lease), self._end_of_renewal(lease, wish, now)
        follows = self._groups.longest(wish) > lease.data["ticket_end"]
        if lease.state not in _RUNS or now >= lease.data["lease_end"] or end <= lease.data["ticket_end"]:
            return []
        if not self._soon(lease, wish, now) and not follows and used - now > self._before_end(wish):
            return []
        if self._early(lease.name, now) or self._waits(lease, wish, now):
            return []
        self._asked[lease.name] = now
        asks = replace(self._asks(lease, wish, end, now), soon=False)
        if asks != wish:
            self._set(lease.name, asks)
        fields = {"units": asks.units, "end": end, **property_lists(asks, self._shared(asks))}
        return [self._say(lease.name, "extend", fields)]

    def _end_of_renewal(self, lease: Lease, wish: LeaseDemand, now: int) -> int:
        """The end of the longer ticket that a lease would ask for now."""
        longest = self._groups.longest(wish)
        if longest > lease.data["ticket_end"]:
            return longest
        return min(max(now, self._used_until(lease)) + wish.term, wish.until) + self._leave_time

    # To be said by a policy that finds the number of units by itself

    def _check_demand(self, wish: LeaseDemand) -> None:
        """Checks a demand that comes, when all else was checked.

        Raises:
            DemandError: it cannot be taken.
        """

    def _soon(self, lease: Lease, wish: LeaseDemand, now: int) -> bool:
        """Returns whether a longer ticket is asked for now, and not only when the end comes near."""
        return wish.soon

    def _waits(self, lease: Lease, wish: LeaseDemand, now: int) -> bool:
        """Returns whether a renewal that is due waits for a later tick."""
        return False

    def _asks(self, lease: Lease | None, wish: LeaseDemand, end: int, now: int) -> LeaseDemand:
        """The demand as it is asked for now.

        Args:
            lease: as it is; None: there is none yet.
            wish: the demand.
            end: of the ticket that is asked for.
            now: the time.
        """
        return wish

    def _early(self, lease: str, now: int) -> bool:
        """Returns whether a lease was asked for less than a pause ago."""
        return lease in self._asked and now < self._asked[lease] + self._pause(lease)

    def _pause(self, lease: str) -> int:
        """Returns the number of ticks after which a ticket that was asked for is asked for again."""
        return self._retry_after << min(self._refused.get(lease, 0), DOUBLINGS)

    def _demand(self, lease: str, now: int) -> Decision:
        wish = self._wishes[lease]
        self._asked[lease] = now
        if not wish.broker and (broker := self._free_broker()):
            wish = replace(wish, broker=broker)
            self._set(lease, wish)
        end = self._first_end(wish, now) if wish.group is None else wish.group.end
        asks = self._asks(None, wish, end, now)
        if asks != wish:
            self._set(lease, wish := asks)
        lists = property_lists(wish, self._shared(wish))
        fields = {"units": wish.units, "start": wish.start, "end": end, "type": wish.type, **lists}
        asked = {**self._sites(wish), **self._content(wish), **_group_properties(wish)}
        fields |= {"properties": {**lists["properties"], **asked}}
        peers = {"broker": wish.broker} if wish.broker else {}
        return Decision(lease, MACHINE, "demand", fields, peers=peers)

    def _content(self, wish: LeaseDemand) -> dict[str, int]:
        """The request properties that say with what a demand is content; its guests have their time to leave."""
        least_ticks = wish.least_term + self._leave_time if wish.least_term else 0
        content = {"least_units": wish.least, "least_ticks": least_ticks, "latest_start": wish.latest_start}
        return {name: value for name, value in content.items() if value}

    def _first_end(self, wish: LeaseDemand, now: int) -> int:
        """The end of the ticket that is asked for first."""
        return min(max(now, wish.start) + wish.term, wish.until) + self._leave_time

    def _free_broker(self) -> str:
        """The broker that the fewest leases of this holder are with, of those that can be asked.

        It is asked where a demand names none, and the settings do not either; "" where they do.
        """
        if self._directory is None or self._directory.player("broker"):
            return ""
        leases = Counter(wish.broker for wish in self._wishes.values())
        return min(self._directory.reached("broker"), key=lambda name: (leases[name], name), default="")

    def _sites(self, wish: LeaseDemand) -> dict[str, Any]:
        """The request properties that say at which sites units are of use: the one, or those that can be asked."""
        if wish.site:
            return {"site": wish.site}
        if self._directory is None or self._directory.player("authority"):
            return {}
        return {"sites": self._directory.reached("authority")}

    @staticmethod
    def _say(lease: str, event: str, fields: dict[str, Any]) -> Decision:
        return Decision(lease, MACHINE, event, fields)

    def _wish(self, lease: str) -> LeaseDemand:
        wish = self._wishes.get(lease)
        if wish is None or wish.ended:
            raise DemandError(f"nothing is wanted of lease {lease!r}: it is over, or was never asked for")
        return wish

    def _set(self, lease: str, wish: LeaseDemand) -> None:
        self._wishes[lease] = wish
        self._groups.note(lease, wish)
        self._dirty.add(lease)

    def _drop(self, lease: str) -> None:
        self._groups.forget(lease, self._wishes.pop(lease))
        self._finished.discard(lease)
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


def _group_properties(wish: LeaseDemand) -> dict[str, Any]:
    """The request property that tells a broker's policy of a lease's group."""
    return {} if wish.group is None else {"group": {"id": wish.group.id, "count": wish.group.count}}


def _first_named(members: Sequence[tuple[str, LeaseDemand]]) -> str:
    """The names of the first of some leases."""
    named = [lease for lease, _ in members[:3]]
    return ", ".join([*named, *([f"and {len(members) - 3} more"] if len(members) > 3 else [])])


def _closing(lease: str) -> str:
    return f"say `leasehold close {lease}`"


def _listed(units: Collection[int]) -> str:
    return ", ".join(map(str, sorted(units))) or "none"
