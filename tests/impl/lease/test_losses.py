"""A host that reboots takes the units of many leases with it, all at once."""

from __future__ import annotations

from leasehold.impl.lease.cluster import Cluster
from tests.impl.lease.test_reasons import at_holder
from tests.impl.virtual import virtual

UNITS = 200
EVENTS = 8  # at a site for each unit that is lost, set up again and said to be up


def test_units_that_are_lost_at_once_cost_their_site_so_many_events_each_and_no_more() -> None:
    async def run() -> None:
        async with Cluster(units=UNITS) as cluster:
            lease = await cluster.lease(UNITS, until=1_000, term=1_000)
            assert cluster.state(lease)[2] == "active"
            before = sum(cluster.site.counts[kind] for kind in ("taken", "ignored", "refused"))
            for n in range(UNITS):
                await cluster.site.tell("-", f"unit[{n}]", "lost", {})
            await cluster.advance(20)
            told = at_holder(cluster, lease)
            assert (told["lease_lost"], len(told["lease_renewed"])) == (frozenset(), UNITS)
            events = sum(cluster.site.counts[kind] for kind in ("taken", "ignored", "refused")) - before
            assert events <= EVENTS * UNITS

    virtual(run())
