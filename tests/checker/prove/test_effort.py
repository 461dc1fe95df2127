"""Questions of the prover, and their order, so that its work is bounded: the verdicts do not depend on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.checker.prove import prove
from leasehold.checker.prove.decide import obligation
from leasehold.checker.prove.decide.induction import ANY, induct
from leasehold.checker.prove.encode.properties import claims as claims_of
from tests.checker.prove.claimed import claimed
from tests.systems import load


def test_antecedents_are_looked_for_in_every_case(tmp_path: Path) -> None:
    folder = claimed(tmp_path, "deep", "a.z <= deep")
    (folder / "invariants.yaml").write_text("properties: {far: {when: a.z == 3, always: deep >= 3 and a.z <= deep}}\n")
    (folder / "lemmas.yaml").write_text("lemmas: {bounded: {always: a.z <= deep}}\n")
    system = load(folder)
    (alone,) = prove(system, jobs=1, small=system).properties
    (found,) = prove(system, jobs=1, small=system, cases=[load(folder, {"deep": 3})]).properties
    assert (alone.verdict, alone.vacuous) == ("proved", "no explored state has its antecedent")
    assert (found.verdict, found.vacuous) == ("proved", "")


def test_what_is_known_before_is_not_asked_again(tmp_path: Path) -> None:
    """And what is not so is not proved with it."""
    folder = claimed(tmp_path, "ranked", "all(q.k == a.k for q in pending(m) if q.latest)")
    system = load(folder)
    before = induct(system, jobs=1)
    (folder / "invariants.yaml").write_text(
        "properties:\n  claim: {always: all(q.k == a.k for q in pending(m) if q.latest)}\n"
        "  more: {always: all(q.latest or q.k <= a.k for q in pending(m))}\n"
        "  wrong: {always: all(q.latest for q in pending(m))}\n"
    )
    both, again = (induct(load(folder), jobs=1, before=known) for known in (None, before))
    assert set(both.proved) == set(again.proved) >= {"claim", "more"}
    assert "wrong" not in again.proved
    assert again.questions < both.questions


@pytest.mark.parametrize("poke", [True, False])
def test_a_state_that_sends_again_unanswered_is_not_taken_to_have_sent_once(poke: bool, tmp_path: Path) -> None:
    edits = (("{told: {to: idle}}", "{poke: {to: asking}, told: {to: idle}}"), ("one at a time, poke: no", "no"))
    folder = claimed(tmp_path, "asked_again", "true", *(edits if poke else ()))
    names = {c.name for c in claims_of(ANY.encoding(load(folder)))}
    assert ("asker/asking has one message unreceived in there" in names) is not poke


@pytest.mark.long
def test_what_is_given_up_is_asked_in_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    """However early several claims, and those that speak of sizes, are given up."""
    monkeypatch.setattr(obligation, "TOGETHER_SECONDS", 1e-6)
    monkeypatch.setattr(obligation, "NEAR_SECONDS", 1e-6)
    found = induct(load("two_phase_commit"), jobs=1)
    assert set(found.proved) >= {c.name for c in found.claims.values() if c.written}
