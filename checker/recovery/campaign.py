"""The frame of all campaigns: cases, each with its findings, are played side by side, and counted.

Three campaigns use it: every case of the explored graph in simulation (cases), runs made at random (random_runs), and
cases with real processes (processes).
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from leasehold.checker.explore.result import Path
from leasehold.checker.host.workers import (
    deaf_children,
    end_children,
    ended_by_signals,
    follow_parent,
    signals_deferred,
)

W = TypeVar("W")
R = TypeVar("R")
MOST_FINDINGS = 8  # of one case

# Cases that were played, of how many (0: not known), and those that failed, in the order in which they did.
Watch: TypeAlias = "Callable[[int, int, Sequence[CaseOutcome]], None]"


class UnknownCase(ValueError):
    """A text names no case. The message says what is wrong, and which name is near."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A check that failed, and how."""

    check: str
    words: str


@dataclass(slots=True)
class CaseOutcome:
    """The outcome of a case.

    Attributes:
        name: of the case.
        findings: empty if it passed.
        end: `same`, the lease has the state that it has without the fault; `ended`, it is over instead.
        skipped: why it was not played, or its fault did not occur; empty where it was.
        asked: how many states and steps the invariants were evaluated on.
        crashes: how many actors were stopped or died.
        path: the steps of the actors, if they were traced.
    """

    name: str
    findings: list[Finding] = field(default_factory=list)
    end: str = ""
    skipped: str = ""
    asked: int = 0
    crashes: int = 0
    path: Path | None = None

    @property
    def passed(self) -> bool:
        return not self.findings and not self.skipped

    def say(self, check: str, reason: str) -> None:
        """Adds a finding."""
        finding = Finding(check, reason)
        if finding not in self.findings and len(self.findings) < MOST_FINDINGS:
            self.findings.append(finding)


@dataclass
class Campaign:
    """The result of a campaign.

    Attributes:
        played: how many cases.
        ends: of those that passed, how many had each end.
        asked, crashes: of all cases.
        failures, skipped: the cases with findings, and those that were not played.
        seconds: the time that it took.
        interrupted: it was ended before all cases were played.
    """

    played: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    asked: int = 0
    crashes: int = 0
    failures: list[Any] = field(default_factory=list)
    skipped: list[CaseOutcome] = field(default_factory=list)
    seconds: float = 0.0
    interrupted: bool = False

    @property
    def passed(self) -> int:
        return self.played - len(self.failures) - len(self.skipped)

    @property
    def holds(self) -> bool:
        return not self.failures and not self.interrupted

    def add(self, case: Any, outcome: CaseOutcome) -> None:
        """Counts a case."""
        self.played += 1
        self.asked += outcome.asked
        self.crashes += outcome.crashes
        if outcome.findings:
            self.failures.append(outcome)
        elif outcome.skipped:
            self.skipped.append(outcome)
        else:
            self.ends[outcome.end] += 1

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Around the work: measures it, and ends it on Ctrl-C and SIGTERM."""
        begun = time.perf_counter()
        try:
            with ended_by_signals():
                yield
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            for outcomes in (self.failures, self.skipped):
                outcomes.sort(key=lambda outcome: outcome.name)
            self.seconds = time.perf_counter() - begun

    def collect(
        self,
        played: Iterable[Iterable[tuple[Any, CaseOutcome]]],
        watch: Watch | None = None,
        total: int = 0,
        stop_at: int | None = None,
    ) -> None:
        """Adds cases as they are played, until there are none or `stop_at` have failed."""
        for cases in played:
            for case, outcome in cases:
                self.add(case, outcome)
                if watch is not None:
                    watch(self.played, total, self.failures)
            if stop_at is not None and len(self.failures) >= stop_at:
                break


# Workers


@contextmanager
def silent() -> Iterator[None]:
    """Actors log each fault that they meet; within this, nothing is logged."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def nothing() -> None:
    """Does nothing, where a process has nothing to prepare; unlike a lambda it has a name there."""


def in_processes(
    do: Callable[[W], R],
    work: Iterable[W],
    jobs: int | None,
    begin: Callable[..., None] = nothing,
    arguments: tuple[Any, ...] = (),
) -> Iterator[R]:
    """Does each piece of work in some process; yields results as they come.

    The processes log nothing, and leave Ctrl-C to their parent.

    Args:
        do: does one piece. Like `begin`, a function of a module, so that other processes find it.
        work: taken piece by piece, when a process is about to be free.
        jobs: processes; 0: this one; left out: as many as there are processors.
        begin: called once in each process, before its first piece.
        arguments: of `begin`.
    """
    if jobs == 0:
        begin(*arguments)
        for piece in work:
            with silent(), signals_deferred():
                done_here = do(piece)
            yield done_here
        return
    jobs = jobs or os.cpu_count() or 1
    others = multiprocessing.active_children()
    context = multiprocessing.get_context("spawn")  # not forked: the parent may have threads
    pool = ProcessPoolExecutor(jobs, context, initializer=_begin, initargs=(begin, arguments))
    yield from completed(pool, do, work, 2 * jobs, lambda: end_children(but=others))


def completed(
    pool: Executor, do: Callable[[W], R], work: Iterable[W], ahead: int, stop: Callable[[], None] = lambda: None
) -> Iterator[R]:
    """The results of work in a pool, in the order of completion; at the end the pool is shut down.

    Args:
        pool: of processes or threads.
        do: does one piece of work.
        work: taken piece by piece.
        ahead: how many pieces the pool has at most.
        stop: called where the results are not wanted any more, so that pieces under way end.
    """
    waiting: set[Future[R]] = set()
    try:
        for piece in work:
            with deaf_children():  # the first piece starts the processes
                waiting.add(pool.submit(do, piece))
            if len(waiting) >= ahead:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)
    except BaseException:
        stop()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(begin: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    logging.disable(logging.CRITICAL)
    follow_parent()
    begin(*arguments)
