"""An actor that has forgotten a machine comes back without it, and lacks nothing."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from leasehold.checker.recovery.lease.random_runs.run import compiled
from leasehold.checker.recovery.lease.simulation import LeaseSimulation
from leasehold.checker.verify.history import HistoryVerification
from leasehold.impl.events.event import ForgottenEvent, RecoveredEvent, read
from tests.checker.verify.histories import History, known, ticks

HOLDER = "service_manager"


@cache
def history() -> History:
    """A holder forgets a lease that is over while its site is down, and restarts; another of its leases goes on."""
    sim = LeaseSimulation(compiled(2, lazy=True)[0], units=2)
    sim.start_all()

    sim.wish("demand", f"{HOLDER}:1", 1, 30, 20, start=0)
    sim.wish("demand", f"{HOLDER}:2", 1, 30_000, 20_000, start=0)
    ticks(sim, 3)
    sim.crash("site")
    holder = sim.actors[HOLDER]
    sim.loop.call(lambda: holder.tell(f"{HOLDER}:1", HOLDER, "close", {}))
    ticks(sim, 40)
    sim.time.now += 10_001
    ticks(sim, 3)
    sim.crash(HOLDER)
    ticks(sim, 3)
    sim.start(HOLDER)
    ticks(sim, 5)
    sim.start("site")
    ticks(sim, 5)
    found = {name: [read(body) for body in disk.events.values()] for name, disk in sim.disks.items()}
    sim.close()
    return found


def test_what_an_actor_has_forgotten_it_does_not_come_back_with() -> None:
    kinds = [type(event) for event in history()[HOLDER]]
    assert ForgottenEvent in kinds[: len(kinds) - 1 - kinds[::-1].index(RecoveredEvent)]
    for whole in (True, False):
        verification = HistoryVerification(known(2, True), history(), whole=whole)
        for actor, events in history().items():
            verification.add(actor, events)
        result = verification.end()
        verification.close()
        assert (result.violations, result.faults) == ([], [])


@pytest.mark.parametrize("part", range(2))
def test_nor_for_a_verification_that_goes_on_later(part: int, tmp_path: Path) -> None:
    """It ends and goes on amid what is forgotten, and right after it."""
    events = history()[HOLDER]
    last = max(at for at, event in enumerate(events) if isinstance(event, ForgottenEvent))
    cut, url = last + part, f"sqlite:{tmp_path}/verify.db"
    for until in (cut, len(events)):
        verification = HistoryVerification(known(2, True), history(), url=url)
        for actor, told in history().items():
            at = verification.kept.follower(actor).position
            verification.add(actor, [e for e in (told[:until] if actor == HOLDER else told) if e.position > at])
        verification.judge()
        result = verification.end() if until == len(events) else verification.result
        verification.close()
    assert (result.violations, result.faults) == ([], [])
