"""Random runs: none fails; one seed is one run; a plan that fails is made smaller."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from leasehold.checker.recovery.campaign import CaseOutcome
from leasehold.checker.recovery.lease.random_runs.campaign import RandomCampaign, _chunks, failed, play, random_campaign
from leasehold.checker.recovery.lease.random_runs.plan import ACTORS, FAULTS, PlannedEvent, RunPlan, plan_of, shrunk
from leasehold.checker.recovery.lease.random_runs.run import RandomRun
from leasehold.faults.simulation.disk import DiskFault, FailingStore
from leasehold.faults.simulation.network import NO_FAULTS, NetworkConditions
from leasehold.impl.actor.stepper import Stepper
from leasehold.impl.notices import Kind
from leasehold.impl.store.memory import MemoryStore
from leasehold.reports.lifelines import path_svg
from tests.planted.table import named

RUNS = int(os.environ.get("LEASEHOLD_RANDOM_RUNS", "100000"))


@pytest.mark.long
def test_random_runs_hold() -> None:
    found = random_campaign(150, seed=0, jobs=1)
    assert not found.failures, found.failures
    assert found.played == 150
    assert set(found.acts) >= {*FAULTS, "demand", "flex", "prolong", "stop"}
    assert found.crashes > 100
    assert found.lost > 10
    assert found.asked > 1_000


@pytest.mark.parametrize(
    "seed",
    [
        1_000_398,  # a unit is lost after its site was restarted: the site knew of no lease that waits for it
        1_060_915,
        1_063_407,  # recovery commits more on top of a commit of which nobody was told: two steps, not one
    ],
)
def test_a_seed_that_failed_once_holds(seed: int) -> None:
    assert play(plan_of(seed)).findings == []


@pytest.mark.slow
def test_many_random_runs_hold() -> None:
    """100,000, or as many as LEASEHOLD_RANDOM_RUNS says."""
    found = random_campaign(RUNS, seed=1_000_000)
    assert found.played == RUNS
    assert not found.failures, found.failures


RUN = """
import hashlib, logging
logging.disable(logging.CRITICAL)
from leasehold.checker.recovery.lease.random_runs.plan import plan_of
from leasehold.checker.recovery.lease.random_runs.run import RandomRun
for seed in range(0, 60, 5):
    run, told = RandomRun(plan_of(seed)), hashlib.sha256()
    run.sim.subscribers.append(lambda notice: told.update(repr(notice).encode()))
    run.play()
    disks = sorted((n, sorted(disk.records.items()), sorted(disk.metadata.items())) for n, disk in run.disks.items())
    print(seed, told.hexdigest(), hashlib.sha256(repr(disks).encode()).hexdigest())
"""


@pytest.mark.long
def test_one_seed_is_one_run_to_the_byte() -> None:
    runs = [
        subprocess.run(
            [sys.executable, "-c", RUN],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]
    assert runs[0].count("\n") == 12


def test_an_actor_that_hears_of_no_tick_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time does not wait for real actors; who has not left a state when its time is over is found."""
    monkeypatch.setattr(Stepper, "expire", lambda self, ready: None)
    parted = (plan for plan in map(plan_of, range(40)) if any(act.kind == "partition" for act in plan.acts))
    late = ("a_guest_is_gone_before_the_end does not hold", "_to_its_end does not hold")
    words = (finding.words for plan in parted for finding in play(plan).findings)
    assert any("after time" in said and any(name in said for name in late) for said in words)


