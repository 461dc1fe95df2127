"""The comparison of the prover with the explorer on systems made by chance: some systems here, more in long tests."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.checker.prove.differential import Chance, judge
from tests.checker.prove.wrong_relations import ERRORS


def compared(seeds: range) -> None:
    proved = 0
    for seed in seeds:
        found = judge(random.Random(seed))
        assert not found.contradicted, seed
        proved += found.proved
    assert proved > len(seeds) // 5


@pytest.mark.parametrize("seeds", [range(1000, 1002), pytest.param(range(2000, 2010), marks=pytest.mark.long)], ids=len)
def test_nothing_proved_is_violated(seeds: range) -> None:
    compared(seeds)


@pytest.mark.slow
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_what_is_contradicted_is_made_small(rng: Chance) -> None:
    assert not judge(rng).contradicted


@pytest.mark.long
@pytest.mark.parametrize("name", ["states_stay"])
def test_a_seeded_error_is_found(name: str) -> None:
    """`python -m tests.campaigns.prover --errors` tries all of them."""
    assert any(judge(random.Random(seed), relation=ERRORS[name], every=False).contradicted for seed in range(15))
