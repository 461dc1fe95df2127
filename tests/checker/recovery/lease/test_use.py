"""The use of units, judged from the simulated world: each wrong use is seen, also under partitions of real actors."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from leasehold.checker.recovery.lease.random_runs.plan import (
    ACTORS,
    LONGEST_LEASE,
    LONGEST_TERM,
    PlannedEvent,
    RunPlan,
    plan_of,
)
from leasehold.checker.recovery.lease.random_runs.run import RandomRun, compiled
from leasehold.checker.recovery.lease.simulation import LeaseSimulation
from leasehold.checker.recovery.lease.use import CONFIRMS, UseOfUnits
from leasehold.faults.simulation.partition import ActorPartition, every_partition
from leasehold.impl.handlers.handler import HandlerAction, HandlerError

MINE, OTHERS = "service_manager:1", "service_manager:2"


class World:
    """Units on which a test acts as handlers do."""

    def __init__(self) -> None:
        self.sim = LeaseSimulation(compiled(2, True)[0], units=2)
        self.cannot = False
        self.use = UseOfUnits(self.sim, lambda: self.cannot)
        self.number = 0

    def unit(self, verb: str, lease: str = MINE, unit: str = "unit-0") -> None:
        self._act(HandlerAction(verb, lease, unit, self._next(), {}))

    def guest(self, verb: str, lease: str = MINE, unit: str = "unit-0") -> None:
        told = {"site": "site", "name": unit}
        self._act(HandlerAction(verb, lease, f"{lease}/guest[0]", self._next(), {}, properties=told))

    def _next(self) -> int:
        self.number += 1
        return self.number

    def _act(self, action: HandlerAction) -> None:
        self.sim.loop.run(self.sim.units.act(action))


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    made.use.ends = {MINE: 5, OTHERS: 5}
    yield made
    made.sim.close()


def test_a_lease_that_is_used_in_its_time_is_used_rightly(world: World) -> None:
    for lease in (MINE, OTHERS):
        world.unit("setup", lease)
        world.guest("join", lease)
        world.use.tick()
        world.unit("modify", lease)
        world.guest("modify", lease)
        world.guest("leave", lease)
        world.unit("teardown", lease)
    assert world.use.wrong == {}
    assert world.use.judged > 5


@pytest.mark.parametrize("verb", ["teardown", "setup", "modify"])
def test_a_unit_that_is_taken_from_a_guest_is_seen(verb: str, world: World) -> None:
    world.unit("setup")
    world.guest("join")
    world.unit(verb, MINE if verb == "teardown" else OTHERS)
    taken = "torn down" if verb == "teardown" else f"given to {OTHERS}"
    assert list(world.use.wrong)[:1] == [f"tick 0: unit-0 is {taken}, and a guest of {MINE} runs on it"]


def test_a_unit_that_is_set_up_again_for_its_lease_is_not_taken(world: World) -> None:
    world.unit("setup")
    world.guest("join")
    world.unit("setup")  # as after a restart of the site
    world.sim.units.lose("unit-0")
    world.unit("setup")
    world.unit("teardown")  # what ran there was lost with it
    assert world.use.wrong == {}


@pytest.mark.parametrize("owner", ["", OTHERS])
def test_a_guest_that_joins_what_is_not_its_own_is_seen(owner: str, world: World) -> None:
    world.unit("setup")
    world.unit("teardown")
    if owner:
        world.unit("setup", owner)
    world.guest("join")
    assert list(world.use.wrong) == [f"tick 0: a guest of {MINE} joins unit-0, which is {owner or 'nobody'}'s"]


def test_a_guest_on_a_unit_that_was_lost_runs_no_more(world: World) -> None:
    world.unit("setup")
    world.guest("join")
    world.sim.units.lose("unit-0")
    world.guest("modify")  # nobody knows yet
    world.sim.time.now = 7
    world.use.tick()
    assert world.use.wrong == {}


@pytest.mark.parametrize("ends", [(4, 9), (9, 4), (4, 9, 4), (9, 9, 4)])
def test_a_confirmation_that_comes_late_or_twice_takes_nothing_back(ends: tuple[int, ...], world: World) -> None:
    world.use.ends.clear()
    for end in ends:
        fields = {"units": 1, "end": end}
        packet = SimpleNamespace(envelope={"message": CONFIRMS, "lease": MINE, "fields": fields})
        world.use._confirm(cast(Any, packet))
    world.unit("setup")
    world.guest("join")
    for now, well in ((8, True), (9, False)):
        world.sim.time.now = now
        world.use.tick()
        assert (world.use.wrong == {}) is well


def test_a_guest_past_the_end_is_seen_at_the_end_itself(world: World) -> None:
    world.unit("setup")
    world.guest("join")
    for now in (4, 5):
        world.sim.time.now = now
        world.use.tick()
    assert list(world.use.wrong) == [
        f"tick 5: a guest of {MINE} runs on unit-0 past 5, the end that its site confirmed"
    ]


def test_a_leave_that_failed_has_not_left_and_may_be_excused(world: World) -> None:
    world.unit("setup")
    world.guest("join")
    world.sim.units._fails = lambda action, chance: action.verb == "leave"
    with pytest.raises(HandlerError):
        world.guest("leave")
    world.cannot = True
    world.unit("teardown")
    assert world.use.wrong == {}
    world.unit("setup")
    world.guest("join")
    world.cannot = False
    world.unit("teardown")
    assert len(world.use.wrong) == 1


# Real actors, in simulation

CONSTANTS = compiled(2, True)[0].constants
LEAVE_TIME = int(CONSTANTS["leave_limit"]) + int(CONSTANTS["clock_margin"])


def quiet(partition: ActorPartition, lazy: bool, at: int) -> RandomRun:
    """Two leases that are extended, contend for all units, and have nothing to suffer but a partition."""
    other = f"{partition.other}{' both ways' if partition.both else ''}"
    acts = (
        PlannedEvent(0, "demand", "1", (2, 20, 4, 0)),
        PlannedEvent(4, "demand", "2", (2, 18, 4, 0)),
        PlannedEvent(at, "partition", partition.one, (8,), other),
    )
    run = RandomRun(RunPlan(0, 2, lazy, 16, tuple(sorted(acts, key=lambda act: act.tick))))
    run.outcome = run.play()
    return run


@pytest.mark.parametrize("lazy", [True, False])
@pytest.mark.parametrize("partition", every_partition(ACTORS), ids=str)
def test_no_partition_makes_guests_run_on_what_is_anothers(partition: ActorPartition, lazy: bool) -> None:
    run = quiet(partition, lazy, 4)
    assert run.outcome.findings == []
    assert run.use.judged > 0
    # A broker and a site say nothing to each other.
    assert bool(run.sim.network.lost) == ({partition.one, partition.other} != {"broker", "site"})
    assert run.use.wrong == {}


def test_the_end_that_is_confirmed_is_what_the_network_has_brought() -> None:
    run = quiet(ActorPartition("site", "service_manager", both=False), True, 2)
    assert 4 <= run.use.ends[MINE] <= 20 + LEAVE_TIME


@pytest.mark.parametrize("point", range(8))
@pytest.mark.parametrize("tick", [3, 4, 5, 6])
def test_who_dies_as_it_hears_of_its_lease_has_been_told_of_it(tick: int, point: int) -> None:
    """Its commit may be durable though it could not answer any more; then its guests run until that end."""
    acts = (
        PlannedEvent(0, "demand", "1", (1, 7, 5, 6)),
        PlannedEvent(tick, "crash_within", "service_manager", (point, 0)),
    )
    run = RandomRun(RunPlan(3000246, 3, True, 8, acts))
    run.outcome = run.play()
    assert run.outcome.findings == []
    assert run.use.wrong == {}


def test_plans_have_partitions_that_are_longer_than_a_term() -> None:
    plans = [plan_of(seed) for seed in range(400)]
    found = [(plan, act) for plan in plans for act in plan.acts if act.kind == "partition"]
    assert 0.2 < len(found) / len(plans) < 0.4
    assert {act.partition for _, act in found} >= set(every_partition(ACTORS)) - {ActorPartition(*ACTORS[:2])}
    assert LONGEST_LEASE == LONGEST_TERM + LEAVE_TIME
    for plan, act in found:
        assert act.numbers[0] > LONGEST_LEASE
        assert act.tick + act.numbers[0] <= plan.ticks
        assert min(a.tick for a in plan.acts if a.kind == "demand") < act.tick


def test_a_partition_in_words_and_links() -> None:
    both, one_way = ActorPartition("a", "b"), ActorPartition("a", "b", both=False)
    assert (str(both), str(one_way)) == ("a | b", "a -> b")
    assert both.links == {("a", "b"), ("b", "a")}
    assert one_way.links == {("a", "b")}
    assert len(set(every_partition("abc"))) == 9
