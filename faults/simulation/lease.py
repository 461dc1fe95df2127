"""The actors of the lease in one process: their roles, units and policies, for each way to drive them."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
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
from leasehold.impl.lease.broker import FirstComeFirstServed
from leasehold.impl.lease.delegations import Delegations
from leasehold.impl.lease.demand import LeaseDemand
from leasehold.impl.lease.environment import lease_environment
from leasehold.impl.lease.fleet import BROKER, ROLES, SITE, TENANT
from leasehold.impl.lease.inventory import Inventory, units_at
from leasehold.impl.lease.service_manager import FixedDemand
from leasehold.impl.policy.policy import Policy
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

    def _inventory(self, name: str) -> Inventory:
        """The inventory of an actor."""
        return self.inventory

    def _delegations(self, name: str) -> Delegations | None:
        """The delegations of an actor, if it has any."""
        return None

    def _environment(self, name: str) -> Environment:
        return lease_environment(
            self.program,
            self._identities[name],
            self.roles[name],
            self.players,
            self._inventory(name),
            partial(self._handler, name),
            self._delegations(name),
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


class Federation(LeaseActors[Actor], SystemCluster):
    """Several holders, brokers and sites, who all trust each other.

    Args:
        sites: by name, the units of each by type.
        brokers: by name, the units that each promises, by site and type.
        holders: their names.
        broker: makes the policy of a broker, of its inventory; left out: first come, first served.
        settings: constants of the lease's specification.
        folder: with a folder for each broker and site, of its delegations; left out: units are configured.
        options: as `SystemCluster` takes them.

    Attributes:
        handlers: by site, the simulated world of its units.
    """

    def __init__(
        self,
        sites: Mapping[str, Mapping[str, int]],
        brokers: Mapping[str, Mapping[str, Mapping[str, int]]],
        holders: Sequence[str] = (TENANT,),
        broker: Callable[..., Policy] = FirstComeFirstServed,
        settings: Mapping[str, int | bool] | None = None,
        folder: Path | None = None,
        **options: Any,
    ) -> None:
        self._folder = folder
        most = max(sum(types.values()) for types in sites.values())
        self.system, program = _compiled(**{"max_units": most, **(settings or {})})
        self.inventories = {name: _parsed(units_at({name: types}, own=True)) for name, types in sites.items()}
        self.inventories |= {name: _parsed(units_at(of)) for name, of in brokers.items()}
        self.handlers = {name: SimulatedHandler() for name in sites}
        self._broker = broker
        first = {"service_manager": holders[0], "broker": next(iter(brokers)), "authority": next(iter(sites))}
        SystemCluster.__init__(self, program, players=first, **options)
        kinds = (("service_manager", holders), ("broker", brokers), ("authority", sites))
        for role, names in kinds:
            for name in names:
                if name not in self.roles:
                    self._introduce(name, (role,))
        only = {role: next(iter(names)) for role, names in kinds if len(names) == 1}
        self.players = only

    def _environment(self, name: str) -> Environment:
        environment = super()._environment(name)
        if "broker" in environment.policies:
            directory = environment.directory
            other_terms = bool(self.program.constants.get("other_terms", False))
            policy = self._broker(
                self.inventories[name],
                directory=directory,
                other_terms=other_terms,
                delegations=self._delegations(name),
            )
            environment.policies["broker"] = policy
        return environment

    def _delegations(self, name: str) -> Delegations | None:
        """The folder of an actor's delegations."""
        return None if self._folder is None or name not in self.inventories else Delegations(self._folder / name, name)

    def _inventory(self, name: str) -> Inventory:
        return self.inventories.get(name, Inventory(()))

    def _handler(self, name: str, role: str) -> Any:
        return self.handlers.get(name) or NullHandler()

    def demand(self, holder: str, lease: str, units: int, until: int, term: int = 10, **more: Any) -> Awaitable[Any]:
        """A client asks a holder for a lease."""
        asked: Awaitable[Any] = self.actors[holder].command(
            "service_manager", "demand", lease, units, until, term, **more
        )
        return asked

    def states(self, lease: str) -> dict[str, str]:
        """The control state of the lease's machine at each actor that has one."""
        found = {}
        for name, actor in self.actors.items():
            for role in self.roles[name]:
                if (instance := actor.table.instances.get(RecordKey(lease, role))) is not None:
                    found[name] = instance.state
        return found


def _parsed(listed: list[dict[str, Any]]) -> Inventory:
    return Inventory.parse({"units": listed}) if listed else Inventory(())


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
