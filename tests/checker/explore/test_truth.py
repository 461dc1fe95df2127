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
from leasehold.checker.explore.engines import Engine
from leasehold.checker.explore.expectations import differences, expectation_for
from leasehold.checker.explore.packed import library
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
    ("lamport_mutex", "three"): (724274, 2729079),
    ("german", "two"): (2163, 6382),
    ("german", "two_alone"): (1461, 3865),
    ("german", "three_alone"): (27513, 109729),
    ("checkpoints", "two"): (6960, 88663),
    ("checkpoints", "three_of_short_logs"): (204224, 5049541),
    ("readers_writers", "default"): (21527, 59674),
}

# How many words the public TLA+ text has, without comments and rulers; its properties count, and ours do too.
WORDS = {
    "lamport_mutex": 502,  # lamport_mutex/LamportMutex.tla
    "german": 693,  # GermanProtocol/German.tla
    "readers_writers": 327,  # ReadersWriters/ReadersWriters.tla
    "checkpoints": 1321,  # CheckpointCoordination/CheckpointCoordination.tla
}
LONGEST = 1.3  # times the TLA+ text


LONG = (
    "losing",
    "retiring",
    "optimized",
    "three_of_short_logs",
)  # runs that take more than five seconds of processor time


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


def words(system: str) -> int:
    """Returns how many words a system's text has, without comments and expectations."""
    texts = (path.read_text() for path in (TRUTH / system).rglob("*.yaml") if path.name != "expected.yaml")
    lines = (line for text in texts for line in text.splitlines() if not line.lstrip().startswith("#"))
    return sum(len(line.split()) for line in lines)


@pytest.mark.parametrize("system", WORDS)
def test_a_system_is_not_much_longer_than_its_tla(system: str) -> None:
    assert words(system) <= LONGEST * WORDS[system]


@pytest.mark.parametrize(("settings", "orbits"), [({}, (1107, 3281)), ({"others": False}, (735, 1946))])
def test_orbits_are_as_tlc_counts_them_under_symmetry(settings: dict[str, bool], orbits: tuple[int, int]) -> None:
    """German's protocol has the orbits of manifest.json in tlaplus/Examples."""
    engines: tuple[Engine, ...] = ("reference", "packed") if library.FILE.exists() else ("reference",)
    for engine in engines:
        found = explore(load(TRUTH / "german", settings), engine=engine, symmetry=True)
        assert (found.distinct, found.generated) == orbits, engine


@pytest.mark.long
def test_two_replicas_take_checkpoints_at_once_where_leases_are_given_away() -> None:
    """The author's path: twelve states, so eleven steps."""
    system = load(TRUTH / "checkpoints", {"nodes": 3, "optimized": True})
    (found,) = [p for p in explore(system).properties if p.name == "one_at_a_time"]
    assert found.verdict == "violated"
    assert found.path is not None
    taken = [(step.machine, step.event) for step in found.path.steps]
    first, second, third = (f"node[{i}]" for i in range(3))
    assert taken == [
        *((first, event) for event in ("elect", "lease_to", "fail")),
        *((second, event) for event in ("execute", "elect", "lease_to", "fail", "restart", "execute")),
        *((third, event) for event in ("execute", "execute")),
    ]


@pytest.mark.parametrize(
    ("check", "taken", "of_no_holder"), [("unchecked", 12, 7), ("newest", None, 7), ("valid", None, None)]
)
def test_a_late_write_is_taken_where_no_sequencer_is_checked(
    check: str, taken: int | None, of_no_holder: int | None
) -> None:
    """Burrows, section 2.4: the lease ends before the write arrives, and the next holder writes in between."""
    found = explore(load(TRUTH / "chubby", {"check": check}))
    older, others = (p for p in found.properties if p.name in ("no_older_write", "only_the_holder_writes"))
    assert [None if p.path is None else len(p.path) for p in (older, others)] == [taken, of_no_holder]
    if older.path is not None:
        events = [step.event for step in older.path.steps if step.machine != "client[1]"]
        assert events == ["want", "acquire", "granted", "put", "now 1", "tick", "acquire", "write", "write"]


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
