"""Candidate lemmas: true where they are explored, written as somebody would write them, and proved or left out."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.prove.induct import ANY, induct
from leasehold.checker.prove.mining import Candidate, Strengthened, lemmas_yaml, mined, reached, strengthened
from leasehold.faults import Budget
from leasehold.spec import System, load, shipped_folder
from leasehold.spec.language.diagnostics import SpecError

WANTED = ("agreement", "commit_needs_all")  # which induction cannot keep without lemmas


def bare(name: str | Path) -> tuple[System, System]:
    """A system without its lemmas, and the same with small constants."""
    settings = load(name).faults.settings
    system, small = (replace(load(name, chosen), lemmas={}) for chosen in ({}, settings))
    return system, small


@pytest.fixture(scope="module")
def found() -> Strengthened:
    system, small = bare("two_phase_commit")
    return strengthened(system, ANY, small, WANTED, jobs=1, levels=(1,), shrink_seconds=0)


def test_what_is_mined_makes_a_proof(found: Strengthened) -> None:
    """For any number of participants, though states of two were explored."""
    assert set(found.proved) == set(WANTED)
    assert not found.missing
    assert 0 < len(found.lemmas) < found.mined / 2
    assert {c.name for c in found.lemmas} <= set(found.kept)
    assert "participant[" not in found.yaml
    assert found.induction is not None
    assert {c.name for c in found.lemmas} <= found.induction.proved.keys()


def test_it_can_be_pasted(found: Strengthened, tmp_path: Path) -> None:
    """As the lemmas.yaml of the specification it proves the same."""
    folder = tmp_path / "two_phase_commit"
    shutil.copytree(shipped_folder("two_phase_commit"), folder)
    (folder / "lemmas.yaml").write_text(found.yaml)
    system = load(folder)
    again = {name: (p.when, p.claim) for name, p in system.lemmas.items()}
    assert again == {c.name: (c.of(system).when, c.of(system).claim) for c in found.lemmas}
    assert set(WANTED) <= induct(system, jobs=1).proved.keys()


@pytest.mark.parametrize(("name", "level"), [("two_phase_commit", 1), ("three_phase_commit", 2)])
def test_candidates_hold_where_they_are_explored(name: str, level: int) -> None:
    """Without and with faults; and none of them for want of cases."""
    _, small = bare(name)
    budgets = ["", "crash=1"]
    candidates = mined(small, reached(small, budgets), level)
    asked = replace(small, properties={c.name: c.of(small) for c in candidates})
    for budget in budgets:
        explored = explore(asked, budget=Budget.parse(budget) if budget else None)
        verdicts = {p.name: p.verdict for p in explored.properties if p.name in asked.properties}
        assert len(verdicts) == len(candidates)
        assert set(verdicts.values()) == {"exhausted"}
    assert not set(explored.vacuous) & set(asked.properties)


def test_candidates_are_written_for_a_person(tmp_path: Path) -> None:
    """Names that the language takes and lines that fit, of a system with data, a clock and messages with fields."""
    folder = tmp_path / "lease"
    shutil.copytree(shipped_folder("lease"), folder)
    system, small = bare(folder)
    candidates = mined(small, reached(small, [""]), 1)
    text = lemmas_yaml(candidates)
    assert all(len(line) <= 120 for line in text.splitlines())
    (folder / "lemmas.yaml").write_text(text)
    assert list(load(folder).lemmas) == [c.name for c in candidates]
    claims = {c.always for c in candidates if c.when == "authority.state == nascent"}
    assert {"authority.assigned == {}", "authority.units == 0", "heard(from_authority)"} <= claims
    assert "all(u.deadline == 0 for u in unit if u.state == idle)" in {c.always for c in candidates}
    assert system.digest == load(folder).digest


def test_what_is_wrong_is_not_proved() -> None:
    """A claim that some run contradicts, whatever is mined beside it."""
    systems = []
    for settings in ({}, {"participants": 1}):
        system = load("two_phase_commit", settings)
        wrong = Candidate("nobody_commits", "", "all(p.state != committed for p in participant)").of(system)
        systems.append(replace(system, lemmas={}, properties={wrong.name: wrong}))
    found = strengthened(systems[0], ANY, systems[1], ["nobody_commits"], jobs=1, levels=(1,))
    assert not found.proved
    assert "participant/prepared#commit takes it away" in found.missing["nobody_commits"]
    assert found.kept
    assert found.yaml == ""


def test_names_that_there_are_not() -> None:
    with pytest.raises(SpecError, match="LH305"):
        Candidate("wrong", "", "coordinator.mood == good").of(load("two_phase_commit"))
