"""Target tracking: how many units a lease asks for, by the numbers that it reads, within its bounds and its budget."""

from __future__ import annotations

import copy
import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.impl.actor import upcalls
from leasehold.impl.actor.ready import PolicyCommand
from leasehold.impl.core.values import OPAQUE_BYTES
from leasehold.impl.lease.demand import DemandError, TargetState
from leasehold.impl.lease.service_manager import FixedDemand
from leasehold.impl.lease.target_tracking import MetricTarget, TargetTracking, read_targets
from leasehold.impl.policy import plugins
from leasehold.impl.policy.metric import Metric, MetricReading
from leasehold.impl.policy.policy import is_quick
from tests.impl.lease.test_service_manager import Core

METRIC = {"command": "echo 1"}
Numbers = Callable[[int], float | None]


class Scripted:
    """Readings that a test says: of each tick a number, or a fault; every one ends at once."""

    def __init__(self, numbers: Numbers) -> None:
        self.numbers, self.last = numbers, None

    def poll(self, now: int) -> None:
        number = self.numbers(now)
        self.last = MetricReading(now, number, "" if number is not None else "it is silent")  # type: ignore[assignment]


class Tracked(Core):
    """The machine of a holder whose policy tracks a target, with what is held by tick."""

    def __init__(self, numbers: Numbers, *, fixed: dict[str, int] | None = None, **target: Any) -> None:
        self.numbers = numbers
        self.target = {"metric": METRIC, "target": 10, "most": 8, "cool_down": 0, **target}
        self.held: Counter[int] = Counter()
        super().__init__(**(fixed or {}))

    def make(self) -> FixedDemand:
        policy = TargetTracking(targets={"web": self.target}, **self.settings)
        policy._readers["web"] = Scripted(self.numbers)  # type: ignore[assignment]
        return policy

    def begin(self, units: int = 2, until: int = 100, term: int = 5) -> None:
        self.demand(units, until, term, local={"target": "web"})
        self.settle()
        self.hold()

    def hold(self) -> None:
        if self.state not in ("closing", "closed", "failed", "nascent", "ticketing", "ticketed"):
            self.held[self.now] = max(self.held[self.now], len(self.data["lease_units"]))

    def run(self, ticks: int, *, restart: Callable[[int], bool] = lambda now: False, well: Any = None) -> None:
        for _ in range(ticks):
            if restart(self.now):
                self.restart()
            self.tick()
            while self.state in ("ticketing", "redeeming", "joining", "extending_ticket", "extending_lease", "closing"):
                self.answer(well is None or self.state != "extending_ticket" or well(self.now))
            self.hold()

    @property
    def asked(self) -> list[tuple[int, int]]:
        """The units that were asked for, by tick."""
        return [(now, fields["units"]) for now, event, fields in self.said if event in ("demand", "extend")]

    @property
    def units(self) -> int:
        return len(self.data["lease_units"])


def steady(number: float | None) -> Numbers:
    return lambda now: number


def test_a_renewal_asks_for_as_many_units_as_bring_the_number_to_the_target() -> None:
    """Twenty for each of two units is ten for each of four; then the number is at the target."""
    core = Tracked(lambda now: 40 / max(1, core.units))
    core.begin(units=2)
    core.run(20)
    assert core.asked[:3] == [(0, 2), (3, 4), (8, 4)]
    core.numbers = core.policy._readers["web"].numbers = steady(4)  # type: ignore[attr-defined]
    core.run(5)
    assert core.units == 2, "two fifths of four, rounded up"


@pytest.mark.parametrize(
    ("number", "has", "wants"),
    [(10, 4, 4), (11, 4, 4), (9, 4, 4), (11.1, 4, 5), (8.9, 4, 4), (7, 4, 3), (0, 4, 2), (1000, 4, 8), (None, 4, 4)],
)
def test_within_the_tolerance_nothing_changes_and_there_are_bounds(number: float, has: int, wants: int) -> None:
    core = Tracked(steady(number), least=2)
    core.begin(units=has)
    core.run(4)
    assert core.asked[-1] == (3, wants)


