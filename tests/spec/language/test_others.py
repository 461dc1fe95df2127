"""`others` of a state is, in every reading, as each of these events named with that reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from leasehold.checker.conform.coverage import cells_of
from leasehold.checker.explore import explore
from leasehold.checker.export import FORMATS, export_system
from leasehold.checker.mutation.operators import mutations
from leasehold.checker.prove import prove
from leasehold.faults.model.points import crash_points
from leasehold.impl.compiler.program import source_of
from leasehold.reports.page import page_data
from leasehold.spec import System
from leasehold.spec.language.lower.others import must_cover
from tests.systems import load, written

SYSTEMS = ("spec/systems/starter", "spec/systems/two_phase_commit")
ROOT = Path(__file__).resolve().parents[3]


def files_with(folder: str, kind: str, *, named: bool) -> dict[str, str]:
    """The texts of a system in which each state that leaves an event alone leaves all others alone likewise.

    Args:
        folder: of the system.
        kind: `ignore` or `refuse`: what becomes of them.
        named: each of them stands under its name, with the same reason.
    """
    root = ROOT / folder
    model = load(root)
    files = {str(path.relative_to(root)): path.read_text() for path in root.rglob("*.yaml")}
    for role in model.roles.values():
        name = f"roles/{role.name}.yaml"
        text = yaml.load(files[name], yaml.BaseLoader)
        for state, node in text["states"].items():
            of = role.states[state]
            alone = [e for e in must_cover(model, role, of) if e not in of.on]
            for key in ("ignore", "refuse"):
                left = {e: why for e, why in getattr(of, key).items() if e in of.on}
                node.pop(key, None)
                node.update({key: left} if left else {})
            if alone and named:
                node.setdefault(kind, {}).update(dict.fromkeys(alone, "not thought of"))
            elif alone:
                node["others"] = {kind: "not thought of"}
        for key in ("ignore", "refuse"):
            text.pop(key, None)
        files[name] = yaml.safe_dump(text, sort_keys=False)
    return files


@pytest.fixture(params=[(folder, kind) for folder in SYSTEMS for kind in ("ignore", "refuse")], ids=str)
def both(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[System, System]:
    """A system with `others`, and the same with each of these events named."""
    folder, kind = request.param
    one, other = (
        written(tmp_path / word / Path(folder).name, files_with(folder, kind, named=named))
        for word, named in (("others", False), ("named", True))
    )
    assert any(state.others for role in one.roles.values() for state in role.states.values())
    return one, replace(other, digest=one.digest)


def test_the_machines_are_the_same_but_that_one_key_stands_for_many(both: tuple[System, System]) -> None:
    one, other = both
    for role, twin in zip(one.roles.values(), other.roles.values(), strict=True):
        assert role != twin or not any(s.others for s in role.states.values())
        assert [s.spelled_out for s in role.states.values()] == [*twin.states.values()]


def explored(system: System) -> object:
    """Counts, and how often each transition is taken."""
    found = explore(system)
    return found.distinct, found.generated, found.edges, found.depth, found.taken, found.vacuous


def proved(system: System) -> object:
    found = prove(system)
    return [(v.name, v.verdict, v.method) for v in found.verdicts], found.guards


def shown(system: System) -> object:
    """The states as a report shows them, without the lines on which they stand."""
    roles = page_data(explore(system), measured=False)["roles"]
    return [{**state, "place": ""} for role in roles for state in role["states"]]


def mutants(system: System) -> object:
    return sorted(m.name for m in mutations(system))


READINGS: dict[str, Callable[[System], object]] = {
    "explored": explored,
    "proved": proved,
    "compiled": source_of,
    "crash points": crash_points,
    "cells of coverage": lambda system: sorted(cells_of(system)),
    "mutants": mutants,
    "report": shown,
    **{f"exported {to}": lambda system, to=to: export_system(system, to) for to in FORMATS},
}


@pytest.mark.parametrize("reading", READINGS)
def test_a_reading_takes_others_as_it_takes_those_that_are_named(reading: str, both: tuple[System, System]) -> None:
    one, other = both
    assert READINGS[reading](one) == READINGS[reading](other)
