"""Observes a fleet from outside, and checks the observations: for the demo and for cases with real processes.

Theory of operation. The monitor asks the three actors for their records, and reads /proc for the processes of the
site's units. These are not of one moment, so a difference between two of them counts as a violation only when it is
seen again in the next observation with the same records. The rules, after the paper's invariants (Table 1):

1. a unit serves one lease at a time;
2. the broker has promised no more units than there are;
3. as long as a lease has its units, their processes live on: the same ones, whichever actor crashes meanwhile;
4. while the holder says that its lease is active and its term lasts, all its units run, but for those that it knows to
   be lost.

Who kills the process of a unit says so (`killed`): that unit may be without a process, or have another one. Whether it
is set up again in time is judged elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from leasehold.impl.handlers.handler import HandlerError
from leasehold.impl.lease.fleet import BROKER, ROLES, SITE, TENANT, Fleet
from leasehold.impl.server.client import ClientError
from leasehold.impl.words import counted


@dataclass(slots=True)
class Observation:
    """An observation of a fleet.

    Attributes:
        now: the clock, in ticks.
        abouts: what each actor says of itself; None: it did not answer.
        leases: each actor's leases by name; None: it did not answer.
        units: the processes of units that run: pid, start, lease.
    """

    now: int = 0
    abouts: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    leases: dict[str, dict[str, dict[str, Any]] | None] = field(default_factory=lambda: dict.fromkeys(ROLES))
    units: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def states(self) -> list[Any]:
        """The states and data of all leases; they change while there is progress."""
        return [
            (name, lease, row["state"], row["data"])
            for name, held in self.leases.items()
            for lease, row in (held or {}).items()
        ]

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


class FleetMonitor:
    """Observes a fleet, and collects violations in sentences.

    Attributes:
        killed: processes of units that were killed from outside, each by its number and start.
    """

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.last = Observation()
        self.violations: list[str] = []
        self.killed: set[tuple[int, int]] = set()
        self._births: dict[tuple[str, str], tuple[int, int]] = {}
        self._suspects: dict[str, object] = {}

    def say(self, words: str) -> None:
        """Adds a violation."""
        if words not in self.violations:
            self.violations.append(words)

    def observe(self) -> Observation:
        """Observes once, and checks."""
        seen = Observation(self.last.now)
        for name in ROLES:
            client = self.fleet.client(name)
            try:
                seen.abouts[name] = client.get("about")
                seen.leases[name] = {row["lease"]: row for row in client.get("leases")}
            except ClientError:
                seen.abouts[name] = seen.leases[name] = None
        seen.now = max([seen.now, *(about["now"] for about in seen.abouts.values() if about)])
        for place in self.fleet.unit_places():
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
        if promised > self.fleet.units:
            self.say(f"{promised} units are promised, and there are {self.fleet.units}")

    def _live_on(self, seen: Observation) -> None:
        births = {(unit["lease"], name): (unit["pid"], unit["start"]) for name, unit in seen.units.items()}
        for (lease, name), birth in births.items():
            before = self._births.get((lease, name))
            if before is not None and before != birth and before not in self.killed:
                self.say(f"{name} of {lease} was process {before[0]}, and is now {birth[0]}")
        # As long as the unit is the lease's, also while the site is away, it must be the process that it was.
        # A holder that has not heard yet that its site has let go of a unit that was killed cannot know better.
        kept = {
            key: birth
            for key, birth in self._births.items()
            if self._still_has(seen, *key) or (birth in self.killed and self._still_knows(seen, *key))
        }
        self._births = {**kept, **births}

    def _still_has(self, seen: Observation, lease: str, unit: str) -> bool:
        row = seen.row(SITE, lease)
        has = row is not None and not row["over"] and int(unit.rpartition("-")[2]) in row["data"]["assigned"]
        return has or seen.leases[SITE] is None

    def _still_knows(self, seen: Observation, lease: str, unit: str) -> bool:
        row = seen.row(TENANT, lease)
        knows = row is not None and not row["over"] and int(unit.rpartition("-")[2]) in row["data"]["lease_units"]
        return knows or seen.leases[TENANT] is None

    def _run_while_active(self, seen: Observation) -> None:
        suspects: dict[str, object] = {}
        for lease, row in (seen.leases[TENANT] or {}).items():
            data = row["data"]
            meant = {f"unit-{n}" for n in data["lease_units"] if n not in data["lease_lost"]}
            meant -= {name for name in meant if self._births.get((lease, name)) in self.killed}
            running = sum(of == lease for name, of in seen.running().items() if name in meant)
            if row["state"] == "active" and seen.now < data["lease_end"] and running < len(meant):
                words = f"{lease} is active with {counted(len(meant), 'unit')}, and {running} run"
                suspects[words] = (data["lease_end"], row["since"])
                if self._suspects.get(words) == suspects[words]:
                    self.say(words)
        self._suspects = suspects
