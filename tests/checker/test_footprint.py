"""Steps that are worked out once for all states with one footprint are those that the semantics gives in each."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from leasehold.checker.explore import footprint
from leasehold.checker.explore.compiled import cells_read
from leasehold.checker.explore.faulty import FaultySystem
from leasehold.checker.explore.footprint import Part
from leasehold.checker.explore.layout import State
from leasehold.checker.explore.step import Action, SpecFault
from leasehold.checker.explore.transition_system import TransitionSystem
from leasehold.faults import Budget
from leasehold.spec import load


class _Plain(TransitionSystem):
    local = False


class _PlainFaulty(FaultySystem):
    local = False


def _steps(world: TransitionSystem, s: State, left: tuple[int, ...] | None) -> list[tuple[Action, State]]:
    return [(action._replace(change=0), after) for action, after in world.successors(s, left)]


def _reached(world: TransitionSystem, most: int) -> Iterable[State]:
    seen = dict.fromkeys(world.initial_states())
    for s in (todo := list(seen)):
        for _, after in world.successors(s):
            if after not in seen and world.within_bounds(after) and len(seen) < most:
                seen[after] = None
                todo.append(after)
    return seen


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("system", "settings", "budget"),
    [
        ("lease", {}, None),
        ("lease", {}, "crash=1,power_cut=1,halt=1,duplicate=1,lose=any,reorder=1"),
        pytest.param("lease", {"max_units": 1, "last_end": 2}, "crash=1,partition=1,skew=1,lose=1", marks=SLOW),
        pytest.param("lease", {"max_units": 1, "last_end": 2}, "crash=1,byzantine=service_manager", marks=SLOW),
        pytest.param("contention", {}, "crash=1,duplicate=any,lose=1", marks=SLOW),
        ("two_phase_commit", {"participants": 3}, None),
        pytest.param("two_phase_commit", {"participants": 2}, "crash=2,halt=1,power_cut=1,lose=1", marks=SLOW),
        pytest.param("three_phase_commit", {"participants": 2}, "crash=1,partition=1,lose=1", marks=SLOW),
        pytest.param("three_phase_commit_termination", {"participants": 2}, "crash=1,halt=1,partition=1", marks=SLOW),
    ],
)
def test_footprints_change_nothing(system: str, settings: dict[str, int], budget: str | None) -> None:
    model = load(system, settings)
    if budget is None:
        fast, plain = TransitionSystem(model), _Plain(model)
    else:
        fast, plain = FaultySystem(model, Budget.parse(budget)), _PlainFaulty(model, Budget.parse(budget))
    none_left = tuple(0 for _ in plain.budgeted)
    known = 0
    for s in _reached(plain, 3_000):
        for left in (None, plain.budgeted, none_left):
            assert _steps(fast, s, left) == _steps(plain, s, left)
        known += 1
    assert known > 10


@pytest.mark.parametrize("budget", ["crash=1,duplicate=1,lose=1", "crash=1,partition=1"])
def test_a_part_that_stops_keeping_its_steps_gives_the_same(budget: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After TRIAL footprints of which few came again, a part works its steps out in every state."""
    monkeypatch.setattr(footprint, "TRIAL", 20)
    model = load("lease", {"max_units": 1, "last_end": 2})
    fast, plain = FaultySystem(model, Budget.parse(budget)), _PlainFaulty(model, Budget.parse(budget))
    for s in _reached(plain, 1_500):
        for left in (None, plain.budgeted):
            assert _steps(fast, s, left) == _steps(plain, s, left)
    kept = [part._look is not None for part in fast.parts]
    assert True in kept
    assert False in kept
    inner = plain.parts[: len(plain.machines) + len(plain.layout.lanes)]
    assert [part._look for part in inner] == [None] * len(inner)


def test_a_step_that_writes_outside_its_footprint_is_refused() -> None:
    def steps(s: State, of: object) -> Iterable[tuple[Action, State]]:
        yield Action("local", "a", 0, "go"), (1, s[1] + 1)

    with pytest.raises(AssertionError, match="writes cell 1, which is not in its footprint"):
        list(Part([0], steps).steps((0, 5)))  # type: ignore[arg-type]
    assert next(Part([0, 1], steps).steps((0, 5)))[1] == (1, 6)  # type: ignore[arg-type]


def test_a_change_is_numbered_once_for_what_it_does() -> None:
    """Claims about steps are asked once for each number and what they see of the state before."""
    world = FaultySystem(load("lease"), Budget.parse("crash=1,duplicate=1,lose=1"))
    writes: dict[int, tuple[Action, dict[int, object]]] = {}
    for s in _reached(world, 5_000):
        for action, after in world.successors(s):
            if action.change:
                mine = {i: value for i, value in enumerate(after) if value != s[i]}
                known, theirs = writes.setdefault(action.change, (action, mine))
                assert (known, theirs) == (action, mine)
    assert len(writes) > 100


def test_a_fault_of_the_specification_is_shown_in_every_state() -> None:
    def steps(s: State, of: object) -> Iterable[tuple[Action, State]]:
        yield Action("local", "a", 0, "go"), (1, s[1])
        raise SpecFault("guards", "both hold")

    part = Part([0], steps)  # type: ignore[arg-type]
    for other in (5, 6):
        found = part.steps((0, other))
        assert next(iter(found))[1] == (1, other)
        with pytest.raises(SpecFault, match="both hold"):
            next(found)


@pytest.mark.parametrize(
    ("words", "cells"),
    [
        ("s[3] + e[0] > s[12]", {3, 12}),
        ("(lambda q: q + s[1])(s[2])", {1, 2}),
        ("len([q for q in s[4][1] if q[1] == 'x'])", {4}),
        ("True", set()),
        ("s[3 + 2 * e[0]]", None),
        ("(3, 5)[e[0]] in s", None),
    ],
)
def test_cells_are_read_off_the_source(words: str, cells: set[int] | None) -> None:
    assert cells_read(words) == cells
