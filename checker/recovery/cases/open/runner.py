"""Runs the cases of any system: program and properties are made once."""

from __future__ import annotations

from collections.abc import Mapping

from leasehold.checker.recovery.campaign import CaseOutcome, Finding
from leasehold.checker.recovery.cases.open.case import OpenCaseRun
from leasehold.checker.recovery.cases.open.counterexample import Counterexample, CounterexampleRun
from leasehold.checker.recovery.cases.open.properties import OpenProperties, Records
from leasehold.checker.recovery.cases.steps import Script
from leasehold.faults import Budget
from leasehold.impl.compiler.program import compile_system
from leasehold.spec import System


class OpenCaseRunner:
    """Runs the cases of one system.

    Args:
        system: which.
        known: the record states that runs may have, by kind of case: those of the graph with one crash (""); with
            lost messages besides ("lost"), as those to the crashed actor are lost, too; with two crashes ("second").
            Of a kind that is missing they are not compared.
        excused: the properties that the model says are broken with one crash.
    """

    def __init__(
        self, system: System, known: Mapping[str, frozenset[Records]] | None = None,
        excused: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        self.system, self.known = system, known or {}
        self.program = compile_system(system)
        self.properties = OpenProperties(system)
        self.properties.excused = excused
        self._under: dict[Budget, OpenProperties] = {}

    def close(self) -> None:
        """Nothing is kept between two cases."""

    def _run(self, script: Script, lost: bool, second: str | None, traced: bool) -> OpenCaseRun:
        if isinstance(script, Counterexample):
            if script.budget not in self._under:
                self._under[script.budget] = OpenProperties(self.system, script.budget)
            return CounterexampleRun(self.program, self._under[script.budget], script, traced=traced)
        kind = f"{'lost' if lost else ''}{'second' if second is not None else ''}"
        return OpenCaseRun(
            self.program, self.properties, script, lost=lost, second=second, traced=traced,
            known=self.known.get(kind),
        )  # fmt: skip

    def play(
        self, script: Script, lost: bool = False, second: str | None = None, *, traced: bool = False
    ) -> CaseOutcome:
        """Runs a case; `traced`: the outcome has a path."""
        try:
            run = self._run(script, lost, second, traced)
        except Exception as error:
            return CaseOutcome(script.name, findings=[Finding("drive", f"{type(error).__name__}: {error}")])
        try:
            run.run()
        except Exception as error:
            run.say("error", f"{type(error).__name__}: {error}")
        finally:
            run.outcome.path = run.trace.path() if run.trace is not None else None
            run.close()
        if second is not None and not run.second.met:
            run.say("drive", f"no actor came to the second point {second}")
        return run.outcome

    def second_points(self, script: Script) -> list[str]:
        """Where actors could stop once more after the restart of a case, each point once, in the order of a run."""
        run = self._run(script, False, None, False)
        try:
            run.to_the_end()
        except Exception:
            return []
        finally:
            run.close()
        return list(run.second.seen)
