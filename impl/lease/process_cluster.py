"""The actors of the lease as processes, for integration tests, with the methods of those in one process."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from leasehold.impl.lease.fleet import ROLES, SITE, TENANT, Fleet
from leasehold.impl.processes.cluster import FleetLinks, Processes, with_clock
from leasehold.impl.processes.fleet import SystemFleet
from leasehold.impl.server.client import ClientError
from leasehold.impl.words import choices


class ProcessCluster(Processes[Fleet]):
    """A service manager (`tenant`), a broker and a site as processes, with SQLite, HTTP and units that are processes.

    It has the methods of `EmbeddedCluster` (faults/simulation/lease.py).

    Args:
        units: of the site.
        tick_seconds: of a real clock; left out: the test moves it.
        more: further keys of every configuration.
        links: as `Processes` takes it.
        options: of the fleet.
    """

    def __init__(
        self,
        units: int = 4,
        tick_seconds: float | None = None,
        more: Mapping[str, Any] | None = None,
        links: Callable[[SystemFleet], FleetLinks] | None = None,
        **options: Any,
    ) -> None:
        folder, more = Path(tempfile.mkdtemp(prefix="leasehold-")), with_clock(more, tick_seconds)
        super().__init__(Fleet(folder, units, tick_seconds or 1.0, more=more, **options), not tick_seconds, links)

    def lease(self, units: int, until: int, term: int = 10) -> str:
        """Asks for units until a time, renewed in terms of so many ticks; returns the name of the lease."""
        answer = self.fleet.client(TENANT).post("demand", units=units, until=until + self._begin, term=term)
        self.settle()
        lease: str = answer["lease"]
        return lease

    def flex(self, lease: str, units: int) -> None:
        """Wants another number of units, as soon as the lease can be extended."""
        self.fleet.client(TENANT).post("leases", lease, "flex", units=units, soon=True)
        self.settle()

    def close(self, lease: str) -> None:
        """Ends a lease, in any state."""
        self.fleet.client(TENANT).post("leases", lease, "tell", event="close")
        self.settle()

    def state(self, lease: str) -> dict[str, str | None]:
        """The state of the lease's machine at each role; None where it has none, or its actor is down."""
        states: dict[str, str | None] = dict.fromkeys(ROLES.values())
        for actor, role in ROLES.items():
            try:
                machines = self.fleet.client(actor).get("leases", lease)
            except ClientError:
                continue
            states[role] = machines[0]["state"]
        return states

    def units(self) -> set[str]:
        """The units of the site that are up: whose process runs."""
        return {place.folder.name for place in self.fleet.unit_places() if place.alive()}

    def tell_unit(self, unit: str, event: str, /, **fields: Any) -> None:
        """An operator's, or a detector's, event for a unit of the site, such as `repaired`."""
        self.fleet.client(SITE).post("units", unit, "tell", event=event, fields=fields)
        self.settle()

    def unit_state(self, unit: str) -> str:
        """The state of a unit's machine."""
        states: dict[str, str] = {row["unit"]: row["state"] for row in self.fleet.client(SITE).get("units")}
        if unit not in states:
            raise LookupError(f"there is no unit {unit[:60]!r}{choices(unit, list(states))}")
        return states[unit]

    def stop(self) -> None:
        """Ends all actors and units, and removes what they kept."""
        self.fleet.stop()
        self.fleet.end_units()
        super().stop()
