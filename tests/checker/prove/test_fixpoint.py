"""Claims are left out until every step keeps the rest, whatever the solver answers, and whatever it gives up on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.checker.prove.decide.induction import (
    ROUNDS,
    Induction,
    Round,
    Setting,
    _largest,
    _StepQuery,
    _StepResult,
)

CLAIMS = tuple("abcde")
# What a step needs to know to keep a claim, and what is heard where it does not know that.
NEEDS = st.tuples(st.sets(st.sampled_from(CLAIMS), max_size=3), st.sampled_from(["broken", "unknown"]))
STEPS = st.lists(st.fixed_dictionaries(dict.fromkeys(CLAIMS, NEEDS)), min_size=1, max_size=4)


@dataclass(frozen=True)
class Solver:
    """A solver that knows what each step needs; `never` it decides, and keeps what needs no more than is known."""

    steps: list[dict[str, tuple[set[str], str]]]
    never: frozenset[tuple[int, str]]

    def answer(self, step: int, claim: str, known: set[str]) -> str:
        needed, otherwise = self.steps[step][claim]
        if (step, claim) in self.never:
            return "unknown"
        return "kept" if needed <= known else otherwise

    def __call__(self, queries: Iterable[_StepQuery]) -> Iterator[_StepResult]:
        for q in queries:
            told = {c: self.answer(q.step, c, {c, *q.known} if q.alone else {*q.asked, *q.known}) for c in q.asked}
            yield _StepResult(
                q.step,
                f"step {q.step}",
                tuple(c for c in told if told[c] == "broken"),
                {c: "it gave up" for c in told if told[c] == "unknown"},
                frozenset({need for c in told if told[c] == "kept" for need in self.steps[q.step][c][0]}),
                1,
                {},
            )

    def largest(self, asked: set[str], *, alone: bool) -> set[str]:
        """Returns the largest set, by trying again until nothing changes."""
        left = set(asked)
        while True:
            kept = {
                c
                for c in left
                if all(self.answer(n, c, {c} if alone else left) == "kept" for n in range(len(self.steps)))
            }
            if kept == left or alone:
                return kept
            left = kept


@given(STEPS, st.sets(st.tuples(st.integers(0, 3), st.sampled_from(CLAIMS)), max_size=3), st.sampled_from(ROUNDS))
@settings(max_examples=100)
def test_what_is_left_is_the_largest_set_that_every_step_keeps(
    steps: list[dict[str, tuple[set[str], str]]], never: set[tuple[int, str]], round_: Round
) -> None:
    solver = Solver(steps, frozenset(never))
    found = Induction(steps=len(steps))
    left = _largest(found, {*CLAIMS}, round_, Setting(), solver, None)
    assert left == solver.largest({*CLAIMS}, alone=round_.alone)
    assert {*CLAIMS} - left == {*found.broken_by, *found.undecided} - left  # each has a reason
