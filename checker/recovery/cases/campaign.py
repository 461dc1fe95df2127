"""The exhaustive campaign: every case of the explored graph, replayed by real actors in simulation.

Theory of operation. The explorer decides what there is to try: `leasehold crash` with one crash gives cells, points and
modes. Each case is run twice: once the messages of the actor that crashes arrive all the same, once they are lost with
it. With `pairs`, an actor stops once more at every point that is passed after the restart. Cases are independent, so
they are spread over processes; the order in which they end changes nothing of the result.
"""

from __future__ import annotations

import difflib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from leasehold.checker.crash.analysis import crash
from leasehold.checker.explore import Path, Progress
from leasehold.checker.recovery import UnknownCase
from leasehold.checker.recovery.cases.case import CaseOutcome
from leasehold.checker.recovery.cases.runner import CaseRunner
from leasehold.checker.recovery.cases.script import Script, ScriptGenerator
from leasehold.checker.recovery.workers import silent, spread
from leasehold.faults import Budget
from leasehold.spec import System

LOST = "!lost"  # at the end of a case's name: the messages of the crashed actor are lost
TRACED = 3  # failures whose path is kept
CHUNK = 24  # scripts that a process is given at a time

Watch = Callable[[int, int, int], None]  # cases that were run, of how many (0: not known yet), and how many failed


@dataclass(frozen=True, slots=True)
class RecoveryCase:
    """One case of the campaign: a script, what becomes of messages in transit, and a second crash."""

    script: Script
    lost: bool = False
    second: str | None = None

    @property
    def name(self) -> str:
        second = f"+{self.second}" if self.second else ""
        return f"{self.script.name}{second}{LOST if self.lost else ''}"


@dataclass
class CaseCampaign:
    """The result of a campaign.

    Attributes:
        explored: states of the exploration that the cases are of.
        scripts: cells, points and modes.
        cases: by kind (`single`, `pairs`), how many were run.
        ends: how many came to the state that they have without the crash (`same`), and how many have ended.
        asked: states and steps on which the invariants were evaluated.
        failures: the cases with findings.
        by_cell, by_point: how many cases, and how many failed.
        seconds: all of it; `exploring` of them before the first case.
        interrupted: it was ended before all cases were run.
        drawn: the paths of the first cases that failed, or of the one that was asked for, by name.
    """

    system: System
    explored: int = 0
    scripts: int = 0
    cases: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    asked: int = 0
    failures: list[CaseOutcome] = field(default_factory=list)
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

    def add(self, case: RecoveryCase, outcome: CaseOutcome) -> None:
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
    return report.faulty.distinct, list(ScriptGenerator(report).every())


def campaign(
    system: System, *, pairs: bool = False, jobs: int | None = None, watch: Watch | None = None,
    progress: Callable[[Progress], None] | None = None, stop_at: int | None = None, only: str | None = None,
) -> CaseCampaign:  # fmt: skip
    """Runs every case of a system.

    Args:
        system: with the constants by which it is explored.
        pairs: also with a second crash.
        jobs: processes; as many as there are processors where left out.
        watch: called with the progress.
        progress: called with the progress of the exploration.
        stop_at: so many failures are enough.
        only: the name of a case, or the beginning of names.

    Raises:
        UnknownCase: no case has the name of `only`.
    """
    begun = time.perf_counter()
    explored, scripts = scripts_of(system, progress)
    found = CaseCampaign(system, explored, len(scripts), exploring=time.perf_counter() - begun)
    work = list(_work(scripts, pairs, only))
    total = 0 if pairs else sum(len(cases) for _, cases, _ in work)
    size = 2 if pairs else CHUNK
    chunks = [work[n : n + size] for n in range(0, len(work), size)]
    try:
        for outcomes in spread(_run, chunks, 0 if jobs == 1 or len(chunks) == 1 else jobs, begin, (system,)):
            for case, outcome in outcomes:
                found.add(case, outcome)
                if watch is not None:
                    watch(found.played, total, len(found.failures))
            if stop_at is not None and len(found.failures) >= stop_at:
                break
    except KeyboardInterrupt:
        found.interrupted = True
    found.failures.sort(key=lambda outcome: outcome.name)
    found.drawn = _drawn(system, [case for _, cases, _ in work for case in cases], found)
    found.seconds = time.perf_counter() - begun
    return found


def _drawn(system: System, cases: Sequence[RecoveryCase], found: CaseCampaign) -> dict[str, Path]:
    """The paths of the first failures, and of a case that is alone."""
    names = {outcome.name for outcome in found.failures[:TRACED]}
    wanted = list(cases) if len(cases) == 1 else [case for case in cases if case.name in names]
    if not wanted or found.interrupted:
        return {}
    runner = CaseRunner(system)
    with silent():
        paths = {case.name: runner.play(case.script, case.lost, case.second, traced=True).path for case in wanted}
    runner.close()
    return {name: path for name, path in paths.items() if path is not None}


Work = tuple[Script, tuple[RecoveryCase, ...], bool]  # the bool: also with every second crash


def _work(scripts: Sequence[Script], pairs: bool, only: str | None) -> Iterator[Work]:
    """The cases to be run, by script."""
    found = False
    for script in scripts:
        cases = [RecoveryCase(script, lost) for lost in (False, True)]
        if only is not None:
            base, _, second = only.removesuffix(LOST).partition("+")
            if not (script.name == base or script.name.startswith(f"{base}@")):
                continue
            cases = [replace(c, second=second or None) for c in cases if not only.endswith(LOST) or c.lost]
            if script.name == base and not only.endswith(LOST):
                cases = cases[:1]
        found = True
        yield script, tuple(cases), pairs
    if not found:
        raise UnknownCase(_unknown(scripts, only or ""))


def _unknown(scripts: Sequence[Script], name: str) -> str:
    base = name.removesuffix(LOST).partition("+")[0]
    depth = base.count("@")
    short = list(dict.fromkeys("@".join(script.name.split("@")[: depth + 1]) for script in scripts))
    near = difflib.get_close_matches(base, short, 1, 0.5)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"no case is named {name[:120]!r}{hint} (names are POINT@MODE@CELL; POINT@MODE or POINT stand for several)"


runner: CaseRunner  # of this process


def begin(system: System) -> None:
    """Makes the runner of a process."""
    global runner
    runner = CaseRunner(system)


def _run(work: Sequence[Work]) -> list[tuple[RecoveryCase, CaseOutcome]]:
    found = []
    for script, cases, pairs in work:
        more = [RecoveryCase(script, second=point) for point in runner.second_points(script)] if pairs else []
        found += [(case, runner.play(script, case.lost, case.second)) for case in (*cases, *more)]
    runner.close()
    return found
