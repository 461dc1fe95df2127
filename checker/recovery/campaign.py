"""The exhaustive campaign: every case of the explored graph, played by real actors in simulation.

Theory of operation. The explorer decides what there is to try: `leasehold crash` with one crash gives cells, points and
modes. Each case is played twice: once the parcels of the actor that crashes come all the same, once they are lost with
it. With `pairs`, an actor stops once more at every point that is passed after the restart. Cases are independent, so
they are spread over processes; the order in which they end changes nothing of the result.
"""

from __future__ import annotations

import difflib
import logging
import multiprocessing
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from leasehold.checker.crash import crash
from leasehold.checker.explore import Path, Progress
from leasehold.checker.recovery.case import Outcome
from leasehold.checker.recovery.script import Script, Scripts
from leasehold.checker.recovery.stage import Stage
from leasehold.faults import Budget
from leasehold.spec import System

LOST = "!lost"  # at the end of a case's name: what the crashed actor had sent is lost
DRAWN = 3  # failures whose path is kept
SOME = 24  # scripts that a process is given at a time

Watch = Callable[[int, int, int], None]  # cases that were played, of how many (0: not known yet), and how many failed


class UnknownCase(ValueError):
    """A text names no case. The message says what is wrong, and what is near."""


@dataclass(frozen=True, slots=True)
class Case:
    """One case of the campaign: a script, what becomes of parcels, and a second crash."""

    script: Script
    lost: bool = False
    second: str | None = None

    @property
    def name(self) -> str:
        again = f"+{self.second}" if self.second else ""
        return f"{self.script.name}{again}{LOST if self.lost else ''}"


@dataclass
class Campaign:
    """What a campaign has shown.

    Attributes:
        explored: states of the exploration that the cases are of.
        scripts: cells, points and modes.
        cases: by kind (`single`, `pairs`), how many were played.
        ends: how many came to where they would be without the crash (`same`), and how many have ended.
        asked: states and steps about which the invariants were asked.
        failures: the cases in which something was not as it has to be.
        by_cell: by cell, how many cases, and how many failed.
        seconds: all of it; `exploring` of them before the first case.
        interrupted: it was ended before all cases were played.
        drawn: what actors did in the first cases that failed, or in the one that was asked for, by name.
    """

    system: System
    explored: int = 0
    scripts: int = 0
    cases: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    asked: int = 0
    failures: list[Outcome] = field(default_factory=list)
    by_cell: dict[tuple[str, ...], list[int]] = field(default_factory=dict)
    by_point: dict[str, list[int]] = field(default_factory=dict)
    seconds: float = 0.0
    exploring: float = 0.0
    interrupted: bool = False
    drawn: dict[str, Path] = field(default_factory=dict)

    @property
    def played(self) -> int:
        return sum(self.cases.values())

    @property
    def passed(self) -> int:
        return self.played - len(self.failures)

    @property
    def holds(self) -> bool:
        return not self.failures and not self.interrupted

    def add(self, case: Case, outcome: Outcome) -> None:
        self.cases["pairs" if case.second else "single"] += 1
        self.ends[outcome.end or "failed"] += 1
        self.asked += outcome.asked
        cell = self.by_cell.setdefault(case.script.cell, [0, 0])
        for counts in (cell, self.by_point.setdefault(case.script.point, [0, 0])):
            counts[0] += 1
            counts[1] += not outcome.passed
        if not outcome.passed:
            self.failures.append(replace(outcome, name=case.name))


def scripts_of(system: System, progress: Callable[[Progress], None] | None = None) -> tuple[int, list[Script]]:
    """How many states a system has with one crash, and a script for each case."""
    report = crash(system, Budget(crash=1), progress)
    return report.faulty.distinct, list(Scripts(report).every())


