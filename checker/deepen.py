"""Crashes under ever larger budgets of faults, for as long as there is time."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

from leasehold.checker.crash import CrashReport, Watch, crash
from leasehold.checker.explore import Engine, Exploration, Limits
from leasehold.faults.budget import deepening
from leasehold.spec.language.model import System


def deepen(
    system: System, seconds: float, progress: Watch = None, engine: Engine = "auto", memory: int | None = None
) -> Iterator[CrashReport]:
    """A report for each budget, until the time is over or something breaks.

    `seconds` must be a finite number; `memory` is that of each search, in bytes.

    The last may have been cut off, which it says. The time bounds the searches: what is decided on a graph that was
    finished in time is still decided.
    """
    if not math.isfinite(seconds):
        raise ValueError(f"the time must be finite, not {seconds}")
    started = time.perf_counter()
    legal: Exploration | None = None
    for budget in deepening():
        left = seconds - (time.perf_counter() - started)
        if left <= 0:
            return
        report = crash(system, budget, progress, Limits(seconds=left, memory=memory), legal, engine=engine)
        yield report
        if not report.complete or not report.holds:
            return
        legal = report.legal
        del report  # its graph need not stay beside the next one
