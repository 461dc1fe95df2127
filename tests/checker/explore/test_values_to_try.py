"""The values that the explorer tries: first values that are `any`, and those of events, all of them and no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.export import export_system
from leasehold.checker.prove import prove
from leasehold.faults.model import Budget
from leasehold.spec import System
from tests.systems import files_of, written

FIRST = files_of("checker/explore/systems/first")
SYSTEM = FIRST["system.yaml"]
ROLE = FIRST["roles/one.yaml"]
PEER = "role: peer\nstates: {there: {initial: true}}\n"


def first(folder: Path, type_: str, claim: str = "") -> System:
    """A machine whose `x` begins with any value of a type, and two others."""
    files = {"system.yaml": SYSTEM, "roles/one.yaml": ROLE.replace("TYPE", type_), "roles/peer.yaml": PEER}
    if claim:
        files["invariants.yaml"] = f"properties: {{claim: {{always: '{claim}'}}}}\n"
    return written(folder, files)


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("int, min: 0, max: 3", "0 1 2 3"),
        ("int, min: -1, max: most - 2", "-1 0 1"),
        ("int, explore: [1, 2]", "1 2"),
        ("int, min: 1, max: 9, explore: [0, most]", "1 2 3"),
        ("opaque, explore: [0, 1]", "0 1"),
        ("bool", "false true"),
        ("colour", "red green"),
        ("slot", "slot[0] slot[1] slot[2]"),
        ("peer", "peer[0] peer[1]"),
        ("'option[colour]'", "none red green"),
        ("'option[int]', explore: [0, 1]", "none 0 1"),
        ("'option[bool]'", "none false true"),
        ("'set[colour]'", "{} {red} {green} {red,green}"),
        (
            "'map[colour, bool]'",
            "{red:false,green:false} {red:false,green:true} {red:true,green:false} {red:true,green:true}",
        ),
    ],
)
@pytest.mark.parametrize("engine", ["reference", "auto"])
def test_any_first_value_is_every_value(tmp_path: Path, type_: str, values: str, engine: str) -> None:
    wanted = values.split()
    found = explore(first(tmp_path, type_), engine=engine)  # type: ignore[arg-type]
    assert (found.initial, found.distinct, found.depth) == (len(wanted), 2 * len(wanted), 1)
    system = first(tmp_path, type_, "false")
    path = explore(system, engine=engine).properties[0].path  # type: ignore[arg-type]
    assert path is not None
    assert path.initial.data["one.x"].replace(" ", "") in wanted
    model = export_system(system, "promela").text
    assert model.count(":: d_step { one.x") == len(wanted)


def test_a_bound_alone_is_tried_to_its_end(tmp_path: Path) -> None:
    """The claim fails in the last first value alone, for the explorer as for the prover."""
    system = first(tmp_path, "int, min: 0, max: 3", "one.x < 3")
    assert [p.verdict for p in explore(system).properties] == ["violated"]
    assert [v.verdict for v in prove(system, small=system, jobs=1).verdicts if v.name == "claim"] == ["counterexample"]
    assert "x : (0..3)]" in export_system(system, "tla").text


def test_options_have_ranges(tmp_path: Path) -> None:
    """Beyond its range nothing is explored; none is never beyond it."""
    files = files_of("checker/explore/systems/put_option")
    system = written(tmp_path, files)
    for engine in ("reference", "auto"):
        found = explore(system, engine=engine)  # type: ignore[arg-type]
        assert (found.distinct, found.generated, found.cut) == (3, 13, 3)
    assert "\\A V \\in one.x : 0 <= V /\\ V <= 1" in export_system(system, "tla").text


def test_an_event_without_explore_has_every_value_of_its_type(tmp_path: Path) -> None:
    files = files_of("checker/explore/systems/put_one")
    for engine in ("reference", "auto"):
        found = explore(written(tmp_path, files), engine=engine)  # type: ignore[arg-type]
        assert (found.distinct, found.generated) == (4, 13)


def test_a_liar_s_messages_have_every_value_of_their_range(tmp_path: Path) -> None:
    files = files_of("checker/explore/systems/values_to_try")
    ends = {**files, "messages.yaml": files["messages.yaml"].replace("FIELD", "{type: int, min: 1, max: 3}")}
    assert explore(written(tmp_path, ends), budget=Budget(byzantine="one")).distinct == 4


@pytest.mark.parametrize("engine", ["packed", "reference"])
def test_the_cells_of_a_map_that_comes_have_the_values_to_try(engine: str, tmp_path: Path) -> None:
    """Values come from outside, and from a Byzantine actor: each of two lamps is off, dim or bright."""
    files = files_of("checker/explore/systems/values_of_fields")
    system = written(tmp_path, files)
    assert explore(system, engine=engine).distinct == 1 + 2 * 3**2
    assert explore(system, budget=Budget(byzantine="one"), engine=engine).distinct == 3**2


@pytest.mark.parametrize(("bounds", "value"), [("max: -2", -2), ("max: 4", 0), ("min: -3, max: 5", -3), ("min: 2", 2)])
def test_the_first_value_of_a_number_is_within_its_bounds(bounds: str, value: int, tmp_path: Path) -> None:
    role = ROLE.replace("type: TYPE, initial: any", f"type: int, {bounds}")
    system = written(tmp_path, {"system.yaml": SYSTEM, "roles/one.yaml": role, "roles/peer.yaml": PEER})
    assert system.roles["one"].data["x"].initial == value
