"""Runs the cases of the lease: program and properties are made once, a reference serves all cases of a script."""

from __future__ import annotations

from collections.abc import Callable

from leasehold.checker.recovery.campaign import CaseOutcome, Finding
from leasehold.checker.recovery.cases.lease.case import LeaseCaseRun
from leasehold.checker.recovery.cases.steps import Script
from leasehold.checker.recovery.lease_run import AUTHORITY, BROKER, SERVICE_MANAGER
from leasehold.checker.recovery.monitor import MonitoredProperties
from leasehold.faults.simulation.lease import LeaseSimulation
from leasehold.impl.compiler.program import compile_system
from leasehold.spec import System, load


class LeaseCaseRunner:
    """Runs the cases of the lease, in one setting.

    Attributes:
        program, properties: of the system with a unit more than the scripts have, for the bystander.
        simulate: makes the simulation of each case.
    """

    def __init__(self, system: System, simulate: Callable[..., LeaseSimulation] = LeaseSimulation) -> None:
        self.simulate = simulate
        units = int(system.values()["max_units"])
        self.system = load(system.name, {**system.values(), "max_units": units + 1})
        self.program = compile_system(self.system)
        self.properties = MonitoredProperties(self.system)
        self._reference: tuple[Script, LeaseCaseRun] | None = None

    def reference(self, script: Script) -> LeaseCaseRun:
        """The script replayed without its crash, up to the comparison."""
        if self._reference is None or self._reference[0] is not script:
            self.close()
            self._reference = script, self._to_comparison(script, reference=True)
        return self._reference[1]

    def _to_comparison(self, script: Script, reference: bool) -> LeaseCaseRun:
        run = LeaseCaseRun(self.program, self.properties, script, reference=reference, simulate=self.simulate)
        try:
            run.to_the_restart()
            run.at_once()
        except BaseException:
            run.close()
            raise
        return run

    def close(self) -> None:
        """Ends the last reference."""
        if self._reference is not None:
            self._reference[1].close()
            self._reference = None

    def play(
        self, script: Script, lost: bool = False, second: str | None = None, *, traced: bool = False,
        simulate: Callable[..., LeaseSimulation] | None = None,
    ) -> CaseOutcome:  # fmt: skip
        """Runs a case; `traced`: the outcome has a path; `simulate`: for this case, not for its reference."""
        try:
            reference = self.reference(script)
            run = LeaseCaseRun(
                self.program, self.properties, script, lost=lost, second=second, traced=traced,
                simulate=simulate or self.simulate,
            )  # fmt: skip
        except Exception as error:
            return CaseOutcome(script.name, findings=[Finding("drive", f"{type(error).__name__}: {error}")])
        try:
            run.compare_with(reference)
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
        try:
            run = self._to_comparison(script, reference=False)
        except Exception:
            return []
        try:
            return list(run.second.seen)
        finally:
            run.close()


def plays_leases(system: System) -> bool:
    """Whether a system is the lease of one service manager, broker and authority, whose policies and units exist."""
    roles = [system.roles.get(name) for name in (SERVICE_MANAGER, BROKER, AUTHORITY)]
    return all(role is not None and not role.indexed for role in roles)
