"""Units that an operator keeps back, or that are in quarantine: after a restart they are as little free as before."""

from __future__ import annotations

from typing import Any

from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.actor.environment import ActorOptions, RetryPolicy
from leasehold.impl.handlers.simulated import SimulatedHandler, SimulatedUnits
from leasehold.impl.lease.fleet import SITE
from leasehold.impl.store.store import RecordKey


def free(cluster: Cluster) -> Any:
    policy: Any = cluster.site.environment.policies["authority"]
    return policy.free()


async def test_a_restarted_site_takes_for_free_what_it_took_for_free_before() -> None:
    """Whoever has had a unit: nobody, a lease that is over, one that is forgotten as well, or one that goes on."""
    world = SimulatedUnits(fails=lambda action, chance: action.verb == "teardown" and action.unit == "unit-0")
    options = ActorOptions(seed=0, retire_after=5, retry=RetryPolicy(tries=1))
    async with Cluster(units=8, handler=SimulatedHandler(world), options=options) as c:

        async def restarted(*taken: int) -> None:
            assert free(c) == set(range(8)) - set(taken)
            await c.kill(SITE)
            await c.start(SITE)
            await c.settle()
            assert free(c) == set(range(8)) - set(taken)

        await c.lease(2, until=4, term=4)  # units 0 and 1
        await c.lease(2, until=100, term=100)  # 2 and 3
        for unit in (1, 3, 6, 7):  # in use by a lease that ends, by one that goes on, and twice by none
            await c.site.tell("-", f"unit[{unit}]", "retire", {})
        await c.settle()
        await restarted(0, 1, 2, 3, 6, 7)
        await c.site.tell("-", "unit[7]", "returned", {})
        await c.advance(6)
        await c.tenant.command("service_manager", "demand", "tenant:3", 4, 100, 90)
        await c.settle()
        await c.tenant.command("service_manager", "stop", "tenant:3")
        for _ in range(4):
            await c.advance(4)
            await restarted(0, 1, 2, 3, 6)
        assert RecordKey("tenant:1", "authority") not in c.site.table.instances
        await c.site.tell("-", "unit[0]", "repaired", {})
        for unit in (1, 6):
            await c.site.tell("-", f"unit[{unit}]", "returned", {})
        await c.settle()
        await restarted(2, 3)
