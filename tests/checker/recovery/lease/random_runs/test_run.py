"""A random run by itself: its ticks, its clients, crashes and restarts, and what has to be so in the end."""

from __future__ import annotations

import random
from fractions import Fraction
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from leasehold.checker.recovery.campaign import CaseOutcome
from leasehold.checker.recovery.lease.random_runs.plan import PlannedEvent, RunPlan
from leasehold.checker.recovery.lease.random_runs.run import LIMIT, LONG, REST, RandomRun
from leasehold.faults.simulation.clock import SimulatedClock
from leasehold.faults.simulation.loop import Livelock
from leasehold.impl.actor.environment import ActorError
from leasehold.impl.notices import Kind, Notice, SimulatedCrash

LEASE, LAST = "service_manager:1", "service_manager:1000"
NAMES = ("service_manager", "broker", "site")


class Run(RandomRun):
    """A run of which the simulation only writes down what it is asked for."""

    def __init__(self, *acts: PlannedEvent, units: int = 2, ticks: int = 3) -> None:
        self.plan = RunPlan(1, units, True, ticks, acts)
        self.told: list[Any] = []
        self.outcome = CaseOutcome("seed 1")
        self.properties: Any = "properties"
        self.disks: Any = {name: SimpleNamespace(fault=None) for name in NAMES}
        self.leases, self.monitors = [LEASE], [self._monitor("one")]
        self.committed: Any = SimpleNamespace(lost=[])
        self.steps: Any = SimpleNamespace(strange=[])
        self.events: Any = SimpleNamespace(wrong=[])
        self.handler, self.skewed = ("", 0), False
        self.use: Any = SimpleNamespace(tick=lambda: self.told.append("use"), wrong={})
        self.able = 0
        self.until, self.down, self.within = [], {}, {}
        self.chance: Any = SimpleNamespace(
            random=lambda: 0.4, randint=lambda low, high: high, sample=lambda some, count: some[:count]
        )
        self.states: dict[str, str] = {}
        self.lease_units = units
        clock = SimpleNamespace(now=lambda: 7)
        actors = {name: SimpleNamespace(clock=clock, name=name) for name in NAMES}
        units_ = SimpleNamespace(moved=lambda now: self.told.append(("moved", now)), units={}, overlaps=[])
        self.sim: Any = SimpleNamespace(
            actors=actors,
            time=SimpleNamespace(now=5, advance=self._advance),
            units=units_,
            crashes=4,
            loop=SimpleNamespace(
                advance=lambda seconds: self.told.append(("advance", seconds)),
                errors=[],
                call_soon=lambda what, *given: self.told.append(("soon", *given)),
            ),
            crash=self._ends,
            start=self._starts,
            gone=lambda name, actor: self.told.append(("gone", name, actor.name)),
            wish=lambda *what, **options: self.told.append((*what, *options.items())),
            network=SimpleNamespace(conditions=None, cut=set()),
            clocks={},
            start_all=lambda: self.told.append("start"),
            close=lambda: self.told.append("close"),
            inventory=SimpleNamespace(units=[SimpleNamespace(name=f"u{n}") for n in range(2)]),
        )

    def _monitor(self, name: str) -> Any:
        return SimpleNamespace(
            name=name,
            lease=LEASE,
            tick=lambda: self.told.append(("monitor", name)),
            broken={},
            asked=3,
        )

    def _advance(self) -> None:
        self.sim.time.now += 1

    def _ends(self, name: str) -> None:
        self.told.append(("crash", name))
        del self.sim.actors[name]

    def _starts(self, name: str) -> None:
        self.told.append(("start", name))
        self.sim.actors[name] = SimpleNamespace(name=name)

    def check_progress(self, monitor: Any) -> None:
        self.told.append(("progress", monitor.name))

    def check_overlaps(self) -> None:
        self.told.append("overlaps")

    def repair(self) -> None:
        self.told.append("repair")

    def state(self, lease: str, machine: str = "service_manager") -> str:
        return self.states.get(lease, "")

    def data(self, lease: str, machine: str = "service_manager") -> dict[str, Any]:
        return {"lease_units": frozenset(range(self.lease_units))} if lease in self.states else {}

    def over(self, lease: str) -> bool:
        return self.states.get(lease) != "active"

    def where(self, lease: str) -> str:
        return f"{self.state(lease)}/-/-"

    def found(self) -> list[tuple[str, str]]:
        return [(finding.check, finding.words) for finding in self.outcome.findings]


# A tick

QUARTERS = [("advance", 0.25)] * 4


def quiet(run: Run) -> Run:
    run._over_all_leases = lambda: run.told.append("over all")  # type: ignore[method-assign]
    return run


