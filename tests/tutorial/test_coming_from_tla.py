"""Statements of docs/howto/coming_from_tla.md on this language, tried."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.explore.graph.fairness import Fairness
from tests.checker.export.tlc import COUNTS, MODULE, run
from tests.systems import TESTS, edited, files_of, load, written

PAGE = (TESTS.parent / "docs/howto/coming_from_tla.md").read_text()
((NAME, VOTES),) = re.findall(r"<!-- module (\w+) -->\n```text\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
CONSTANTS = ["CONSTANTS Node = {n1, n2, n3}  None = None  Most = 2", "SPECIFICATION Spec", "INVARIANT OneLeader"]
SAME = 229, 445  # distinct and generated states, as the page has them of the system

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


def counts(text: str, *settings: str) -> tuple[int, int]:
    """Returns TLC's distinct and generated states of the page's module."""
    printed = run(text.replace(f"MODULE {NAME}", f"MODULE {MODULE}"), [*CONSTANTS, *settings])
    assert "Error" not in printed, printed
    generated, distinct = map(int, COUNTS.findall(printed)[-1])
    return distinct, generated


def replaced(old: str, new: str) -> str:
    assert VOTES.count(old) == 1
    return VOTES.replace(old, new)


WINS = r"\E Q \in Quorum : \A n \in Q : vote[n] = c"


@pytest.mark.long
@pytest.mark.usefixtures("tlc")
@pytest.mark.parametrize(
    ("guard", "more"),
    [
        (WINS, 9),
        (f"({WINS}) = TRUE", 0),
        (f"IF {WINS} THEN TRUE ELSE FALSE", 0),
        (r"~(\A Q \in Quorum : \E n \in Q : vote[n] # c)", 0),
        (f"(({WINS}) = TRUE \\/ ({WINS}) = TRUE)", 30),  # each step that wins twice
        (f"(TRUE => ({WINS}) = TRUE \\/ ({WINS}) = TRUE)", 30),
    ],
    ids=["witnesses", "equal", "if", "not", "or", "implies"],
)
def test_tlc_counts_witnesses_and_disjuncts(guard: str, more: int) -> None:
    assert counts(replaced(WINS, guard), "PROPERTY LogsGrow") == (SAME[0], SAME[1] + more)


@pytest.mark.long
@pytest.mark.usefixtures("tlc")
def test_tlc_counts_steps_that_an_action_constraint_excludes() -> None:
    """A guard leaves them out: as many states, and fewer generated."""
    bounded = replaced("/\\ Len(log[c]) < Most", "").replace(
        "====\n", "Short == \\A n \\in Node : Len(log'[n]) <= Most\n====\n"
    )
    distinct, generated = counts(bounded.replace(WINS, f"({WINS}) = TRUE"), "ACTION_CONSTRAINT Short")
    assert distinct == SAME[0]
    assert generated > SAME[1]
