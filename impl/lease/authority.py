"""First fit: a site's policy, which gives each lease the first units that are free.

Theory of operation. A unit is *held* by a lease that has it assigned, or whose machine for it is neither idle nor
closed: it is being torn down, or its teardown failed and nobody knows what is left of it. A unit that nobody holds is
free. A lease that shrinks keeps units that are up, one that grows keeps all that its holder does not give back; of
those that it gives up, it may get the ones that are down, where no others are free.

Leases that wait for units are served in the order in which they came, for each type of unit, and none overtakes: the
broker has promised units to all of them, so room comes as others end. Only when too few units of the type are left that
could ever come free (the rest failed, and were not torn down) would waiting not help: `no_room`. A lease that lost
units does not wait for others to end, as its holder has to know what it has: it gets units that are free, or its own
again that were torn down, and `no_room` if these are too few.

Lazy close (paper, section 4.2.1): an expired lease keeps its units until another waits for them. Then as many leases as
are needed are reclaimed, the one first whose end was first, counting what is on its way back already. A lease that has
expired while it waits is not served any more; one of them that holds nothing is reclaimed at once, as nothing is left
to keep. Without lazy close the machines end by the clock, and nothing is reclaimed.

Hosts on which units have failed are taken last, and wishes with which leases have failed in a row are refused for a
while (failures.py).

A site whose units are handed on says which leases have others beside: those whose tickets were cut from no delegation
(stock_admission.py). Nobody opens a stock of the units that these have.

All of this is in the records, the order of arrival as the turn of each lease's last question.
"""

from __future__ import annotations

import heapq
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import msgspec

from leasehold.impl.core.values import LARGEST
from leasehold.impl.lease.delegations import Delegations
from leasehold.impl.lease.failures import HoldBack, SetupFailures
from leasehold.impl.lease.inventory import Inventory
from leasehold.impl.lease.stock import MOST_PERIODS
from leasehold.impl.lease.stock_admission import CountedUnits, HeldLeases
from leasehold.impl.lease.ticket import properties_of
from leasehold.impl.policy.policy import Decision, Lease, Question, Undecided
from leasehold.impl.words import counted

log = logging.getLogger("leasehold.authority")

NONE: frozenset[int] = frozenset()
_OVER = ("nascent", "closed")
_KEPT = ("failed", "kept")  # units that are not free, and that no lease has up
_WAITS = {"priming", "modifying"}
NAMED = 3  # leases that are named as those that have what another waits for


@dataclass(slots=True)
class _View:
    """The facts about a lease that count here.

    Attributes:
        lease: its record.
        held: units that no other lease may get.
        failed: those of them whose machine has failed, or that an operator keeps back.
        question: which waits; None where none was asked in this incarnation.
    """

    lease: Lease
    held: frozenset[int] = NONE
    failed: frozenset[int] = NONE
    question: Question | None = None

    @property
    def assigned(self) -> frozenset[int]:
        return frozenset(self.lease.data["assigned"])

    @property
    def chosen(self) -> frozenset[int]:
        return frozenset(self.lease.data["chosen"])

    @property
    def given_up(self) -> frozenset[int]:
        """The units that the lease holds and is not to have any more."""
        return self.assigned - self.chosen

    @property
    def down(self) -> frozenset[int]:
        """The units of those given up that are down, so that the lease may get them again."""
        return frozenset(n for n in self.given_up if self.state_of(n) in ("idle", "closed"))

    @property
    def repairs(self) -> bool:
        return self.lease.state == "modifying" and bool(self.lease.data["repairing"])

    def state_of(self, n: int) -> str:
        """The state of a unit's machine."""
        machine = self.lease.units.get(("unit", n))
        return "idle" if machine is None else str(machine["state"])

    @property
    def quarantined(self) -> frozenset[int]:
        units = self.lease.units.items()
        return frozenset(n for (_, n), unit in units if unit.get("quarantined") or unit["state"] == "kept")

    @property
    def asks(self) -> bool:
        data = self.lease.data
        return self.lease.state in _WAITS and len(data["chosen"]) != data["wanted"]

    def expired(self, now: int) -> bool:
        return bool(now >= self.lease.data["end"])


