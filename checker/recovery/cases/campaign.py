"""The exhaustive campaign: every case of the explored graph, replayed by real actors in simulation.

Theory of operation. The explorer decides what there is to try: `leasehold crash` with one crash gives cells, points and
modes. Each case is run twice: once the messages of the actor that crashes arrive all the same, once they are lost with
it. With `pairs`, an actor stops once more at every point that is passed after the restart. Cases are independent, so
they are spread over processes; the order in which they end changes nothing of the result.

What follows the restart is what the specification allows (walk.py), and counterexamples of the model under other faults
are cases as well; of a system that has a plug-in (plugins.py), both are the plug-in's.
"""

from __future__ import annotations

import difflib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from leasehold.checker.crash.analysis import crash
from leasehold.checker.explore import Path, Progress
from leasehold.checker.recovery.campaign import Campaign, CaseOutcome, UnknownCase, Watch, in_processes, silent
from leasehold.checker.recovery.cases.counterexample import Counterexample
from leasehold.checker.recovery.cases.runner import CaseRunner, Known
from leasehold.checker.recovery.cases.script import ScriptGenerator
from leasehold.checker.recovery.cases.steps import Script
from leasehold.checker.recovery.plugins import plugin_of
from leasehold.faults.model import Budget
from leasehold.spec import System

LOST = "!lost"  # at the end of a case's name: the messages of the crashed actor are lost
SECOND = "+crash:"  # before the second point in a case's name
TRACED = 3  # failures whose path is kept
CHUNK = 24  # scripts that a process is given at a time


@dataclass(frozen=True, slots=True)
class RecoveryCase:
    """One case of the campaign: a script, whether messages in transit are lost, and a second crash."""

    script: Script
    lost: bool = False
    second: str | None = None

    @property
    def name(self) -> str:
        """POINT@MODE@CELL, with the second point and the mark of lost messages."""
        second = f"+{self.second}" if self.second else ""
        return f"{self.script.name}{second}{LOST if self.lost else ''}"


@dataclass
class CaseCampaign(Campaign):
    """The result of the campaign.

    Attributes:
        system: with the constants by which it was explored.
        explored: states of the exploration that the cases are of.
        scripts: cells, points and modes.
        cases: by kind (`single`, `pairs`, `counterexamples`), how many were played.
        by_cell, by_point: how many cases, and how many failed.
        exploring: seconds before the first case.
        drawn: the paths of the first cases that failed, or of the one that was asked for, by name.
        named: the name or folder by which a command has the system; empty: its own name.
    """

    system: System = field(kw_only=True)
    named: str = ""
    explored: int = 0
    scripts: int = 0
    cases: Counter[str] = field(default_factory=Counter)
    by_cell: dict[tuple[str, ...], list[int]] = field(default_factory=dict)
    by_point: dict[str, list[int]] = field(default_factory=dict)
    exploring: float = 0.0
    drawn: dict[str, Path] = field(default_factory=dict)

    def add(self, case: RecoveryCase, outcome: CaseOutcome) -> None:
        super().add(case, outcome)
        counterexample = isinstance(case.script, Counterexample)
        self.cases["counterexamples" if counterexample else "pairs" if case.second else "single"] += 1
        if counterexample:
            return
        cell = self.by_cell.setdefault(case.script.cell, [0, 0])
        for counts in (cell, self.by_point.setdefault(case.script.point, [0, 0])):
            counts[0] += 1
            counts[1] += not outcome.passed


class Explored(NamedTuple):
    """The explorer's findings about a system.

    Attributes:
        states: how many there are with one crash.
        scripts: one for each case.
        known: what runs are compared with.
    """

    states: int
    scripts: list[Script]
    known: Known = ()


def scripts_of(system: System, progress: Callable[[Progress], None] | None = None, pairs: bool = False) -> Explored:
    """Explores a system with one crash, and has a script for each case; with `pairs` also with two."""
    report = crash(system, Budget(crash=1), progress)
    more, known = plugin_of(system).runner.explored(system, report, progress, pairs)
    return Explored(report.faulty.distinct, [*ScriptGenerator(report).every(), *more], known)


