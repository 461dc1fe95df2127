"""Numbers of the pages for people who come from elsewhere, beside those that their commands print."""

from __future__ import annotations

import re

import pytest

from leasehold.checker.explore import explore
from tests.checker.explore.test_truth import WORDS, words
from tests.systems import TESTS, TRUTH, load

HOWTO = TESTS.parent / "docs/howto"
LENGTHS = re.compile(r"tests/truth/(\w+)/system\.yaml\).*\| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|$", re.MULTILINE)


def number(text: str) -> int:
    return int(text.replace(",", ""))


@pytest.mark.parametrize(("servers", "known"), [(1, 93), (2, 62)])
def test_a_register_has_the_states_of_stateright_and_those_before_all_have_started(servers: int, known: int) -> None:
    found = explore(load(TRUTH / "single_copy_register", {"servers": servers}))
    assert found.distinct == known + 3


def test_orbits_of_two_phase_commit_stand_for_all_states() -> None:
    system = load(TRUTH / "two_phase", {"resource_managers": 5})
    assert explore(system, symmetry=True).distinct == 314
    assert explore(system).distinct == 8832


def test_the_ring_s_states_are_all_initial() -> None:
    found = explore(load(TRUTH / "stabilizing_ring"))
    assert found.distinct == 4**5
    assert found.depth == 0


def test_lengths_and_counts_are_as_the_page_has_them() -> None:
    rows = LENGTHS.findall((HOWTO / "coming_from_tla.md").read_text())
    assert {row[0] for row in rows} == WORDS.keys()
    for name, distinct, theirs, ours in rows:
        assert (number(theirs), number(ours)) == (WORDS[name], words(name))
        assert number(distinct) in {e.numbers.get("distinct") for e in load(TRUTH / name).expectations}