@dataclass(slots=True)
class _Promise:
    """A placement that was decided and is not in the record yet."""

    decision: Decision
    units: frozenset[int] = field(default_factory=frozenset)


class FirstFit:
    """The policy.

    Args:
        inventory: the site's units.
        lazy: whether expired leases are kept until others need their units; as `lazy_close` of the specification.
        delegations: of the site, if it hands units on.
        hold_back: when wishes that fail are held back, `failures`, `ticks` and `by`.
    """

    quick = True
    decides = frozenset({"place"})

    def __init__(
        self,
        inventory: Inventory,
        *,
        lazy: bool = True,
        delegations: Delegations | None = None,
        hold_back: Mapping[str, Any] | None = None,
    ) -> None:
        self.inventory = inventory
        try:
            self.failures = SetupFailures(msgspec.convert(hold_back or {}, HoldBack))
        except msgspec.ValidationError as error:
            raise ValueError(f"hold_back: {error}") from None
        self._now = 0
        self._beside = HeldLeases(delegations.folder, delegations.actor) if delegations is not None else None
        self._lazy = lazy
        self._views: dict[str, _View] = {}
        self._holders: Counter[int] = Counter()
        self._troubled: set[str] = set()  # leases with a failed unit
        self._free = {type: set(inventory.numbers(type)) for type in inventory.types}
        self._queues: dict[str, dict[str, None]] = {type: {} for type in inventory.types}
        self._recovered: list[str] = []
        self._promised: dict[str, _Promise] = {}
        self._reclaimed: dict[str, int] = {}  # when it was last said

    def pick(self, free: frozenset[int], count: int, chosen: frozenset[int]) -> Iterable[int]:
        """Returns so many of the units of a type that are free, for a lease that has some already."""
        return heapq.nsmallest(count, free)

    def host(self, n: int) -> str:
        """The host of a unit: its property `host`, or else the unit itself."""
        return str(self.inventory.properties(n).get("host", self.inventory.name(n)))

    def free(self, type: str = "") -> frozenset[int]:
        """The units of a type that no lease holds, and none was promised."""
        return frozenset(self._free[self.inventory.the_type(type)])

    def recovered(self, lease: Lease) -> None:
        self._note(lease)
        if lease.name in self._views and self._views[lease.name].asks:
            self._recovered.append(lease.name)

    def begin(self, question: Question, now: int) -> Iterable[Decision]:
        self._now = now
        self._settle()
        name = question.lease.name
        before = self._promised.get(name)
        if before is not None and before.decision.state_epoch == question.state_epoch:
            return [before.decision]
        self._keep_promise(name)
        view = self._note(question.lease)
        if view is None or not view.asks:
            return self._serve(now)
        view.question = question
        type = self._type(view)
        if type is None:
            reason = f"this site has no units of the type {self._said_type(view)!r}"
            return [question.answer("no_room", reason=reason), *self._serve(now)]
        self._queues[type].setdefault(name)
        return self._serve(now)

    def changed(self, lease: Lease, now: int) -> Iterable[Decision]:
        self._now = now
        self._settle()
        view = self._note(lease)
        if view is None or not view.asks:
            self._keep_promise(lease.name)
            for queue in self._queues.values():
                queue.pop(lease.name, None)
        return self._serve(now)

    def tick(self, now: int) -> Iterable[Decision]:
        self._settle()
        self._tell_delegations()
        return self._serve(now)

    def undecided(self, lease: str, now: int) -> Undecided | None:
        """Returns what a lease that waits for units waits for: one before it, or those that have units of its type."""
        type = next((type for type, queue in self._queues.items() if lease in queue), None)
        if type is None:
            return None
        view = self._views[lease]
        before = next(iter(self._queues[type]))
        more = view.lease.data["wanted"] - len(view.chosen)
        reason = f"{counted(more, 'more unit')} of type {type} {'is' if more == 1 else 'are'} wanted and "
        reason += f"{len(self._free[type])} free"
        if before != lease:
            return Undecided(f"{reason}, and {before} waits before it", view.lease.data["end"])
        ours = frozenset(self.inventory.numbers(type))
        others = sorted(
            (other.lease.data["end"], name, len(other.held & ours))
            for name, other in self._views.items()
            if name != lease and other.held & ours
        )
        named = [f"{name} has {units}, until tick {end}" for end, name, units in others[:NAMED]]
        more_of_them = [f"{len(others) - NAMED} more leases have others"] if len(others) > NAMED else []
        return Undecided(", ".join([reason, *named, *more_of_them]), view.lease.data["end"])

    def query(self, now: int) -> dict[str, Any]:
        """Returns the units of each type, and how many are free when, if leases end when they are said to."""
        inventory = [
            {"type": type, "units": len(self.inventory.numbers(type)), "free": self._free_from(type, now)}
            for type in self._free
        ]
        held = self.failures.query(now)
        waiting = sum(map(len, self._queues.values()))
        return {
            "inventory": inventory,
            "partitionable": False,  # units are whole
            "call_interval": 0,  # it decides at once
            "advance_time": 0,  # and of leases that have begun
            "waiting": waiting,
            **({"held_back": held} if held else {}),
        }

    def _free_from(self, type: str, now: int) -> list[dict[str, int]]:
        """Returns periods, as a pool of a broker does (stock.py). What has failed comes back by no clock."""
        numbers = frozenset(self.inventory.numbers(type))
        until: dict[int, int] = {}
        for name, view in self._views.items():
            promised = self._promised[name].units if name in self._promised else NONE
            for n in (view.held | promised) & numbers - view.failed:
                until[n] = max(until.get(n, now + 1), view.lease.data["end"])
        coming = Counter(until.values())
        periods: list[dict[str, int]] = []
        units = len(self._free[type])
        for start, end in pairwise([now, *sorted(coming)[:MOST_PERIODS], LARGEST]):
            units += coming[start]
            if units:
                periods.append({"from": start, "until": end, "units": units})
        return periods

    def _settle(self) -> None:
        views = {name: self._views[name].lease for name in self._recovered}
        waiting = sorted(views, key=lambda name: (views[name].turn, views[name].data["end"], name))
        self._recovered = []
        for name in waiting:
            type = self._type(self._views[name])
            if type is not None:
                self._queues[type].setdefault(name)

    def _tell_delegations(self) -> None:
        """Says which leases have units of which no delegation speaks.

        Once a tick is soon enough: none begins while the site hands units on, so there are only fewer.
        """
        if self._beside is None:
            return
        try:
            self._beside.write(
                CountedUnits(name, type, max(view.lease.data["wanted"], len(view.held)), view.lease.data["end"])
                for name, view in self._views.items()
                if not properties_of(view.lease.data["properties"]).get("delegation")
                and (type := self._type(view)) is not None
            )
        except OSError as error:  # it is tried again at the next call
            log.error("%s: which leases have units is not said: %s", self._beside.path, error.strerror or error)

    def _type(self, view: _View) -> str | None:
        """The type of unit that a lease's ticket is for; None where this site has none of it."""
        ticket_type = self._said_type(view)
        if ticket_type in self._free:
            return ticket_type
        types = self.inventory.types
        return types[0] if not ticket_type and len(types) == 1 else None

    def _held_back(self, view: _View, now: int) -> str:
        return self.failures.held_back(view.lease, lambda: self._wish(view), now)

    def _wish(self, view: _View) -> str:
        return self.failures.wish(view.lease, self._type(view) or self._said_type(view))

    @staticmethod
    def _said_type(view: _View) -> str:
        """The type that the ticket names, or else the broker's policy in its properties."""
        return str(view.lease.data["type"] or properties_of(view.lease.data["properties"]).get("type", ""))[:80]

    def _note(self, lease: Lease) -> _View | None:
        """Takes a lease as its record says; returns None where nothing of it counts any more."""
        down = {n: machine["state"] for (_, n), machine in lease.units.items()}
        held = frozenset(lease.data["assigned"]) | {n for n, s in down.items() if s not in ("idle", "closed")}
        failed = frozenset(n for n, state in down.items() if state in _KEPT)
        view = self._views.setdefault(lease.name, _View(lease))
        if view.lease is not lease:
            self.failures.note(view.lease, lease, lambda: self._wish(view), self.host, self._now)
        before, view.lease, view.held, view.failed = view.held, lease, held, failed
        self._hold(held - before, 1)
        self._hold(before - held, -1)
        (self._troubled.add if failed else self._troubled.discard)(lease.name)
        if lease.state in _OVER and not held:
            del self._views[lease.name]
            self._reclaimed.pop(lease.name, None)
            return None
        return view

    def _hold(self, units: Iterable[int], more: int) -> None:
        for n in units:
            self._holders[n] += more
            if 0 <= n < len(self.inventory):
                free = self._free[self.inventory.units[n].type]
                if self._holders[n] > 0:
                    free.discard(n)
                else:
                    free.add(n)

    def _keep_promise(self, name: str) -> None:
        promise = self._promised.pop(name, None)
        if promise is not None:
            self._hold(promise.units, -1)

    def _serve(self, now: int) -> list[Decision]:
        decisions: list[Decision] = []
        for type, queue in self._queues.items():
            short = 0
            for name in list(queue):
                view = self._views[name]
                more = view.lease.data["wanted"] - len(view.chosen)
                if more > 0 and view.expired(now):
                    if self._lazy and not view.assigned:
                        decisions += self._reclaim(view, now)
                elif more > 0 and view.question and (reason := self._held_back(view, now)):
                    del queue[name]
                    decisions.append(view.question.answer("no_room", reason=reason))
                elif more > 0 and (short or more > len(self._free[type])) and more > len(view.down):
                    if view.question is not None and (reason := self._no_room(type, view, short)):
                        del queue[name]
                        decisions.append(view.question.answer("no_room", reason=reason))
                    else:
                        short += more
                elif view.question is not None:
                    del queue[name]
                    decisions.append(self._place(view.question, view, type, bool(short)))
                else:
                    short += max(0, more)  # it will be asked again in a moment; until then its units are its own
            if short and self._lazy:
                decisions += self._take_back(type, short, now)
        return decisions

    def _no_room(self, type: str, view: _View, short: int) -> str:
        """Returns why a lease that cannot be served now is not to wait; empty: it is to wait."""
        wanted, more = view.lease.data["wanted"], view.lease.data["wanted"] - len(view.chosen)
        usable = self._usable(type, view)
        if usable < wanted:
            return f"of {len(self.inventory.numbers(type))} units of type {type}, {usable} can be used"
        if not view.repairs:
            return ""
        going = [n for n in view.given_up if view.state_of(n) not in ("idle", "closed", *_KEPT)]
        free = 0 if short else len(self._free[type])
        if going and max(free, len(view.down) + len(going)) >= more:
            return ""  # its own units are on their way down, which takes no longer than their handlers may
        return f"no unit of type {type} is free for one that was lost"

    def _place(self, question: Question, view: _View, type: str, short: bool) -> Decision:
        wanted, chosen = view.lease.data["wanted"], view.chosen
        fresh = NONE
        if wanted > len(chosen):
            more, free = wanted - len(chosen), self._free[type]
            if short or more > len(free):
                units = chosen | frozenset(heapq.nsmallest(more, view.down))
            else:
                fresh = self._picked(free, more, chosen)
                units = chosen | fresh
        else:
            units = frozenset(sorted(chosen, key=lambda n: (view.state_of(n) != "active", n))[:wanted])
        decision = question.answer("placed", units=units)
        self._hold(fresh, 1)
        self._promised[question.lease.name] = _Promise(decision, fresh)
        return decision

    def _picked(self, free: Iterable[int], more: int, chosen: frozenset[int]) -> frozenset[int]:
        """Picks so many free units; those of suspect hosts only where the others are too few."""
        doubted = frozenset(n for n in free if self.failures.suspect and self.host(n) in self.failures.suspect)
        sound = frozenset(free) - doubted
        if more <= len(sound):
            return frozenset(self.pick(sound, more, chosen))
        return sound | frozenset(self.pick(doubted, more - len(sound), chosen | sound))

    def _usable(self, type: str, view: _View) -> int:
        """Returns the number of units of a type that a lease might get in the end.

        These are all but those that failed and nobody tears down.
        """
        lost = {
            n
            for other in (self._views[name] for name in self._troubled)
            for n in other.failed
            if n in other.quarantined or n not in other.assigned
        }
        return sum(n not in lost or n in view.chosen for n in self.inventory.numbers(type))

    def _take_back(self, type: str, short: int, now: int) -> list[Decision]:
        """Reclaims expired leases until what is free, or on its way back, is enough."""
        ours = frozenset(self.inventory.numbers(type))
        coming = len(self._free[type])
        expired: list[_View] = []
        for view in self._views.values():
            holds = len((view.assigned - view.failed) & ours)
            if view.lease.state == "closing":
                coming += holds
            elif view.expired(now) and holds:
                expired.append(view)
            else:  # a lease that shrinks gives back what was not chosen
                chosen = frozenset(view.lease.data["chosen"])
                coming += len((view.assigned - chosen - view.failed) & ours)
        decisions: list[Decision] = []
        for view in sorted(expired, key=lambda v: (v.lease.data["end"], v.lease.name)):
            if coming >= short:
                break
            coming += len((view.assigned - view.failed) & ours)
            decisions += self._reclaim(view, now)
        return decisions

    def _reclaim(self, view: _View, now: int) -> list[Decision]:
        """Says it once a tick, until the record says that it was heard."""
        lease = view.lease
        if self._reclaimed.get(lease.name) == now:
            return []
        self._reclaimed[lease.name] = now
        return [Decision(lease.name, lease.machine, "reclaim", {})]


