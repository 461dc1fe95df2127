"""Random campaigns: runs of one seed after another, for as long as told, and the smallest plan of what fails."""

from __future__ import annotations

import logging
import multiprocessing
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field

from leasehold.checker.explore import Path
from leasehold.checker.recovery.case import Finding
from leasehold.checker.recovery.plan import Plan, plan_of, shrunk
from leasehold.checker.recovery.swarm import TENANT, Run, World

LEASE = re.compile(rf"{TENANT}:[0-9]+")
SOME = 50  # seeds that a process is given at a time

Watch = Callable[[int, int, float], None]  # runs, failures, seconds


@dataclass(frozen=True, slots=True)
class Failed:
    """A run that fails.

    Attributes:
        seed: of it.
        findings: what is not as it has to be.
        plan: the smallest plan that was found to fail in the same check.
        smallest: what is found with it.
        lease, path: what actors did with it about the lease that it is about.
    """

    seed: int
    findings: tuple[Finding, ...]
    plan: Plan
    smallest: tuple[Finding, ...]
    lease: str
    path: Path


@dataclass
class Swarm:
    """What a random campaign has shown.

    Attributes:
        first: the first seed; runs have the seeds from it on.
        runs: how many.
        acts: how many of each kind came in them.
        crashes, lost: of actors; of parcels.
        asked: states and steps about which the invariants were asked.
        failures: the runs in which something was not as it has to be.
    """

    first: int
    runs: int = 0
    acts: Counter[str] = field(default_factory=Counter)
    crashes: int = 0
    lost: int = 0
    asked: int = 0
    failures: list[Failed] = field(default_factory=list)
    seconds: float = 0.0
    interrupted: bool = False


@dataclass(slots=True)
class _Part:
    runs: int = 0
    acts: Counter[str] = field(default_factory=Counter)
    crashes: int = 0
    lost: int = 0
    asked: int = 0
    failures: list[Failed] = field(default_factory=list)


_world: World | None = None


def random_campaign(
    runs: int | None, *, hours: float | None = None, seed: int = 0, jobs: int | None = None, watch: Watch | None = None,
    most: int = 5,
) -> Swarm:  # fmt: skip
    """Plays runs until there were so many, the time is over, or so many have failed."""
    begun = time.perf_counter()
    until = None if hours is None else begun + hours * 3600
    found = Swarm(seed)
    try:
        for part in _parts(seed, runs, jobs, until):
            found.runs += part.runs
            found.acts += part.acts
            found.crashes += part.crashes
            found.lost += part.lost
            found.asked += part.asked
            found.failures += part.failures
            if watch is not None:
                watch(found.runs, len(found.failures), time.perf_counter() - begun)
            if len(found.failures) >= most:
                break
    except KeyboardInterrupt:
        found.interrupted = True
    found.failures.sort(key=lambda failed: failed.seed)
    found.seconds = time.perf_counter() - begun
    return found


def _parts(first: int, runs: int | None, jobs: int | None, until: float | None) -> Iterator[_Part]:
    last = None if runs is None else first + runs
    seeds = _ranges(first, last, until)
    jobs = jobs or os.cpu_count() or 1
    if jobs == 1 or (runs is not None and runs <= SOME):
        for chunk in seeds:
            before = logging.root.manager.disable
            logging.disable(logging.CRITICAL)
            try:
                yield _play(chunk)
            finally:
                logging.disable(before)
        return
    context = multiprocessing.get_context("spawn")  # not forked: the parent may have threads
    with ProcessPoolExecutor(jobs, context, initializer=_begin) as pool:
        waiting: set[Future[_Part]] = set()
        try:
            for chunk in seeds:
                waiting.add(pool.submit(_play, chunk))
                if len(waiting) >= 2 * jobs:
                    done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                    yield from (future.result() for future in done)
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        finally:
            pool.shutdown(cancel_futures=True)


def _ranges(first: int, last: int | None, until: float | None) -> Iterator[range]:
    while (last is None or first < last) and (until is None or time.perf_counter() < until):
        end = first + SOME if last is None else min(first + SOME, last)
        yield range(first, end)
        first = end


def _begin() -> None:
    logging.disable(logging.CRITICAL)  # what actors log of what is done to them is of no interest here
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _play(seeds: range) -> _Part:
    part = _Part()
    for seed in seeds:
        plan = plan_of(seed)
        run, findings = play(plan)
        part.runs += 1
        part.acts.update(act.kind for act in plan.acts)
        part.crashes += run.crashes
        part.lost += run.sim.network.lost
        part.asked += run.asked
        if findings:
            part.failures.append(failed(plan, findings))
    return part


def play(plan: Plan) -> tuple[Run, tuple[Finding, ...]]:
    """Plays a plan."""
    global _world
    _world = _world or World()
    run = Run(plan, _world)
    return run, tuple(run.play())


def failed(plan: Plan, findings: tuple[Finding, ...]) -> Failed:
    """Makes the plan of a run that fails smaller, and draws it."""
    smallest = smaller(plan, findings)
    run, found = play(smallest)
    named = (match[0] for finding in found if (match := LEASE.search(finding.words)))
    lease = next(named, run.leases[0] if run.leases else f"{TENANT}:1000")
    assert _world is not None
    drawn = Run(smallest, _world, lease)
    drawn.play()
    assert drawn.journal is not None
    return Failed(plan.seed, findings, smallest, found, lease, drawn.journal.path())


def smaller(plan: Plan, findings: tuple[Finding, ...]) -> Plan:
    """The smallest plan that was found to fail in one of the checks in which this one fails."""
    checks = {finding.check for finding in findings}
    return shrunk(plan, lambda less: any(finding.check in checks for finding in play(less)[1]))
