"""States counted as TLC counts them: specs of the public TLA+ examples, rewritten in this language.

The numbers stand in each folder's expected.yaml, with the model of tlaplus/Examples that they come from. Both distinct
and generated states must agree: the second also counts self-loops, repeated witnesses and steps out of the bounds.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from leasehold.checker.explore import explore
from leasehold.checker.explore.expectations import differences, expectation_for
from leasehold.spec import SHIPPED, shipped_folder
from leasehold.spec import load as load_anew
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
    ("lock", "two"): (12, 21),
    ("peterson", "two"): (42, 77),
    ("chandy_misra", "five"): (67, 336),
    ("paxos_commit", "two_by_three"): (1321761, 16959159),
}


LONG = ("losing", "retiring")  # runs of the lease that find what shorter ones do, with more states


def _runs(folders: list[Path]) -> list[object]:
    found = []
    for file in (folder / "expected.yaml" for folder in folders):
        for name, run in (yaml.safe_load(file.read_text())["runs"] if file.exists() else {}).items():
            marks = [pytest.mark.slow] if run.get("slow") else [pytest.mark.long] if name in LONG else []
            found.append(pytest.param(file.parent, name, marks=marks, id="-".join((*file.parts[-3:-1], name))))
    return found


OTHERS = sorted(p for p in TRUTH.iterdir() if p.is_dir())
SYSTEMS = [*OTHERS, *(shipped_folder(n) for n in (*SHIPPED, "starter"))]


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


def test_philosophers_stop_when_each_has_one_fork() -> None:
    """The shortest way there: each becomes hungry and takes a fork; nobody can take another."""
    found = explore(load(TRUTH / "dining_philosophers"))
    (stop,) = [p for p in found.properties if p.name == "deadlock_free"]
    assert stop.path is not None
    assert len(stop.path) == 6
    last = stop.path.steps[-1].state
    assert {*last.control.values()} == {"holding"}
    assert last.data["shared.taken"] == "{fork[0]: true, fork[1]: true, fork[2]: true}"


@pytest.mark.parametrize(("fair", "starves"), [("strong", False), ("true", True)])
def test_who_may_take_a_fork_again_and_again_has_to_take_it(fair: str, starves: bool, tmp_path: Path) -> None:
    """Weak fairness is not enough: a neighbour takes the fork each time before."""
    folder = shutil.copytree(TRUTH / "dining_philosophers", tmp_path / "dining_philosophers")
    words = (folder / "system.yaml").read_text()
    assert "fair: strong" in words
    (folder / "system.yaml").write_text(words.replace("fair: strong", f"fair: {fair}"))
    found = {p.name: p.verdict for p in explore(load_anew(folder, {"manner": "one_left_first"})).properties}
    assert found["everybody_eats"] == ("violated" if starves else "exhausted")
    assert found["somebody_eats"] == "exhausted"


def test_wrong_commit_disagrees() -> None:
    """ACP_NB_WRONG decides before it passes the decision on: the shortest way to disagree has twelve steps."""
    found = explore(load(TRUTH / "acp_nb_wrong"))
    (agreement,) = [p for p in found.properties if p.name == "agreement"]
    assert agreement.verdict == "violated"
    assert agreement.path is not None
    assert len(agreement.path) == 12
    decisions = {agreement.path.steps[-1].state.control[f"participant[{i}]"] for i in (0, 1)}
    assert decisions == {"commit", "abort"}
