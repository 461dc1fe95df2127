"""The cost of a decision of a broker, by the number of leases that it has promised units to; and its memory."""

from __future__ import annotations

import gc
import random
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate, cycle
from typing import Any, Protocol

import numpy as np

from leasehold.impl.lease.broker import FirstComeFirstServed
from leasehold.impl.lease.calendar import Calendar, Holding
from leasehold.impl.lease.inventory import Inventory
from leasehold.impl.policy.policy import Decision, Lease, Question
from tests.benchmarks.measure import Missing, Row, Section, Table, Target, rounds
from tests.impl.lease.machines import first_data
from tests.impl.lease.naive_calendar import NaiveCalendar

UNITS = 10_000
SIZES = (1_000, 10_000, 100_000)
TERM = 1000  # ticks; of N leases as many run at once as there are units for
LONG = 50_000  # ticks of terms that hardly ever begin or end at the same time
DECISIONS = 100
HOW = f"""
`first_come_first_served` over {UNITS:,} units has promised one or two units each to so many leases, whose terms begin
at random times: most are reservations for later. In turns a lease ends and a new request comes, which is granted for a
later term; only the call `begin` is timed, in CPU time, as the actor's loop waits for it. Then the same with all terms
begun, which is how a broker without reservations lives; and with requests that wait. A target is a millisecond. Memory
is what `tracemalloc` counts for both calendars of the policy, the leases' names included.

Below it, the operations of one decision (the holdings of two leases change, and a term is asked for) on a calendar of
reservations: ours, on blocks of lists; on two sorted arrays of numpy; on a `SortedDict` of changes (sortedcontainers),
added up where it is asked; on an interval tree (intervaltree); and the calendar that looks at every holding. The last
two have few, as they take seconds with many. Ours keeps, beside the level, what `in_the_way`, `room_from` and
`room_comes` ask for; the others know the level alone.
"""


class Asked(Protocol):
    """A calendar that is compared: what a lease holds from when until when, and the most that is held in a term."""

    def put(self, lease: str, holding: Holding | None) -> None: ...

    def most(self, start: int, end: int, now: int) -> int: ...


class NumpyCalendar:
    """The level as an array over sorted times; a holding moves a slice of it, and a new time moves what follows."""

    def __init__(self) -> None:
        self.holdings: dict[str, Holding] = {}
        self.times, self.levels = np.array([-1], np.int64), np.zeros(1, np.int64)
        self.used: dict[int, int] = {}

    def fill(self, holdings: Mapping[str, Holding]) -> None:
        """Takes many at once, which one by one would move the arrays as often."""
        changes: dict[int, int] = {}
        self.holdings = dict(holdings)
        for one in holdings.values():
            for at, by in ((one.start, one.units), (one.until, -one.units)):
                changes[at] = changes.get(at, 0) + by
                self.used[at] = self.used.get(at, 0) + 1
        times = sorted(changes)
        self.times = np.array([-1, *times], np.int64)
        self.levels = np.cumsum([0, *(changes[at] for at in times)])

    def put(self, lease: str, holding: Holding | None) -> None:
        before = self.holdings.pop(lease, None)
        for one, sign in ((before, -1), (holding, 1)):
            if one is None:
                continue
            for at in (one.start, one.until):
                self.used[at] = self.used.get(at, 0) + sign
                place = int(np.searchsorted(self.times, at))
                if sign > 0 and (place == len(self.times) or self.times[place] != at):
                    self.times = np.insert(self.times, place, at)
                    self.levels = np.insert(self.levels, place, self.levels[place - 1])
            begin, end = np.searchsorted(self.times, (one.start, one.until))
            self.levels[begin:end] += sign * one.units
            for at in (one.start, one.until):
                if not self.used[at]:
                    del self.used[at]
                    place = int(np.searchsorted(self.times, at))
                    self.times, self.levels = np.delete(self.times, place), np.delete(self.levels, place)
        if holding is not None:
            self.holdings[lease] = holding

    def most(self, start: int, end: int, now: int) -> int:
        begin = int(np.searchsorted(self.times, start, "right")) - 1
        return int(self.levels[begin : max(begin + 1, int(np.searchsorted(self.times, end)))].max())


