"""Statements of docs/howto/coming_from_tla.md on this language, tried."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.explore.graph.fairness import Fairness
from tests.systems import TESTS, edited, files_of, load, written

MARKING = files_of("tutorial/systems/marking")


def test_the_words_on_the_right_mean_those_on_the_left() -> None:
    found = explore(load(TESTS / "tutorial/systems/marking"))
    assert {p.verdict for p in found.properties} == {"exhausted", "witnessed"}
    below = sum(s[1] < 3 for s in found.paths.states)  # m.n
    assert found.generated == 1 + 2 * below  # two witnesses in each
    assert found.depth == 3


def test_invariants_are_not_evaluated_outside_a_constraint(tmp_path: Path) -> None:
    files = {**MARKING, "invariants.yaml": "properties: {small: {always: m.n < 3}}\n"}
    assert [p.verdict for p in explore(written(tmp_path / "all", files)).properties] == ["violated"]
    some = edited(files, ("environment:", "constraint: m.n < 3\nenvironment:"))
    bounded = explore(written(tmp_path / "some", some))
    assert [p.verdict for p in bounded.properties] == ["exhausted"]
    assert bounded.cut > 0


@pytest.mark.parametrize(
    ("fair", "fairness", "verdict"),
    [
        ("true", Fairness.SPEC, "violated"),
        ("strong", Fairness.SPEC, "exhausted"),
        ("true", Fairness.STRONG, "exhausted"),
    ],
)
def test_fairness_is_weak_or_strong(fair: str, fairness: Fairness, verdict: str, tmp_path: Path) -> None:
    """The way out is possible again and again."""
    made = written(tmp_path, edited(files_of("tutorial/systems/leaving"), ("fair: true", f"fair: {fair}")))
    assert [p.verdict for p in explore(made, fairness=fairness).properties] == [verdict]
