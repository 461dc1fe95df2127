import xml.etree.ElementTree as ET
from dataclasses import replace
from typing import get_args

import pytest

from leasehold.checker.explore.result import Verdict
from leasehold.reports.junit import junit
from leasehold.reports.markdown import markdown
from leasehold.reports.sarif import sarif
from leasehold.reports.verdicts import expectations, failures, headline


def only(exploration, *verdicts):
    kept = tuple(p for p in exploration.properties if p.verdict in verdicts)
    return replace(exploration, properties=kept)


def test_what_the_system_says_itself(votes, fault_free):
    assert expectations(votes).setting == "default"
    assert dict(expectations(votes).violated) == {"is_carried": "voters may say no | </script>"}
    assert "voter/voted#question" in expectations(votes).untested
    assert expectations(fault_free).setting == ""


@pytest.mark.parametrize("kind", ["unvisited", "vacuous"])
def test_the_reason_of_a_setting_comes_before_the_one_of_all_settings(votes, kind):
    (one,) = votes.system.expectations
    told = {f"shared_{kind}": {"a": "shared", "b": "shared"}, kind: {"b": "its own", "c": "its own"}}
    bare = {name: {} for name in ("unvisited", "vacuous", "shared_unvisited", "shared_vacuous")}
    other = replace(votes, system=replace(votes.system, expectations=(replace(one, **(bare | told)),)))
    assert dict(expectations(other).untested) == {"a": "shared", "b": "its own", "c": "its own"}


def test_a_violation_that_is_meant_is_no_failure(votes, fault_free):
    assert [p.name for p in failures(votes)] == ["all_are_heard", "flies"]
    assert [p.name for p in failures(fault_free)] == ["all_are_heard", "flies", "is_carried"]


def test_the_headline(votes, lease, many):
    assert headline(votes) == ("violated", "2 of 8 properties violated. 1 violated, as expected.")
    assert headline(only(votes, "exhausted")) == ("exhausted", "All 4 properties hold within the explored bounds.")
    assert headline(only(many, "bounded"))[0] == "bounded"
    assert headline(replace(votes, properties=())) == ("exhausted", "The system has no properties.")
    kept = tuple(p for p in votes.properties if p.name in {"carried_by_all", "is_carried"})
    assert headline(replace(votes, properties=kept)) == (
        "exhausted",
        "1 of 2 properties hold within the explored bounds; 1 violated, as expected.",
    )


@pytest.mark.parametrize("verdict", get_args(Verdict))
def test_only_what_holds_looks_as_if_it_did(fault_free, verdict):
    """No report takes a property that was not decided, or not asked at all, for one that holds."""
    one = replace(fault_free.properties[0], verdict=verdict, path=None, reason="as it had to be")
    found = replace(fault_free, properties=(one,))
    holds = verdict in ("exhausted", "witnessed")
    assert headline(found)[1].startswith("All 1 property hold") == holds
    (case,) = ET.fromstring(junit(found)).iter("testcase")
    (suite,) = ET.fromstring(junit(found))
    assert [part.tag for part in case] == ([] if holds else ["failure" if verdict == "violated" else "skipped"])
    assert int(suite.attrib["failures"]) + int(suite.attrib["skipped"]) == len(case)
    told = [r for r in sarif(found)["runs"][0]["results"] if r["ruleId"] == f"property/{one.name}"]
    assert len(told) == (not holds)
    (row,) = (line for line in markdown(found).splitlines() if line.startswith("|") and f"`{one.name}`" in line)
    assert ("as it had to be" in row) == (not holds)
    for text in ("" if holds else ET.tostring(case, encoding="unicode"), str(told)):
        assert ("as it had to be" in text) == (not holds)
