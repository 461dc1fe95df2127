"""A ticket that comes before its term has begun, as the site's clock is behind, is taken when it has."""

from __future__ import annotations

from leasehold.checker.recovery.lease.simulation import LeaseSimulation
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.store.store import RecordKey
from tests.systems import load

LEASE = "service_manager:1"


def test_a_site_whose_clock_is_behind_takes_the_ticket_later() -> None:
    sim = LeaseSimulation(compile_system(load("lease", {"max_units": 2, "last_end": 1, "expiry": False})), units=2)
    sim.clocks["site"].ahead = -2
    sim.start_all()
    sim.wish("demand", LEASE, 1, 30, 20, start=3)
    for _ in range(3):
        sim.tick(1.0)
    assert sim.where(LEASE) == "redeeming/ticketed/-"
    tenant = sim.actors["service_manager"]
    (waits,) = [p for p in tenant.outbox.of(RecordKey(LEASE, "service_manager")) if p.message == "redeem"]
    assert (waits.refused, waits.reason) == (False, "the ticket's term begins at 3, and it is 1 here; come again then")
    assert not tenant.outbox.refusals
    for _ in range(4):
        sim.tick(2.0)  # what is busy is asked again after a pause
    assert sim.where(LEASE) == "active/ticketed/active"
    sim.close()
