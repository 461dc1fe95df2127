"""Runs the cases of a system: its program and its properties are made once.

A system whose cases need more has a runner of its own (plugins.py), which makes other runs and compares them otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, TypeAlias

from leasehold.checker.crash.analysis import CrashReport
from leasehold.checker.explore import Limits, Progress, explore
from leasehold.checker.recovery.campaign import CaseOutcome, Finding
from leasehold.checker.recovery.cases.case import CaseRun
from leasehold.checker.recovery.cases.counterexample import Counterexample, CounterexampleRun, counterexamples
from leasehold.checker.recovery.cases.steps import Script
from leasehold.checker.recovery.cases.walk import CHECKS, WalkRun
from leasehold.checker.recovery.properties import Projection, Records, RunProperties
from leasehold.faults.model import Budget
from leasehold.impl.compiler.program import compile_system
from leasehold.spec import System

MOST_STATES = 1_000_000  # of the other graphs whose records are compared

# Arguments of a runner: record states that runs may have, by kind of case, and the properties that one crash breaks.
Known: TypeAlias = tuple[()] | tuple[dict[str, frozenset[Records]], frozenset[str]]


class CaseRunner:
    """Runs the cases of one system.

    Args:
        system: which.
        known: the record states that runs may have, by kind of case: those of the graph with one crash (""); with
            lost messages besides ("lost"), as those to the crashed actor are lost, too; with two crashes ("second").
            Of a kind that is missing they are not compared.
        excused: the properties that the model says are broken with one crash.

    Attributes:
        checks: what is checked, by name.
        ends: how a case may end, by `CaseOutcome.end`: its name in JSON, and what it says. Empty: in whatever the
            specification calls its ends.
    """

    checks: ClassVar[Mapping[str, str]] = CHECKS
    ends: ClassVar[Mapping[str, tuple[str, str]]] = {}

    def __init__(
        self,
        system: System,
        known: Mapping[str, frozenset[Records]] | None = None,
        excused: frozenset[str] = frozenset(),
    ) -> None:
        self.system, self.known = system, known or {}
        self.program = compile_system(system)
        self.properties = RunProperties(system)
        self.properties.excused = excused
        self._under: dict[Budget, RunProperties] = {}

    @classmethod
    def explored(
        cls,
        system: System,
        report: CrashReport,
        progress: Callable[[Progress], None] | None = None,
        pairs: bool = False,
    ) -> tuple[list[Script], Known]:
        """Further scripts of a system that was explored with one crash, and what its runs are compared with.

        Args:
            system: which.
            report: with one crash.
            progress: of further searches.
            pairs: a second crash comes, too.
        """
        paths = report.faulty.paths
        known = {"": Projection(paths.world).every(paths)}
        bare = replace(system, properties={}, ends=None)
        for kind, budget in (("lost", Budget(crash=1, lose="any")), *([("second", Budget(crash=2))] if pairs else [])):
            exploration = explore(bare, Limits(states=MOST_STATES), progress, budget=budget)
            if exploration.complete:
                known[kind] = Projection(exploration.paths.world).every(exploration.paths)
        holding = frozenset(p.name for p in report.legal.properties if p.verdict != "violated")
        return list(counterexamples(system, holding)), (known, frozenset(report.broken))

    def close(self) -> None:
        """Ends what is kept between two cases."""

    def made(self, script: Script, lost: bool, second: str | None) -> CaseRun[Any]:
        """A run of a case that has not begun."""
        if isinstance(script, Counterexample):
            if script.budget not in self._under:
                self._under[script.budget] = RunProperties(self.system, script.budget)
            return CounterexampleRun(self.program, self._under[script.budget], script)
        kind = f"{'lost' if lost else ''}{'second' if second is not None else ''}"
        return WalkRun(
            self.program,
            self.properties,
            script,
            lost=lost,
            second=second,
            known=self.known.get(kind),
        )

    def play(
        self, script: Script, lost: bool = False, second: str | None = None, *, traced: bool = False, **how: Any
    ) -> CaseOutcome:
        """Runs a case; `traced`: the outcome has a path; `how`: as `made` takes it."""
        try:
            run = self.made(script, lost, second, **how)
        except Exception as error:
            return CaseOutcome(script.name, findings=[Finding("drive", f"{type(error).__name__}: {error}")])
        try:
            run.run()
        except Exception as error:
            run.say("error", f"{type(error).__name__}: {error}")
        finally:
            run.outcome.path = run.monitor.path() if traced else None
            run.close()
        if second is not None and not run.second.met:
            run.say("drive", f"no actor came to the second point {second}")
        return run.outcome

    def second_points(self, script: Script) -> list[str]:
        """Returns the points, in the order of a run, where actors could stop once more after the restart of a case."""
        try:
            run = self.made(script, False, None)
        except Exception:
            return []
        try:
            run.until_recovered()
        except Exception:
            return []
        finally:
            run.close()
        return list(run.second.seen)
