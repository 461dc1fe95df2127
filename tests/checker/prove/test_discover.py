"""Candidate lemmas: true where they are explored, written as somebody would write them, and proved or left out."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.prove import ANY, Setting, lemmas_yaml
from leasehold.checker.prove.decide.induction import induct
from leasehold.checker.prove.discover.candidates import candidates, explored_states
from leasehold.checker.prove.discover.strengthen import Strengthened, houdini, strengthened
from leasehold.checker.prove.encode.lemma import CandidateLemma
from leasehold.faults.model import Budget
from leasehold.spec import System, shipped_folder
from leasehold.spec.language.diagnostics import SpecError
from tests.systems import load

WANTED = ("agreement", "commit_needs_all")  # not inductive without lemmas
TRUTH = Path(__file__).parents[2] / "truth"


def bare(name: str | Path) -> tuple[System, System]:
    """A system without its lemmas, and the same with small constants."""
    settings = load(name).faults.settings
    system, small = (replace(load(name, chosen), lemmas={}) for chosen in ({}, settings))
    return system, small


@pytest.fixture(scope="module")
def found() -> Strengthened:
    system, small = bare("two_phase_commit")
    return strengthened(system, ANY, small, WANTED, jobs=1, levels=(1,), shrink_seconds=0)


@pytest.mark.long
def test_discovered_lemmas_make_a_proof(found: Strengthened) -> None:
    """For any number of participants, though states of two were explored."""
    assert set(found.proved) == set(WANTED)
    assert not found.missing
    assert 0 < len(found.lemmas) < found.candidates / 2
    assert {c.name for c in found.lemmas} <= {c.name for c in found.kept}
    assert "participant[" not in found.yaml
    assert {c.name for c in found.lemmas} <= found.induction.proved.keys()


@pytest.mark.long
def test_lemmas_that_are_kept_hold_in_every_explored_state(found: Strengthened) -> None:
    """Also those about messages, under a crash."""
    _, small = bare("two_phase_commit")
    names = {c.name for c in found.kept}
    kept = [c for c in candidates(small, level=1) if c.name in names]
    assert any("pending(commit)" in c.when + c.always for c in kept)
    asked = replace(small, properties={c.name: c.of(small) for c in kept})
    explored = explore(asked, budget=Budget.parse("crash=1"))
    assert {p.verdict for p in explored.properties} == {"exhausted"}, [(p.name, p.verdict) for p in explored.properties]


@pytest.mark.long
def test_it_can_be_pasted(found: Strengthened, tmp_path: Path) -> None:
    """As the lemmas.yaml of the specification it proves the same."""
    folder = tmp_path / "two_phase_commit"
    shutil.copytree(shipped_folder("two_phase_commit"), folder)
    (folder / "lemmas.yaml").write_text(found.yaml)
    system = load(folder)
    again = {name: (p.when, p.claim) for name, p in system.lemmas.items()}
    assert again == {c.name: (c.of(system).when, c.of(system).claim) for c in found.lemmas}
    assert set(WANTED) <= induct(system, jobs=1).proved.keys()


@pytest.mark.parametrize(
    ("name", "wanted", "levels"),
    [
        ("two_phase", {"consistent"}, (2,)),
        pytest.param("acp_sb", {"agreement", "commit_needs_yes", "abort_needs_a_cause"}, (3,), marks=pytest.mark.slow),
    ],
)
def test_models_from_the_literature(name: str, wanted: set[str], levels: tuple[int, ...]) -> None:
    """Without a written lemma, for any number of participants: messages in sets, and machines that read each other."""
    system, small = bare(TRUTH / name)
    assert strengthened(system, ANY, small, wanted, jobs=1, levels=levels, shrink_seconds=0).proved.keys() == wanted


@pytest.mark.parametrize(("name", "level"), [("two_phase_commit", 1), ("three_phase_commit", 2)])
def test_candidates_hold_where_they_are_explored(name: str, level: int) -> None:
    """Without and with faults; and none of them vacuously."""
    _, small = bare(name)
    budgets = ["", "crash=1"]
    found = candidates(small, explored_states(small, budgets), level)
    asked = replace(small, properties={c.name: c.of(small) for c in found})
    for budget in budgets:
        explored = explore(asked, budget=Budget.parse(budget) if budget else None)
        verdicts = {p.name: p.verdict for p in explored.properties if p.name in asked.properties}
        assert len(verdicts) == len(found)
        assert set(verdicts.values()) == {"exhausted"}
    assert not set(explored.vacuous) & set(asked.properties)


@pytest.mark.long
def test_candidates_are_written_for_a_person(tmp_path: Path) -> None:
    """Names that the language takes and lines that fit, of a system with data, a clock and messages with fields."""
    folder = tmp_path / "lease"
    shutil.copytree(shipped_folder("lease"), folder)
    system, small = bare(folder)
    found = candidates(small, explored_states(small, [""]), 1)
    text = lemmas_yaml(found)
    assert all(len(line) <= 120 for line in text.splitlines())
    (folder / "lemmas.yaml").write_text(text)
    assert list(load(folder).lemmas) == [c.name for c in found]
    claims = {c.always for c in found if c.when == "authority.state == nascent"}
    assert {"authority.assigned == {}", "authority.told == {}", "heard(from_authority)"} <= claims
    everywhere = {c.always for c in found if not c.when}
    assert {
        "all(u.deadline == 0 for u in unit if u.state == idle)",
        "all(0 < m.units for m in pending(ticket))",
    } <= everywhere
    assert any("requested_end" in c.always and "_end" in c.always for c in found)  # they compare times
    assert system.digest == load(folder).digest


@pytest.mark.slow
def test_numbers_and_times_are_unbounded() -> None:
    """For the lease, with one unit: terms of any length, and lemmas that compare them."""
    system, small = bare("lease")
    lemmas = [
        CandidateLemma("whole", "", "all(m.units >= 1 for m in pending(ticket))"),
        CandidateLemma("longer", "", "service_manager.ticket_end <= broker.term_end"),
        CandidateLemma("wrong", "", "broker.term_end <= 2"),
    ]
    wanted = ["requests_are_whole"]
    found = houdini(system, Setting(sizes={"unit": 1}), small, lemmas, wanted, seconds=0)
    assert {c.name for c in found.kept} <= {"whole", "longer"}
    assert "whole" in {c.name for c in found.kept}
    assert found.induction.proved.keys() >= set(wanted)


@pytest.mark.long
def test_what_is_wrong_is_not_proved() -> None:
    """A claim that some run violates, whichever candidates stand beside it."""
    systems = []
    for settings in ({}, {"participants": 1}):
        system = load("two_phase_commit", settings)
        wrong = CandidateLemma("nobody_commits", "", "all(p.state != committed for p in participant)").of(system)
        systems.append(replace(system, lemmas={}, properties={wrong.name: wrong}))
    found = strengthened(systems[0], ANY, systems[1], ["nobody_commits"], jobs=1, levels=(1,))
    assert not found.proved
    assert not found.fixed
    assert "participant/prepared#commit breaks it" in found.missing["nobody_commits"]
    assert found.rounds[0][1]
    assert found.yaml == ""


def test_names_that_there_are_not() -> None:
    with pytest.raises(SpecError, match="LH305"):
        CandidateLemma("wrong", "", "coordinator.mood == good").of(load("two_phase_commit"))
