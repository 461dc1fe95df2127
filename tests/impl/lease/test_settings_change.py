"""What an operator sets while leases run counts for those that begin then; the others go on as they have begun."""

from __future__ import annotations

from typing import Any

import pytest

from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.actor.environment import ActorOptions
from leasehold.impl.lease.credentials import AUTHORITY
from leasehold.impl.store.store import RecordKey


def end_of(c: Cluster, lease: str) -> int:
    held = c.tenant.table.instances[RecordKey(lease, "service_manager")]
    end: int = held.core.view(held.record)["lease_end"]
    return end


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_lease_stays_at_its_site_when_its_broker_is_to_send_others_elsewhere(restarted: bool) -> None:
    """Its renewals are for the site that has its units, also after a restart of the broker."""

    async with Cluster(2, options=ActorOptions(seed=0)) as c:
        lease = await c.lease(1, 40, 5)
        before = end_of(c, lease)
        if restarted:
            await c.kill("broker")
            await c.start("broker")
        credentials: Any = c.broker.codec.credentials
        credentials.peers = {"authority": "elsewhere"}
        await c.advance(8)
        assert c.state(lease) == ("active", "ticketed", "active")
        assert end_of(c, lease) > before
        other = await c.lease(1, 40, 5)
        metadata = c.broker.table.instances[RecordKey(other, "broker")].metadata
        assert metadata[AUTHORITY] == "elsewhere"
        assert c.state(other)[2] is None  # the site takes no ticket that is for another


@pytest.mark.real_time
@pytest.mark.long
async def test_a_site_of_more_units_than_claims_are_decided_of_leases_them() -> None:
    async with Cluster(units=1001) as cluster:
        lease = await cluster.lease(2, until=20, term=20)
        holder = cluster.held(lease, "service_manager")
        assert holder is not None
        assert holder.state == "active"