def test_no_two_changes_come_sooner_than_the_cool_down() -> None:
    core = Tracked(steady(15), cool_down=12)
    core.begin(units=1, until=200)
    core.run(60)
    changes = [now for (now, units), (_, before) in zip(core.asked[1:], core.asked, strict=False) if units != before]
    assert changes == [3, 18, 33, 48], "each at the first renewal that is twelve ticks later"
    assert core.units == 8


def test_soon_does_not_wait_for_the_renewal() -> None:
    core = Tracked(lambda now: 10 if now < 4 else 20, soon=True, cool_down=50)
    core.begin(units=2, until=200, term=30)
    core.run(10)
    assert core.asked == [(0, 2), (4, 4)]
    later = Tracked(lambda now: 10 if now < 4 else 20, cool_down=50)
    later.begin(units=2, until=200, term=30)
    later.run(30)
    assert later.asked == [(0, 2), (28, 4)]


def test_a_lease_that_follows_nothing_is_as_before() -> None:
    core = Tracked(steady(100))
    core.demand(2, 40, 5)
    core.settle()
    core.run(30)
    assert {units for _, units in core.asked} == {2}


def test_a_first_ticket_is_within_the_bounds() -> None:
    core = Tracked(steady(10), least=3, most=4)
    core.begin(units=1)
    assert core.asked == [(0, 3)]
    core = Tracked(steady(10), most=4)
    core.begin(units=9)
    assert core.asked == [(0, 4)]


def test_lost_units_do_no_work() -> None:
    """Two of four are lost; the others have twenty each, so four are as many as are needed."""
    core = Tracked(steady(20))
    core.begin(units=4)
    core.enter("active", lease_lost=frozenset([0, 1]))
    core.run(4)
    assert core.asked[-1] == (3, 4)


# The budget


