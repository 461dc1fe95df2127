"""Logs of random runs of any system: real actors take what the specification allows, and some end and come back."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from functools import cache, partial
from pathlib import Path

from leasehold.checker.conform.findings import JudgedLog, Nonconformity
from leasehold.checker.conform.judge import LogConformance
from leasehold.checker.conform.known import KnownSystem
from leasehold.checker.recovery.campaign import silent
from leasehold.checker.recovery.cases.choices import Happening
from leasehold.checker.recovery.cases.properties import RunProperties
from leasehold.checker.recovery.cases.steps import Script
from leasehold.checker.recovery.cases.walk import WalkRun
from leasehold.impl.events.event import AnyEvent, read
from tests.systems import load

ROOT = Path(__file__).parents[3]
SYSTEMS = (
    "two_phase_commit", "three_phase_commit", "three_phase_commit_termination", "contention", "examples/mutex",
    "examples/register", "examples/ring", "lease",
)  # fmt: skip
Log = dict[str, list[AnyEvent]]


class _Enough(Exception):
    """The walk is long enough."""


class CrashingWalk(WalkRun):
    """A walk from the first state, on which actors end, so many steps long."""

    def __init__(self, known: KnownSystem, properties: RunProperties, seed: int, steps: int) -> None:
        super().__init__(known.program, properties, Script((), "walk", str(seed), (), 0, ()))
        self.left, self.crashes = steps, 3

    def until_recovered(self) -> None:
        self.sim.release(packets=False)
        try:
            self._go_on()
        except _Enough:
            self.outcome.end = "long enough"

    def _restarts(self) -> list[Happening]:
        self.left -= 1
        if self.left < 0:
            raise _Enough
        running = sorted(self.sim.actors)
        crash = bool(self.crashes and running) and self.chance.random() < 0.2
        return super()._restarts() + ([partial(self._crash, self.chance.choice(running))] if crash else [])

    def _crash(self, name: str) -> None:
        self.crashes -= 1
        self.sim.crash(name)
        self.monitor.passed("crash")

    @property
    def log(self) -> Log:
        return {name: [read(disk.events[at]) for at in sorted(disk.events)] for name, disk in self.sim.disks.items()}


@cache
def known(name: str) -> KnownSystem:
    return KnownSystem(load(name if "/" not in name else ROOT / name))


@cache
def _properties(name: str) -> RunProperties:
    return RunProperties(known(name).system)


@cache
def walked(name: str, seed: int, steps: int = 40) -> Log:
    """The logs of all actors on a walk."""
    with silent():
        run = CrashingWalk(known(name), _properties(name), seed, steps)
        run.run()
        found = run.log
        run.close()
    return found


def judged(
    of: KnownSystem, log: Mapping[str, list[AnyEvent]], pruned: int = 0
) -> tuple[list[Nonconformity], list[JudgedLog]]:
    """What is wrong with logs, and what was judged."""
    conformance = LogConformance(of, [JudgedLog(actor, pruned=pruned) for actor in log])
    for event in conformance.merged(log.items()):
        conformance.take(event)
    conformance.end()
    return conformance.findings, conformance.judged


def seeds(count: int) -> Iterator[int]:
    return iter(random.Random(21).sample(range(10_000), count))