def test_a_tick_is_one_of_time_of_the_monitors_and_of_the_units_and_then_is_looked_at() -> None:
    run = quiet(Run())
    run._tick()
    assert run.told == [("monitor", "one"), ("moved", 6), *QUARTERS, "over all", "use", ("progress", "one")]
    skewed = quiet(Run())
    skewed.skewed = True
    skewed._tick()
    assert ("progress", "one") not in skewed.told, "where clocks differ machines may owe something"


def test_what_ends_at_a_tick_ends_once() -> None:
    run, ended = quiet(Run()), list[str]()
    for ticks in (1, 2, 3):
        run._later(ticks, partial(ended.append, f"after {ticks}"))
    run._tick()
    assert (ended, len(run.until)) == (["after 1"], 2)
    run._tick()
    run._tick()
    assert (ended, run.until) == (["after 1", "after 2", "after 3"], [])


@pytest.mark.parametrize(("due", "after"), [(4, 1), (5, 1), (6, 2), (7, None)])
def test_an_actor_restarts_within_its_tick_or_at_the_beginning_of_the_next(due: int, after: int | None) -> None:
    """One whose time comes in this very tick is away for some of it."""
    run = quiet(Run())
    del run.sim.actors["broker"]
    run.down["broker"] = due
    run._tick()
    starts = [n for n, told in enumerate(run.told[2:]) if told == ("start", "broker")]
    assert starts == ([] if after is None else [after])
    assert ("broker" in run.down) == (after is None)


def test_an_actor_whose_disk_fails_does_not_start_and_is_tried_again() -> None:
    run = quiet(Run())
    run._crash("broker", 0)
    run.disks["broker"].fault = "full"
    run._tick()
    assert ("start", "broker") not in run.told
    run.disks["broker"].fault = None
    run._tick()
    assert run.told.count(("start", "broker")) == 1


def test_who_crashes_while_it_is_down_restarts_when_it_was_to() -> None:
    run = Run()
    run._crash("site", 2)
    run._crash("site", 9)
    assert (run.told, run.down) == ([("crash", "site")], {"site": 7})


def test_who_crashes_as_it_restarts_is_down_for_another_tick() -> None:
    run = Run()
    run._crash("site", 0)

    def fails(name: str) -> None:
        run.sim.actors[name] = SimpleNamespace(name=name)
        raise SimulatedCrash

    run.sim.start = fails
    run._restart("site")
    assert (run.down, "site" in run.sim.actors) == ({"site": 6}, False)


def test_who_is_to_stop_amid_its_work_does_so_at_its_nth_act() -> None:
    run = Run()
    run.within["site"] = 2, 3
    for kind in (Kind.TRANSITION, Kind.COMMIT):
        run._hear(Notice(kind, "site"))
        run._hear(Notice(kind, "broker"))
    assert run.within == {"site": (1, 3)}
    with pytest.raises(SimulatedCrash):
        run._hear(Notice(Kind.SEND, "site"))
    assert (run.within, run.down, run.told) == ({}, {"site": 8}, [("soon", "site")])
    run._take_away("site")
    run._take_away("site")
    assert run.told[1:] == [("gone", "site", "site")]
    assert "site" not in run.sim.actors


# Clients


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (PlannedEvent(0, "demand", "1", (2, 9, 3)), ("demand", LEASE, 2, 9, 3, ("start", 0))),
        (PlannedEvent(0, "demand", "1", (2, 6, 3)), ("demand", LEASE, 2, 8, 3, ("start", 0))),
        (PlannedEvent(0, "demand", "1", (2, 9, 3, 6)), ("demand", LEASE, 2, 9, 3, ("start", 6))),
        (PlannedEvent(0, "demand", "1", (2, 6, 3, 9)), ("demand", LEASE, 2, 8, 3, ("start", 7))),
        (PlannedEvent(0, "flex", "1", (2,)), ("flex", LEASE, 2, ("soon", True), ("victims", []))),
        (PlannedEvent(0, "prolong", "1", (9,)), ("prolong", LEASE, 9)),
        (PlannedEvent(0, "prolong", "1", (6,)), ("prolong", LEASE, 8)),
        (PlannedEvent(0, "stop", "1"), ("stop", LEASE)),
    ],
)
def test_a_client_asks_for_nothing_in_the_past(act: PlannedEvent, said: tuple[Any, ...]) -> None:
    """It knows the service manager's clock."""
    run = Run()
    run._act(act)
    assert run.told == [said]


def test_a_client_may_be_refused_and_where_nobody_runs_it_is_not_heard() -> None:
    run = Run()

    def refuses(*what: Any, **options: Any) -> None:
        raise ActorError("no")

    run.sim.wish = refuses
    run._act(PlannedEvent(0, "stop", "1"))
    del run.sim.actors["service_manager"]
    run._act(PlannedEvent(0, "stop", "1"))
    assert run.told == []