def test_a_budget_is_kept_and_leaves_enough_for_the_least() -> None:
    """Sixty units times ticks in twenty ticks: the load would need eight units, and there are six for five ticks."""
    core = Tracked(steady(100), budget=60, period=20)
    core.begin(units=2, until=200)
    core.run(100)
    sums = Counter[int]()
    for now, units in core.held.items():
        sums[now // 20] += units
    assert max(sums.values()) <= 60
    assert min(core.held.values()) >= 1
    assert core.asked[:5] == [(0, 2), (3, 6), (8, 1), (13, 1), (18, 2)]


def test_a_budget_counts_a_lease_that_begins_later_from_then() -> None:
    core = Tracked(steady(10), budget=60, period=20)
    core.demand(4, 10_000_000, 10, start=9_999_990, local={"target": "web"})
    assert core.asked == [(0, 4)]
    core.answer()
    assert core.policy._counted(core.view, core.policy.wish("l")).spent == ((499_999, 40),)  # type: ignore[attr-defined]


def test_a_budget_needs_a_term_that_it_can_count() -> None:
    policy = Tracked(steady(10), budget=60, period=20).policy
    for term, more, message in (
        (2001, {}, "longer than 100 periods"),
        (5, {"latest_start": 9}, "leave out latest_start"),
    ):
        with pytest.raises(DemandError, match=message):
            policy.demand("l", 1, 9000, term, now=0, local={"target": "web"}, **more)  # type: ignore[arg-type]
        assert policy.wish("l") is None
    assert policy.demand("l", 1, 9000, 2000, now=0, local={"target": "web"})


@pytest.mark.parametrize("number", [10, 20])
def test_soon_asks_for_nothing_because_the_budget_is_short(number: float) -> None:
    """The budget has room for three units, and not for the four that there are: that is told at the renewal."""
    core = Tracked(lambda now: 10 if now < 4 else number, soon=True, budget=60, period=20)
    core.begin(units=4)
    core.run(8)
    assert [now for now, _ in core.asked] == [0, 3, 8]


def test_lists_of_a_demand_may_be_as_large_as_without_a_target() -> None:
    """Each has room of its own, also over the socket."""
    large = {"x": "y" * (OPAQUE_BYTES - 100)}
    policy = Tracked(steady(10)).policy
    given = {"properties": large, "configuration": large, "local": {"target": "web"}}
    command = PolicyCommand("service_manager", "demand", ("l", 1, 50, 5), given)
    assert [*upcalls._commands(command, 0)(policy)]


@settings(max_examples=12, deadline=None)
@given(
    numbers=st.lists(st.sampled_from([None, 0.0, 5.0, 9.5, 10.5, 14.0, 40.0]), min_size=80, max_size=80),
    term=st.integers(2, 23),
    period=st.integers(3, 25),
    least=st.integers(1, 3),
    spare=st.integers(0, 60),
    soon=st.booleans(),
    denied=st.sets(st.integers(0, 80)),
)
def test_random_runs_keep_bounds_and_budget(
    numbers: list[float | None], term: int, period: int, least: int, spare: int, soon: bool, denied: set[int]
) -> None:
    budget = least * period + spare
    core = Tracked(lambda now: numbers[now % 80], least=least, soon=soon, budget=budget, period=period, cool_down=2)
    core.begin(units=least, until=75, term=term)
    core.run(80, well=lambda now: now not in denied)
    sums = Counter[int]()
    for now, units in core.held.items():
        sums[now // period] += units
    assert max(sums.values()) <= budget
    assert all(least <= units <= 8 for _, units in core.asked)


@settings(max_examples=12, deadline=None)
@given(
    numbers=st.lists(st.sampled_from([None, 0.0, 5.0, 9.5, 10.5, 14.0, 40.0]), min_size=60, max_size=60),
    term=st.integers(2, 12),
    spare=st.integers(0, 60),
    soon=st.booleans(),
    cool_down=st.integers(0, 9),
    restarts=st.sets(st.integers(0, 60)),
)
def test_a_policy_that_was_restarted_decides_as_if_it_had_never_stopped(
    numbers: list[float | None], term: int, spare: int, soon: bool, cool_down: int, restarts: set[int]
) -> None:
    runs = []
    for when in (set(), restarts, set(range(61))):
        core = Tracked(lambda now: numbers[now % 60], soon=soon, budget=20 + spare, period=20, cool_down=cool_down)
        core.begin(units=1, until=55, term=term)
        core.run(60, restart=lambda now, when=when: now in when)  # type: ignore[misc]
        runs.append((core.asked, core.held, core.state))
    assert runs[1] == runs[0]
    assert runs[2] == runs[0]


def test_what_lasts_stands_in_the_demand() -> None:
    core = Tracked(steady(20), budget=100, period=10)
    core.begin(units=2)
    core.run(4)
    wish = core.policy.wish("l")
    assert wish is not None
    assert wish.target == TargetState(changed=3, asked=3, end=5, units=2, spent=((0, 10),))
    assert wish.units == 4


# Numbers that are none


def test_a_silent_number_changes_nothing_and_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    core = Tracked(lambda now: 20 if now < 5 or now > 30 else None)
    with caplog.at_level(logging.INFO, "leasehold.targets"):
        core.begin(units=1, until=200)
        core.run(30)
        assert {units for now, units in core.asked if now > 5} == {2}
        told = [record.getMessage() for record in caplog.records]
        assert told == ["target web: it is silent; until it does, units stay as they are"]
        core.run(5)
    assert core.units == 4
    assert [record.getMessage() for record in caplog.records[1:]] == ["target web: echo 1 is read again"]


def test_a_renewal_waits_for_the_first_number_as_long_as_there_is_time() -> None:
    core = Tracked(steady(20), fixed={"renew_before": 4})
    core.begin(units=1, term=8)
    reader = core.policy._readers["web"]  # type: ignore[attr-defined]
    reader.poll = lambda now: None
    core.run(5)
    assert core.asked == [(0, 1)], "it was due at the fourth tick"
    reader.last = MetricReading(5, 20.0)
    core.run(1)
    assert core.asked == [(0, 1), (6, 2)]
    silent = Tracked(steady(20), fixed={"renew_before": 4})
    silent.begin(units=1, term=8)
    silent.policy._readers["web"].poll = lambda now: None  # type: ignore[attr-defined]
    silent.run(8)
    assert silent.asked == [(0, 1), (7, 1)], "one tick before its end it is renewed as it is"


# What clients and operators say


def test_a_demand_that_cannot_follow_is_refused_and_changes_nothing() -> None:
    core = Tracked(steady(1))
    core.begin()
    before = core.policy.changed_wishes()
    for lease, more, message in (
        ("m", {"local": {"target": "wbe"}}, r"there is no target 'wbe'; did you mean web\? \(there are: web\)"),
        ("m", {"local": {"target": 7}}, "there is no target '7'"),
        ("m", {"local": {"target": "web"}}, "target web is followed by lease 'l' already"),
    ):
        with pytest.raises(DemandError, match=message):
            core.policy.demand(lease, 1, 50, 5, now=core.now, **more)  # type: ignore[arg-type]
        assert core.policy.wish(lease) is None
    assert core.policy.changed_wishes() == before == {}
    group = {"id": "g", "count": 2}
    with pytest.raises(DemandError, match="of a group"):
        Tracked(steady(1)).policy.demand("m", 1, 50, 5, now=0, local={"target": "web"}, group=group)


def test_another_lease_may_follow_when_the_first_is_over() -> None:
    core = Tracked(steady(10))
    core.begin(until=8)
    core.run(10)
    assert core.state == "closed"
    assert core.policy.demand("m", 1, 50, 5, now=core.now, local={"target": "web"})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "targets: names no target"),
        ({}, "targets: names no target"),
        ({"web": {}}, "targets: web: .*missing required field"),
        ({"web": "echo"}, "targets: web: Expected `object`"),
        (
            {"web": {"metric": METRIC, "target": 7, "mots": 8}},
            "targets: web: there is no setting 'mots'; did you mean most?",
        ),
        ({"web": {"metric": {"comand": "x"}, "target": 7, "most": 8}}, "no setting 'comand'; did you mean command?"),
        ({"web": {"metric": METRIC, "target": 0, "most": 8}}, "targets: web: .*target"),
        ({"web": {"metric": METRIC, "target": 7, "most": True}}, "targets: web: .*most"),
        ({"web": {"metric": METRIC, "target": 7, "most": 2, "least": 3}}, "least is 3, and most is 2"),
        ({"web": {"metric": METRIC, "target": 7, "most": 8, "budget": 100}}, "give both `budget` and `period`"),
        ({"web": {"metric": METRIC, "target": 7, "most": 8, "budget": 19, "least": 2, "period": 10}}, "less than 20"),
        ({"web": {"metric": {}, "target": 7, "most": 8}}, "targets: web: .*either a `command` or a `url`"),
    ],
)
def test_a_target_that_is_none_is_refused_with_its_name(given: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        read_targets(given)


def test_an_actor_makes_it_by_name_with_settings_and_constants() -> None:
    given = {"web": {"metric": METRIC, "target": 7, "most": 8}}
    policy = plugins.make("policy", "target_tracking", {"targets": given, "renew_before": 3, "max_units": 4})
    assert is_quick(policy)
    assert policy._targets == {"web": MetricTarget(metric=Metric(command="echo 1"), target=7, most=8)}
    again = copy.deepcopy(policy)
    assert again._readers["web"] is not policy._readers["web"]
    with pytest.raises(plugins.PluginError, match="no setting 'renew_befor'"):
        plugins.make("policy", "target_tracking", {"targets": given, "renew_befor": 3})
