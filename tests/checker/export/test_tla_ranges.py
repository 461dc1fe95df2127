"""The ranges of numbers in a TLA+ module: of fields, of cells of maps, of options that are there, and in sequences."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.checker.export import export_system
from tests.systems import written

SYSTEM = """system: box
roles: {a: {}}
types: {side: {members: [left, right]}, hand: {members: [one, other]}}
"""
ROLE = "role: a\ndata: {{n: {{type: {0}}}}}\nstates: {{on: {{initial: true}}}}\n"
SIDES, HANDS = r'{"left", "right"}', r'{"one", "other"}'


@pytest.mark.parametrize(
    ("type_", "wanted"),
    [
        ("int, min: 0, max: 3", r"0 <= a.n /\ a.n <= 3"),
        ("int, min: 1", "1 <= a.n"),
        ("int, max: 3", "a.n <= 3"),
        ("int", None),
        ("bool", None),
        ('"option[side]"', None),
        ('"option[int]", min: 1', r"\A V0 \in a.n : 1 <= V0"),
        ('"map[side, int]", max: 3', rf"\A K0 \in {SIDES} : a.n[K0] <= 3"),
        ('"map[side, option[int]]", max: 3', rf"\A K0 \in {SIDES} : \A V1 \in a.n[K0] : V1 <= 3"),
        ('"seq[side, 2]"', "Len(a.n) <= 2"),
        ('"seq[int, 2]"', "Len(a.n) <= 2"),
        ('"seq[int, 2]", min: 0, max: 3', r"Len(a.n) <= 2 /\ (\A V0 \in Values(a.n) : 0 <= V0 /\ V0 <= 3)"),
        ('"map[side, seq[hand, 2]]"', rf"\A K0 \in {SIDES} : Len(a.n[K0]) <= 2"),
        ('"option[seq[map[side, bool], 2]]"', r"\A V0 \in a.n : Len(V0) <= 2"),
        (
            '"map[side, map[hand, int]]", min: 0, max: 3',
            rf"\A K0 \in {SIDES} : \A K1 \in {HANDS} : 0 <= a.n[K0][K1] /\ a.n[K0][K1] <= 3",
        ),
        (
            '"map[side, map[hand, option[int]]]", min: 1',
            rf"\A K0 \in {SIDES} : \A K1 \in {HANDS} : \A V2 \in a.n[K0][K1] : 1 <= V2",
        ),
    ],
)
def test_every_number_in_a_value_stays_in_its_range(type_: str, wanted: str | None, tmp_path: Path) -> None:
    """Each level has a name of its own, however deep it lies."""
    files = {"system.yaml": SYSTEM, "invariants.yaml": "properties: {}\n", "roles/a.yaml": ROLE.format(type_)}
    text = export_system(written(tmp_path, files), "tla").text
    _, _, claims = text.partition("\nTypesHold ==\n")
    assert claims.partition("\n\n")[0].strip() == ("" if wanted is None else rf"/\ {wanted}")
