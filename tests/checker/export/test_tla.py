"""TLC counts the states of exported modules as the explorer does, and comes to the same verdicts."""

from __future__ import annotations

import random
import re
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.explore.result import Exploration
from leasehold.checker.export import ExportError, export_system
from leasehold.checker.export.tla import HELPERS
from leasehold.checker.export.tla_terms import TAKEN
from leasehold.spec import System, shipped_folder
from tests.checker.explore.by_chance import by_chance
from tests.checker.explore.clients import clients_by_chance
from tests.checker.export.test_fair_runs import CLAIMS
from tests.checker.export.tlc import Verdicts, exported_names, verdicts
from tests.systems import TRUTH, load

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def assert_same(found: Exploration, told: Verdicts) -> None:
    assert (told.distinct, told.generated) == (found.distinct, found.generated)
    for verdict, names in (("violated", told.violated), ("witnessed", told.witnessed)):
        judged = {p.name for p in found.properties if p.verdict == verdict}
        assert names == told.asked & set(exported_names(found.system, judged))


@pytest.mark.usefixtures("tlc")
@pytest.mark.parametrize(
    ("folder", "settings"),
    [
        (TRUTH / "tcommit", {}),
        (TRUTH / "simple_allocator", {}),
        *(
            pytest.param(*each, marks=pytest.mark.long)
            for each in [
                (TRUTH / "two_phase", {}),
                (TRUTH / "two_phase_live", {}),
                (TRUTH / "alternating_bit", {}),
                (TRUTH / "acp_nb_wrong", {}),
                (TRUTH / "lock_server", {}),
                (TRUTH / "german", {}),
                (TRUTH / "german", {"others": False}),
                (TRUTH / "checkpoints", {}),
                (TRUTH / "chubby", {"check": "unchecked"}),
                (TRUTH / "chubby", {"check": "valid"}),
                (TRUTH / "token_snapshot", {}),
                (TRUTH / "single_copy_register", {}),
                (TRUTH / "single_copy_register", {"servers": 2}),
                (TRUTH / "stabilizing_ring", {"values": 3}),
                (TRUTH / "failure_detector", {"nodes": 1}),
                (TRUTH / "lock", {}),
                (TRUTH / "peterson", {}),
                (TRUTH / "dining_philosophers", {}),
                (TRUTH / "dining_philosophers", {"manner": "one_left_first"}),
                (TRUTH / "chandy_misra", {}),
                (TRUTH / "quorum_election", {}),
                (TRUTH / "client_go_leader_election", {}),
                (TRUTH / "client_go_leader_election", {"lease_duration": 4}),
                (TRUTH / "client_go_leader_election", {"offsets": 2}),
                (TRUTH / "readers_writers", {"actors": 2}),
                (shipped_folder("two_phase_commit"), {"participants": 2}),
                (EXAMPLES / "ring", {}),
            ]
        ),
        pytest.param(shipped_folder("three_phase_commit_termination"), {}, marks=pytest.mark.slow),
    ],
    ids=lambda v: getattr(v, "name", None),
)
def test_tlc_finds_what_the_explorer_finds(folder: Path, settings: dict[str, Any]) -> None:
    system = load(folder, settings)
    assert_same(explore(system), verdicts(system))


@pytest.mark.long
@pytest.mark.usefixtures("tlc")
def test_tlc_counts_the_states_of_raft() -> None:
    system = load(EXAMPLES / "raft", {"terms": 1})
    assert_same(explore(system), verdicts(system, claims=False))


@pytest.mark.long
@pytest.mark.usefixtures("tlc")
def test_tlc_counts_the_states_of_the_lease() -> None:
    system = load("lease", {"max_units": 1, "last_end": 2})
    assert_same(explore(system), verdicts(system, claims=False))


@pytest.mark.slow
@pytest.mark.usefixtures("tlc")
def test_tlc_finds_what_the_explorer_finds_of_the_lease() -> None:
    system = load("lease", {"max_units": 1, "last_end": 2})
    assert_same(explore(system), verdicts(system))


def by_seed(folder: Path, kind: str, seed: int) -> System | None:
    rng = random.Random(seed)
    return by_chance(folder, rng) if kind == "messages" else clients_by_chance(folder, rng, CLAIMS)


@pytest.mark.long
@pytest.mark.usefixtures("tlc")
@pytest.mark.parametrize(("kind", "seed"), [("messages", 0), ("messages", 4), ("clients", 0), ("clients", 1)])
def test_systems_by_chance(kind: str, seed: int, tmp_path: Path) -> None:
    system = by_seed(tmp_path, kind, seed)
    assert system is not None
    assert_same(explore(system), verdicts(system))


@pytest.mark.slow
@pytest.mark.usefixtures("tlc")
@pytest.mark.parametrize("kind", ["messages", "clients"])
def test_many_systems_by_chance(kind: str, tmp_path: Path) -> None:
    compared = 0
    for seed in range(10, 60):
        system = by_seed(tmp_path / str(seed), kind, seed)
        if system is not None and (found := explore(system)).distinct < 3000:
            assert_same(found, verdicts(system))
            compared += 1
    assert compared > 10


def test_faults_that_need_numbers_are_refused() -> None:
    with pytest.raises(ExportError, match=r"system.yaml:\d+:\d+: channel to_broker has faults.*export to Promela"):
        export_system(load(shipped_folder("lease"), {"duplicates": 1}), "tla")


def test_the_latest_message_has_a_word_in_tla_alone(tmp_path: Path) -> None:
    """A mailbox is a sequence in a module; a model is refused."""
    folder = copytree(shipped_folder("two_phase_commit"), tmp_path / "latest")
    for name in ("expected.yaml", "lemmas.yaml", "crash.yaml"):
        (folder / name).unlink()
    (folder / "invariants.yaml").write_text("properties: {one: {always: all(m.latest for m in pending(agree))}}\n")
    made = export_system(load(folder), "tla")
    assert "one" not in {part.name for part in made.left_out}
    assert "(m_ = Len(" in made.text
    with pytest.raises(ExportError, match=r"invariants.yaml:1:\d+: .*numbers of messages on their way alone"):
        export_system(load(folder), "promela")


def test_no_property_takes_the_name_of_a_helper() -> None:
    """Names that every module defines are taken; another of such a name has a number behind it."""
    defined = {*re.findall(r"^(\w+)\(", HELPERS, re.MULTILINE)}
    assert len(defined) > 10
    assert defined <= TAKEN


def test_what_tla_cannot_say_is_named() -> None:
    made = export_system(load(shipped_folder("two_phase_commit")), "tla")
    assert [left.name for left in made.left_out] == ["guards_disjoint"]
    for left in made.left_out:
        assert f"\\*     {left.name}: " in made.text
