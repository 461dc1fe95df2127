"""Results of a verification as JUnit: the counts are those of the cases, whatever was found."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from leasehold.checker.explore import Exploration
from leasehold.checker.history.fault import UNDECIDED
from leasehold.checker.verify.result import HistoryResult
from leasehold.reports.verification import verification_junit, violation_text
from tests.reports.samples import history

ASKED = ("all_are_heard", "flies", "fine")


@pytest.fixture(scope="module")
def found(votes: Exploration) -> HistoryResult:
    return history(votes)


@pytest.mark.parametrize(
    ("violated", "broken", "missing", "not_asked"),
    [*product((0, 1, 2, 3), (False, True), (False, True), (False, True))],
)
def test_the_counts_are_those_of_the_cases(
    found: HistoryResult, violated: int, broken: bool, missing: bool, not_asked: bool
) -> None:
    kinds = [kind for kind, there in (("contradiction", broken), (UNDECIDED, missing)) if there]
    faults = [replace(found.faults[0], kind=kind, reason=f"it is {kind}") for kind in kinds]
    result = replace(
        found, violations=found.violations[:violated], faults=faults, not_asked=found.not_asked if not_asked else {}
    )
    told = [f"told {n}" for n in range(violated)]
    root = ET.fromstring(verification_junit("votes", "abc", ASKED, result, 1.5, told))
    (suite,) = root
    cases = {case.attrib["name"]: {part.tag: part for part in case} for case in suite.iter("testcase")}
    assert list(cases) == ["events", *ASKED, *(["is_decided"] if not_asked else [])]
    failed = {name for name, parts in cases.items() if "failure" in parts}
    skipped = {name for name, parts in cases.items() if "skipped" in parts}
    assert failed == {*({"events"} if broken else ()), *(v.of for v in result.violations)}
    assert skipped == {*({"events"} if missing and not broken else ()), *(["is_decided"] if not_asked else [])}
    for element in (root, suite):
        counts = [int(element.attrib[name]) for name in ("tests", "failures", "skipped", "errors")]
        assert counts == [len(cases), len(failed), len(skipped), 0]
    texts = "\n".join(parts["failure"].text or "" for name, parts in cases.items() if "failure" in parts)
    assert [word for word in told if word in texts] == told
    if broken:
        assert all(fault.reason in texts for fault in faults)  # what is missing, too


@pytest.mark.parametrize(
    ("part", "value", "line"),
    [
        ("doc", "Other words.", "  Other words."),
        ("source", "page 9", "  (page 9)"),
        ("claim", "a\nb", "    a|    b"),
        ("blame", None, None),
        ("now", None, "all_are_heard, v=voter[0] is violated in run <1>, cut 4"),
        ("now", 0, "all_are_heard, v=voter[0] is violated in run <1>, cut 4 at tick 0"),
        ("run", "r\x07", r"all_are_heard, v=voter[0] is violated in r\x07, cut 4 at tick 7"),
        ("events", (("a", 1),), "  led to by a 1"),
    ],
)
def test_each_part_of_a_violation_is_told(found: HistoryResult, part: str, value: Any, line: str | None) -> None:
    first = found.violations[0]
    other = replace(first, **{part: value})
    other.__dict__["path"] = first.path
    one, two = violation_text(first).splitlines(), violation_text(other).splitlines()
    if line is None:
        assert [known for known in one if known not in two] == [f"  {first.blame}"]
    else:
        assert [new for new in two if new not in one] == line.split("|")


@pytest.mark.parametrize("most", [None, 1, 2, 3, 9])
def test_the_last_events_are_told(found: HistoryResult, most: int | None) -> None:
    events = ["chair 1", "voter 2", "chair 3"]
    wanted = events if most is None else events[-most:]
    assert f"  led to by {', '.join(wanted)}" in violation_text(found.violations[0], most).splitlines()
