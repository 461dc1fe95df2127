"""Schedules of a test: from a seed, the order in which messages come, and the faults of a budget, each at some point.

Fault model. Messages between different actors come in any order; those of one actor to another in the order in which
it has sent them, but for those that a budget has `reorder`. A message may be lost (`lose`), and its sender says it
again. It may come twice, or the answer to it be lost, so that it is said again (`duplicate`). An actor may crash
(`crash`) where a random run crashes it: before a commit, after it, before a message is sent or a policy or handler is
called, also while it recovers; it starts again at once. Nothing else fails.

How many messages and points a run has is not known before it is over, so seed 0 is a calm run: without faults, each
message at once. Its extent is what the faults of the other seeds are drawn from: as many of each kind as the budget
allows or fewer, at messages and points that are equally likely. So a seed and a budget give one schedule of a test.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from leasehold.faults.model.budget import Budget, BudgetError
from leasehold.faults.simulation.network import ARRIVES, LOST, Packet, PacketOutcome
from leasehold.impl.notices import Kind, Notice
from leasehold.impl.words import choices, counted

DRAWN = ("crash", "lose", "duplicate", "reorder")  # the kinds of faults that a schedule has
CRASH_POINTS = (Kind.COMMIT, Kind.COMMITTED, Kind.SEND, Kind.CALL)
CALM_SHARE = 0.2  # of schedules without a kind of fault that is in the budget, so that it does not hide others
ANY_SHARE = 0.25  # of messages, at most, that a fault without a limit strikes
LATE_SECONDS = 2.0  # by which a message that is overtaken comes later than others may


def schedule_budget(text: str) -> Budget:
    """Reads the budget of a test's schedules.

    Raises:
        BudgetError: it is none, or has a fault that no schedule has.
    """
    budget = Budget.parse(text)
    for name in budget.given:
        if name not in DRAWN:
            raise BudgetError(f"a schedule has no {name}{choices(name, DRAWN)}")
    return budget


@dataclass(frozen=True, slots=True)
class RunExtent:
    """The number of messages of a run, and of points at which an actor may crash."""

    messages: int = 0
    points: int = 0


class Schedule:
    """One schedule, for one run.

    Args:
        seed: 0 is the calm run.
        budget: its faults.
        extent: of the calm run.

    Attributes:
        happened: each message that came, and each fault, in their order: two schedules with the same are one.
        faults: how many there were, by kind.
    """

    def __init__(self, seed: int, budget: Budget, extent: RunExtent) -> None:
        self.seed = seed
        self.happened: list[str] = []
        self.faults: Counter[str] = Counter()
        self._chance = random.Random(f"schedule {seed}")
        sizes = {kind: extent.points if kind == "crash" else extent.messages for kind in DRAWN}
        self._struck = {kind: self._drawn(budget, kind, size) for kind, size in sizes.items()}
        self._messages = self._points = 0
        self._latest: dict[tuple[str, str], float] = {}  # by link, when the last message in order comes
        self._come: dict[tuple[str, str], int] = {}  # by link, the highest number that came
        self._over = False

    def _drawn(self, budget: Budget, kind: str, size: int) -> frozenset[int]:
        """The numbers of the messages or points at which a kind of fault strikes."""
        most = int(size * ANY_SHARE) + 1 if kind in budget.unlimited else budget.limits.get(kind, 0)
        if not most or not self.seed or self._chance.random() < CALM_SHARE:
            return frozenset()
        return frozenset(self._chance.sample(range(size), min(size, self._chance.randint(1, most))))

    @property
    def extent(self) -> RunExtent:
        """The extent of the run so far."""
        return RunExtent(self._messages, self._points)

    def rule(self, source: str, target: str, frame: bytes) -> PacketOutcome:
        """The outcome of a message, as the network asks for it."""
        number, link = self._messages, (source, target)
        self._messages += 1
        if not self.seed:
            return ARRIVES
        if number in self._struck["lose"]:
            self._strike("lose", f"{source} > {target}")
            return LOST
        comes = asyncio.get_running_loop().time() + self._chance.random()
        if number in self._struck["reorder"]:
            comes += LATE_SECONDS
        else:
            comes = self._latest[link] = max(comes, self._latest.get(link, 0.0))
        delay = comes - asyncio.get_running_loop().time()
        if number not in self._struck["duplicate"]:
            return PacketOutcome((delay,))
        self._strike("duplicate", f"{source} > {target}")
        if self._chance.random() < 0.5:
            return PacketOutcome((delay, delay + self._chance.random() * LATE_SECONDS))
        return PacketOutcome((delay,), answered=False)

    def hear_packet(self, packet: Packet) -> None:
        """A message has come."""
        link, envelope = (packet.source, packet.target), packet.envelope
        if packet.number < self._come.get(link, 0):
            self._strike("reorder", f"{packet.source} > {packet.target}")
        self._come[link] = max(packet.number, self._come.get(link, 0))
        self.happened.append(f"{envelope['sending_machine']} > {envelope['receiving_machine']}: {envelope['message']}")

    def crashes_at(self, notice: Notice) -> bool:
        """Returns whether an actor crashes at what a notice tells of."""
        if self._over or notice.kind not in CRASH_POINTS:
            return False
        number = self._points
        self._points += 1
        if number in self._struck["crash"]:
            self._strike("crash", f"{notice.actor} at {notice.kind.value} {notice.machine} {notice.name}")
            return True
        return False

    def _strike(self, kind: str, at: str) -> None:
        self.faults[kind] += 1
        self.happened.append(f"{kind}: {at.strip()}")

    def end(self) -> None:
        """The run is over: the actors are ended, and nothing strikes them."""
        self._over = True


class SchedulePlays:
    """The plays of one test, each under a schedule of its own: which there were, and how many were different.

    Args:
        seeds: of the schedules; the calm run comes first, whether it is among them or not.
        budget: of each.

    Attributes:
        seed: of the play that goes on.
        plays: how many have begun.
        faults: of all of them, by kind.
        expected: the properties that were to be violated, and were in some play.
    """

    def __init__(self, seeds: Sequence[int], budget: Budget) -> None:
        self.seeds, self.budget = list(dict.fromkeys((0, *seeds))), budget
        self.seed = self.plays = 0
        self.faults: Counter[str] = Counter()
        self.expected: set[str] = set()
        self._extents: list[RunExtent] = []  # of the runs of the calm play
        self._schedules: list[Schedule] = []  # of the play that goes on
        self._seen: set[tuple[tuple[str, ...], ...]] = set()

    def begin(self, seed: int) -> None:
        """A play begins."""
        self.seed, self._schedules = seed, []
        self.plays += 1

    def next(self) -> Schedule:
        """The schedule of the next run of the play: a test may start several systems."""
        number = len(self._schedules)
        extent = self._extents[number] if number < len(self._extents) else RunExtent()
        self._schedules.append(Schedule(self.seed, self.budget, extent))
        return self._schedules[-1]

    def end(self) -> None:
        """The test has done what it does, and its actors still run."""
        if not self.seed:
            self._extents = [schedule.extent for schedule in self._schedules]
        for schedule in self._schedules:
            self.faults.update(schedule.faults)
        if any(schedule.happened for schedule in self._schedules):
            self._seen.add(tuple(tuple(schedule.happened) for schedule in self._schedules))

    @property
    def last(self) -> bool:
        """Returns whether no play follows this one."""
        return self.seed == self.seeds[-1]

    @property
    def different(self) -> int:
        """The number of plays of which no two are alike: one in which nothing happened does not count."""
        return len(self._seen)

    @property
    def story(self) -> list[str]:
        """The faults of the play that goes on, in their order."""
        return [one for schedule in self._schedules for one in schedule.happened if one.partition(":")[0] in DRAWN]

    def __str__(self) -> str:
        struck = [f"{name} {self.faults[name] or 'never'}" for name in self.budget.given]
        return ", ".join([f"{counted(self.plays, 'schedule')}, {self.different} different", *struck])