@pytest.mark.parametrize(("random", "soon"), [(0.49, True), (0.5, False)])
def test_a_lease_is_changed_soon_or_at_its_time_as_chance_has_it(random: float, soon: bool) -> None:
    run = Run()
    run.chance.random = lambda: random
    run._act(PlannedEvent(0, "flex", "1", (1,)))
    assert run.told == [("flex", LEASE, 1, ("soon", soon), ("victims", []))]


def test_a_holder_may_say_which_units_it_gives_back() -> None:
    """It names as many as there are more of than it wants, or fewer."""
    run = Run(units=3)
    run.states[LEASE] = "active"
    run._act(PlannedEvent(0, "flex", "1", (1,)))
    assert run.told == [("flex", LEASE, 1, ("soon", True), ("victims", [0, 1]))]


@pytest.mark.parametrize(
    ("handler", "delay", "fails"),
    [
        (("setup", 0), 2, False),
        (("setup", 1), 0, True),
        (("teardown", 1), 0, False),
        (("teardown", 0), 0, False),
        (("", 0), 0, False),
    ],
)
def test_a_handlers_verb_fails_or_takes_its_time(handler: tuple[str, int], delay: int, fails: bool) -> None:
    """Mostly it ends in time; at times it is given up."""
    run, action, chance = Run(), SimpleNamespace(verb="setup"), random.Random(0)
    run.handler = handler
    assert {run._delay(action, chance) for _ in range(50)} == ({delay, LONG} if delay else {0})
    assert LONG > LIMIT > delay
    assert run._fails(action, chance) == fails


# The whole, and its end


def test_a_run_goes_through_its_ticks_and_comes_to_rest() -> None:
    """Each lease that is asked for has a monitor; what happens at a tick happens before its time passes."""
    run = Run(PlannedEvent(0, "stop", "1"), PlannedEvent(2, "stop", "3"), PlannedEvent(2, "stop", "2"), ticks=3)
    run._act = lambda act: run.told.append((act.kind, act.who))  # type: ignore[method-assign]
    for name in ("_tick", "_end_faults", "_come_to_rest"):
        setattr(run, name, partial(run.told.append, name))
    run.monitors[0].broken["p"] = "at tick 1"
    run.committed.lost.append("site has no unit")
    outcome = run.play()
    assert run.told == [
        "start",
        ("stop", "1"),
        "_tick",
        "_tick",
        ("stop", "3"),
        ("stop", "2"),
        "_tick",
        "_end_faults",
        "_come_to_rest",
        "close",
    ]
    assert run.found() == [("record", "site has no unit"), ("invariant", f"{LEASE}: p does not hold at tick 1")]
    assert (outcome.asked, outcome.crashes, outcome.path) == (3, 4, None)


def test_where_clocks_differ_invariants_are_not_evaluated() -> None:
    run = Run(ticks=0)
    run.skewed = True
    for name in ("_end_faults", "_come_to_rest"):
        setattr(run, name, lambda: None)
    run.monitors[0].broken["p"] = "at tick 1"
    run.play()
    assert run.found() == []


@pytest.mark.parametrize("error", [Livelock("no end"), TimeoutError("no end")])
def test_a_run_without_an_end_is_found(error: Exception) -> None:
    run = Run(ticks=1)

    def fails() -> None:
        raise error

    run._tick = fails  # type: ignore[method-assign]
    run.play()
    assert run.found() == [("actor", "it does not come to rest: no end")]
    assert run.told[-1] == "close"


@pytest.mark.parametrize(("promised", "holds"), [((1, 1), True), ((2, 1), False)])
def test_the_broker_promises_no_more_than_there_is(promised: tuple[int, int], holds: bool) -> None:
    run = Run(units=2)
    states = {
        "a": ("ticketed", promised[0]),
        "b": ("extending", promised[1]),
        "c": ("ticketing", 9),
        "d": ("closed", 9),
    }
    views = {
        name: SimpleNamespace(state=state, data={"counted": n, "start": 0, "term_end": 9})
        for name, (state, n) in states.items()
    }
    keys = [(name, "broker") for name in views]
    run.sim.actors["broker"] = SimpleNamespace(
        table=SimpleNamespace(instances=keys, view=lambda lease, machine: views[lease])
    )
    run._over_all_leases()
    assert run.found() == ([] if holds else [("world", "tick 5: 3 units are promised of 2 at 5")])
    del run.sim.actors["broker"]
    run._over_all_leases()
    assert run.told == ["overlaps"] * 2


