"""Observes the demo from outside, and checks that nothing is left in the end.

At the end no lease goes on, and no process of a unit is left but those of an expired lease: the site keeps it until its
units are needed, if no message told it of the end (lazy close; paper, section 4.2.1).
"""

from __future__ import annotations

from typing import Any

from leasehold.impl.lease.fleet import ROLES, SITE, TENANT, Fleet
from leasehold.impl.lease.fleet_monitor import FleetMonitor, Observation


class DemoMonitor(FleetMonitor):
    """Observes the demo, counts extensions, and knows which leases are over.

    Attributes:
        extensions: how often a lease's end moved.
    """

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet)
        self.extensions = 0
        self._over: set[str] = set()
        self._ends: dict[str, int] = {}

    def observe(self) -> Observation:
        seen = super().observe()
        for lease, row in (seen.leases[TENANT] or {}).items():
            end, before = row["data"]["lease_end"], self._ends.get(lease, 0)
            self.extensions += before and end > before
            self._ends[lease] = max(end, before)
        return seen

    def over(self, lease: str) -> bool:
        """Returns whether a lease is, or was, over at all actors that have it."""
        if lease not in self._over:
            rows = [(name, held.get(lease)) for name, held in self.last.leases.items() if held is not None]
            known = [(name, row) for name, row in rows if row is not None]
            if len(rows) == len(ROLES) and known and all(self._done(name, row) for name, row in known):
                self._over.add(lease)
        return lease in self._over

    def _done(self, name: str, row: dict[str, Any]) -> bool:
        """Returns whether a machine is at its end, or the site keeps an expired lease until its units are needed."""
        expired = max((row["data"][time] for time in row["times"]), default=0) <= self.last.now
        return bool(row["over"] or (name == SITE and expired))

    def at_the_end(self) -> None:
        """Checks what is left when all is over."""
        for name, held in self.last.leases.items():
            for row in (held or {}).values():
                if not self._done(name, row):
                    self.say(f"{row['lease']} is left at {name}, {row['state']}")
        kept = {row["lease"] for row in (self.last.leases[SITE] or {}).values() if not row["over"]}
        for name, unit in self.last.units.items():
            if unit["lease"] not in kept:
                self.say(f"the process of {name} is left")
