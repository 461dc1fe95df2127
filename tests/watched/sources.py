"""Where random runs come from: plans of the lease, and walks of any other system that real actors can play.

A seed gives one run, to the byte. Each run ends when faults are over and its actors have come to rest, or after so many
steps; what is kept of it are the events on the actors' disks.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Protocol

from leasehold.checker.crash.analysis import crash
from leasehold.checker.recovery.cases.runner import CaseRunner
from leasehold.checker.recovery.cases.script import ScriptGenerator
from leasehold.checker.recovery.cases.steps import Script
from leasehold.checker.recovery.cases.walk import WalkRun
from leasehold.checker.recovery.lease.random_runs.plan import RunPlan, plan_of
from leasehold.checker.recovery.lease.random_runs.run import RandomRun, compiled
from leasehold.checker.verify.system import CutsOfSystem
from leasehold.faults.model import Budget
from leasehold.impl.events.event import AnyEvent, read
from leasehold.impl.store.memory import Disk
from leasehold.spec import load
from leasehold.spec.language.model import Property
from tests.watched.batch import timeless

ROOT = Path(__file__).parents[2]
LEASE = "lease"
OTHERS: Mapping[str, str | Path] = {
    "two_phase_commit": "two_phase_commit",
    "three_phase_commit": "three_phase_commit",
    "three_phase_commit_termination": "three_phase_commit_termination",
    "contention": "contention",
    "mutex": ROOT / "examples/mutex",
    "register": ROOT / "examples/register",
    "ring": ROOT / "examples/ring",
    "fixed_ring": ROOT / "tests/impl/actor/fixed_ring",
    "lodge": ROOT / "tests/impl/actor/lodge",
    "pipe": ROOT / "tests/impl/actor/pipe",
    "captures": ROOT / "tests/constructs/captures",
    "circle": ROOT / "tests/constructs/circle",
    "maps": ROOT / "tests/constructs/maps",
}
SYSTEMS = (LEASE, *OTHERS)
DEMANDS = frozenset(("demand", "flex", "prolong", "stop"))

History = dict[str, list[AnyEvent]]


def events_of(disks: Mapping[str, Disk]) -> History:
    """The events on the disks of actors."""
    return {name: [*map(read, disk.chain())] for name, disk in disks.items()}


@dataclass(frozen=True)
class Played:
    """A run that was played.

    Attributes:
        seed: of the run.
        history: the events of its actors.
        complete: nothing more would come, so claims about what comes are decided.
        faults: the kinds of faults that it had.
    """

    seed: int
    history: History
    complete: bool = False
    faults: frozenset[str] = frozenset()


@dataclass
class Batch:
    """Runs that are verified together.

    Attributes:
        known: their system.
        properties: those that are asked; None: all.
        setting: in words.
    """

    known: CutsOfSystem
    runs: Iterable[Played]
    properties: Mapping[str, Property] | None = None
    setting: str = ""


class Source(Protocol):
    """Runs of one system."""

    def batches(self, seeds: Iterable[int], size: int) -> Iterator[Batch]:
        """Runs of seeds, in batches that are verified together."""
        ...


def source_of(system: str) -> Source:
    """The runs of a system (SYSTEMS); that of others is explored first, which takes up to minutes."""
    return RandomLeases() if system == LEASE else RandomWalks(OTHERS[system])


# The lease


@cache
def known_lease(units: int, lazy: bool) -> CutsOfSystem:
    return CutsOfSystem(compiled(units, lazy)[1].system)


class UnwatchedRun(RandomRun):
    """A random run that costs half as much, as neither its steps nor its states are compared with anything."""

    def __init__(self, plan: RunPlan) -> None:
        super().__init__(plan)
        self.sim.subscribers[:] = [self._hear]  # what stops actors amid their work
        self.sim.turns.clear()
        self.sim.ends.clear()

    def watch(self, lease: str) -> None:
        """Nobody does."""


def played_plan(plan: RunPlan) -> Played:
    """The events of a plan."""
    run = UnwatchedRun(plan)
    run.play()
    return Played(plan.seed, events_of(run.disks), faults=frozenset(act.kind for act in plan.acts) - DEMANDS)


@dataclass
class RandomLeases:
    """Random plans: clients, crashes, power cuts, partitions, losses, duplicates, disks and handlers that fail, and
    clocks that differ. Where they do, properties that speak of time are not asked."""

    def batches(self, seeds: Iterable[int], size: int) -> Iterator[Batch]:
        waiting: dict[tuple[int, bool, bool], list[RunPlan]] = defaultdict(list)
        for plan in map(plan_of, seeds):
            setting = plan.units, plan.lazy, any(act.kind == "skew" for act in plan.acts)
            waiting[setting].append(plan)
            if len(waiting[setting]) == size:
                yield self._batch(*setting, waiting.pop(setting))
        for setting, plans in waiting.items():
            yield self._batch(*setting, plans)

    def _batch(self, units: int, lazy: bool, skewed: bool, plans: list[RunPlan]) -> Batch:
        known = known_lease(units, lazy)
        words = f"{units} units, {'lazy' if lazy else 'eager'}{', clocks differ' if skewed else ''}"
        return Batch(known, map(played_plan, plans), timeless(known.system) if skewed else None, words)


# Other systems


@dataclass
class RandomWalks:
    """Random walks of any system: a case of its crash campaign by chance, and what follows its restart by chance.

    Half of them lose the messages of the actor that crashes; the other half receive everything twice. Properties that
    the explorer says are violated, with one crash or without, are not asked.
    """

    name: str | Path
    runner: CaseRunner = field(init=False)

    def __post_init__(self) -> None:
        plain = load(self.name)
        system = load(self.name, plain.faults.settings)
        report = crash(system, Budget(crash=1))
        self.scripts = list(ScriptGenerator(report).every())
        self.runner = CaseRunner(system)
        self.known = CutsOfSystem(system)
        wrong = {*report.broken, *(p.name for p in report.legal.properties if p.verdict == "violated")}
        self.asked = {name: p for name, p in system.properties.items() if name not in wrong} if wrong else None

    def batches(self, seeds: Iterable[int], size: int) -> Iterator[Batch]:
        seeds = iter(seeds)
        while some := [seed for _, seed in zip(range(size), seeds, strict=False)]:
            yield Batch(self.known, map(self.play, some), self.asked)

    def play(self, seed: int) -> Played:
        """The events of a walk."""
        return played_walk(walk_of(self.runner, self.scripts, seed), seed)


def walk_of(
    runner: CaseRunner, scripts: Sequence[Script], seed: int, walk: Callable[..., WalkRun] = WalkRun
) -> WalkRun:
    """The walk of a seed, which has not begun."""
    chance = random.Random(seed)
    script, lost = chance.choice(scripts), chance.random() < 0.5
    run = walk(runner.program, runner.properties, script, lost=lost)
    run.chance = chance
    return run


def played_walk(run: WalkRun, seed: int) -> Played:
    """Plays a walk; its events as they are when it is over."""
    try:
        run.run()
        faults = frozenset(("crash", "lose" if run.lost else "duplicate"))
        return Played(seed, events_of(run.sim.disks), run.ended, faults)
    finally:
        run.close()
