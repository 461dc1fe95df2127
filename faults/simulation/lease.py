"""The actors of the lease in one process: their roles, units and policies, for each way to drive them."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache, partial
from typing import Any

from leasehold.faults.simulation.cluster import SystemCluster
from leasehold.faults.simulation.embedded import Embedded
from leasehold.faults.simulation.network import PacketRule
from leasehold.faults.simulation.schedule import Schedule
from leasehold.faults.simulation.system import A, LocalSystem
from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.environment import ActorOptions, Environment
from leasehold.impl.actor.table import BELOW, MachineInstance
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.core.core import Program
from leasehold.impl.handlers.handler import NullHandler
from leasehold.impl.handlers.simulated import SimulatedHandler
from leasehold.impl.lease.demand import LeaseDemand
from leasehold.impl.lease.environment import lease_environment
from leasehold.impl.lease.fleet import BROKER, ROLES, SITE, TENANT
from leasehold.impl.lease.inventory import Inventory
from leasehold.impl.lease.service_manager import FixedDemand
from leasehold.impl.store.store import RecordKey, Store
from leasehold.impl.transport.transport import Transport
from leasehold.impl.words import choices
from leasehold.spec import System, load_for_run


@lru_cache(typed=True)
def _compiled(**settings: int | bool) -> tuple[System, Program]:
    """The lease with these constants; neither changes, so clusters share them."""
    system = load_for_run("lease", settings)
    return system, compile_system(system)


class LeaseActors(LocalSystem[A]):
    """The lease's policies, credentials and units, for any of its systems in one process.

    Attributes:
        inventory: the units of the site.
    """

    inventory: Inventory

    def _environment(self, name: str) -> Environment:
        return lease_environment(
            self.program,
            self._identities[name],
            self.roles[name],
            self.players,
            self.inventory,
            partial(self._handler, name),
        )

    def _handler(self, name: str, role: str) -> Any:
        """The handler of one incarnation of an actor, for a role that it plays."""
        raise NotImplementedError


def inventory_of(units: int) -> Inventory:
    """Returns so many units, `unit-0` and on."""
    return Inventory.parse({"units": [{"name": f"unit-{n}"} for n in range(units)]})


class Cluster(LeaseActors[Actor], SystemCluster):
    """A service manager, a broker and a site of so many units.

    Args:
        units: of the site.
        settings: constants of the lease's specification.
        handler: of the site's units; left out: a simulated world, `world`.
        guest: the handler of what the holder runs on them; left out: it runs nothing.
        rest: as `SystemCluster` takes it.
    """

    def __init__(
        self,
        units: int = 4,
        settings: Mapping[str, int | bool] | None = None,
        rule: PacketRule | None = None,
        store: Callable[[str], Store] | None = None,
        options: ActorOptions | None = None,
        handler: Any = None,
        transport: Callable[[str], Transport] | None = None,
        guest: Any = None,
        seed: int = 0,
        schedule: Schedule | None = None,
    ) -> None:
        self.system, program = _compiled(**{"max_units": units, **(settings or {})})
        self.inventory = inventory_of(units)
        self.handler, self.guest = handler or SimulatedHandler(), guest or NullHandler()
        players = {role: name for name, role in ROLES.items()}
        SystemCluster.__init__(
            self, program, rule, store, options, transport, players=players, seed=seed, schedule=schedule
        )
        self._number = 0

    def _handler(self, name: str, role: str) -> Any:
        return {"service_manager": self.guest, "authority": self.handler}.get(role)

    async def lease(self, units: int, until: int, term: int = 10, name: str = "") -> str:
        """Asks for units until a time, in terms of so many ticks; returns the name of the lease."""
        lease = name or self.new_lease()
        await self.demand(lease, units, until, term)
        await self.settle()
        return lease

    def new_lease(self) -> str:
        """Returns the name of a lease that nobody has asked for."""
        self._number += 1
        return f"{TENANT}:{self._number}"

    def demand(self, lease: str, units: int, until: int, term: int) -> Awaitable[Any]:
        """A client asks for a lease."""
        asked: Awaitable[Any] = self.tenant.command("service_manager", "demand", lease, units, until, term)
        return asked

    @property
    def tenant(self) -> Actor:
        return self.actors[TENANT]

    @property
    def broker(self) -> Actor:
        return self.actors[BROKER]

    @property
    def site(self) -> Actor:
        return self.actors[SITE]

    def state(self, lease: str) -> tuple[str | None, ...]:
        """The control state of the lease's machine at each actor; None where it has none."""
        instances = (self.actors[n].table.instances.get(RecordKey(lease, role)) for n, role in ROLES.items())
        return tuple(None if instance is None else instance.state for instance in instances)

    def wish(self, lease: str) -> LeaseDemand | None:
        """The demand for a lease, as its policy keeps it."""
        policy: FixedDemand = self.tenant.environment.policies["service_manager"]  # type: ignore[assignment]
        return policy.wish(lease)


class EmbeddedCluster(Embedded[Cluster]):
    """A service manager (`tenant`), a broker and a site."""

    def __init__(self, units: int = 4, loop: AbstractEventLoop | None = None, **options: Any) -> None:
        cluster = Cluster(units, **options)
        super().__init__(cluster, cluster.system, loop)

    def lease(self, units: int, until: int, term: int = 10) -> str:
        """Asks for units until a time, renewed in terms of so many ticks; returns the name of the lease."""
        lease = self.cluster.new_lease()
        self._settled(
            lambda: self.cluster.demand(lease, units, until, term), lambda: self.cluster.wish(lease) is not None
        )
        return lease

    def flex(self, lease: str, units: int) -> None:
        """Wants another number of units, as soon as the lease can be extended."""
        self._settled(lambda: self.cluster.tenant.command("service_manager", "flex", lease, units, soon=True))

    def close(self, lease: str) -> None:
        """Ends a lease, in any state."""
        self._tell(TENANT, RecordKey(lease, "service_manager"), "close", {})

    def state(self, lease: str) -> dict[str, str | None]:
        """The state of the lease's machine at each role; None where it has none."""
        return dict(zip(ROLES.values(), self.cluster.state(lease), strict=True))

    def units(self) -> set[str]:
        """The units of the site that are up."""
        up: set[str] = self.cluster.handler.world.on()
        return up

    def tell_unit(self, unit: str, event: str, /, **fields: Any) -> None:
        """An operator's, or a detector's, event for a unit of the site, such as `repaired`."""
        self._tell(SITE, self._unit(unit), event, fields)

    def unit_state(self, unit: str) -> str:
        """The state of a unit's machine."""
        return (
            self.cluster.site.program.roles["unit"].states[0]
            if (instance := self._held(unit)) is None
            else instance.state
        )

    def _held(self, unit: str) -> MachineInstance | None:
        return self.cluster.site.table.instances.get(self._unit(unit))

    def _unit(self, unit: str) -> RecordKey:
        number = self.cluster.inventory.number(unit)
        if number is None:
            names = [one.name for one in self.cluster.inventory.units]
            raise LookupError(f"there is no unit {unit[:60]!r}{choices(unit, names)}")
        return RecordKey(BELOW, f"unit[{number}]")
