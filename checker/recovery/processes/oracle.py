"""Observes a case from outside, and decides whether what it sees is allowed.

Theory of operation. The oracle asks the actors for their records, and reads /proc for the processes of the units. These
are not of one moment: a difference between a record and a process counts only when it is seen twice while the record
stays the same. The checks follow the paper's invariants (Table 1):

1. a unit serves one lease at a time, and the broker promises no more than there is;
2. while a unit is the lease's its process lives on: the same one, whoever crashes;
3. while the holder says that its lease is active, all its units run;
4. at rest, exactly the units that the site has assigned run, each for its lease, each one process;
5. at the end, nothing of any unit is left.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from leasehold.checker.recovery.campaign import CaseOutcome
from leasehold.checker.recovery.processes.actors import UNITS, Actors
from leasehold.impl.fleet import BROKER, ROLES, SITE, TENANT
from leasehold.impl.handlers.handler import HandlerError
from leasehold.impl.server.client import ClientError


@dataclass(slots=True)
class Observation:
    """Each actor's leases by name (None: it did not answer), and the processes of units that run."""

    leases: dict[str, dict[str, dict[str, Any]] | None] = field(default_factory=dict)
    units: dict[str, dict[str, Any]] = field(default_factory=dict)

    def row(self, actor: str, lease: str) -> dict[str, Any] | None:
        """A lease at an actor; None where it has none, or does not answer."""
        return (self.leases[actor] or {}).get(lease)

    def state(self, actor: str, lease: str) -> str:
        row = self.row(actor, lease)
        return "" if row is None else str(row["state"])

    def assigned(self) -> dict[str, str]:
        """The lease that each unit serves, as the site has it."""
        rows = (self.leases[SITE] or {}).items()
        return {f"unit-{n}": lease for lease, row in rows for n in row["data"]["assigned"]}

    def running(self) -> dict[str, str]:
        """The lease that each unit's process runs for."""
        return {name: unit["lease"] for name, unit in self.units.items()}


class Oracle:
    """Observes, and collects findings."""

    def __init__(self, actors: Actors, outcome: CaseOutcome) -> None:
        self.actors, self.outcome = actors, outcome
        self.last = Observation(dict.fromkeys(ROLES))
        self._births: dict[tuple[str, str], tuple[int, int]] = {}
        self._suspects: dict[str, object] = {}

    def say(self, words: str) -> None:
        self.outcome.say("oracle", words)

    def observe(self) -> Observation:
        """Observes once, and checks."""
        seen = Observation()
        for name in ROLES:
            try:
                seen.leases[name] = {row["lease"]: row for row in self.actors.client(name).get("leases")}
            except ClientError:
                seen.leases[name] = None
        for place in self.actors.unit_places():
            try:
                birth = place.birth()
            except HandlerError as error:
                self.say(str(error))
                continue
            if birth and place.alive():
                seen.units[place.folder.name] = birth
        self._one_lease_each(seen)
        self._live_on(seen)
        self._run_while_active(seen)
        self.last = seen
        return seen

    def _one_lease_each(self, seen: Observation) -> None:
        holder: dict[int, str] = {}
        for lease, row in (seen.leases[SITE] or {}).items():
            for unit in row["data"]["assigned"]:
                if unit in holder:
                    self.say(f"unit-{unit} is assigned to {holder[unit]} and {lease} at once")
                holder[unit] = lease
        rows = (seen.leases[BROKER] or {}).values()
        promised = sum(row["data"]["units"] for row in rows if not row["over"])
        if promised > UNITS:
            self.say(f"{promised} units are promised, and there are {UNITS}")

    def _live_on(self, seen: Observation) -> None:
        births = {(unit["lease"], name): (unit["pid"], unit["start"]) for name, unit in seen.units.items()}
        for (lease, name), birth in births.items():
            before = self._births.get((lease, name))
            if before is not None and before != birth:
                self.say(f"{name} of {lease} was process {before[0]}, and is now {birth[0]}")
        # As long as the unit is the lease's, also while the site is away, it must be the process that it was.
        away, assigned = seen.leases[SITE] is None, seen.assigned()
        kept = {key: birth for key, birth in self._births.items() if away or assigned.get(key[1]) == key[0]}
        self._births = {**kept, **births}

    def _run_while_active(self, seen: Observation) -> None:
        suspects: dict[str, object] = {}
        for lease, row in (seen.leases[TENANT] or {}).items():
            data = row["data"]
            running = list(seen.running().values()).count(lease)
            if row["state"] == "active" and running < data["lease_units"]:
                words = f"{lease} is active with {data['lease_units']} units, and {running} run"
                suspects[words] = (data["lease_end"], row["since"])
                if self._suspects.get(words) == suspects[words]:
                    self.say(words)
        self._suspects = suspects

    def agrees(self, seen: Observation) -> str:
        """Empty where the processes are what the site says; else what differs."""
        if seen.leases[SITE] is None:
            return "the site does not answer"
        assigned, running = seen.assigned(), seen.running()
        return "" if assigned == running else f"the site has assigned {assigned}, and {running} run"

    def one_each(self, seen: Observation) -> str:
        """Empty where each unit that runs is one process, and no other is left; else what is there."""
        left = [
            f"{place.folder.name} is {len(members)} processes" for place in self.actors.unit_places()
            if len(members := place.members(thorough=True)) != (place.folder.name in seen.units)
        ]  # fmt: skip
        return "; ".join(left)
