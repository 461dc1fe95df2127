"""A ticket that comes to its site before its term, as that clock is behind, is used when the term begins there."""

from __future__ import annotations

import pytest

from leasehold.checker.recovery.lease.simulation import LeaseSimulation
from leasehold.impl.compiler.program import compile_system
from leasehold.spec import load

LEASE = "service_manager:1"


@pytest.mark.parametrize("behind", [0, 1, 2])
def test_a_ticket_that_comes_early_is_taken_when_its_term_begins_at_its_site(behind: int) -> None:
    start = 3
    sim = LeaseSimulation(compile_system(load("lease", {"max_units": 1, "advance": True})), units=1)
    sim.clocks["site"].ahead = -behind
    sim.start_all()
    sim.wish("demand", LEASE, 1, 40, 20, start=start)
    states = []
    for _ in range(start + behind + 1):
        sim.loop.advance(40.0)  # seconds: as long as what was refused may wait
        held = sim.held(LEASE, "service_manager")
        states.append("" if held is None else held.state)
        sim.tick(40.0)
    held = sim.held(LEASE, "service_manager")
    assert held is not None
    assert (held.state, held.core.view(held.record)["lease_units"]) == ("active", {0})
    assert "active" not in states[:start]
    assert ("redeeming" in states) == bool(behind)
    sim.close()
