"""Who has died is started again, and when. Actors are shell scripts here."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from leasehold.impl.processes import supervisor as module
from leasehold.impl.processes.fleet import SystemFleet
from leasehold.impl.processes.supervisor import Back, Died, Supervisor
from tests.impl.processes.test_fleet import ONE, TWO, fleet, run, until

__all__ = ["fleet"]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The time of the supervisor, moved by hand."""
    made = SimpleNamespace(now=100.0)
    made.monotonic = lambda: made.now
    monkeypatch.setattr(module, "time", made)
    return made


@pytest.fixture
def serving(fleet: SystemFleet) -> Iterator[dict[str, Any]]:
    """The descriptions that actors give of themselves; started actors are scripts that sleep."""
    abouts: dict[str, Any] = {}
    fleet.about = abouts.get  # type: ignore[method-assign, assignment]
    fleet.start = lambda name: run(fleet, name)  # type: ignore[method-assign, assignment, return-value]
    return abouts  # type: ignore[return-value]


def test_who_was_killed_is_started_again_and_is_back_when_it_serves(
    fleet: SystemFleet, serving: dict[str, Any], clock: SimpleNamespace
) -> None:
    supervisor = Supervisor(fleet, pause_seconds=1.0)
    first = run(fleet, ONE)
    run(fleet, TWO)
    assert (supervisor.attend(), supervisor.all_serve) == ([], True)
    fleet.kill(ONE)
    assert supervisor.attend() == [Died(ONE, -signal.SIGKILL)]
    assert supervisor.attend() == [], "it is told once"
    assert ({*supervisor.down}, supervisor.all_serve, fleet.processes[ONE]) == ({ONE}, False, first)
    clock.now += 1.0
    assert supervisor.attend() == []
    assert (supervisor.down, {*supervisor.returning}, supervisor.all_serve) == ({}, {ONE}, False)
    assert fleet.processes[ONE] is not first
    clock.now += 2.0
    serving[ONE] = {"running": False}
    assert supervisor.attend() == []
    serving[ONE] = {"running": True, "epoch": 2}
    assert supervisor.attend() == [Back(ONE, 2.0, serving[ONE])]
    assert (supervisor.all_serve, supervisor.deaths[ONE], supervisor.deaths[TWO]) == (True, [-9], [])


def test_who_is_held_is_not_started(fleet: SystemFleet, serving: dict[str, Any], clock: SimpleNamespace) -> None:
    supervisor = Supervisor(fleet)
    run(fleet, ONE)
    supervisor.held.add(ONE)
    fleet.kill(ONE)
    assert supervisor.attend() == [Died(ONE, -9)]
    clock.now += 60.0
    supervisor.attend()
    assert {*supervisor.down} == {ONE}
    supervisor.held.clear()
    supervisor.attend()
    assert {*supervisor.returning} == {ONE}


def test_who_ended_by_itself_is_started_after_a_pause_of_its_own(
    fleet: SystemFleet, serving: dict[str, Any], clock: SimpleNamespace
) -> None:
    """It waits anew each time; who dies as it comes back is down."""
    supervisor = Supervisor(fleet, pause_seconds=0.5, killed_seconds=0.0)
    for name, script in ((ONE, "exit 1"), (TWO, "kill -9 $$")):
        run(fleet, name, script).wait()
    assert supervisor.attend() == [Died(ONE, 1), Died(TWO, -9)]
    assert ({*supervisor.down}, {*supervisor.returning}) == ({ONE}, {TWO})
    clock.now += 0.6
    supervisor.attend()
    assert supervisor.returning.keys() == {ONE, TWO}
    until(lambda: len(fleet.members(ONE)) == 2)
    fleet.signal(ONE, signal.SIGTERM)
    fleet.processes[ONE].wait()
    assert supervisor.attend() == [Died(ONE, 0)]
    clock.now += 0.4
    supervisor.attend()
    assert ({*supervisor.down}, supervisor.deaths[ONE]) == ({ONE}, [1, 0])


def test_starts_in_vain_are_counted_until_an_actor_serves(
    fleet: SystemFleet, serving: dict[str, Any], clock: SimpleNamespace
) -> None:
    supervisor = Supervisor(fleet)
    run(fleet, ONE)
    for tries in range(3):
        fleet.kill(ONE)
        supervisor.attend()
        assert supervisor.in_vain == Counter({ONE: tries})
    serving[ONE] = {"running": True}
    supervisor.attend()
    fleet.kill(ONE)
    serving.clear()
    supervisor.attend()
    assert supervisor.in_vain[ONE] == 0, "it has served"
