"""The bounds of partial order reduction are those of searches that decide rightly, and stand on the page."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from tests.benchmarks import partial_order
from tests.benchmarks.partial_order import CASES, Case, measure, measured, row
from tests.benchmarks.stubborn import Steps

PAGE = Path(__file__).parents[2] / "docs" / "decisions" / "0056-partial-order-reduction.md"
PAIRS = Case("tests/benchmarks/pairs", {"pairs": "3"})
SMALL = ("token_ring", "peterson", "token_snapshot", "waiting_list", "saga_mended", "pairs, pairs=3")


def _steps(case: Case) -> Steps:
    return Steps(case.load(), None, 10_000)


def test_what_never_meets_need_not_be_interleaved() -> None:
    m = measured(PAIRS)
    assert m.all == explore(PAIRS.load()).distinct == 6**3
    assert m.ends == m.visible == 3 * 5 + 1  # one pair after the other
    assert m.longer == (1, 1)  # but the first pair is not the one whose answer is waited for


def test_no_search_visits_more_than_all_states() -> None:
    m = measured(Case("two_phase_commit", {"participants": "2"}))
    assert m.all == explore(Case("two_phase_commit", {"participants": "2"}).load()).distinct
    assert m.ends < m.visible < m.all > m.goals
    assert m.ample == m.all


@pytest.mark.parametrize("system", ["tests/truth/tcommit", "tests/truth/dining_philosophers", "examples/outbox"])
def test_dependences_that_are_forgotten_are_found(system: str) -> None:
    steps = _steps(Case(system))
    steps.dependent = [0] * len(steps.actions)
    with pytest.raises(AssertionError, match="an end of runs is lost"):
        measure(steps)


def test_causes_that_are_forgotten_are_found() -> None:
    steps = _steps(Case("examples/waiting_list"))
    steps.writers = [{} for _ in steps.writers]
    with pytest.raises(AssertionError, match=r"lost|wrongly"):
        measure(steps)


def test_too_many_states_are_refused() -> None:
    with pytest.raises(ValueError, match="more than 100 states"):
        measured(PAIRS, most=100)


@pytest.mark.parametrize("name", SMALL)
def test_the_page_has_what_is_measured(name: str) -> None:
    case = next(c for c in CASES if str(c) == name)
    assert row(case, measured(case)) in PAGE.read_text()


def test_the_page_has_every_case() -> None:
    text = PAGE.read_text()
    assert partial_order.HEAD in text
    assert [str(c) for c in CASES if f"| {c} | " not in text] == []


@pytest.mark.skipif(shutil.which("spin") is None or shutil.which("cc") is None, reason="SPIN is not installed")
def test_spin_counts_the_same_steps() -> None:
    states = explore(Case("two_phase_commit", {"participants": "2"}).load()).distinct
    atomic = partial_order.commit_in_promela(2, atomic=True)
    assert partial_order.states_in_spin(atomic, reduced=False) == states
    assert states > partial_order.states_in_spin(atomic, reduced=True) > 0.9 * states
    statements = partial_order.commit_in_promela(2, atomic=False)
    assert partial_order.states_in_spin(statements, reduced=True) > states
