"""Random campaigns: runs of one seed after another, for as long as asked, and the smallest plan of each that fails."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from leasehold.checker.explore import Path
from leasehold.checker.recovery.random_runs.plan import RunPlan, plan_of, shrunk
from leasehold.checker.recovery.random_runs.run import RandomRun
from leasehold.checker.recovery.simulated_run import SERVICE_MANAGER, Finding
from leasehold.checker.recovery.workers import spread

LEASE = re.compile(rf"{SERVICE_MANAGER}:[0-9]+")
CHUNK = 50  # seeds that a process is given at a time

Watch = Callable[[int, int, float], None]  # runs, failures, seconds


@dataclass(frozen=True, slots=True)
class FailedRun:
    """A run that fails.

    Attributes:
        seed: of the run.
        findings: what is wrong.
        plan: the smallest plan that was found to fail in the same check.
        smallest: what is wrong with it.
        lease, path: what the actors did, under that plan, about the lease that the findings name.
    """

    seed: int
    findings: tuple[Finding, ...]
    plan: RunPlan
    smallest: tuple[Finding, ...]
    lease: str
    path: Path


@dataclass
class RandomCampaign:
    """The result of a random campaign, or of a part of it.

    Attributes:
        first: the first seed; runs have the seeds from it on.
        runs: how many.
        acts: how many events of each kind they had.
        crashes, lost: of actors; of messages.
        asked: states and steps on which the invariants were evaluated.
        failures: the runs with findings.
    """

    first: int
    runs: int = 0
    acts: Counter[str] = field(default_factory=Counter)
    crashes: int = 0
    lost: int = 0
    asked: int = 0
    failures: list[FailedRun] = field(default_factory=list)
    seconds: float = 0.0
    interrupted: bool = False

    def add(self, part: RandomCampaign) -> None:
        self.runs += part.runs
        self.acts += part.acts
        self.crashes += part.crashes
        self.lost += part.lost
        self.asked += part.asked
        self.failures += part.failures


def random_campaign(
    runs: int | None, *, hours: float | None = None, seed: int = 0, jobs: int | None = None, watch: Watch | None = None,
    most: int = 5,
) -> RandomCampaign:  # fmt: skip
    """Plays runs until there were so many, the time is over, or `most` have failed."""
    begun = time.perf_counter()
    until = None if hours is None else begun + hours * 3600
    found = RandomCampaign(seed)
    seeds = _chunks(seed, None if runs is None else seed + runs, until)
    try:
        for part in spread(_part, seeds, 0 if jobs == 1 or (runs is not None and runs <= CHUNK) else jobs):
            found.add(part)
            if watch is not None:
                watch(found.runs, len(found.failures), time.perf_counter() - begun)
            if len(found.failures) >= most:
                break
    except KeyboardInterrupt:
        found.interrupted = True
    found.failures.sort(key=lambda failed: failed.seed)
    found.seconds = time.perf_counter() - begun
    return found


def _chunks(first: int, last: int | None, until: float | None) -> Iterator[range]:
    while (last is None or first < last) and (until is None or time.perf_counter() < until):
        end = first + CHUNK if last is None else min(first + CHUNK, last)
        yield range(first, end)
        first = end


def _part(seeds: range) -> RandomCampaign:
    part = RandomCampaign(seeds.start)
    for seed in seeds:
        plan = plan_of(seed)
        run, findings = play(plan)
        failures = [failed(plan, findings)] if findings else []
        events = Counter(event.kind for event in plan.acts)
        part.add(RandomCampaign(seed, 1, events, run.crashes, run.sim.network.lost, run.asked, failures))
    return part


def play(plan: RunPlan) -> tuple[RandomRun, tuple[Finding, ...]]:
    """Plays a plan."""
    run = RandomRun(plan)
    return run, tuple(run.play())


def failed(plan: RunPlan, findings: tuple[Finding, ...]) -> FailedRun:
    """Shrinks the plan of a run that fails, and traces what it does."""
    smallest = smaller(plan, findings)
    run, found = play(smallest)
    named = (match[0] for finding in found if (match := LEASE.search(finding.words)))
    lease = next(named, run.leases[0] if run.leases else f"{SERVICE_MANAGER}:1000")
    traced = RandomRun(smallest, lease)
    traced.play()
    assert traced.trace is not None
    return FailedRun(plan.seed, findings, smallest, found, lease, traced.trace.path())


def smaller(plan: RunPlan, findings: tuple[Finding, ...]) -> RunPlan:
    """The smallest plan that was found to fail in one of the checks in which this one fails."""
    checks = {finding.check for finding in findings}
    return shrunk(plan, lambda less: any(finding.check in checks for finding in play(less)[1]))
