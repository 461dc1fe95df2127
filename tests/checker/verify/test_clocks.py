"""A clock that was ahead: what it told counts until it is corrected, and its correction is named."""

from __future__ import annotations

from functools import cache

import pytest

from leasehold.checker.recovery.lease.random_runs.run import compiled
from leasehold.checker.recovery.lease.simulation import LeaseSimulation
from leasehold.checker.verify.history import HistoryVerification
from leasehold.checker.verify.result import HistoryResult
from leasehold.impl.events.event import read
from tests.checker.verify.histories import History, known, ticks

HOUR, HOLDER = 3_600, "service_manager"


@cache
def history(ahead: str) -> History:
    """An actor's clock is an hour ahead for ten ticks while a lease runs; two more leases follow."""
    sim = LeaseSimulation(compiled(2, lazy=True)[0], units=2)
    sim.start_all()

    ticks(sim, 10)
    sim.wish("demand", f"{HOLDER}:1", 1, 60, 20, start=0)
    ticks(sim, 3)
    sim.clocks[ahead].ahead = HOUR
    ticks(sim, 10)
    sim.clocks[ahead].show(sim.time.now)
    ticks(sim, 3)
    for lease in (2, 3):
        now = sim.clocks[HOLDER].now()
        sim.wish("demand", f"{HOLDER}:{lease}", 1, now + 40, 20, start=0)
        ticks(sim, 50)
    found = {name: [read(body) for body in disk.events.values()] for name, disk in sim.disks.items()}
    sim.close()
    return found


def verified(told: History, batches: int) -> HistoryResult:
    """What comes of it where events come in so many parts."""
    verification = HistoryVerification(known(2, True), told)
    for part in range(batches):
        for actor, events in told.items():
            size = len(events) // batches + 1
            verification.add(actor, events[part * size : (part + 1) * size])
        verification.judge()
    result = verification.end()
    verification.close()
    return result


@pytest.mark.parametrize("batches", [1, 7])
@pytest.mark.parametrize("ahead", ["broker", "site", HOLDER])
def test_an_alarm_ends_when_the_clock_is_corrected_and_names_it(ahead: str, batches: int) -> None:
    result = verified(history(ahead), batches)
    assert {v.run for v in result.violations} <= {f"{HOLDER}:1"}
    assert [fault.actor for fault in result.faults] == [ahead]
    assert "its clock goes back from tick 36" in result.faults[0].reason