class SortedDictCalendar:
    """Changes by time in a SortedDict."""

    def __init__(self) -> None:
        try:
            from sortedcontainers import SortedDict
        except ImportError as error:
            raise Missing(f"{error.name} is not installed") from None
        self.holdings: dict[str, Holding] = {}
        self.changes: Any = SortedDict()

    def put(self, lease: str, holding: Holding | None) -> None:
        before = self.holdings.pop(lease, None)
        for one, sign in ((before, -1), (holding, 1)):
            if one is None:
                continue
            for at, by in ((one.start, sign * one.units), (one.until, -sign * one.units)):
                now = self.changes.get(at, 0) + by
                if now:
                    self.changes[at] = now
                else:
                    self.changes.pop(at, None)
        if holding is not None:
            self.holdings[lease] = holding

    def most(self, start: int, end: int, now: int) -> int:
        levels = [*accumulate(self.changes.values(), initial=0)]
        return max(levels[self.changes.bisect_right(start) : self.changes.bisect_left(end) + 1])


class IntervalTreeCalendar:
    """Holdings as intervals; those that overlap a term are swept."""

    def __init__(self) -> None:
        try:
            from intervaltree import IntervalTree
        except ImportError as error:
            raise Missing(f"{error.name} is not installed") from None
        self.holdings: dict[str, Holding] = {}
        self.tree: Any = IntervalTree()

    def put(self, lease: str, holding: Holding | None) -> None:
        before = self.holdings.pop(lease, None)
        if before is not None:
            self.tree.removei(before.start, before.until, (lease, before.units))
        if holding is not None:
            self.tree.addi(holding.start, holding.until, (lease, holding.units))
            self.holdings[lease] = holding

    def most(self, start: int, end: int, now: int) -> int:
        changes: dict[int, int] = {}
        for one in self.tree.overlap(start, end):
            units = one.data[1]
            begin = max(one.begin, start)
            changes[begin] = changes.get(begin, 0) + units
            changes[one.end] = changes.get(one.end, 0) - units
        return max(accumulate(changes[at] for at in sorted(changes) if at < end), default=0)


