"""Histories of random runs of the lease: the events of all actors, as their disks have them at the end."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from leasehold.checker.recovery.lease.random_runs.plan import RunPlan
from leasehold.checker.recovery.lease.random_runs.run import RandomRun, compiled
from leasehold.checker.recovery.lease.simulation import LeaseSimulation
from leasehold.checker.verify.history import HistoryVerification
from leasehold.checker.verify.result import HistoryResult
from leasehold.checker.verify.system import CutsOfSystem
from leasehold.impl.events.event import AnyEvent, read

History = dict[str, list[AnyEvent]]


@cache
def known(units: int, lazy: bool) -> CutsOfSystem:
    return CutsOfSystem(compiled(units, lazy)[1].system)


def history_of(plan: RunPlan) -> History:
    """The events of a run, by actor."""
    run = RandomRun(plan)
    run.play()
    return {name: [*map(read, disk.chain())] for name, disk in run.disks.items()}


def verified(plan: RunPlan, history: History, make: Callable[..., Any] = HistoryVerification) -> HistoryResult:
    """Returns what a history shows."""
    found = make(known(plan.units, plan.lazy), history, whole=True)
    for actor, events in history.items():
        found.add(actor, events)
    result: HistoryResult = found.end()
    found.close()
    return result


def ticks(sim: LeaseSimulation, count: int) -> None:
    """Time passes by so many ticks, each of which takes a second."""
    for _ in range(count):
        sim.time.advance()
        sim.units.moved(sim.time.now)
        sim.loop.advance(1.0)
