"""Constructs of the language in every reading: the systems of tests/constructs have what expected.yaml says of them.

Both engines explore them alike; SPIN stores as many states; the prover proves what holds, and nothing else; TLC
counts and judges as the explorer does; those that run walk every edge through the compiled core.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.explore.symmetry import symmetry_of
from leasehold.checker.export import export_system
from leasehold.checker.prove import prove
from leasehold.spec import System, load
from tests.checker.explore.test_engines import assert_alike
from tests.checker.explore.test_symmetry import held_against_all_states
from tests.checker.export.test_promela import check, errors, stored
from tests.checker.export.test_tla import assert_same
from tests.checker.export.tlc import verdicts
from tests.impl.compiler.twin import walk
from tests.systems import CONSTRUCTS, files_of, written

SYSTEMS = sorted(path.name for path in CONSTRUCTS.iterdir())
RUN = ("begins", "captures", "channels", "circle", "maps", "nested", "others", "passes", "places", "urgent")


@pytest.fixture(params=SYSTEMS)
def system(request: pytest.FixtureRequest) -> System:
    return load(CONSTRUCTS / request.param)


def violated(system: System) -> set[str]:
    (run,) = system.expectations
    return set(run.violated)


def test_both_engines_find_what_is_expected(system: System) -> None:
    assert_alike(system)
    found, (run,) = explore(system), system.expectations
    assert (found.distinct, found.generated, found.depth) == tuple(
        run.numbers[name] for name in ("distinct", "generated", "depth")
    )
    assert {p.name for p in found.properties if p.verdict == "violated"} == violated(system)


@pytest.mark.usefixtures("spin")
def test_spin_stores_what_the_explorer_counts(system: System, tmp_path: Path) -> None:
    printed = check(tmp_path, export_system(system, "promela").text)
    apart = any(r.begin or any(d.begin for d in r.data.values()) for r in system.roles.values())
    # Then the state before the initial one is stored too.
    assert stored(printed) == explore(system).distinct + apart
    always = {p.name for p in system.properties.values() if p.kind == "always"}
    assert bool(errors(printed)) == bool(violated(system) & always)


@pytest.mark.long
@pytest.mark.usefixtures("tlc")
def test_tlc_finds_what_the_explorer_finds(system: System) -> None:
    assert_same(explore(system), verdicts(system))


def test_what_holds_is_proved_for_any_number(system: System) -> None:
    proof = prove(system, jobs=1)
    claimed = {p.name for p in system.properties.values() if p.kind in ("always", "step")}
    assert {v.name for v in proof.verdicts if v.verdict == "proved"} - {*system.lemmas} == claimed - violated(system)


OVERFLOW = files_of("checker/systems/overflow")


@pytest.mark.parametrize("within", [True, False])
def test_a_bound_holds_for_each_value_of_a_map(within: bool, tmp_path: Path) -> None:
    guard = "n[event.at] < 2" if within else "n[event.at] < 2 or event.at == slot[1] and n[event.at] < 3"
    files = {name: text.replace("GUARD", guard) for name, text in OVERFLOW.items()}
    system = written(tmp_path, files)
    assert_alike(system)
    broken = {p.name for p in explore(system).properties if p.verdict == "violated"}
    assert broken == (set() if within else {"types_hold"})
    printed = check(tmp_path, export_system(system, "promela").text)
    assert bool(errors(printed)) == (not within)
    problems = " ".join(str(p) for p in prove(system, jobs=1).guards)
    assert ("`n`" in problems) == (not within)


def test_a_map_is_changed_alike_whoever_changes_places() -> None:
    found = held_against_all_states(load(CONSTRUCTS / "maps", {"guests": 3}))
    assert found.orbits is not None


def test_shared_variables_are_alike_whoever_changes_places() -> None:
    found = held_against_all_states(load(CONSTRUCTS / "pool", {"workers": 3}))
    assert found.orbits is not None


def test_what_takes_a_number_tells_apart() -> None:
    system = load(CONSTRUCTS / "circle")
    assert any("the first state" in words for words in symmetry_of(system).why_not)
    whole = replace(system.roles["node"], begin=())
    states = {name: replace(state, starts=None) for name, state in whole.states.items()}
    alike = replace(system, properties={}, roles={"node": replace(whole, states=states)})
    assert any("task node.hand_on takes" in words for words in symmetry_of(alike).why_not)


@pytest.mark.parametrize("name", RUN)
def test_what_runs_takes_every_edge(name: str) -> None:
    assert walk(load(CONSTRUCTS / name), "").seen["taken"] > 4