class OverHosts(FirstFit):
    """A site's policy that looks at the hosts of units."""

    def by_host(self, units: Iterable[int]) -> dict[str, list[int]]:
        """The units of each host, in their order."""
        hosts: dict[str, list[int]] = {}
        for n in sorted(units):
            hosts.setdefault(self.host(n), []).append(n)
        return hosts


class BestFit(OverHosts):
    """Best fit: a lease gets units of the host with the fewest free ones that are enough, so that others stay whole.

    Where no host has enough, it gets those of the host with the most, and so on. Its settings are those of `FirstFit`.
    """

    quick = True

    def pick(self, free: frozenset[int], count: int, chosen: frozenset[int]) -> Iterable[int]:
        hosts, picked = self.by_host(free), list[int]()
        while len(picked) < count:
            left = count - len(picked)
            enough = [host for host, units in hosts.items() if len(units) >= left]
            host = min(enough, key=lambda h: len(hosts[h])) if enough else max(hosts, key=lambda h: len(hosts[h]))
            picked += hosts.pop(host)[:left]
        return picked


class Spread(OverHosts):
    """Spread: a lease gets its units on as many hosts as can be, so that the loss of a host takes few of them.

    Of hosts on which it has as many, the one with the most free units is taken. Its settings are those of `FirstFit`.
    """

    quick = True

    def pick(self, free: frozenset[int], count: int, chosen: frozenset[int]) -> Iterable[int]:
        hosts, has = self.by_host(free), Counter(self.host(n) for n in chosen)
        picked = list[int]()
        for _ in range(count):
            host = min((h for h, units in hosts.items() if units), key=lambda h: (has[h], -len(hosts[h])))
            has[host] += 1
            picked.append(hosts[host].pop(0))
        return picked
