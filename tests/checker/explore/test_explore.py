"""The reference explorer on systems small enough to be counted by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leasehold.checker.explore import Exploration, Limits, explore
from leasehold.faults.model import Budget
from tests.systems import TESTS, files_of, load, write

Make = Callable[..., Path]


@pytest.fixture
def made(tmp_path: Path) -> Make:
    """Writes a system of one role `m`; answers with its folder."""

    def make(role: str, system: str = "", invariants: str = "") -> Path:
        files = {"system.yaml": "system: small\nroles: {m: {}}\n" + system, "roles/m.yaml": role}
        return write(tmp_path, files | ({"invariants.yaml": invariants} if invariants else {}))

    return make


COUNTER = files_of("checker/explore/systems/counter")["roles/m.yaml"]
OFFERS = "environment: {up: {to: m}, down: {to: m}}\n"


def verdicts(found: Exploration) -> dict[str, str]:
    return {p.name: p.verdict for p in found.properties}


def test_counts(made: Make) -> None:
    found = explore(load(made(COUNTER, OFFERS)))
    assert (found.distinct, found.generated, found.edges, found.depth, found.initial) == (5, 5, 4, 4, 1)
    assert [c.control for c in found.cells] == [("on",), ("off",)]
    assert found.product_states == 2


def test_counterexamples_are_shortest_and_all_are_found(made: Make) -> None:
    claims = """properties:
  low: {always: m.n < 2}
  lower: {always: m.n < 1}
  never_off: {always: m.state != off}
  fine: {always: m.n <= 3}
"""
    found = explore(load(made(COUNTER, OFFERS, claims)))
    assert verdicts(found) == {"low": "violated", "lower": "violated", "never_off": "violated", "fine": "exhausted"}
    assert {p.name: len(p.path) for p in found.properties if p.path} == {"low": 2, "lower": 1, "never_off": 4}
    assert not found.holds


def test_a_path_can_be_replayed(made: Make) -> None:
    found = explore(load(made(COUNTER, OFFERS, "properties: {never_off: {always: m.state != off}}")))
    path = found.properties[0].path
    assert path is not None
    assert [s.title for s in path.steps] == ["m: up", "m: up", "m: up", "m: down"]
    assert [s.transition for s in path.steps] == ["m/on#up", "m/on#up", "m/on#up", "m/on#down"]
    assert path.steps[-1].state.control == {"m": "off"}
    assert path.steps[-1].state.data == {"m.n": "3"}


def test_deadlock_outside_an_allowed_end(made: Make) -> None:
    found = explore(load(made(COUNTER, OFFERS, "ends: {full: m.n == 2}")))
    (deadlock,) = found.properties
    assert (deadlock.name, deadlock.verdict) == ("deadlock_free", "violated")
    assert deadlock.path is not None
    assert len(deadlock.path) == 4
    assert found.vacuous == ("full",)


def test_deadlock_in_an_allowed_end(made: Make) -> None:
    found = explore(load(made(COUNTER, OFFERS, "ends: {is_off: m.state == off}")))
    assert verdicts(found) == {"deadlock_free": "exhausted"}
    assert found.vacuous == ()


def test_vacuous_unvisited_and_missing_witness(made: Make) -> None:
    claims = """properties:
  idle_talk: {when: m.n == 9, always: m.n == 0}
  step_talk: {when: old(m.n) > m.n, step: m.n == 0}
  dream: {sometimes: m.n == 9}
"""
    role = COUNTER.replace("when: n == 3", "when: n == 7")
    found = explore(load(made(role, OFFERS, claims)))
    assert found.vacuous == ("idle_talk", "step_talk")
    assert found.unvisited_transitions == ("m/on#down",)
    assert verdicts(found)["dream"] == "violated"


def test_step_properties_see_before_after_and_what_was_taken(made: Make) -> None:
    claims = """properties:
  by_one: {when: took(m.up), step: m.n == old(m.n) + 1}
  only_up: {step: took(m.up)}
"""
    found = explore(load(made(COUNTER, OFFERS, claims)))
    assert verdicts(found) == {"by_one": "exhausted", "only_up": "violated"}


def test_a_state_constraint_cuts(made: Make) -> None:
    found = explore(load(made(COUNTER, OFFERS + "constraint: m.n <= 1\n")))
    # The step to n = 2 is generated, and neither counted as distinct nor as an edge.
    assert (found.distinct, found.generated, found.edges, found.cut) == (2, 3, 1, 1)


@pytest.mark.parametrize("limits", [Limits(states=3), Limits(depth=2)])
def test_limits_leave_verdicts_open(made: Make, limits: Limits) -> None:
    found = explore(load(made(COUNTER, OFFERS, "properties: {fine: {always: m.n <= 3}}")), limits)
    assert not found.complete
    assert verdicts(found) == {"fine": "bounded"}
    assert found.distinct == 3


def test_a_value_that_leaves_its_range_is_found_with_its_path(made: Make) -> None:
    found = explore(load(made(COUNTER.replace("n: int", "n: {type: int, max: 2}"), OFFERS)))
    (fault,) = found.properties
    assert (fault.kind, fault.verdict) == ("range", "violated")
    assert fault.path is not None
    assert len(fault.path) == 2
    assert "outside its type's range" in fault.reason


def test_guards_that_the_lint_cannot_try_are_tried_by_the_explorer() -> None:
    """Guards that read other machines are left to the explorer, which reports the first overlap."""
    found = explore(load(TESTS / "checker/explore/systems/overlapping_pair"))
    assert [(p.kind, p.verdict) for p in found.properties] == [("guards", "violated")]


CYCLE = files_of("checker/explore/systems/cycle")["roles/m.yaml"]


def test_leads_to_under_weak_fairness(made: Make) -> None:
    """The answers of one task are one fair choice: it may rest for ever, but it cannot do nothing for ever."""
    claims = """properties:
  leaves_b: {when: m.state == b, leads_to: m.state != b}
  comes_to_b: {when: m.state == a, leads_to: m.state == b}
  stops: {when: m.state == a, leads_to: m.state == c}
