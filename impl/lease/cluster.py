"""The actors of the lease in one process: for tests, simulations and benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.environment import ActorOptions, Environment
from leasehold.impl.cluster import SystemCluster
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
from leasehold.impl.transport.memory import Hand
from leasehold.impl.transport.transport import Transport
from leasehold.spec import System, load_for_run


@lru_cache(typed=True)
def _compiled(**settings: int | bool) -> tuple[System, Program]:
    """The lease with these constants; neither changes, so clusters share them."""
    system = load_for_run("lease", settings)
    return system, compile_system(system)


class Cluster(SystemCluster):
    """A service manager, a broker and a site of so many units.

    Args:
        units: of the site.
        settings: constants of the lease's specification.
        handler: of the site's units; left out: a simulated world, `world`.
        guest: the handler of what the holder runs on them; left out: it runs nothing.
        rest: as `SystemCluster` takes it.
    """

    def __init__(
        self, units: int = 4, settings: Mapping[str, int | bool] | None = None, hand: Hand | None = None,
        store: Callable[[str], Store] | None = None, options: ActorOptions | None = None, handler: Any = None,
        transport: Callable[[str], Transport] | None = None, guest: Any = None,
    ) -> None:  # fmt: skip
        self.system, program = _compiled(**{"max_units": units, **(settings or {})})
        self.inventory = Inventory.parse({"units": [{"name": f"unit-{i}"} for i in range(units)]})
        self.handler, self.guest = handler or SimulatedHandler(), guest or NullHandler()
        super().__init__(program, hand, store, options, transport, players={r: name for name, r in ROLES.items()})
        self._number = 0

    def _environment(self, name: str) -> Environment:
        handlers = {"service_manager": self.guest, "authority": self.handler}
        return lease_environment(
            self.program, self._identities[name], self.roles(name), self.players, self.inventory, handlers.get
        )

    async def lease(self, units: int, until: int, term: int = 10, name: str = "") -> str:
        """Asks for units until a time, in terms of so many ticks; returns the name of the lease."""
        self._number += 1
        lease = name or f"{TENANT}:{self._number}"
        await self.tenant.command("service_manager", "demand", lease, units, until, term)
        await self.settle()
        return lease

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
        found = (self.actors[n].table.instances.get(RecordKey(lease, role)) for n, role in ROLES.items())
        return tuple(None if held is None else held.state for held in found)

    def wish(self, lease: str) -> LeaseDemand | None:
        """The demand for a lease, as its policy keeps it."""
        policy: FixedDemand = self.tenant.environment.policies["service_manager"]  # type: ignore[assignment]
        return policy.wish(lease)
