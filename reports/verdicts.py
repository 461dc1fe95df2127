"""The verdicts of an exploration as a whole, given the expectations of the system for its present setting.

A system may say that a property is violated, with the reason (two-phase commit blocks: that is its point), and why a
transition is never taken. Such a violation is shown with its path like any other, but it is no failure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from leasehold.checker.explore import Exploration, PropertyResult
from leasehold.checker.explore.expectations import expectation_for
from leasehold.checker.explore.result import Verdict

WORDS: Mapping[Verdict, str] = {
    "exhausted": "holds",
    "witnessed": "witnessed",
    "violated": "violated",
    "bounded": "bounded",
    "unasked": "not checked",
}


OPEN: frozenset[Verdict] = frozenset(("bounded", "unasked"))  # neither holds nor is contradicted


@dataclass(frozen=True, slots=True)
class Expected:
    """The expectations in expected.yaml for the present setting, each with its reason; empty if there are none."""

    setting: str
    doc: str
    violated: Mapping[str, str]
    untested: Mapping[str, str]  # transitions that are never taken, properties without a case


def expectations(exploration: Exploration) -> Expected:
    """The expectations of the system for its present setting."""
    expectation = expectation_for(exploration.system)
    if expectation is None:
        return Expected("", "", {}, {})
    untested = {
        **expectation.shared_unvisited,
        **expectation.shared_vacuous,
        **expectation.unvisited,
        **expectation.vacuous,
    }
    return Expected(expectation.name, expectation.doc, expectation.violated, untested)


def failures(exploration: Exploration) -> tuple[PropertyResult, ...]:
    """The properties that are violated and should not be."""
    expected = expectations(exploration).violated
    return tuple(p for p in exploration.properties if p.verdict == "violated" and p.name not in expected)


def failures_first(exploration: Exploration) -> list[PropertyResult]:
    """The properties: failures, then undecided ones, then expected violations, then the rest as declared."""
    failed = failures(exploration)
    order: dict[Verdict, int] = {"bounded": 1, "unasked": 1, "violated": 2}
    return sorted(exploration.properties, key=lambda p: 0 if p in failed else order.get(p.verdict, 3))


def why_open(exploration: Exploration, result: PropertyResult) -> str:
    """Returns what an open property lacks, and why, as reports for other programs say it."""
    if result.verdict == "unasked":
        return f"not checked: {result.reason}"
    why = result.reason or exploration.why_incomplete or "the exploration was cut short"
    return f"not contradicted, not exhausted: {why}"


def headline(exploration: Exploration) -> tuple[Verdict, str]:
    """The worst verdict, and what all of them come to in a sentence."""
    total = len(exploration.properties)
    failed = len(failures(exploration))
    bounded = sum(p.verdict == "bounded" for p in exploration.properties)
    unasked = sum(p.verdict == "unasked" for p in exploration.properties)
    as_expected = sum(p.verdict == "violated" for p in exploration.properties) - failed
    rest = f" {as_expected} violated, as expected." if as_expected else ""
    if failed:
        return "violated", f"{failed} of {_properties(total)} violated.{rest}"
    if bounded:
        return "bounded", f"Nothing fails; {bounded} of {_properties(total)} could not be exhausted.{rest}"
    if unasked:
        return "unasked", f"Nothing fails; {unasked} of {_properties(total)} could not be asked.{rest}"
    if not total:
        return "exhausted" if exploration.complete else "bounded", "The system has no properties."
    if as_expected:
        return "exhausted", f"{total - as_expected} of {_properties(total)} hold within the explored bounds;{rest}"
    return "exhausted", f"All {_properties(total)} hold within the explored bounds."


def _properties(number: int) -> str:
    return "1 property" if number == 1 else f"{number} properties"