def test_when_faults_are_over_everybody_runs_and_demands_end() -> None:
    run = Run()
    run._tick = partial(run.told.append, "tick")  # type: ignore[method-assign]
    run._crash("site", 9)
    run.handler, run.within["broker"] = ("setup", 1), (3, 3)
    run._later(9, lambda: None)
    run.disks["site"].fault = "full"
    run.sim.network.cut.add(("a", "b"))
    clock = run.sim.clocks["site"] = SimulatedClock(ahead=-2)
    clock.rate = Fraction(13, 10)
    run.leases.append("service_manager:2")
    wishes: list[Any] = []

    def wish(*what: Any) -> None:
        wishes.append(what)
        if len(wishes) == 1:
            raise ActorError("it is over")

    run.sim.wish = wish
    run._end_faults()
    assert run.told == [("crash", "site"), ("start", "site"), *["tick"] * 3]
    assert wishes == [("stop", LEASE), ("stop", "service_manager:2")]
    assert (run.handler, run.within, run.until, run.sim.network.cut) == (("", 0), {}, [], set())
    assert (run.disks["site"].fault, clock.ahead, clock.rate) == (None, 0, 1)


def resting(over_after: int, served_after: int, units: int = 2) -> Run:
    """A run whose lease is over, and whose last request is served, after so many ticks."""
    run, ticks = Run(units=2), [0]
    run.lease_units = units
    run.states[LEASE] = "active"

    def tick() -> None:
        ticks[0] += 1
        run.told.append("tick")
        if ticks[0] == over_after:
            run.states[LEASE] = "closed"
        if run.told.count("tick") - run.told.index("repair") == served_after if "repair" in run.told else False:
            run.states[LAST] = "active"

    run._tick = tick  # type: ignore[method-assign]
    run._come_to_rest()
    return run


@pytest.mark.parametrize("ticks", [1, 7, REST])
def test_a_run_is_at_rest_when_all_is_over_and_a_last_request_gets_all_units(ticks: int) -> None:
    run = resting(ticks, 2)
    assert run.told == [*["tick"] * ticks, "repair", ("advance", 1.0), ("demand", LAST, 2, 505, 20), "tick", "tick"]
    assert run.found() == []


def test_a_lease_that_does_not_end_is_found() -> None:
    assert resting(REST + 1, 1).found() == [("lease", f"{LEASE} does not end: active/-/-")]


@pytest.mark.parametrize(("after", "units", "gets"), [(9, 2, 0), (8, 1, 1)])
def test_a_last_request_that_does_not_get_all_units_is_found(after: int, units: int, gets: int) -> None:
    run = resting(1, after, units)
    state = "active" if after == 8 else ""
    assert run.found() == [("lease", f"from tick 5 on a request for all units gets {gets}: {state}/-/-")]
    assert run.told.count("tick") == 1 + 8


def test_units_that_are_up_for_leases_that_are_over_are_found() -> None:
    run = Run()
    run._tick = partial(run.states.__setitem__, LAST, "active")  # type: ignore[method-assign]
    run.sim.units.units = {
        "u0": SimpleNamespace(on=True, lease=LEASE),
        "u1": SimpleNamespace(on=True, lease=LAST),
        "elsewhere": SimpleNamespace(on=True, lease=LEASE),
    }
    run._come_to_rest()
    assert run.found() == [("world", "u0 are up for leases that are over")]
    run.outcome.findings.clear()
    run.sim.units.units["u0"].on = False
    del run.sim.units.units["u1"]
    run._come_to_rest()
    assert run.found() == []


def test_what_the_judge_of_units_says_counts() -> None:
    run = Run(ticks=0)
    run.use.wrong = {"a guest runs on": None}
    for name in ("_end_faults", "_come_to_rest"):
        setattr(run, name, lambda: None)
    run.play()
    assert [f for f in run.found() if f[0] == "use"] == [("use", "a guest runs on")]


@pytest.mark.parametrize(
    ("trouble", "cannot"),
    [("none", False), ("down", True), ("disk", True), ("join", True), ("setup", False), ("skew", True)],
)
def test_when_a_holder_cannot_be_blamed(trouble: str, cannot: bool) -> None:
    run = Run()
    if trouble == "down":
        del run.sim.actors["service_manager"]
    run.disks["service_manager"].fault = "FULL" if trouble == "disk" else None
    run.handler = trouble, 1
    run.skewed = trouble == "skew"
    assert run._holder_cannot() == cannot
    run.handler, run.disks["service_manager"].fault = ("", 0), None
    run.sim.actors["service_manager"] = None
    assert run._holder_cannot() == cannot  # for a while after it, too
    run.sim.time.now += LONG + 1
    assert run._holder_cannot() == (trouble == "skew")
