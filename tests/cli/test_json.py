"""--json: one value, with the keys that docs/reference/command_line.md names."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli import reference
from tests.cli.conftest import LIGHT, Run, as_json

SMALL = ("two_phase_commit", "--set", "participants=1")


def _same(found: dict[str, Any], documented: dict[str, str], maybe: set[str] = frozenset()) -> None:  # type: ignore[assignment]
    assert found.keys() | maybe == documented.keys() | maybe
    assert found.keys() <= documented.keys()


@pytest.mark.long
def test_explore_under_symmetry(run: Run) -> None:
    asked = ("explore", "two_phase_commit", "--set", "participants=2", "--symmetry", "--json")
    done = run(*asked, "--only", "agreement")
    assert done.stderr.startswith("leasehold: symmetry")
    found = json.loads(done.stdout)
    _same(found, {**reference.KEYS, **reference.SYMMETRY_KEYS})
    every = as_json(run("explore", "two_phase_commit", "--set", "participants=2", "--json"))
    assert "symmetry" not in every
    assert found["symmetry"] == {
        "groups": [["participant"]],
        "orbits": found["distinct"],
        "states": every["distinct"],
        "why_not": [],
    }
    assert found["distinct"] < every["distinct"]
    without = json.loads(run(*asked).stdout)
    assert (without["symmetry"]["orbits"], without["distinct"]) == (None, every["distinct"])
    assert "a_transaction_ends" in without["symmetry"]["why_not"][0]


def test_explore(run: Run) -> None:
    found = as_json(run("explore", "lease", "--set", "max_units=1", "--set", "last_end=2", "--json"))
    _same(found, reference.KEYS)
    assert (found["system"], found["constants"]["max_units"], found["constants"]["expiry"]) == ("lease", 1, True)
    assert len(found["spec_digest"]) == 64
    assert (found["product_states"], found["product_reachable"]) == (360, len(found["cells"]))
    assert found["generated"] > found["distinct"] > 0
    assert found["seconds"] > 0
    assert found["states_per_second"] > 0
    assert found["peak_memory_bytes"] > 1e6
    assert found["complete"] is True
    assert (found["holds"], {p["name"] for p in found["properties"] if p["verdict"] == "violated"}) == (
        False,
        {"a_lease_grows", "a_lease_shrinks"},
    )
    for p in found["properties"]:
        _same(p, reference.PROPERTY_KEYS, {"path", "failed", "binding"})
        if "path" in p:
            _same(p["path"], reference.PATH_KEYS)
            for step in p["path"]["steps"]:
                _same(step, reference.STEP_KEYS, {"channels"})
    extended = next(p for p in found["properties"] if p["name"] == "a_lease_is_extended")
    assert extended["path"]["steps"][0]["title"].startswith("service_manager: demand(units=1, ")
    assert "authority/priming#tick" in found["unvisited_transitions"]
    assert "ticket_changes_on_extension_only" in found["vacuous"]


def test_explore_within_limits(run: Run) -> None:
    found = as_json(run("explore", "lease", "--max-states", "50", "--json"))
    assert (found["complete"], found["why_incomplete"]) == (False, "stopped after 50 states")
    at_once = {"a_unit_is_replaced", "a_unit_is_lost_and_repaired"}  # a setting without losses shows them at once
    verdicts = {p["name"]: p["verdict"] for p in found["properties"]}
    assert {verdicts.pop(name) for name in at_once} == {"witnessed"}
    assert {*verdicts.values()} == {"bounded"}


def test_only_is_heeded(run: Run) -> None:
    found = as_json(run("explore", *SMALL, "--only", "agreement", "--json"))
    assert [p["name"] for p in found["properties"]] == ["agreement"]


def test_check(run: Run) -> None:
    found = as_json(run("check", *SMALL, "--json"))
    _same(found, {**reference.KEYS, **reference.CHECK_KEYS})
    assert (found["setting"], found["differences"], found["as_expected"]) == ("one", [], True)


@pytest.mark.long
def test_check_all(run: Run) -> None:
    done = run("check", "three_phase_commit", "--all", "--json")
    found = as_json(done)
    assert done.returncode == 0
    _same(found, {**reference.KEYS, **reference.CHECK_KEYS, **reference.ALL_KEYS})
    assert [r["setting"] for r in found["runs"]][:1] == [found["setting"]]


def test_check_says_what_differs(run: Run, light: Path) -> None:
    (light / "expected.yaml").write_text("runs: {one: {distinct: 3}}\n")
    done = run("check", "light", "--json")
    assert done.returncode == 1
    found = as_json(done)
    assert found["differences"] == [{"what": "distinct", "expected": "3", "found": "2", "explain_under": ""}]
    assert (found["as_expected"], found["holds"]) == (False, True)


def test_report(run: Run, light: Path) -> None:
    found = as_json(run("report", "light", "--format", "json", "--json"))
    _same(found, reference.REPORT_KEYS)
    assert found == {"files": ["report-light/report.json"], "notes": [], "holds": True}


def test_explore_under_another_fairness(run: Run) -> None:
    assert "fairness" not in as_json(run("explore", "two_phase_commit", "--json"))
    done = run("explore", "two_phase_commit", "--fairness", "none", "--json")
    found = as_json(done)
    assert done.returncode == 1
    assert found["fairness"] == "none"
    reasons = {p["kind"]: p["reason"] for p in found["properties"] if p["verdict"] == "violated"}
    assert set(reasons) == {"leads_to"}
    assert reasons["leads_to"].endswith("; as declared, this holds")


def test_explore_with_faults(run: Run) -> None:
    found = as_json(run("explore", *SMALL, "--faults", "crash=1", "--json"))
    _same(found, {**reference.KEYS, **reference.FAULT_KEYS})
    assert found["faults"] == "crash=1"
    assert found["convergence"]["converges"] is True
    assert found["convergence"]["recovery_states"] > 0


def test_crash(run: Run) -> None:
    found = as_json(run("crash", *SMALL, "--faults", "crash=1", "--json"))
    _same(found, {**reference.CRASH_KEYS, **reference.CRASH_CELL_KEYS})
    assert (found["system"], found["faults"], found["constants"]) == (
        "two_phase_commit",
        "crash=1",
        {"participants": 1},
    )
    assert (found["converges"], found["complete"], found["holds"], found["why_incomplete"]) == (True, True, True, "")
    assert found["distinct"] == found["legal_states"] + found["recovery_states"]
    assert 0 < found["crash_points"] <= found["crash_points_total"]
    assert found["scenarios"] == sum(sum(cell["cases"].values()) for cell in found["cells"])
    for p in found["properties"]:
        _same(p, {**reference.PROPERTY_KEYS, "weakest": ""}, {"path", "failed", "binding"})


@pytest.mark.long
def test_crash_deep(run: Run) -> None:
    found = as_json(run("crash", "deep", *SMALL, "--hours", "0.001", "--json"))
    _same(found, {**reference.CRASH_KEYS, **reference.CRASH_CELL_KEYS, **reference.DEEP_KEYS})
    assert found["budgets"][0]["faults"] == "crash=2,duplicate=1,lose=1"
    whole = [b["faults"] for b in found["budgets"] if b["complete"]]
    assert found["faults"] == (whole or [found["budgets"][0]["faults"]])[-1]


def test_a_case_of_a_crash(run: Run) -> None:
    case = ("asking/voting", "crash:participant/voting#after-commit")
    found = as_json(run("crash", "case", *SMALL, *case, "--faults", "crash=1", "--json"))
    _same(found, reference.CASE_KEYS)
    _same(found["path"], reference.PATH_KEYS)
    assert (found["case"], found["mode"]) == (["asking", "voting"], "any")
    assert found["point"] in [step["event"] for step in found["path"]["steps"]]


def test_crash_points(run: Run) -> None:
    found = as_json(run("crash", "points", "lease", "--json"))
    _same(found, reference.POINTS_KEYS)
    assert "crash:authority/priming#after-commit" in [p["name"] for p in found["crash_points"]]


@pytest.mark.long
def test_check_with_faults(run: Run, light: Path) -> None:
    system = light / "system.yaml"
    assert as_json(run("check", "light", "--json"))["crash"] is None
    system.write_text(system.read_text() + "faults: {check: crash=1}\n")
    found = as_json(run("check", "light", "--json"))
    _same(found["crash"], {**reference.CRASH_KEYS, **reference.CHECK_CRASH_KEYS})
    assert (found["crash"]["faults"], found["crash"]["converges"]) == ("crash=1", True)
    assert as_json(run("check", "light", "--no-crash", "--json"))["crash"] is None


def test_bad_faults(run: Run) -> None:
    done = run("explore", *SMALL, "--faults", "crush=1")
    assert done.returncode == 2
    assert "did you mean crash" in done.stderr


@pytest.mark.parametrize("verb", ["check", "explore", "lint", "report"])
def test_a_bad_spec(verb: str, run: Run, light: Path) -> None:
    (light / "roles/light.yaml").write_text(LIGHT["roles/light.yaml"].replace("to: bright", "to: brihgt"))
    done = run(verb, "light", "--json")
    assert done.returncode == 2
    found = as_json(done)
    _same(found, reference.ERROR_KEYS)
    assert found["errors"] == len(found["diagnostics"]) == 1
    _same(found["diagnostics"][0], reference.DIAGNOSTIC_KEYS)
    assert {k: found["diagnostics"][0][k] for k in ("code", "file", "line", "near")} == {
        "code": "LH404",
        "file": "light/roles/light.yaml",
        "line": 4,
        "near": "`bright`",
    }


def test_lint_as_sarif(run: Run, light: Path) -> None:
    (light / "roles/light.yaml").write_text(LIGHT["roles/light.yaml"].replace("to: bright", "to: brihgt"))
    done = run("lint", "light", "--sarif")
    assert done.returncode == 2
    assert [r["ruleId"] for r in as_json(done)["runs"][0]["results"]] == ["LH404"]
