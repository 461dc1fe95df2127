"""Messages that may change when they are sent again: the relation may lack steps, so nothing of messages is proved."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.checker.prove.decide.induction import induct
from tests.systems import edited, files_of, written

SAYS_A_SHARED_NUMBER = files_of("checker/prove/systems/again")


@pytest.mark.parametrize("lemmas", ["", "lemmas: {never_three: {always: b.k != 3}}"])
def test_a_lemma_that_is_not_proved_takes_away_no_proof_that_does_without_it(lemmas: str, tmp_path: Path) -> None:
    files = SAYS_A_SHARED_NUMBER | ({"lemmas.yaml": lemmas} if lemmas else {})
    found = induct(written(tmp_path, files))
    assert {n: how for n, how in found.proved.items() if found.claims[n].written} == {"never_negative": "induction"}
    assert (found.whole, found.side_conditions) == (False, False)
    assert "small_questions" not in found.proved


def test_a_proof_with_lemmas_about_states_stands(tmp_path: Path) -> None:
    """Though a property and a lemma speak of messages, and no round asks about states alone first."""
    edits = (
        ("data: {", "data: {x: {type: int, explore: [0, 0]}, y: {type: int, explore: [0, 0]}, "),
        ("k: k + 1}", "k: k + 1, x: y}"),
        ("properties:\n", "properties:\n  x_is_0: {always: b.x == 0}\n"),
    )
    lemmas = "lemmas: {y_is_0: {always: b.y == 0}, small: {always: all(m.n >= 0 for m in pending(ask))}}"
    files = {**edited(SAYS_A_SHARED_NUMBER, *edits), "lemmas.yaml": lemmas}
    found = induct(written(tmp_path, files))
    by = {n: how for n, how in found.proved.items() if found.claims[n].written}
    assert by == {"never_negative": "induction", "x_is_0": "induction, with lemmas about states"}
    assert "small_questions" not in found.proved
    assert (found.whole, found.side_conditions) == (False, False)
