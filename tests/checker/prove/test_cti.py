"""What induction cannot keep is shown as a state, a step and what the explorer says of them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.prove.decide.cti import _looked, counterexample_to_induction
from leasehold.checker.prove.decide.induction import ANY, START, Induction, induct
from leasehold.checker.prove.decide.model import ModelState
from leasehold.checker.prove.encode.lemma import CandidateLemma
from leasehold.faults.model import Budget
from leasehold.spec import System, shipped_folder
from tests.systems import TRUTH, load

Bare: TypeAlias = tuple[System, System, Induction]


def in_small(name: str | Path) -> tuple[System, System]:
    """A system, and the same with small constants."""
    return load(name), load(name, load(name).faults.settings)


@pytest.fixture(scope="module")
def bare() -> Bare:
    """Two-phase commit without its lemmas, and what induction shows of it."""
    system, small = (replace(s, lemmas={}) for s in in_small("two_phase_commit"))
    return system, small, induct(system, jobs=1)


def test_a_state_that_is_not_reached(bare: Bare) -> None:
    """Without its lemmas: the solver's state is read value by value, and the explorer knows none like it."""
    system, small, found = bare
    cti = counterexample_to_induction(system, ANY, "agreement", found.broken_by["agreement"], found.proved, small)
    assert cti.before is not None
    assert cti.after is not None
    assert cti.reached is None
    assert cti.contradicted is None
    # What the claim says is so before the step, and no longer after it.
    participants = [key for key in cti.before.control if key[0] == "participant"]
    assert len(participants) == 2
    was, became = ({assumed.control[p] for p in participants} for assumed in (cti.before, cti.after))
    assert not {"committed", "aborted"} <= was
    assert {"committed", "aborted"} <= became
    assert {key[2] for key in cti.before.data} == {"agreed", "done"}
    words = "\n".join(cti.words)
    assert words.startswith("agreement holds here, with all that is proved:")
    assert f"{found.broken_by['agreement']} breaks it:" in words
    states = [explore(small, budget=budget).distinct for budget in (None, Budget.parse(small.faults.check))]
    assert [looked.states for looked in cti.looked] == states
    assert f"{states[0]:,} states without faults: no state is like it, not even with other data" in words
    assert all(len(line) < 120 for line in cti.words)


@pytest.mark.long
def test_a_mistake_is_contradicted(tmp_path: Path) -> None:
    """A coordinator that commits although one disagrees."""
    folder = tmp_path / "two_phase_commit"
    shutil.copytree(shipped_folder("two_phase_commit"), folder)
    role = folder / "roles/coordinator.yaml"
    role.write_text(role.read_text().replace("disagree: {to: aborting}", "disagree: {to: committing}"))
    system, small = in_small(folder)
    found = induct(system, jobs=1)
    name = "commit_needs_all"
    cti = counterexample_to_induction(system, ANY, name, found.broken_by[name], found.proved, small)
    assert cti.before is not None
    # Where a run contradicts the claim, that one is told; which state the solver shows is its own choice.
    path = cti.contradicted if cti.contradicted is not None else cti.reached
    assert path is not None
    assert len(path) < 16
    assert any(f"{len(path)} steps" in line for line in cti.words)


def test_a_state_that_is_reached() -> None:
    """A claim that some run contradicts, from a state that is found with all its data."""
    systems = []
    at_first = "all(p.state == working for p in participant) and coordinator.agreed == {} and coordinator.done == {}"
    for system in in_small("two_phase_commit"):
        wrong = CandidateLemma("nobody_asks", "", "coordinator.state != asking").of(system)
        known = CandidateLemma("nothing_was_done", "coordinator.state == idle", at_first).of(system)
        systems.append(replace(system, properties={wrong.name: wrong}, lemmas={known.name: known}))
    cti = counterexample_to_induction(
        systems[0], ANY, "nobody_asks", "coordinator/idle#begin", ["nothing_was_done"], systems[1]
    )
    assert cti.before is not None
    assert cti.before.control["coordinator", 0] == "idle"
    assert cti.reached is not None
    assert len(cti.reached) == 0  # nothing has happened yet
    assert cti.contradicted is not None
    assert len(cti.contradicted) == 1


def test_faults_that_a_proof_leaves_out_contradict_nothing() -> None:
    """A crash repeats what is in a bag, where a proof has no crashes: only steps that it has are explored."""
    ring = TRUTH / "token_ring"
    small = replace(load(ring), lemmas={})
    found = explore(small, budget=Budget.parse(small.faults.usual))
    assert {p.verdict for p in found.properties if p.name == "mutual_exclusion"} == {"violated"}
    cti = counterexample_to_induction(small, ANY, "mutual_exclusion", "node/outside#enter", [], small)
    assert cti.before is not None
    assert cti.contradicted is None
    assert [looked.where for looked in cti.looked] == ["9 states without faults"]


def test_what_does_not_hold_at_first() -> None:
    system, small = in_small("two_phase_commit")
    wrong = replace(small.properties["all_may_commit"], name="all_commit", kind="always")
    system, small = (replace(s, properties={**s.properties, "all_commit": wrong}) for s in (system, small))
    cti = counterexample_to_induction(system, ANY, "all_commit", START, [], small)
    assert cti.reached is not None
    assert len(cti.reached) == 0
    assert "all_commit does not hold in it" in cti.words


def test_a_step_that_takes_nothing_away(bare: Bare) -> None:
    """Then there is no state, and the words say why."""
    system, small, found = bare
    cti = counterexample_to_induction(system, ANY, "agreement", "coordinator/idle#begin", found.proved, small)
    assert cti.before is None
    assert cti.words == [f"agreement: coordinator/idle#begin breaks it, but {cti.reason}"]
    with pytest.raises(LookupError, match="no claim 'other'"):
        counterexample_to_induction(system, ANY, "other", "coordinator/idle#begin", found.proved, small)


def test_a_state_is_like_another_at_the_same_time_alone(tmp_path: Path) -> None:
    """A lamp that goes out at tick 2: it is lit, with its data, at ticks 0 and 1 alone."""
    (tmp_path / "roles").mkdir()
    (tmp_path / "system.yaml").write_text("system: lamp\nroles: {lamp: {}}\nclock: {horizon: 4}\n")
    (tmp_path / "roles/lamp.yaml").write_text(
        "role: lamp\ndata: {bright: {type: bool, initial: true}}\nstates:\n"
        "  lit: {initial: true, on: {tick: {to: dark, when: now >= 2, set: {bright: false}}}}\n  dark: {}\n"
    )
    (tmp_path / "invariants.yaml").write_text("properties: {dim: {always: lamp.state == lit or not lamp.bright}}\n")
    lamp = load(tmp_path)
    lit = ModelState({("lamp", 0): "lit"}, {("lamp", 0, "bright"): True}, now=0)
    for now, bright, alike, placed in (
        (0, True, 0, 0),
        (1, True, 1, 0),
        (3, True, None, 0),
        (0, False, None, 0),
        (None, True, 0, 0),
    ):
        wanted = replace(lit, data={("lamp", 0, "bright"): bright}, now=now)
        found = _looked(lamp, "dim", wanted, "", 30.0)
        steps = tuple(None if path is None else len(path) for path in (found.alike, found.placed))
        assert steps == (alike, placed), (now, bright)