"""
    found = explore(load(made(CYCLE, "environment: {stop: {to: m}}\n", claims)))
    assert verdicts(found) == {"leaves_b": "exhausted", "comes_to_b": "violated", "stops": "violated"}
    comes = next(p for p in found.properties if p.name == "comes_to_b").path
    assert comes is not None
    assert comes.loop is not None


def test_fair_environment(made: Make) -> None:
    claims = "properties: {stops: {when: m.state == a, leads_to: m.state == c}}"
    assert explore(load(made(CYCLE, "environment: {stop: {to: m, fair: true}}\n", claims))).holds


def test_always_possible(made: Make) -> None:
    claims = """properties:
  can_stop: {always_possible: m.state == c}
  can_return: {always_possible: m.state == a}
"""
    found = explore(load(made(CYCLE, "environment: {stop: {to: m}}\n", claims)))
    assert verdicts(found) == {"can_stop": "exhausted", "can_return": "violated"}
    trapped = next(p for p in found.properties if p.name == "can_return").path
    assert trapped is not None
    assert [s.title for s in trapped.steps] == ["m: stop"]


TIMER = files_of("checker/explore/systems/timer")["roles/m.yaml"]


@pytest.mark.parametrize(
    ("timers", "within", "verdict"),
    [
        ("prompt", 2, "exhausted"),
        ("prompt", 1, "violated"),
        ("late", 2, "violated"),
    ],
)
def test_time(made: Make, timers: str, within: int, verdict: str) -> None:
    """Prompt timers hold the clock until they are served; late ones do not."""
    claims = f"properties: {{rings: {{when: m.state == set_, leads_to: m.state == over, within: {within}}}}}"
    system = f"clock: {{horizon: 5, timers: {timers}}}\nenvironment: {{start: {{to: m, when: now <= 1}}}}\n"
    found = explore(load(made(TIMER, system, claims)))
    assert verdicts(found) == {"rings": verdict}


@pytest.mark.parametrize("engine", ["reference", "packed"])
def test_ticks_count_while_the_clock_of_an_actor_stands_still(made: Make, engine: Any) -> None:
    """It is ahead by a tick, starts its timer, and stands still until true time has overtaken it."""
    claims = """properties:
  in_two: {when: m.state == set_, leads_to: m.state == over, within: 2}
  in_three: {when: m.state == set_, leads_to: m.state == over, within: 3}
"""
    system = load(made(TIMER, "clock: {horizon: 5}\nenvironment: {start: {to: m, when: now <= 1}}\n", claims))
    assert verdicts(explore(system, engine=engine)) == {"in_two": "exhausted", "in_three": "exhausted"}
    found = explore(system, engine=engine, budget=Budget(skew=1))
    assert verdicts(found) == {"in_two": "violated", "in_three": "exhausted"}
    path = found.properties[0].path
    assert path is not None
    assert sum(s.kind == "clock" or "stands still" in s.event for s in path.steps) == 3


@pytest.mark.parametrize("engine", ["reference", "packed"])
@pytest.mark.parametrize(("bound", "verdict"), [("", "violated"), ("constraint: now <= 2\n", "bounded")])
def test_what_the_tick_after_the_last_brings_comes_too_late(made: Make, engine: Any, bound: str, verdict: str) -> None:
    """The claim holds from 3 on, and is owed from 0 on. A tick that leads out of the bounds leaves it open."""
    claims = """properties:
  in_two: {when: now == 0, leads_to: now == 3, within: 2}
  in_three: {when: now == 0, leads_to: now == 3, within: 3}
"""
    system = load(made(CYCLE, "clock: {horizon: 4}\nenvironment: {stop: {to: m, fair: true}}\n" + bound, claims))
    found = verdicts(explore(system, engine=engine))
    assert found["in_two"] == verdict
    assert found["in_three"] == ("exhausted" if not bound else "bounded")


def test_an_interrupted_search_reports_what_it_has(made: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    from leasehold.checker.explore import reference

    original = reference.Reference.successors
    calls = 0

    def interrupted(self: object, state: object, left: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return original(self, state, left)  # type: ignore[arg-type]

    monkeypatch.setattr(reference.Reference, "successors", interrupted)
    found = explore(load(made(COUNTER, OFFERS)), engine="reference")
    assert (found.complete, found.why_incomplete, found.distinct) == (False, "interrupted", 3)
