"""Differences from expected.yaml are said in both directions; explanations are patterns of names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.checker.explore import Exploration, Limits, explore
from leasehold.checker.explore.expectations import (
    NUMBERS,
    Difference,
    Explanation,
    counts,
    differences,
    expectation_for,
    explanations_of,
    fits_pattern,
)
from leasehold.spec.language.diagnostics import Sink
from leasehold.spec.language.expectation import Expectation
from leasehold.spec.language.read.source import read_file
from tests.systems import load

Change = Callable[[Exploration, Expectation], tuple[Exploration, Expectation | None]]
PROPERTY, TAKEN, NEVER = "agreement", "coordinator/idle#begin", "participant/working#abort"


@pytest.fixture(scope="module")
def one() -> tuple[Exploration, Expectation]:
    found = explore(load("two_phase_commit", {"participants": 1}))
    expected = expectation_for(found.system)
    assert expected is not None
    return found, expected


def with_verdict(found: Exploration, name: str, verdict: str) -> Exploration:
    changed = [replace(p, verdict=verdict) if p.name == name else p for p in found.properties]  # type: ignore[arg-type]
    return replace(found, properties=tuple(changed))


def test_what_is_expected_is_no_difference(one: tuple[Exploration, Expectation]) -> None:
    found, expected = one
    assert expected.name == "one"
    assert differences(found, expected) == ()
    assert {p.name for p in found.properties} >= {PROPERTY}
    assert found.taken[TAKEN]
    assert NEVER in found.unvisited_transitions
    assert NEVER in expected.shared_unvisited


CHANGES: dict[str, tuple[Change, list[Difference]]] = {
    "violated": (
        lambda f, e: (with_verdict(f, PROPERTY, "violated"), e),
        [Difference(PROPERTY, "to hold", "violated")],
    ),
    "violated as expected": (
        lambda f, e: (with_verdict(f, PROPERTY, "violated"), replace(e, violated={PROPERTY: "why"})),
        [],
    ),
    "holds": (lambda f, e: (f, replace(e, violated={PROPERTY: "why"})), [Difference(PROPERTY, "violated", "holds")]),
    "cut short": (
        lambda f, e: (replace(f, complete=False, why_incomplete="no time"), replace(e, violated={"z": "w"})),
        [Difference("z", "violated", "not violated"), Difference("exploration", "complete", "no time")],
    ),
    "never taken": (
        lambda f, e: (replace(f, taken={**f.taken, TAKEN: 0}), e),
        [Difference(TAKEN, "an explanation in expected.yaml", "never taken", "unvisited")],
    ),
    "never taken as explained": (
        lambda f, e: (replace(f, taken={**f.taken, TAKEN: 0}), replace(e, unvisited={**e.unvisited, TAKEN: "why"})),
        [],
    ),
    "taken": (
        lambda f, e: (f, replace(e, unvisited={**e.unvisited, TAKEN: "why"})),
        [Difference(TAKEN, "never taken", "taken")],
    ),
    "taken, as some settings do": (
        lambda f, e: (f, replace(e, shared_unvisited={**e.shared_unvisited, TAKEN: "where it applies"})),
        [],
    ),
    "vacuous": (
        lambda f, e: (replace(f, vacuous=(PROPERTY,)), e),
        [Difference(PROPERTY, "an explanation in expected.yaml", "vacuous", "vacuous")],
    ),
    "vacuous as explained": (
        lambda f, e: (replace(f, vacuous=(PROPERTY,)), replace(e, vacuous={PROPERTY: "why"})),
        [],
    ),
    "vacuous as everywhere": (
        lambda f, e: (replace(f, vacuous=(PROPERTY,)), replace(e, shared_vacuous={PROPERTY: "why"})),
        [],
    ),
    "not vacuous": (
        lambda f, e: (f, replace(e, vacuous={PROPERTY: "why"})),
        [Difference(PROPERTY, "vacuous", "not vacuous")],
    ),
    "explained as something else": (
        lambda f, e: (replace(f, vacuous=(PROPERTY,)), replace(e, unvisited={**e.unvisited, PROPERTY: "why"})),
        [
            Difference(PROPERTY, "never taken", "taken"),
            Difference(PROPERTY, "an explanation in expected.yaml", "vacuous", "vacuous"),
        ],
    ),
    "several": (
        lambda f, e: (f, replace(e, violated={"z": "w", "a": "w"}, numbers={"depth": 1200, "distinct": f.distinct})),
        [Difference("a", "violated", "holds"), Difference("z", "violated", "holds"), Difference("depth", "1,200", "6")],
    ),
    # Without an expectation nothing is expected to fail, and what is explained for every setting is explained.
    "a setting that is not listed": (
        lambda f, e: (with_verdict(f, PROPERTY, "violated"), None),
        [
            Difference(PROPERTY, "to hold", "violated"),
            *(
                Difference(name, "an explanation in expected.yaml", "never taken", "unvisited")
                for name in (
                    "coordinator/aborting#acknowledge.2",
                    "coordinator/asking#agree.2",
                    "coordinator/committing#acknowledge.2",
                )
            ),
        ],
    ),
}


@pytest.mark.parametrize("case", CHANGES)
def test_each_difference_is_said(case: str, one: tuple[Exploration, Expectation]) -> None:
    change, wanted = CHANGES[case]
    assert list(differences(*change(*one))) == wanted


@pytest.mark.parametrize("number", NUMBERS)
def test_each_number_is_compared(number: str, one: tuple[Exploration, Expectation]) -> None:
    """With the figure of its own: no two numbers of this exploration could stand for each other."""
    found, expected = one
    figures = {
        "product": replace(found, product_states=99_999),
        "reachable": replace(found, cells=found.cells[:-1]),
        **{n: replace(found, **{n: 99_999}) for n in NUMBERS if n not in ("product", "reachable")},
    }
    every = replace(expected, numbers=counts(found))
    assert differences(found, every) == ()
    (difference,) = differences(figures[number], every)
    assert (difference.what, difference.expected) == (number, f"{counts(found)[number]:,}")
    assert difference.found == f"{counts(figures[number])[number]:,}"
    assert str(difference) == f"{number}: expected {difference.expected}, found {difference.found}"
    left = {n: value for n, value in counts(found).items() if n != number}
    assert differences(figures[number], replace(expected, numbers=left)) == ()


def test_the_expectation_is_that_of_the_setting() -> None:
    """Constants that a run does not set have their declared values, whichever those are at present."""
    for settings, name in (({}, "three"), ({"participants": 3}, "three"), ({"participants": 1}, "one")):
        expected = expectation_for(load("two_phase_commit", settings))
        assert expected is not None
        assert expected.name == name
    assert expectation_for(load("two_phase_commit", {"participants": 4})) is None
    lease = load("lease", {"max_units": 1, "expiry": False})
    shown = {name: constant.value for name, constant in lease.constants.items()}
    run = replace(lease.expectations[0], settings=shown)
    assert expectation_for(replace(lease, expectations=(run,))) == run
    for name, value in shown.items():  # each counts
        other = {**shown, name: not value if isinstance(value, bool) else 77}
        assert expectation_for(replace(lease, expectations=(replace(run, settings=other),))) is None
    few = replace(run, settings={"max_units": 1, "expiry": False})
    assert expectation_for(replace(lease, expectations=(few,))) == few
    words = {name: str(value).lower() for name, value in shown.items()}
    assert expectation_for(replace(lease, expectations=(replace(run, settings=words),))) is not None


def test_a_search_that_was_cut_short_has_no_numbers() -> None:
    found = explore(load("two_phase_commit"), Limits(depth=2))
    (difference,) = differences(found, expectation_for(found.system))
    assert difference == Difference("exploration", "complete", "stopped at depth 2")


# Explanations

letters = st.text("ab.[#?", max_size=5)


@given(letters, st.lists(letters, min_size=1, max_size=4), st.lists(letters, max_size=4))
def test_a_star_stands_for_any_letters_and_nothing_else_does(name: str, parts: list[str], filled: list[str]) -> None:
    pattern = "*".join(parts)
    assert fits_pattern(name, pattern) == _fits(name, pattern)
    between = [*filled, *[""] * len(parts)]
    made = "".join(part + between[n] for n, part in enumerate(parts[:-1])) + parts[-1]
    assert fits_pattern(made, pattern)
    assert Explanation(pattern, "why").fits(made)


def _fits(name: str, pattern: str) -> bool:
    """Tries every length that the first star may have."""
    head, star, rest = pattern.partition("*")
    if not star:
        return name == pattern
    return name.startswith(head) and any(_fits(name[n:], rest) for n in range(len(head), len(name) + 1))


def test_explanations_are_read_and_each_has_to_fit_something(tmp_path: Path) -> None:
    (tmp_path / "said.yaml").write_text("unmet:\n  a/*: >\n    it is\n    so\n  a/b: b\n  c/d: none\n")
    sink = Sink()
    node = read_file(tmp_path / "said.yaml", "said.yaml", sink)
    assert node is not None
    found = explanations_of(node.get("unmet"), iter(["a/b", "c/dd"]), "crash point", "remove it", sink)
    assert found == (Explanation("a/*", "it is so"), Explanation("a/b", "b"), Explanation("c/d", "none"))
    (error,) = sink.errors
    assert (error.code, error.what, error.near) == ("LH602", "there is no crash point `c/d`", "`c/dd`")
    assert (error.place.line, found[0].place.line, error.remedy) == (6, 2, "remove it")
    assert explanations_of(None, [], "crash point", "", sink) == ()
