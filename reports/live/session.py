"""A system as the live page has it: as it could last be loaded, and what has been wrong with its text since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leasehold.checker.explore.standing import Standings
from leasehold.checker.explore.walker import Walker
from leasehold.faults.model import Budget, BudgetError
from leasehold.reports.stepping import position_json, system_json
from leasehold.spec import Diagnostic, SpecError, System, load
from leasehold.spec.language.load import find

NOT_LOADED = "nothing can be walked through before the specification can be loaded"


def usual_budget(system: System) -> Budget:
    """The faults that a walk may have where nobody says it: those that the system declares, else some."""
    return Budget.parse(system.faults.budget or "crash=1,lose=1,duplicate=1")


def budget_for(system: System, faults: str | None) -> Budget:
    """The faults of a walk, as a person has given them or not.

    Raises:
        BudgetError: the words are no budget.
    """
    return usual_budget(system) if faults is None else Budget.parse(faults)


class LiveSystem:
    """A system that is walked through while somebody edits it.

    Attributes:
        version: grows whenever the files are read again.
        diagnostics: what is wrong with the files as they are now; warnings, too.
        trouble: why the system as it is now cannot have the faults of the walk; empty: it can.
        walker: of the text that could last be loaded; None: there was none.

    Args:
        name: a shipped system's, or a folder.
        settings: values of constants.
        faults: the budget of the walk; None: that which the system declares, else one crash, one loss, one duplicate.
    """

    def __init__(self, name: str, settings: Mapping[str, str], faults: str | None) -> None:
        self.name, self.settings, self.faults = name, settings, faults
        self.version = 0
        self.diagnostics: Sequence[Diagnostic] = ()
        self.trouble = ""
        self.walker: Walker | None = None
        self._standings: Standings | None = None
        self._read: Mapping[Path, int] = {}
        self.read()

    @property
    def system(self) -> System | None:
        """The system that is walked through."""
        return None if self.walker is None else self.walker.system

    def read(self) -> None:
        """Reads the files.

        Raises:
            BudgetError: the first system that could be loaded cannot have the faults that were asked for.
        """
        self._read = self._stamps()
        self.version += 1
        self.trouble = ""
        try:
            system = load(self.name, self.settings)
            walker = Walker(system, budget_for(system, self.faults))
            walker.follow(())  # there may be no first state
        except SpecError as error:
            self.diagnostics = error.diagnostics
        except BudgetError as error:
            if self.walker is None:
                raise
            self.trouble = f"--faults {self.faults}: {error}"
        else:
            self.diagnostics, self.walker, self._standings = system.warnings, walker, Standings(walker)

    def changed(self) -> bool:
        """Returns whether a file has changed, come or gone since they were read."""
        return self._stamps() != self._read

    def _stamps(self) -> dict[Path, int]:
        """The times at which the system's files, wherever they are, were written last; in nanoseconds."""
        try:
            folders = {find(self.name)[0].resolve()}
        except SpecError:
            return {}
        system = self.system
        if system is not None:
            places = [role.place for role in system.roles.values()] + [p.place for p in system.properties.values()]
            folders |= {file.resolve().parent for file in (Path(place.file) for place in places) if file.is_file()}
        stamps = {}
        for file in (file for folder in folders for file in folder.rglob("*.yaml")):
            try:
                stamps[file] = file.stat().st_mtime_ns
            except OSError:  # gone meanwhile
                continue
        return stamps

    def json(self) -> dict[str, Any]:
        """The system as the page shows it, wherever the walk is."""
        findings = [d.as_json() | {"text": str(d)} for d in self.diagnostics]
        head = {"version": self.version, "name": self.name, "diagnostics": findings, "trouble": self.trouble}
        if self.walker is None:
            return head
        return head | system_json(self.walker.system, str(self.walker.budget))

    def at(self, trail: Sequence[str], since: int) -> dict[str, Any]:
        """The position at the end of a trail, or as far as it goes; of the way there the entries from `since` on.

        Raises:
            LookupError: no text of the system could be loaded.
        """
        if self.walker is None or self._standings is None:
            raise LookupError(NOT_LOADED)
        followed = self.walker.follow(trail)
        return position_json(self.walker, self._standings, followed, since) | {"version": self.version}
