"""Constructs of the language in every reading: the systems of tests/constructs have what expected.yaml says of them.

Both engines explore them alike; SPIN stores as many states; the prover proves what holds, and nothing else; what they
are in TLA+ stands beside the test, as TLC is not at hand; those that run walk every edge through the compiled core.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.export import export_system
from leasehold.checker.prove import prove
from leasehold.spec import System, load
from tests.checker.explore.test_engines import assert_alike
from tests.checker.export.test_promela import check, errors, stored
from tests.impl.compiler.twin import walk

FOLDER = Path(__file__).resolve().parents[1] / "constructs"
SYSTEMS = sorted(path.name for path in FOLDER.iterdir())
RUN = ()
TLA = {
    "levels": (
        r"!.top = Greatest({unit[u_].level : u_ \in (0..2)}, 0)",
        r"!.low = Least({unit[u_].level : u_ \in {u_ \in (0..2) : unit[u_].on}}, 7)",
    ),
}  # fmt: skip


@pytest.fixture(params=SYSTEMS)
def system(request: pytest.FixtureRequest) -> System:
    return load(FOLDER / request.param)


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
    assert stored(printed) == explore(system).distinct
    always = {p.name for p in system.properties.values() if p.kind == "always"}
    assert bool(errors(printed)) == bool(violated(system) & always)


def test_tla_has_it(system: System) -> None:
    text = export_system(system, "tla").text
    assert [words for words in TLA[system.name] if words not in text] == []


def test_what_holds_is_proved_for_any_number(system: System) -> None:
    proof = prove(system, jobs=1)
    assert {v.name for v in proof.verdicts if v.verdict == "proved"} == {*system.properties} - violated(system)


@pytest.mark.parametrize("name", RUN)
def test_what_runs_takes_every_edge(name: str) -> None:
    assert walk(load(FOLDER / name), "").seen["taken"] > 10