@pytest.mark.long
def test_a_bug_is_found_and_its_plan_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that acknowledges what it has not written: found, and shrunk to what it takes."""

    async def forgets(self: FailingStore, batch: object) -> None:
        if self.disk.epoch > 1 and self.disk.chance.random() < 0.5:
            return
        await MemoryStore._commit(self, batch)  # type: ignore[arg-type]

    monkeypatch.setattr(FailingStore, "_commit", forgets)
    for seed in range(200):
        plan = plan_of(seed)
        outcome = play(plan)
        if outcome.findings:
            break
    small = failed(plan, outcome).plan
    assert len(small.acts) <= len(plan.acts)
    assert {f.check for f in play(small).findings} & {f.check for f in outcome.findings}
    assert any(act.kind in ("crash", "crash_within", "power", "disk") for act in small.acts), small


@pytest.mark.long
def test_a_run_that_fails_is_drawn_from_its_events() -> None:
    with named("duplicate_executed").planted():
        plan = replace(plan_of(13), units=2)
        found = failed(plan, play(plan))
    assert found.findings
    assert found.path is not None
    assert len(found.path) > 3
    assert "<svg" in path_svg(found.path, "a bug")


def test_shrinking_leaves_out_all_that_can_be_spared() -> None:
    acts = tuple(PlannedEvent(n, "crash", "broker", (n,)) for n in range(20))
    needed = {acts[3], acts[11]}
    tried = []

    def fails(plan: RunPlan) -> bool:
        tried.append(plan)
        return needed <= set(plan.acts)

    assert set(shrunk(RunPlan(0, 1, True, 20, acts), fails).acts) == needed
    assert len(tried) < 100


@pytest.mark.long
def test_the_command() -> None:
    command = [sys.executable, "-m", "leasehold", "crash", "random", "lease"]
    done = subprocess.run(
        [*command, "--runs", "20", "--seed", "5", "--json"], capture_output=True, text=True, timeout=120, check=False
    )
    found = json.loads(done.stdout)
    assert (done.returncode, found["runs"], found["first_seed"], found["failed"]) == (0, 20, 5, 0)


# Plans


def plans() -> list[RunPlan]:
    """Made anew in each test, so that each is known to run what makes them (tests/mutation)."""
    return [plan_of(seed) for seed in range(1500)]


def acts(kind: str) -> list[tuple[RunPlan, PlannedEvent]]:
    return [(plan, act) for plan in plans() for act in plan.acts if act.kind == kind]


def numbers(kind: str) -> list[list[int]]:
    """The values that occur, for each argument of a kind."""
    return [sorted(set(some)) for some in zip(*(act.numbers for _, act in acts(kind)), strict=True)]


def test_a_plan_is_of_its_seed_and_in_the_order_of_ticks() -> None:
    every_plan = plans()
    for seed, plan in enumerate(every_plan):
        assert plan.seed == seed
        assert [act.tick for act in plan.acts] == sorted(act.tick for act in plan.acts)
        assert all(0 <= act.tick <= plan.ticks for act in plan.acts)
    assert plan_of(7) == every_plan[7] != plan_of(8)
    assert {plan.units for plan in every_plan} == {1, 2, 3}
    parted = [plan for plan in every_plan if "partition" in {act.kind for act in plan.acts}]
    assert {plan.ticks for plan in every_plan if plan not in parted} == set(range(4, 13))
    assert max(plan.ticks for plan in parted) > 12  # as a partition has its time
    assert 0.6 < sum(plan.lazy for plan in every_plan) / len(every_plan) < 0.8


def test_each_plan_has_some_of_the_kinds_of_faults_and_some_of_each() -> None:
    """Swarm testing: what a plan has occurs often, and does not hide what another has."""
    every_plan = plans()
    having = Counter(kind for plan in every_plan for kind in {act.kind for act in plan.acts} & {*FAULTS})
    assert having.keys() == {*FAULTS}
    for kind, count in having.items():
        low, high = (0.05, 0.15) if kind == "skew" else (0.3, 0.5)
        assert low < count / len(every_plan) < high, kind
    most = Counter((plan.seed, act.kind) for plan in every_plan for act in plan.acts if act.kind in FAULTS)
    assert set(most.values()) == {1, 2}
    assert all(act.tick < plan.ticks for plan in every_plan for act in plan.acts if act.kind in FAULTS)


def test_a_clock_drifts_where_clocks_differ() -> None:
    """Half of these plans; all that look for clocks that differ find the other fault."""
    every_plan = [{act.kind for act in plan.acts} for plan in plans()]
    assert all("skew" in kinds for kinds in every_plan if "drift" in kinds)
    skewed = [kinds for kinds in every_plan if "skew" in kinds]
    assert 0.3 < sum("drift" in kinds for kinds in skewed) / len(skewed) < 0.7


def test_clients_ask_for_what_can_be() -> None:
    every_plan = plans()
    asked = [{act.who: act for act in plan.acts if act.kind == "demand"} for plan in every_plan]
    assert {len(some) for some in asked} == {1, 2, 3}
    assert {who for some in asked for who in some} == {"1", "2", "3"}
    for plan, demands in zip(every_plan, asked, strict=True):
        for act in demands.values():
            units, until, term, start = act.numbers
            assert start == 0 or act.tick <= start < until
            assert 0 <= act.tick <= plan.ticks // 2
            assert 1 <= units <= plan.units
            assert 2 <= until - act.tick <= plan.ticks + 2
            assert 1 <= term <= 5
        for act in plan.acts:
            if act.kind in ("flex", "prolong", "stop"):
                assert demands[act.who].tick <= act.tick
                assert len(act.numbers) == (act.kind != "stop")
                assert act.kind != "flex" or 1 <= act.numbers[0] <= plan.units
                assert act.kind != "prolong" or 1 <= act.numbers[0] - act.tick <= 5
    every = sum(map(len, asked))
    assert all(0.2 < len(acts(kind)) / every < 0.4 for kind in ("flex", "prolong", "stop"))
    assert {act.numbers[0] for _, act in acts("flex")} == {1, 2, 3}
    assert numbers("demand")[2] == [1, 2, 3, 4, 5]
    assert {act.numbers[0] - act.tick for _, act in acts("prolong")} == {1, 2, 3, 4, 5}


@pytest.mark.parametrize(
    ("kind", "who", "given", "words"),
    [
        ("crash", ACTORS, [range(4)], {""}),
        ("crash_within", ACTORS, [range(1, 13), range(3)], {""}),
        ("weather", [""], [range(1, 4), range(1, 7), range(5), range(4)], {""}),
        ("disk", ACTORS, [range(1, 4)], {"FULL", "READ_ONLY", "FSYNC"}),
        ("handler", [""], [range(1, 4), range(2)], {"setup", "modify", "teardown", "join", "leave"}),
        ("lose", [""], [range(3), range(2)], {""}),
        ("power", [""], [range(3)], {""}),
        ("skew", ACTORS, [(-2, -1, 1, 2)], {""}),
        ("drift", ACTORS, [(-30, -10, 10, 30)], {""}),
    ],
)
def test_what_a_fault_may_be(kind: str, who: Any, given: list[Any], words: set[str]) -> None:
    found = [act for _, act in acts(kind)]
    assert {act.who for act in found} == set(who)
    assert [sorted(set(some)) for some in zip(*(act.numbers for act in found), strict=True)] == [*map(list, given)]
    assert {act.more for act in found} == words


def test_a_link_is_cut_between_any_two_actors_one_way_or_both() -> None:
    found = {(act.who, *act.more.partition(" ")[::2]) for _, act in acts("cut")}
    assert found == {(a, b, both) for a in ACTORS for b in ACTORS if a != b for both in ("", "both ways")}
    assert numbers("cut") == [[1, 2, 3]]


def test_a_plan_is_shown_with_all_that_it_says() -> None:
    acts = (PlannedEvent(1, "demand", "2", (1, 9, 3)), PlannedEvent(2, "disk", "site", (1,), "FULL"))
    assert str(RunPlan(5, 2, False, 7, acts)).splitlines() == [
        "seed 5, 2 units, eager site, 7 ticks",
        "  tick 1: demand 2 1 9 3",
        "  tick 2: disk site 1 FULL",
    ]
    assert "lazy site" in str(RunPlan(5, 2, True, 7, ()))


def test_nothing_that_is_needed_is_left_out_wherever_it_stands() -> None:
    every = tuple(PlannedEvent(n, "crash") for n in range(9))
    for needed in ({every[0]}, {every[8]}, {every[0], every[8]}, {*every[3:6]}, {*every}, set[PlannedEvent]()):
        plan = RunPlan(3, 2, False, 7, every)
        found = shrunk(plan, lambda less, needed=needed: needed <= set(less.acts))  # type: ignore[misc]
        assert set(found.acts) == needed
        assert (found.seed, found.units, found.lazy, found.ticks) == (3, 2, False, 7)
        assert list(found.acts) == sorted(found.acts, key=lambda act: act.tick)


# What a plan's events do


class Watched(RandomRun):
    """A run of which something is noted at the end of each tick, while faults happen."""

    def __init__(
        self,
        acts: tuple[PlannedEvent, ...],
        look: Callable[[Watched], Any],
        before: tuple[PlannedEvent, ...] = (),
    ) -> None:
        super().__init__(RunPlan(1, 2, True, 6, (*before, PlannedEvent(0, "demand", "1", (1, 60, 20)), *acts)))
        self.look, self.seen = look, list[Any]()

    def _tick(self) -> None:
        if len(self.seen) < self.plan.ticks:
            self.seen.append(self.look(self))
        super()._tick()


def running(run: Watched) -> str:
    return " ".join(name[0] for name in ACTORS if name in run.sim.actors)


A_B, B_A = ("memory:broker", "memory:site"), ("memory:site", "memory:broker")


@pytest.mark.parametrize(
    ("act", "look", "seen"),
    [
        (
            PlannedEvent(1, "cut", "broker", (2,), "site"),
            lambda r: {*r.sim.network.cut},
            [set(), {A_B}, {A_B}, set(), set(), set()],
        ),
        (
            PlannedEvent(2, "cut", "broker", (1,), "site both ways"),
            lambda r: {*r.sim.network.cut},
            [set(), set(), {A_B, B_A}, set(), set(), set()],
        ),
        (
            PlannedEvent(1, "weather", "", (3, 1, 2, 3)),
            lambda r: r.sim.network.conditions,
            [NO_FAULTS, *[NetworkConditions(0.1, 0.2, 0.05, 1.5)] * 3, NO_FAULTS, NO_FAULTS],
        ),
        (
            PlannedEvent(1, "disk", "broker", (2,), "FULL"),
            lambda r: [r.disks[name].fault for name in ACTORS],
            [[None] * 3, *[[None, DiskFault.FULL, None]] * 2, *[[None] * 3] * 3],
        ),
        (
            PlannedEvent(3, "handler", "", (1, 1), "modify"),
            lambda r: r.handler,
            [*[("", 0)] * 3, ("modify", 1), *[("", 0)] * 2],
        ),
        (
            PlannedEvent(2, "skew", "site", (-2,)),
            lambda r: [r.sim.clocks[name].ahead for name in ACTORS],
            [*[[0, 0, 0]] * 2, *[[0, 0, -2]] * 4],
        ),
        (
            PlannedEvent(2, "drift", "site", (-30,)),
            lambda r: [10 * r.sim.clocks[name].rate for name in ACTORS],
            [*[[10, 10, 10]] * 2, *[[10, 10, 7]] * 4],
        ),
        (PlannedEvent(1, "crash", "broker", (2,)), running, ["s b s", "s s", "s s", *["s b s"] * 3]),
        (PlannedEvent(2, "power", "", (1,)), running, ["s b s", "s b s", "", *["s b s"] * 3]),
        (PlannedEvent(4, "power", "", (2,)), running, [*["s b s"] * 4, "", ""]),
    ],
    ids=lambda value: str(value) if isinstance(value, PlannedEvent) else "",
)
def test_a_fault_begins_and_ends_at_its_tick(
    act: PlannedEvent, look: Callable[[Watched], Any], seen: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leasehold.faults.simulation.simulation.Simulation.close", lambda self: None)
    run = Watched((act,), look)
    assert run.play().findings == []
    assert run.seen == seen
    assert look(run) == seen[0], "in the end it is over"


@pytest.mark.parametrize(("after", "ticks"), [(1, 1), (2, 1), (5, 1), (3, 2)])
def test_an_actor_stops_amid_its_work_and_comes_back(after: int, ticks: int) -> None:
    """At its n-th commit, message or call from then on, once."""
    passed: list[Kind] = []
    act = PlannedEvent(0, "crash_within", "broker", (after, ticks))
    run = Watched((), lambda r: "broker" in r.sim.actors, before=(act,))
    run.sim.subscribers.insert(0, lambda notice: passed.append(notice.kind) if notice.actor in run.within else None)
    assert run.play().findings == []
    assert run.seen == [False] * ticks + [True] * (6 - ticks)
    assert run.outcome.crashes == 1
    assert len([kind for kind in passed if kind in (Kind.COMMIT, Kind.COMMITTED, Kind.SEND, Kind.CALL)]) == after


@pytest.mark.parametrize(
    ("act", "holds"),
    [
        (PlannedEvent(2, "flex", "1", (2,)), lambda wish: wish.units == 2),
        (PlannedEvent(2, "prolong", "1", (90,)), lambda wish: wish.until == 90),
        (PlannedEvent(2, "stop", "1"), lambda wish: wish is None or wish.until <= 3),
    ],
)
def test_what_a_client_says_is_heard(act: PlannedEvent, holds: Callable[[Any], bool]) -> None:
    lease = "service_manager:1"
    run = Watched((act,), lambda r: r.sim.policy("service_manager").wish(lease))
    assert run.play().findings == []
    assert [holds(wish) for wish in run.seen[1:]] == [False, *[True] * 4]


# Campaigns of them


@pytest.mark.parametrize(
    ("first", "last", "chunks"),
    [
        (0, 3, [range(3)]),
        (7, 7, []),
        (0, 50, [range(50)]),
        (0, 51, [range(50), range(50, 51)]),
        (10, 120, [range(10, 60), range(60, 110), range(110, 120)]),
    ],
)
def test_each_seed_is_played_once(first: int, last: int, chunks: list[range]) -> None:
    assert list(_chunks(first, last, None)) == chunks


def test_runs_go_on_until_the_time_is_over() -> None:
    assert list(islice(_chunks(5, None, time.perf_counter() + 3600), 2)) == [range(5, 55), range(55, 105)]
    assert list(_chunks(5, None, time.perf_counter() - 1)) == []
    assert list(_chunks(5, 9, time.perf_counter() - 1)) == []
    assert list(_chunks(5, 9, time.perf_counter() + 3600)) == [range(5, 9)]


def test_a_campaign_counts_what_its_runs_had() -> None:
    found = RandomCampaign(first=4)
    acts = (
        PlannedEvent(0, "demand", "1", (1, 5, 1)),
        PlannedEvent(1, "crash", "site", (0,)),
        PlannedEvent(2, "crash", "site", (0,)),
    )
    for lost in (2, 3):
        found.add((RunPlan(4, 1, True, 5, acts), lost), CaseOutcome("seed 4", end="", asked=10, crashes=2))
    assert (found.first, found.played, found.lost, found.asked, found.crashes) == (4, 2, 5, 20, 4)
    assert found.acts == {"demand": 2, "crash": 4}


def test_a_campaign_plays_the_seeds_that_it_says() -> None:
    heard: list[tuple[int, int, int]] = []
    found = random_campaign(3, seed=11, jobs=1, watch=lambda n, of, failed: heard.append((n, of, len(failed))))
    assert (found.first, found.played, found.holds) == (11, 3, True)
    assert heard == [(1, 3, 0), (2, 3, 0), (3, 3, 0)]
    wanted = Counter(act.kind for seed in (11, 12, 13) for act in plan_of(seed).acts)
    assert found.acts == wanted
