"""Why a lease is denied, cut or over: what policies and handlers say reaches the holder, and goes when it is old."""

from __future__ import annotations

import random
from typing import Any

from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.actor.environment import ActorOptions, RetryPolicy
from leasehold.impl.handlers.handler import HandlerAction
from leasehold.impl.handlers.simulated import SimulatedHandler, SimulatedUnits
from leasehold.impl.store.store import RecordKey

ONCE = ActorOptions(seed=0, retry=RetryPolicy(tries=1, pause=0.0))
BROKEN = "HandlerError: setup of unit-1 failed, as the simulation wanted"


def broken(units: set[str]) -> SimulatedHandler:
    """No setup of these units ends well."""

    def fails(action: HandlerAction, chance: random.Random) -> bool:
        return action.verb in ("setup", "modify") and action.unit in units

    return SimulatedHandler(SimulatedUnits(fails=fails))


def at_holder(cluster: Cluster, lease: str) -> dict[str, Any]:
    """The holder's record of a lease."""
    held = cluster.tenant.table.instances[RecordKey(lease, "service_manager")]
    return held.core.view(held.record)


async def test_a_holder_hears_why_no_unit_could_be_set_up() -> None:
    async with Cluster(units=2, handler=broken({"unit-1"}), options=ONCE) as cluster:
        lease = await cluster.lease(2, until=40)
        assert cluster.state(lease)[0] == "failed"
        assert at_holder(cluster, lease)["lease_reason"] == BROKEN


async def test_a_holder_knows_why_its_lease_has_not_grown_until_it_does() -> None:
    bad = {"unit-1"}
    async with Cluster(units=3, handler=broken(bad), options=ONCE) as cluster:
        lease = await cluster.lease(1, until=60, term=20)
        await cluster.tenant.command("service_manager", "flex", lease, 2, soon=True)
        await cluster.settle()
        assert at_holder(cluster, lease)["lease_units"] == {0}
        assert at_holder(cluster, lease)["lease_reason"] == BROKEN
        bad.clear()
        await cluster.advance(2)
        assert len(at_holder(cluster, lease)["lease_units"]) == 2
        assert at_holder(cluster, lease)["lease_reason"] == 0


async def test_a_holder_knows_why_its_ticket_was_not_extended_until_it_is() -> None:
    async with Cluster(units=1) as cluster:
        lease = await cluster.lease(1, until=60, term=20)
        await cluster.tenant.command("service_manager", "demand", "tenant:2", 1, 50, 20, start=22)
        await cluster.advance(18)
        reason = "all units of type unit are promised to others before 42"
        assert at_holder(cluster, lease)["ticket_reason"] == reason
        await cluster.tenant.command("service_manager", "stop", "tenant:2")
        await cluster.advance(1)
        assert at_holder(cluster, lease)["ticket_end"] > 22
        assert at_holder(cluster, lease)["ticket_reason"] == ""