def terms(chance: random.Random, leases: int, begun: bool, term: int = TERM) -> Iterator[Holding]:
    """Holdings that together fill the units about half, at each time."""
    span = max(term, leases * term // (UNITS // 3))
    while True:
        start = 0 if begun else chance.randrange(1, span)
        length = chance.randrange(term // 2, term * 3 // 2)
        yield Holding(1 + chance.getrandbits(1) * (not begun), start + length + begun * chance.randrange(span), start)


class Broker:
    """The policy and its leases.

    Args:
        leases: with a ticket each.
        begun: all terms have begun.
        waiting: requests that wait, for more units than there are free.
    """

    def __init__(self, leases: int, *, begun: bool = False, waiting: int = 0, backfill: bool = False) -> None:
        self.chance = random.Random(leases)
        units = max(UNITS, leases) if begun else UNITS
        inventory = Inventory.parse({"units": [{"name": "u", "count": units}]})
        self.policy = FirstComeFirstServed(inventory, backfill=backfill)
        self.data = first_data("broker")
        self.terms = terms(self.chance, leases, begun)
        self.names = cycle([f"tenant:{n}" for n in range(leases)])
        self.now = 1
        self.given: dict[str, Holding] = {}
        for _ in range(leases):
            name = next(self.names)
            self.given[name] = holding = next(self.terms)
            self.policy.recovered(self.lease(name, holding, "ticketed"))
        for n in range(waiting):
            request = Holding(units, 10 * TERM + n, 0)
            self.policy.begin(self.question(f"waits:{n}", request), self.now)

    def lease(self, name: str, holding: Holding, state: str) -> Lease:
        fields = {"counted": holding.units, "units": holding.units, "term_end": holding.until, "start": holding.start}
        asked = {"units": holding.units, "end": holding.until, "start": holding.start}
        data = {**self.data, **fields} if state == "ticketed" else dict(self.data)
        return Lease(name, "broker", state, {**data, **{f"requested_{key}": v for key, v in asked.items()}}, {})

    def question(self, name: str, holding: Holding) -> Question:
        return Question("allocate", self.lease(name, holding, "ticketing"), ("granted", "denied"), 1)

    def turn(self) -> float:
        """A lease ends, and another request comes; the microseconds that its decision takes."""
        name = next(self.names)
        self.policy.changed(self.lease(name, self.given[name], "closed"), self.now)
        self.given[name] = holding = next(self.terms)
        question = self.question(name, holding)
        began = time.process_time()
        decisions: list[Decision] = [*self.policy.begin(question, self.now)]
        took = time.process_time() - began
        if any(one.event == "granted" for one in decisions):
            self.policy.changed(self.lease(name, holding, "ticketed"), self.now)
        else:
            self.policy.changed(self.lease(name, holding, "closed"), self.now)
        return took * 1e6

    def decision(self, times: int) -> float:
        """The mean over some turns."""
        return sum(self.turn() for _ in range(times)) / times

    def denial(self) -> float:
        """The microseconds that it takes to say what a request waits for."""
        began = time.process_time()
        self.policy.undecided("waits:0", self.now)
        return (time.process_time() - began) * 1e6


def change(calendar: Asked, held: dict[str, Holding], names: Iterator[str], more: Iterator[Holding]) -> float:
    """The microseconds of one decision's operations."""
    name, holding, term = next(names), next(more), next(more)
    began = time.process_time()
    calendar.put(name, None)
    calendar.most(term.start, term.until, 0)
    calendar.put(name, holding)
    took = time.process_time() - began
    held[name] = holding
    return took * 1e6


def filled(make: Callable[[], Asked], leases: int, term: int = TERM) -> Callable[[], float]:
    """A calendar of so many reservations; returns what measures the operations of a decision on it."""
    calendar, chance = make(), random.Random(leases)
    drawn = terms(chance, leases, False, term)
    held = {f"tenant:{n}": next(drawn) for n in range(leases)}
    if isinstance(calendar, NumpyCalendar):
        calendar.fill(held)
    else:
        for name, holding in held.items():
            calendar.put(name, holding)
    turn = cycle([*held])
    return lambda: sum(change(calendar, held, turn, drawn) for _ in range(30)) / 30


def memory(leases: int) -> float:
    """Bytes of a lease in the policy."""
    gc.collect()
    tracemalloc.start()
    try:
        broker = Broker(leases)
        broker.given.clear()
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return taken / leases


def benchmark(quick: bool) -> Section:
    sizes, times, count = ((100,), 10, 1) if quick else (SIZES, DECISIONS, 3)
    kinds: dict[str, dict[str, Any]] = {
        "reservations": {},
        "all terms begun": {"begun": True},
        "10,000 requests wait": {"begun": True, "waiting": 20 if quick else 10_000},
    }
    rows = []
    for kind, options in kinds.items():
        for size in sizes:
            broker = Broker(size, **options)
            (figures,) = rounds({f"{kind}, {size:,} leases": lambda b=broker: b.decision(times)}, count).values()
            rows.append(Row(f"{kind}, {size:,} leases", figures, targets=[Target(1000, least=False, of_ratio=False)]))
    waiting = []
    for size in sizes:
        broker = Broker(size, begun=True, waiting=1)
        (figures,) = rounds({f"{size:,} leases": broker.denial}, count).values()
        waiting.append(Row(f"{size:,} leases", figures))
    sizes_of = [Row(f"{size:,} leases", [memory(size)]) for size in sizes]
    runs, skipped = {}, []
    for label, (make, leases, term) in {
        f"blocks of lists (`Calendar`), {sizes[-1]:,}": (Calendar, sizes[-1], TERM),
        f"numpy, {sizes[-1]:,}": (NumpyCalendar, sizes[-1], TERM),
        f"blocks of lists, {sizes[-1]:,}, terms of {LONG:,} ticks": (Calendar, sizes[-1], LONG),
        f"numpy, {sizes[-1]:,}, terms of {LONG:,} ticks": (NumpyCalendar, sizes[-1], LONG),
        f"sortedcontainers, {sizes[-1]:,}": (SortedDictCalendar, sizes[-1], TERM),
        f"intervaltree, {sizes[0]:,}": (IntervalTreeCalendar, sizes[0], TERM),
        f"each holding, {sizes[0]:,}": (NaiveCalendar, sizes[0], TERM),
    }.items():
        try:
            runs[label] = filled(make, leases, term)
        except Missing as missing:
            skipped.append(f"{label}: {missing}")
    compared = [Row(label, figures) for label, figures in rounds(runs, count).items()]
    tables = [
        Table("a decision", "µs", rows),
        Table("the words of what a request waits for", "µs", waiting),
        Table("memory of a lease in the policy", "bytes", sizes_of),
        Table("the calendar's part of it", "µs", compared),
    ]
    return Section("calendars", f"A broker's decision over {UNITS:,} units", HOW, tables, skipped)