def campaign(
    system: System,
    *,
    pairs: bool = False,
    jobs: int | None = None,
    watch: Watch | None = None,
    progress: Callable[[Progress], None] | None = None,
    stop_at: int | None = None,
    only: str | None = None,
) -> CaseCampaign:
    """Plays every case of a system.

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
    explored, scripts, known = scripts_of(system, progress, pairs or SECOND in (only or ""))
    exploring = time.perf_counter() - begun
    result = CaseCampaign(system=system, explored=explored, scripts=len(scripts), exploring=exploring)
    work = list(_work(scripts, pairs, only))
    total = 0 if pairs else sum(len(cases) for _, cases, _ in work)
    size = 2 if pairs else CHUNK
    chunks = [work[n : n + size] for n in range(0, len(work), size)]
    here = jobs == 1 or len(chunks) == 1
    with result.timed():
        result.collect(in_processes(_run, chunks, 0 if here else jobs, begin, (system, *known)), watch, total, stop_at)
        result.drawn = _drawn(system, [case for _, cases, _ in work for case in cases], result, known)
    result.seconds += exploring
    return result


def _drawn(system: System, cases: Sequence[RecoveryCase], result: CaseCampaign, known: Known) -> dict[str, Path]:
    """The paths of the first failures, and of a case that is alone."""
    names = {outcome.name for outcome in result.failures[:TRACED]}
    wanted = list(cases) if len(cases) == 1 else [case for case in cases if case.name in names]
    if not wanted:
        return {}
    runner = runner_of(system, *known)
    with silent():
        paths = {case.name: runner.play(case.script, case.lost, case.second, traced=True).path for case in wanted}
    runner.close()
    return {name: path for name, path in paths.items() if path is not None}


Work = tuple[Script, tuple[RecoveryCase, ...], bool]  # the bool: also with every second crash


def _work(scripts: Sequence[Script], pairs: bool, only: str | None) -> Iterator[Work]:
    """The cases to be run, by script."""
    found = False
    for script in scripts:
        single = isinstance(script, Counterexample)
        cases = [RecoveryCase(script, lost) for lost in ((False,) if single else (False, True))]
        if only is not None:
            base, more, second = only.removesuffix(LOST).partition(SECOND)
            if single and (more or only.endswith(LOST)):
                continue
            if not (script.name == base or script.name.startswith(f"{base}@")):
                continue
            cases = [
                replace(c, second=(more + second).removeprefix("+") or None)
                for c in cases
                if not only.endswith(LOST) or c.lost
            ]
            if script.name == base and not only.endswith(LOST):
                cases = cases[:1]
        found = True
        yield script, tuple(cases), pairs and not single
    if not found:
        raise UnknownCase(_unknown(scripts, only or ""))


def _unknown(scripts: Sequence[Script], name: str) -> str:
    base = name.removesuffix(LOST).partition(SECOND)[0]
    depth = base.count("@")
    short = list(dict.fromkeys("@".join(script.name.split("@")[: depth + 1]) for script in scripts))
    near = difflib.get_close_matches(base, short, 1, 0.5)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"no case is named {name[:120]!r}{hint} (names are POINT@MODE@CELL; POINT@MODE or POINT stand for several)"


runner: CaseRunner  # of this process


def runner_of(system: System, *known: Any) -> CaseRunner:
    """Returns what runs the cases of a system."""
    return plugin_of(system).runner(system, *known)


def begin(system: System, *known: Any) -> None:
    """Makes the runner of a process."""
    global runner
    runner = runner_of(system, *known)


def _run(work: Sequence[Work]) -> list[tuple[RecoveryCase, CaseOutcome]]:
    outcomes = []
    for script, cases, pairs in work:
        more = [RecoveryCase(script, second=point) for point in runner.second_points(script)] if pairs else []
        for case in (*cases, *more):
            outcome = runner.play(script, case.lost, case.second)
            outcome.name = case.name
            outcomes.append((case, outcome))
    runner.close()
    return outcomes
