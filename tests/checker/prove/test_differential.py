"""The comparison of the prover with the explorer on systems made by chance: some systems here, more in long tests."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leasehold.checker.prove.decide.induction import ANY
from tests.campaigns.prover import ERRORS, SCALARS, Hunt, Totals, hunts, source_of
from tests.checker.prove.differential import Judged, draw, judge
from tests.checker.prove.drawn_sources import SOURCES, scalars_by_chance
from tests.sampled import one_in

SHARING = partial(scalars_by_chance, share=1.0)
OF_SHARED = [name for name, error in ERRORS.items() if error.class_ == "shared variables"]
MISSED = pytest.mark.xfail(strict=True, reason="no system of these seeds shows it")


@pytest.mark.parametrize(
    "seeds",
    [
        range(1000, 1002),
        pytest.param(range(1002, 1004), marks=pytest.mark.long, id="2 more"),
        pytest.param(range(2000, 2015), marks=pytest.mark.long),
        pytest.param(range(3000, 6000), marks=pytest.mark.slow),
    ],
    ids=len,
)
def test_nothing_proved_is_violated(seeds: range) -> None:
    """`python -m tests.campaigns.prover` compares as many systems as there is time for."""
    claims = undecided = 0
    for seed in seeds:
        found = judge(Random(seed))
        assert not found.contradicted, seed
        claims, undecided = claims + found.claims, undecided + found.open
    assert claims > 10 * len(seeds)
    assert undecided < claims / 10


@pytest.mark.parametrize(
    "seeds",
    [
        range(2),
        pytest.param(range(100, 115), marks=pytest.mark.long),
        pytest.param(range(1000, 2000), marks=pytest.mark.slow),
    ],
    ids=len,
)
def test_nothing_proved_of_systems_with_shared_variables_is_violated(seeds: range) -> None:
    judged = [judge(Random(seed), source=SHARING) for seed in seeds]
    assert not [seed for seed, found in zip(seeds, judged, strict=True) if found.contradicted]
    assert sum(found.features["shared variables"] for found in judged) > 0.8 * len(seeds)


@pytest.mark.parametrize("source", [name for name in SOURCES if name != SCALARS])
@pytest.mark.parametrize(
    "seeds",
    [
        range(1),
        pytest.param(range(100, 108), marks=pytest.mark.long),
        pytest.param(range(1000, 1500), marks=pytest.mark.slow),
    ],
    ids=len,
)
def test_nothing_proved_of_values_of_several_parts_and_lines_is_violated(source: str, seeds: range) -> None:
    judged = [judge(Random(seed), source=SOURCES[source]) for seed in seeds]
    assert not [seed for seed, found in zip(seeds, judged, strict=True) if found.contradicted]
    assert sum(found.claims for found in judged) > 2 * len(seeds)


@pytest.mark.slow
@settings(max_examples=200, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_what_is_contradicted_is_made_small(rng: Random) -> None:
    assert not judge(rng).contradicted


def test_totals_are_json() -> None:
    found = Totals()
    found.add(1, Judged(claims=3, proved=2, methods=Counter(induction=2), features=Counter(["fifo", "bag"])))
    found.add(2, None)
    told = json.loads(json.dumps(found.as_json))
    assert (told["methods"], told["features"], told["given_up"]) == ({"induction": 2}, {"fifo": 1, "bag": 1}, [2])


@pytest.mark.parametrize(
    ("name", "seeds"),
    [
        ("no_local_events", range(1)),
        ("nobody_recovers", range(5, 6)),
        ("append_puts_it_first", range(1, 2)),
        ("cells_are_one", range(1, 2)),
        ("nothing_comes_next", range(1)),
        *(
            pytest.param(
                name, range(441), marks=[pytest.mark.slow, *([] if error.found_by["differential"] else [MISSED])]
            )
            for name, error in ERRORS.items()
        ),
    ],
)
def test_a_seeded_error_is_found(name: str, seeds: range) -> None:
    with ERRORS[name].planted():
        found = (judge(Random(seed), every=False, source=SOURCES[source_of(name)]) for seed in seeds)
        assert any(judged.contradicted for judged in found)


@pytest.mark.long
def test_an_error_is_looked_for_until_a_system_shows_it(capsys: pytest.CaptureFixture[str]) -> None:
    """`python -m tests.campaigns.prover --errors` says after how many systems each is found."""
    hunted = hunts(range(5, 8), 1, ["nobody_recovers", "all_machines_are_the_declared_ones"], tell=True)
    shown = hunted.each["nobody_recovers"]
    assert (shown.seed, shown.systems) == (5, 1)
    assert shown.kinds
    assert hunted.each["all_machines_are_the_declared_ones"] == Hunt(None, 3)
    assert hunted.missed == ["all_machines_are_the_declared_ones"]
    assert capsys.readouterr().out == f"nobody_recovers: seed 5, system 1, {shown.kinds}\n"  # not looked for again


@pytest.mark.parametrize("name", one_in(30, ERRORS, seldom=4))  # each looks through all objects of the process
def test_every_error_can_be_seeded_where_variables_are_shared(name: str) -> None:
    drawn = draw(Random(0), SHARING)
    assert not isinstance(drawn, str)
    with ERRORS[name].planted():
        encoding = ANY.encoding(drawn.system)
        assert any(encoding.relation.steps(encoding.before))


@pytest.mark.parametrize(
    ("name", "seeds"),
    [
        ("shared_updates_are_dropped", range(1)),
        ("other_steps_clear_shared_variables", range(2, 3)),
        *(pytest.param(name, range(60), marks=pytest.mark.slow) for name in OF_SHARED),
    ],
)
def test_a_seeded_error_about_shared_variables_is_found(name: str, seeds: range) -> None:
    with ERRORS[name].planted():
        found = (judge(Random(seed), every=False, source=SHARING) for seed in seeds)
        assert any(judged.contradicted for judged in found)
