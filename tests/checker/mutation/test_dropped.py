"""No `set:` of a shipped system can be dropped and nobody notices."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.checker.mutation.operators import sampled
from tests.checker.mutation.dropped import dropped, unnoticed
from tests.systems import load

EXAMPLES = Path(__file__).parents[3] / "examples"
MOST = 40_000  # states of the settings in which a sample is tried


def names_of(name: str | Path, sample: int = 1000, most: int | None = None) -> list[str]:
    mutants = sampled(dropped(load(name)), sample, seed=1)
    return [outcome.mutation.name for outcome in unnoticed(name, mutants, most)]


@pytest.mark.parametrize("name", ["two_phase_commit", "three_phase_commit"])
def test_each_is_noticed(name: str) -> None:
    assert names_of(name) == []


@pytest.mark.long
def test_a_sample_of_a_larger_system_is_noticed() -> None:
    assert names_of(EXAMPLES / "ring", 8) == []


@pytest.mark.slow
def test_a_sample_of_the_lease_is_noticed() -> None:
    assert names_of("lease", 8, MOST) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["three_phase_commit_termination", "examples/ring", "examples/mutex"])
def test_each_of_larger_systems_is_noticed(name: str) -> None:
    assert names_of(EXAMPLES.parent / name if "/" in name else name) == []
