"""States counted as TLC counts them: specs of the public TLA+ examples, rewritten in this language.

The numbers stand in each folder's expected.yaml, with the model of tlaplus/Examples that they come from. Both distinct
and generated states must agree: the second also counts self-loops, repeated witnesses and steps out of the bounds.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from leasehold.checker.explore import explore
from leasehold.checker.explore.expectations import differences, expectation_for
from leasehold.spec import SHIPPED, shipped_folder
from tests.systems import TRUTH, load

# What TLC finds: (distinct, generated) for each setting.
KNOWN = {
    ("two_phase", "three"): (288, 1146),
    ("two_phase", "five"): (8832, 58146),
    ("two_phase", "seven"): (296448, 2744706),
    ("tcommit", "three"): (34, 94),
    ("simple_allocator", "three_by_two"): (400, 1633),
    ("server_allocator", "three_by_two"): (400, 1633),
    ("alternating_bit", "two_by_two"): (240, 1392),
    ("acp_sb", "three"): (54944, 218352),
    ("paxos_commit", "two_by_three"): (1321761, 16959159),
}


def _runs(folders: list[Path]) -> list[object]:
    found = []
    for file in (folder / "expected.yaml" for folder in folders):
        for name, run in (yaml.safe_load(file.read_text())["runs"] if file.exists() else {}).items():
            marks = [pytest.mark.slow] if run.get("slow") else []
            found.append(pytest.param(file.parent, name, marks=marks, id=f"{file.parent.name}-{name}"))
    return found


SYSTEMS = [*sorted(p for p in TRUTH.iterdir() if p.is_dir()), *(shipped_folder(n) for n in (*SHIPPED, "starter"))]


@pytest.mark.parametrize(("folder", "run"), _runs(SYSTEMS))
def test_finds_what_expected_yaml_says(folder: Path, run: str) -> None:
    settings = {n: str(v) for e in load(folder).expectations if e.name == run for n, v in e.settings.items()}
    system = load(folder, settings)
    expectation = expectation_for(system)
    assert expectation is not None
    assert expectation.name == run
    assert differences(explore(system), expectation) == ()


@pytest.mark.parametrize(("system", "run"), KNOWN)
def test_expected_yaml_has_the_known_counts(system: str, run: str) -> None:
    (numbers,) = [e.numbers for e in load(TRUTH / system).expectations if e.name == run]
    assert (numbers["distinct"], numbers["generated"]) == KNOWN[system, run]


def test_wrong_commit_disagrees() -> None:
    """ACP_NB_WRONG decides before it passes the decision on: the shortest way to disagree has twelve steps."""
    found = explore(load(TRUTH / "acp_nb_wrong"))
    (agreement,) = [p for p in found.properties if p.name == "agreement"]
    assert agreement.verdict == "violated"
    assert agreement.path is not None
    assert len(agreement.path) == 12
    decisions = {agreement.path.steps[-1].state.control[f"participant[{i}]"] for i in (0, 1)}
    assert decisions == {"commit", "abort"}
