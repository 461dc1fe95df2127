"""SARIF 2.1.0, as far as it can be checked here: SUBSET says of the standard's schema what these logs use."""

import json
from dataclasses import replace
from pathlib import Path as FilePath

import jsonschema
import pytest

from leasehold.reports.json_report import dumps
from leasehold.reports.sarif import diagnostics_sarif, sarif
from leasehold.spec.language.diagnostics import NOWHERE, Diagnostic, Place, SpecError
from leasehold.spec.language.load import load


def record(required, **properties):
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


def rows(of, **more):
    return {"type": "array", "items": of, **more}


TEXT = {"type": "string", "minLength": 1}
COUNT = {"type": "integer", "minimum": 0}
ONE = {"type": "integer", "minimum": 1}
MESSAGE = record(["text"], text=TEXT)
LOCATION = record(
    [],
    physicalLocation=record(
        ["artifactLocation"],
        artifactLocation=record(["uri"], uri={"type": "string", "format": "uri-reference", "pattern": r"^[^\s\\]+$"}),
        region=record(["startLine"], startLine=ONE, startColumn=ONE),
    ),
    message=MESSAGE,
)
SUPPRESSION = record(["kind"], kind={"enum": ["inSource", "external"]}, justification=TEXT)
STEP = record([], executionOrder=COUNT, location=LOCATION, state={"type": "object", "additionalProperties": MESSAGE})
RESULT = record(
    ["message"],
    ruleId=TEXT,
    ruleIndex=COUNT,
    level={"enum": ["none", "note", "warning", "error"]},
    kind={"enum": ["notApplicable", "pass", "fail", "review", "open", "informational"]},
    message=MESSAGE,
    locations=rows(LOCATION, maxItems=1),
    suppressions=rows(SUPPRESSION),
    partialFingerprints={"type": "object", "additionalProperties": {"type": "string"}},
    codeFlows=rows(record(["threadFlows"], threadFlows=rows(record(["locations"], locations=rows(STEP, minItems=1))))),
)
RULE = record(["id"], id=TEXT, shortDescription=MESSAGE)
DRIVER = record(["name"], name=TEXT, semanticVersion={"pattern": r"^\d+\.\d+\.\d+"}, rules=rows(RULE, uniqueItems=True))
RUN = record(
    ["tool"],
    tool=record(["driver"], driver=DRIVER),
    invocations=rows(record(["executionSuccessful"], executionSuccessful={"type": "boolean"})),
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
    results=rows(RESULT),
)
SUBSET = record(["version", "runs"], **{"$schema": {"format": "uri"}}, version={"const": "2.1.0"}, runs=rows(RUN))


def run_of(log):
    jsonschema.validate(json.loads(dumps(log)), SUBSET)
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        # A result that is no failure has no level: the standard's 3.27.10.
        assert ("kind" in result and result["kind"] != "fail") == (result["level"] == "none")
    return run


def test_violations_are_errors_where_the_property_stands(votes):
    results = {r["ruleId"]: r for r in run_of(sarif(votes))["results"]}
    assert list(results) == ["property/all_are_heard", "property/flies", "property/is_carried"]
    found = results["property/all_are_heard"]
    assert found["level"] == "error"
    assert "suppressions" not in found
    assert results["property/is_carried"]["suppressions"] == [
        {"kind": "external", "justification": "expected.yaml: voters may say no | </script>"}
    ]
    place = found["locations"][0]["physicalLocation"]
    file = FilePath(place["artifactLocation"]["uri"].removeprefix("file://"))
    assert file.read_text().splitlines()[place["region"]["startLine"] - 1].strip() == "all_are_heard:"


def test_a_path_is_a_code_flow_through_the_transitions(votes):
    found = next(r for r in run_of(sarif(votes))["results"] if r["ruleId"] == "property/all_are_heard")
    (flow,) = found["codeFlows"]
    steps = flow["threadFlows"][0]["locations"]
    assert [s["location"]["message"]["text"] for s in steps] == ["chair: start", "now 1", "chair: tick"]
    assert steps[0]["location"]["physicalLocation"]["artifactLocation"]["uri"].endswith("/roles/chair.yaml")
    assert steps[-1]["state"]["chair"] == {"text": "rejected"}


def test_what_was_cut_short_is_open(many):
    found = next(r for r in run_of(sarif(many))["results"] if r["ruleId"] == "property/carried_by_all")
    assert (found["level"], found["kind"]) == ("none", "open")
    assert "stopped after 3,000 states" in found["message"]["text"]


def test_nothing_wrong_is_an_empty_log(lease):
    holding = replace(lease, properties=tuple(p for p in lease.properties if p.verdict != "violated"))
    assert run_of(sarif(replace(holding, system=replace(lease.system, warnings=()))))["results"] == []


def test_the_findings_of_the_loader(tmp_path):
    (tmp_path / "system.yaml").write_text("system: x\nroles: {}\nnonsense: 1\n")
    with pytest.raises(SpecError) as caught:
        load(tmp_path)
    run = run_of(diagnostics_sarif(caught.value.diagnostics))
    assert {r["ruleId"] for r in run["results"]} >= {"LH201"}
    assert all(rule["shortDescription"]["text"] for rule in run["tool"]["driver"]["rules"])
    unknown = next(r for r in run["results"] if r["ruleId"] == "LH201")
    assert unknown["locations"][0]["physicalLocation"]["region"]["startLine"] == 3
    assert "remedy" in unknown["message"]["text"]


@pytest.mark.parametrize(
    ("file", "uri"),
    [
        ("lease/system.yaml", "lease/system.yaml"),
        ("a folder/ü#1?.yaml", "a%20folder/%C3%BC%231%3F.yaml"),
        ("/tmp/a b.yaml", "file:///tmp/a%20b.yaml"),
    ],
)
def test_files_become_uris(file, uri):
    log = diagnostics_sarif([Diagnostic("LH105", Place(file, 3, 7), "it is empty")])
    (result,) = run_of(log)["results"]
    assert result["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": uri},
        "region": {"startLine": 3, "startColumn": 7},
    }


def test_what_stands_in_no_file_has_no_place():
    log = diagnostics_sarif([Diagnostic("LH701", NOWHERE, "no such constant", "`units`", "see the list", "warning")])
    (result,) = run_of(log)["results"]
    assert "locations" not in result
    assert result["message"]["text"] == "no such constant; did you mean `units`?; remedy: see the list"
    assert result["level"] == "warning"