def campaign(
    system: System, *, pairs: bool = False, jobs: int | None = None, watch: Watch | None = None,
    progress: Callable[[Progress], None] | None = None, stop_at: int | None = None, only: str | None = None,
) -> Campaign:  # fmt: skip
    """Plays every case of a system.

    Args:
        system: with the constants by which it is explored.
        pairs: also with a second crash.
        jobs: processes; as many as there are processors where left out.
        watch: hears how far it is.
        progress: hears how far the exploration is.
        stop_at: so many failures are enough.
        only: the name of a case, or the beginning of names; UnknownCase where there is none.
    """
    begun = time.perf_counter()
    explored, scripts = scripts_of(system, progress)
    found = Campaign(system, explored, len(scripts), exploring=time.perf_counter() - begun)
    work = list(_work(scripts, pairs, only))
    total = 0 if pairs else sum(len(cases) for _, cases in work)
    try:
        for case, outcome in _play(system, work, pairs, jobs):
            found.add(case, outcome)
            if watch is not None:
                watch(found.played, total, len(found.failures))
            if stop_at is not None and len(found.failures) >= stop_at:
                break
    except KeyboardInterrupt:
        found.interrupted = True
    found.failures.sort(key=lambda outcome: outcome.name)
    found.drawn = _drawn(system, [case for _, cases in work for case in cases], found)
    found.seconds = time.perf_counter() - begun
    return found


def _drawn(system: System, cases: Sequence[Case], found: Campaign) -> dict[str, Path]:
    """The paths of the first failures, and of a case that is alone."""
    names = {outcome.name for outcome in found.failures[:DRAWN]}
    wanted = list(cases) if len(cases) == 1 else [case for case in cases if case.name in names]
    if not wanted or found.interrupted:
        return {}
    stage = Stage(system, int(system.values()["max_units"]))
    with _silent():
        played = {case.name: stage.play(case.script, case.lost, case.second, drawn=True).path for case in wanted}
    stage.close()
    return {name: path for name, path in played.items() if path is not None}


@contextmanager
def _silent() -> Iterator[None]:
    """What actors log of what is done to them is of no interest here."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


Work = tuple[Script, tuple[Case, ...]]


def _work(scripts: Sequence[Script], pairs: bool, only: str | None) -> Iterator[Work]:
    """The cases to be played, by script."""
    found = False
    for script in scripts:
        cases = [Case(script, lost) for lost in (False, True)]
        if only is not None:
            base, _, second = only.removesuffix(LOST).partition("+")
            if not (script.name == base or script.name.startswith(f"{base}@")):
                continue
            cases = [replace(c, second=second or None) for c in cases if not only.endswith(LOST) or c.lost]
            if script.name == base and not only.endswith(LOST):
                cases = cases[:1]
        found = True
        yield script, tuple(cases)
    if not found:
        raise UnknownCase(_unknown(scripts, only or ""))


def _unknown(scripts: Sequence[Script], name: str) -> str:
    base = name.removesuffix(LOST).partition("+")[0]
    names = [script.name for script in scripts]
    depth = base.count("@")
    short = list(dict.fromkeys("@".join(n.split("@")[: depth + 1]) for n in names))
    near = difflib.get_close_matches(base, short, 1, 0.5)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"no case is named {name[:120]!r}{hint} (names are POINT@MODE@CELL; POINT@MODE or POINT stand for several)"


_stage: Stage | None = None


def _begin(system: System) -> None:
    global _stage
    logging.disable(logging.CRITICAL)  # what actors log of what is done to them is of no interest here
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _stage = Stage(system, int(system.values()["max_units"]))


def _some(work: Sequence[Work], pairs: bool) -> list[tuple[Case, Outcome]]:
    assert _stage is not None
    found = []
    for script, cases in work:
        for case in cases:
            found.append((case, _stage.play(script, case.lost, case.second)))
        if pairs:
            for second in _stage.second_points(script):
                found.append((Case(script, second=second), _stage.play(script, second=second)))
    _stage.close()
    return found


def _play(system: System, work: Sequence[Work], pairs: bool, jobs: int | None) -> Iterable[tuple[Case, Outcome]]:
    jobs = jobs or os.cpu_count() or 1
    size = 2 if pairs else SOME
    chunks = [work[n : n + size] for n in range(0, len(work), size)]
    if jobs == 1 or len(chunks) == 1:
        global _stage
        _stage = Stage(system, int(system.values()["max_units"]))
        for chunk in chunks:
            with _silent():
                found = _some(chunk, pairs)
            yield from found
        return
    context = multiprocessing.get_context("spawn")  # not forked: the parent may have threads
    with ProcessPoolExecutor(jobs, context, initializer=_begin, initargs=(system,)) as pool:
        waiting = [pool.submit(_some, chunk, pairs) for chunk in chunks]
        try:
            for future in as_completed(waiting):
                yield from future.result()
        finally:
            pool.shutdown(cancel_futures=True)
