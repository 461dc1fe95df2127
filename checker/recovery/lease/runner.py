"""Runs the cases of the lease: each is compared with a reference, which serves all cases of a script."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from leasehold.checker.recovery.cases.runner import CaseRunner, Known
from leasehold.checker.recovery.cases.steps import Script
from leasehold.checker.recovery.lease.case import LeaseCaseRun
from leasehold.checker.recovery.lease.run import CHECKS
from leasehold.checker.recovery.lease.simulation import LeaseSimulation
from leasehold.checker.recovery.properties import RunProperties
from leasehold.impl.compiler.program import compile_system
from leasehold.spec import System, load


class LeaseCaseRunner(CaseRunner):
    """Runs the cases of the lease, in one setting.

    Attributes:
        program, properties: of the system with a unit more than the scripts have, for the bystander.
        simulate: makes the simulation of each case.
    """

    checks = CHECKS
    ends: ClassVar[Mapping[str, tuple[str, str]]] = {
        "same": ("came_back", "came to where they are without the crash"),
        "ended": ("ended", "ended, and their units served the next request"),
    }

    def __init__(self, system: System, simulate: Callable[..., LeaseSimulation] = LeaseSimulation) -> None:
        self.simulate = simulate
        units = int(system.values()["max_units"])
        self.system = load(system.name, {**system.values(), "max_units": units + 1})
        self.program = compile_system(self.system)
        self.properties = RunProperties(self.system)
        self._reference: tuple[Script, LeaseCaseRun] | None = None

    @classmethod
    def explored(cls, *explored: Any, **how: Any) -> tuple[list[Script], Known]:
        """Nothing: runs are compared with their references, and policies choose what the model leaves open."""
        return [], ()

    def reference(self, script: Script) -> LeaseCaseRun:
        """The script replayed without its crash, up to the comparison."""
        if self._reference is None or self._reference[0] is not script:
            self.close()
            run = LeaseCaseRun(self.program, self.properties, script, reference=True, simulate=self.simulate)
            try:
                run.until_recovered()
            except BaseException:
                run.close()
                raise
            self._reference = script, run
        return self._reference[1]

    def close(self) -> None:
        """Ends the last reference."""
        if self._reference is not None:
            self._reference[1].close()
            self._reference = None

    def made(
        self,
        script: Script,
        lost: bool,
        second: str | None,
        simulate: Callable[..., LeaseSimulation] | None = None,
    ) -> LeaseCaseRun:
        """A run of a case that has not begun; `simulate`: for this case, not for its reference."""
        reference = self.reference(script)
        run = LeaseCaseRun(
            self.program,
            self.properties,
            script,
            lost=lost,
            second=second,
            simulate=simulate or self.simulate,
        )
        run.compare_with(reference)
        return run
