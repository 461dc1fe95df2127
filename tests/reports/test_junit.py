import xml.etree.ElementTree as ET
from dataclasses import replace

from leasehold.reports.junit import junit


def suite_of(exploration):
    root = ET.fromstring(junit(exploration))
    assert root.tag == "testsuites"
    return root.find("testsuite")


def test_each_property_is_a_test_case(votes):
    suite = suite_of(votes)
    cases = {case.attrib["name"]: case for case in suite.iter("testcase")}
    assert list(cases) == [p.name for p in votes.properties]
    assert {k: suite.attrib[k] for k in ("tests", "failures", "errors", "skipped")} == {
        "tests": "8",
        "failures": "2",
        "errors": "0",
        "skipped": "1",
    }
    assert [name for name, case in cases.items() if case.find("failure") is not None] == [
        "all_are_heard",
        "flies",
    ]
    assert cases["is_carried"].find("skipped").attrib["message"] == (
        "violated, as expected: voters may say no | </script>"
    )


def test_a_failure_has_its_path(votes):
    failure = suite_of(votes).find("testcase[@name='all_are_heard']/failure")
    assert "A result needs every `vote` | really. </script>" in failure.text
    assert "3  chair: tick  (chair/asking#tick)" in failure.text
    none = suite_of(votes).find("testcase[@name='flies']/failure")
    assert "no path" in none.text
    assert none.attrib["message"] == "no reachable state shows it"


def test_what_was_cut_short_is_skipped_not_passed(many):
    suite = suite_of(many)
    skipped = suite.find("testcase[@name='carried_by_all']/skipped")
    assert "stopped after 3,000 states" in skipped.attrib["message"]
    assert int(suite.attrib["skipped"]) == len(suite.findall("testcase/skipped"))


def test_what_xml_cannot_hold_is_escaped(votes, words):
    nasty = replace(votes.properties[0], name=words, doc=f"{words}\ud800", reason=words)
    case = next(suite_of(replace(votes, properties=(nasty,))).iter("testcase"))
    assert r"\x07" in case.attrib["name"]
    assert "\x07" not in case.attrib["name"]
