"""A run of the lease's actors in simulation: how its leases and units are looked at and acted on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leasehold.checker.recovery import simulated_run
from leasehold.checker.recovery.lease.simulation import LeaseSimulation
from leasehold.checker.recovery.simulated_run import SimulatedRun
from leasehold.impl.actor.table import BELOW

SERVICE_MANAGER, BROKER, AUTHORITY = "service_manager", "broker", "authority"
CHECKS = {
    **simulated_run.CHECKS,
    "lease": (
        "The lease comes to the state that it has without the crash, and can be extended once more if it runs; or it "
        "has ended, and its units serve the next request."
    ),
    "actor": "Another lease at the same actors is renewed at once after the restart, and goes on.",
    "policy": "The broker's calendar, and the units that the site takes for free, are those that the records imply.",
    "use": (
        "A guest runs on no unit that is torn down or another lease's, beside no other lease's guest, and not past the "
        "end that its site has told its holder."
    ),
    "world": (
        "The units that are up are those of machines that say so; no unit has two actions at once, and none is left "
        "over."
    ),
}


class LeaseRun(SimulatedRun[LeaseSimulation]):
    """The base of all runs of the lease in simulation."""

    def state(self, lease: str, machine: str = SERVICE_MANAGER) -> str:
        return super().state(lease, machine)

    def data(self, lease: str, machine: str = SERVICE_MANAGER) -> Mapping[str, Any]:
        return super().data(lease, machine)

    def over(self, lease: str) -> bool:
        """Returns whether service manager, broker and authority are done with a lease.

        A lazy site may keep it once its term is over.
        """
        if any(self.state(lease, r) not in ("", "nascent", "closed", "failed") for r in (SERVICE_MANAGER, BROKER)):
            return False
        data, lazy = self.data(lease, AUTHORITY), self.sim.program.constants.get("lazy_close", True)
        kept = lazy and "end" in data and self.sim.time.now >= data["end"]
        return bool(kept) or self.state(lease, AUTHORITY) in ("", "nascent", "closed")

    # Units

    def quarantined(self) -> list[int]:
        """The numbers of the units that are in quarantine."""
        units = range(len(self.sim.inventory))
        return [n for n in units if self.data(BELOW, f"unit[{n}]").get("quarantined")]

    def repair(self) -> None:
        """An operator sees to the units that are in quarantine."""
        for n in self.quarantined():
            self.sim.repair(self.sim.inventory.units[n].name)
            self.tell(f"unit[{n}]", BELOW, "repaired")

    def check_overlaps(self) -> None:
        if self.sim.units.overlaps:
            self.say("world", f"two actions on one unit at once: {self.sim.units.overlaps[0]}")
