"""The points at which an actor may stop once more: which notices are points, their names, and the stop itself."""

from __future__ import annotations

from typing import Any

import pytest

from leasehold.checker.recovery.cases.second_crash import SecondCrash
from leasehold.impl.actor.table import BELOW
from leasehold.impl.notices import Kind, Notice, SimulatedCrash

LEASE, OTHER = "service_manager:2", "service_manager:1"


class Simulated:
    """A simulation with a service manager, a broker and a site, of which only the site has a machine of its units."""

    def __init__(self) -> None:
        self.subscribers: list[Any] = []
        self.states = {"service_manager": "active", "broker": "ticketed"}
        self.actors = {"service_manager": 1, "broker": 2, "site": 3}
        self.done: list[tuple[str, str]] = []

    def where(self, lease: str) -> str:
        assert lease == LEASE
        return "/".join(self.states.get(machine, "-") for machine in ("service_manager", "broker", "authority"))

    def crash(self, name: str) -> None:
        self.done.append(("crash", name))
        del self.actors[name]

    def start(self, name: str) -> None:
        self.done.append(("start", name))


@pytest.fixture
def sim() -> Simulated:
    return Simulated()


def armed(sim: Simulated, point: str | None = None) -> SecondCrash:
    made = SecondCrash(sim, LEASE, point)  # type: ignore[arg-type]
    made.armed = True
    return made


def tell(sim: Simulated, kind: Kind, name: str = "", lease: str = LEASE, actor: str = "broker") -> None:
    for hear in sim.subscribers:
        hear(Notice(kind, actor, lease=lease, name=name))


WHERE = "@active/ticketed/-#"  # the states of the lease's machines, of which the site has none


def test_a_point_has_the_actor_the_states_of_the_lease_and_what_is_done(sim: Simulated) -> None:
    crash = armed(sim)
    tell(sim, Kind.COMMIT)
    tell(sim, Kind.COMMITTED)
    tell(sim, Kind.SEND, "update_ticket")
    tell(sim, Kind.CALL, "policy.extend", actor="site")
    sim.states["broker"] = "extending"
    tell(sim, Kind.COMMIT)
    assert list(crash.seen) == [
        f"crash:broker{WHERE}before-commit",
        f"crash:broker{WHERE}after-commit",
        f"crash:broker{WHERE}before-send(update_ticket)",
        f"crash:site{WHERE}before-call(policy.extend)",
        "crash:broker@active/extending/-#before-commit",
    ]
    assert (crash.met, crash.stopped) == (False, "")


@pytest.mark.parametrize("kind", [k for k in Kind if k not in (Kind.COMMIT, Kind.COMMITTED, Kind.SEND, Kind.CALL)])
def test_no_other_notice_is_a_point(sim: Simulated, kind: Kind) -> None:
    crash = armed(sim)
    tell(sim, kind)
    assert crash.seen == {}


def test_messages_and_calls_count_where_they_are_about_the_lease_or_a_unit(sim: Simulated) -> None:
    """A commit may be of several leases, and always counts."""
    crash = armed(sim)
    for kind in (Kind.SEND, Kind.CALL):
        tell(sim, kind, "x", lease=OTHER)
    assert crash.seen == {}
    tell(sim, Kind.CALL, "handler.setup", lease=BELOW)
    tell(sim, Kind.SEND, "redeem", lease=BELOW)
    tell(sim, Kind.COMMIT, lease=OTHER)
    tell(sim, Kind.COMMITTED, lease=OTHER)
    assert [name.rpartition("#")[2] for name in crash.seen] == [
        "before-call(handler.setup)",
        "before-send(redeem)",
        "before-commit",
        "after-commit",
    ]


def test_until_it_is_armed_nothing_counts(sim: Simulated) -> None:
    crash = armed(sim, f"crash:broker{WHERE}before-commit")
    crash.armed = False
    tell(sim, Kind.COMMIT)
    assert (crash.seen, crash.met) == ({}, False)
    assert not SecondCrash(Simulated(), LEASE, None).armed  # type: ignore[arg-type]


def test_the_actor_stops_at_the_point_the_first_time_that_it_is_passed(sim: Simulated) -> None:
    crash = armed(sim, f"crash:broker{WHERE}after-commit")
    tell(sim, Kind.COMMIT)
    tell(sim, Kind.COMMITTED, actor="site")
    assert (crash.met, crash.stopped) == (False, "")
    with pytest.raises(SimulatedCrash):
        tell(sim, Kind.COMMITTED)
    assert (crash.met, crash.stopped) == (True, "broker")
    tell(sim, Kind.COMMITTED)
    assert len(crash.seen) == 3, "each point once"


def test_who_was_stopped_is_taken_away_and_started(sim: Simulated) -> None:
    crash = armed(sim, f"crash:broker{WHERE}before-commit")
    with pytest.raises(SimulatedCrash):
        tell(sim, Kind.COMMIT)
    crash.restart()
    assert (sim.done, crash.stopped) == ([("crash", "broker"), ("start", "broker")], "")


def test_who_is_gone_already_is_only_started(sim: Simulated) -> None:
    crash = armed(sim, f"crash:broker{WHERE}before-commit")
    with pytest.raises(SimulatedCrash):
        tell(sim, Kind.COMMIT)
    del sim.actors["broker"]
    crash.restart()
    assert sim.done == [("start", "broker")]
