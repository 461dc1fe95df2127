"""What the cases of one system are played with: program and claims are made once, a reference is kept for a while."""

from __future__ import annotations

from collections.abc import Callable

from leasehold.checker.recovery.audit import Claims
from leasehold.checker.recovery.case import Finding, Outcome, Played
from leasehold.checker.recovery.script import Script
from leasehold.faults.simulation.simulation import Simulation
from leasehold.impl.compiler.program import compile_system
from leasehold.spec import System, load


class Stage:
    """What the cases of one system are played with.

    Attributes:
        program, claims: of the system with a unit more than the scripts have, for the bystander.
        simulate: makes the world of each case.
    """

    def __init__(self, system: System, units: int, simulate: Callable[..., Simulation] = Simulation) -> None:
        self.simulate = simulate
        self.system = load(system.name, {**system.values(), "max_units": units + 1})
        self.program = compile_system(self.system)
        self.claims = Claims(self.system)
        self._reference: tuple[Script, Played] | None = None

    def reference(self, script: Script) -> Played:
        """The script played without its crash, up to where it is compared."""
        if self._reference is None or self._reference[0] is not script:
            self.close()
            played = Played(self.program, self.claims, script, reference=True, simulate=self.simulate)
            try:
                played.to_the_restart()
                played.at_once()
            except BaseException:
                played.close()
                raise
            self._reference = script, played
        return self._reference[1]

    def close(self) -> None:
        """Ends what is still held of the last reference."""
        if self._reference is not None:
            self._reference[1].close()
            self._reference = None

    def play(
        self, script: Script, lost: bool = False, second: str | None = None, *, drawn: bool = False,
        simulate: Callable[..., Simulation] | None = None,
    ) -> Outcome:  # fmt: skip
        """Plays a case; `drawn`: the outcome has a path; `simulate`: makes a world for this case, not its reference."""
        outcome = Outcome(script.name)
        try:
            reference = self.reference(script)
            played = Played(
                self.program, self.claims, script, lost=lost, second=second, drawn=drawn,
                simulate=simulate or self.simulate,
            )  # fmt: skip
        except Exception as error:
            outcome.findings.append(Finding("drive", f"{type(error).__name__}: {error}"))
            return outcome
        try:
            outcome = played.run(reference)
        except Exception as error:
            outcome = played.outcome
            played.say("error", f"{type(error).__name__}: {error}")
        finally:
            outcome.path = played.journal.path() if played.journal is not None else None
            played.close()
        if second is not None and not played.again.was_struck:
            played.say("drive", f"nobody came to the second point {second}")
        return outcome

    def second_points(self, script: Script) -> list[str]:
        """Where actors could stop once more after the restart of a case, each point once, in the order of a run."""
        played = Played(self.program, self.claims, script, simulate=self.simulate)
        try:
            played.to_the_restart()
            played.at_once()
            return list(played.again.seen)
        except Exception:
            return []
        finally:
            played.close()
