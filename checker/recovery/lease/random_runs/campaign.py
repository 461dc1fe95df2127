"""Random campaigns: runs of one seed after another, for as long as asked, and the smallest plan of each that fails."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from leasehold.checker.recovery.campaign import Campaign, CaseOutcome, Finding, Watch, in_processes
from leasehold.checker.recovery.lease.random_runs.plan import RunPlan, plan_of, shrunk
from leasehold.checker.recovery.lease.random_runs.run import RandomRun
from leasehold.checker.recovery.lease.run import SERVICE_MANAGER

LEASE = re.compile(rf"{SERVICE_MANAGER}:[0-9]+")
CHUNK = 50  # seeds that a process is given at a time


@dataclass(slots=True)
class FailedRun(CaseOutcome):
    """A run that fails, with the path of the actors under the smallest plan, about the lease that its findings name.

    Attributes:
        plan: the smallest plan that was found to fail in the same check.
        smallest: the findings of that plan.
        lease: the lease of the path.
    """

    plan: RunPlan = field(kw_only=True)
    smallest: list[Finding] = field(kw_only=True)
    lease: str = ""

    @property
    def seed(self) -> int:
        return self.plan.seed


@dataclass
class RandomCampaign(Campaign):
    """The result of a random campaign.

    Attributes:
        first: the first seed; runs have the seeds from it on.
        acts: how many events of each kind they had.
        lost: messages.
    """

    first: int = 0
    acts: Counter[str] = field(default_factory=Counter)
    lost: int = 0

    def add(self, case: tuple[RunPlan, int], outcome: CaseOutcome) -> None:
        super().add(case, outcome)
        plan, lost = case
        self.acts.update(event.kind for event in plan.acts)
        self.lost += lost


def random_campaign(
    runs: int | None,
    *,
    hours: float | None = None,
    seed: int = 0,
    jobs: int | None = None,
    watch: Watch | None = None,
    most: int = 5,
) -> RandomCampaign:
    """Plays runs until there were so many, the time is over, or `most` have failed."""
    until = None if hours is None else time.perf_counter() + hours * 3600
    result = RandomCampaign(first=seed)
    seeds = _chunks(seed, None if runs is None else seed + runs, until)
    here = jobs == 1 or (runs is not None and runs <= CHUNK)
    with result.timed():
        result.collect(in_processes(_part, seeds, 0 if here else jobs), watch, runs or 0, most)
    result.failures.sort(key=lambda failed: failed.seed)
    return result


def _chunks(first: int, last: int | None, until: float | None) -> Iterator[range]:
    while (last is None or first < last) and (until is None or time.perf_counter() < until):
        end = first + CHUNK if last is None else min(first + CHUNK, last)
        yield range(first, end)
        first = end


def _part(seeds: range) -> list[tuple[tuple[RunPlan, int], CaseOutcome]]:
    outcomes = []
    for plan in map(plan_of, seeds):
        run = RandomRun(plan)
        outcome = run.play()
        lost = run.sim.network.lost
        outcomes.append(((plan, lost), failed(plan, outcome) if outcome.findings else outcome))
    return outcomes


def play(plan: RunPlan) -> CaseOutcome:
    """Plays a plan."""
    return RandomRun(plan).play()


def failed(plan: RunPlan, outcome: CaseOutcome) -> FailedRun:
    """Shrinks the plan of a run that fails, and traces what it does."""
    checks = {finding.check for finding in outcome.findings}
    smallest = shrunk(plan, lambda less: any(finding.check in checks for finding in play(less).findings))
    run = RandomRun(smallest)
    findings = run.play().findings
    named = (match[0] for finding in findings if (match := LEASE.search(finding.words)))
    lease = next(named, run.leases[0] if run.leases else f"{SERVICE_MANAGER}:1000")
    return FailedRun(
        outcome.name,
        outcome.findings,
        asked=outcome.asked,
        crashes=outcome.crashes,
        path=run.path(lease),
        plan=smallest,
        smallest=findings,
        lease=lease,
    )
