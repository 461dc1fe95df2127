"""The lease's actors in simulation, with real policies, and units that are simulated too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from leasehold.faults.simulation.lease import LeaseActors, inventory_of
from leasehold.faults.simulation.simulation import ControlledActor, Simulation
from leasehold.impl.actor.environment import RetryPolicy
from leasehold.impl.core.core import Program
from leasehold.impl.handlers.handler import Handler
from leasehold.impl.handlers.simulated import SimulatedHandler
from leasehold.impl.handlers.simulated import SimulatedUnits as Units
from leasehold.impl.store.store import Store


class LeaseSimulation(LeaseActors[ControlledActor], Simulation):
    """The actors of the lease.

    Args:
        program, seed, store, actor: as for every simulation.
        units: of the site.
    """

    outside = False  # whether there is something of units outside of this process, which has to go in the end
    retry = RetryPolicy(3, 0.1, 30.0)

    def __init__(
        self,
        program: Program,
        seed: int = 0,
        units: int = 2,
        store: Callable[[str], Store] | None = None,
        actor: type[ControlledActor] = ControlledActor,
    ) -> None:
        Simulation.__init__(self, program, seed, store, actor)
        self.units = Units(seed=seed)
        self.inventory = inventory_of(units)

    def _handler(self, name: str, role: str) -> Handler:
        return SimulatedHandler(self.units)

    # Units, as they are outside of the actors

    def up(self) -> set[str]:
        """The units that are up, and the guests that have joined, by name."""
        return self.units.on()

    def serves(self, unit: str, lease: str) -> bool:
        """Returns whether a unit that is up is so for a lease."""
        return self.units.units[unit].lease == lease

    def repair(self, unit: str) -> None:
        """An operator sees to it that nothing is left of a unit."""
        self.units.lose(unit)

    def strays(self) -> list[str]:
        """The remains of units that are not up, in words; simulated units leave none."""
        return []

    # Policies

    def wish(self, method: str, *arguments: Any, **options: Any) -> None:
        """Passes a client's command to the service manager's policy."""
        actor = self.actors[self.players["service_manager"]]
        future = self.loop.call(lambda: actor.command("service_manager", method, *arguments, **options))
        if future.done():
            future.result()
        else:
            future.add_done_callback(lambda done: done.cancelled() or done.exception())

    def policy(self, role: str) -> Any:
        """The policy of a running actor."""
        return self.actors[self.players[role]].environment.policies[role]
