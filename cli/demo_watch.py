"""Checks the demo from outside.

Theory of operation. The watcher asks the three actors what they hold, and looks for itself at the processes that the
site's units are. The answers are not of one moment, so what compares two of them counts as broken only when it is seen
again in the next look with the same records. The rules, after the paper's invariants (Table 1):

1. a unit serves one lease at a time;
2. the broker has promised no more units than there are;
3. as long as a lease has its units its processes live on: the same ones, whatever actor crashes meanwhile;
4. while the holder says that its lease is active and its term lasts, all its units run;
5. in the end nothing is left: no lease that goes on, and no process but those of an expired lease that the site keeps
   until somebody needs its units, as nobody told it of the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from leasehold.impl.fleet import BROKER, ROLES, SITE, TENANT, Fleet
from leasehold.impl.server.client import ClientError


@dataclass(slots=True)
class Look:
    """One observation: each actor's leases by name (None: it did not answer), and the units' processes."""

    now: int = 0
    abouts: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    leases: dict[str, dict[str, dict[str, Any]] | None] = field(default_factory=dict)
    units: dict[str, dict[str, Any]] = field(default_factory=dict)  # alive ones: pid, start, lease

    @property
    def states(self) -> list[Any]:
        """What must change for the demo to go on."""
        return [
            (name, lease, row["state"], row["data"])
            for name, held in self.leases.items()
            for lease, row in (held or {}).items()
        ]

    def running(self, lease: str) -> list[str]:
        """The units whose process runs for a lease."""
        return [name for name, unit in self.units.items() if unit["lease"] == lease]


class Watcher:
    """Observes, and keeps the last observation."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.last = Look()
        self.violations: list[str] = []
        self.extensions = 0
        self._over: set[str] = set()
        self._ends: dict[str, int] = {}
        self._births: dict[tuple[str, str], tuple[int, int]] = {}
        self._suspects: dict[str, object] = {}

    def look(self) -> Look:
        """Looks once, and judges."""
        found = Look(self.last.now)
        for name in ROLES:
            client = self.fleet.client(name)
            try:
                found.abouts[name] = client.get("about")
                found.leases[name] = {row["lease"]: row for row in client.get("leases")}
            except ClientError:
                found.abouts[name] = found.leases[name] = None
        found.now = max([found.now, *(about["now"] for about in found.abouts.values() if about)])
        found.units = self._processes()
        self._count(found)
        suspects: dict[str, object] = {}
        self._one_lease_each(found)
        self._no_more_than_there_is(found)
        self._live_on(found)
        self._run_while_active(found, suspects)
        for words, records in suspects.items():
            if self._suspects.get(words) == records:
                self._broken(words)
        self._suspects = suspects
        self.last = found
        return found

    def over(self, lease: str) -> bool:
        """Whether a lease is, or was, over at all actors that have it."""
        if lease not in self._over:
            rows = [(name, held.get(lease)) for name, held in self.last.leases.items() if held is not None]
            known = [(name, row) for name, row in rows if row is not None]
            if len(rows) == len(ROLES) and known and all(self._done(name, row) for name, row in known):
                self._over.add(lease)
        return lease in self._over

    def _done(self, name: str, row: dict[str, Any]) -> bool:
        """Whether a machine is at its end, or the site keeps an expired lease until its units are needed.

        That is so where nobody told the site of the end in time (lazy close; paper, section 4.2.1).
        """
        expired = max((row["data"][time] for time in row["times"]), default=0) <= self.last.now
        return bool(row["over"] or (name == SITE and expired))

    def at_the_end(self) -> None:
        """Checks that nothing is left when all is over."""
        for name, held in self.last.leases.items():
            for row in (held or {}).values():
                if not self._done(name, row):
                    self._broken(f"{row['lease']} is left at {name}, {row['state']}")
        kept = {row["lease"] for row in (self.last.leases[SITE] or {}).values() if not row["over"]}
        for name, unit in self.last.units.items():
            if unit["lease"] not in kept:
                self._broken(f"the process of {name} is left")

    def _broken(self, words: str) -> None:
        if words not in self.violations:
            self.violations.append(words)

    def _processes(self) -> dict[str, dict[str, Any]]:
        return {p.folder.name: birth for p in self.fleet.unit_places() if (birth := p.birth()) and p.alive()}

    def _count(self, look: Look) -> None:
        for lease, row in (look.leases[TENANT] or {}).items():
            end, before = row["data"]["lease_end"], self._ends.get(lease, 0)
            self.extensions += before and end > before
            self._ends[lease] = max(end, before)

    def _one_lease_each(self, look: Look) -> None:
        holder: dict[int, str] = {}
        for lease, row in (look.leases[SITE] or {}).items():
            for unit in row["data"]["assigned"]:
                if unit in holder:
                    self._broken(f"unit {unit} is assigned to {holder[unit]} and {lease} at once")
                holder[unit] = lease

    def _no_more_than_there_is(self, look: Look) -> None:
        promised = sum(row["data"]["units"] for row in (look.leases[BROKER] or {}).values() if not row["over"])
        if promised > self.fleet.units:
            self._broken(f"{promised} units are promised, and there are {self.fleet.units}")

    def _live_on(self, look: Look) -> None:
        births = {(unit["lease"], name): (unit["pid"], unit["start"]) for name, unit in look.units.items()}
        for (lease, name), birth in births.items():
            before = self._births.get((lease, name))
            if before is not None and before != birth:
                self._broken(f"{name} of {lease} was process {before[0]}, and is now {birth[0]}")
        # As long as the unit is the lease's, also while the site is away, it must be the process that it was.
        kept = {key: birth for key, birth in self._births.items() if self._still_has(look, *key)}
        self._births = {**kept, **births}

    def _still_has(self, look: Look, lease: str, unit: str) -> bool:
        site = look.leases[SITE]
        if site is None:
            return True
        row = site.get(lease)
        return row is not None and not row["over"] and int(unit.rpartition("-")[2]) in row["data"]["assigned"]

    def _run_while_active(self, look: Look, suspects: dict[str, object]) -> None:
        for lease, row in (look.leases[TENANT] or {}).items():
            data = row["data"]
            if row["state"] == "active" and look.now < data["lease_end"]:
                running = len(look.running(lease))
                if running < data["lease_units"]:
                    words = f"{lease} is active with {data['lease_units']} units, and {running} run"
                    suspects[words] = (data["lease_end"], row["since"])
