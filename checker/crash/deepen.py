"""Crashes under ever larger budgets of faults, up to a budget or for as long as there is time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence

from leasehold.checker.crash.analysis import CrashReport, Watch, crash
from leasehold.checker.explore import Engine, Exploration, Limits
from leasehold.faults.budget import Budget, deepening
from leasehold.spec.language.model import System


def deepen(
    system: System, seconds: float | None, watch: Callable[[Budget], Watch] | None = None, engine: Engine = "auto",
    memory: int | None = None, budgets: Sequence[Budget] = (),
) -> Iterator[CrashReport]:  # fmt: skip
    """A report for each budget, until the time is over.

    Args:
        system: what is explored.
        seconds: a finite time for all of it, or None; the searches end with it, and what is decided on a graph that
            was finished in time is still decided. The last search may have been cut off, which its report says.
        watch: returns who is told of the progress of the search under a budget.
        engine: of each search.
        memory: of each search, in bytes.
        budgets: what is explored; none: ever larger ones, until something breaks.
    """
    if seconds is not None and not math.isfinite(seconds):
        raise ValueError(f"the time must be finite, not {seconds}")
    started = time.perf_counter()
    legal: Exploration | None = None
    for budget in budgets or deepening():
        left = None if seconds is None else seconds - (time.perf_counter() - started)
        if left is not None and left <= 0 and legal is not None:
            return
        limits = Limits(seconds=left, memory=memory)
        report = crash(system, budget, watch(budget) if watch else None, limits, legal, engine=engine)
        yield report
        if not report.complete or (not budgets and not report.holds):
            return
        legal = report.legal
        del report  # its graph need not stay beside the next one
