"""Inventories: numbers that never change, and errors that say where and what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leasehold.impl.lease.inventory import Inventory, InventoryError, Unit

CIRCULAR: dict[str, Any] = {}
CIRCULAR["itself"] = CIRCULAR  # as an alias in YAML makes it


def parse(*units: Any) -> Inventory:
    return Inventory.parse({"units": list(units)})


def test_a_file(tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    file.write_text("units:\n- {name: node-a, properties: {cpus: 2}}\n- {name: disk, count: 2, type: disk}\n- plain\n")
    inventory = Inventory.read(file)
    assert inventory.units == (
        Unit("node-a", "unit", {"cpus": 2}),
        Unit("disk-0", "disk"),
        Unit("disk-1", "disk"),
        Unit("plain"),
    )
    assert inventory.numbers("disk") == (1, 2)
    assert inventory.types == ("unit", "disk")
    assert len(inventory) == 4


def test_a_unit_by_its_number_and_by_its_name() -> None:
    inventory = parse({"name": "a", "properties": {"cpus": 2}}, "b")
    assert [inventory.name(n) for n in (-1, 0, 1, 2)] == [None, "a", "b", None]
    assert [inventory.number(name) for name in ("a", "b", "c")] == [0, 1, None]
    assert [inventory.properties(n) for n in (-1, 0, 1, 2)] == [{}, {"cpus": 2}, {}, {}]


def test_the_type_that_is_meant() -> None:
    one, two = parse("a", "b"), parse("a", {"name": "b", "type": "disk"})
    assert (one.the_type(), one.the_type("unit"), two.the_type("disk")) == ("unit", "unit", "disk")
    with pytest.raises(InventoryError, match="several types of unit, unit, disk"):
        two.the_type()
    for inventory in (one, two):
        with pytest.raises(InventoryError, match="no unit of type 'tape'"):
            inventory.the_type("tape")


@pytest.mark.parametrize(
    "entry",
    [
        {"name": "a" * 64},
        {"name": "a" * 62, "count": 10},
        {"name": "a", "count": 100_000},
        {"name": "0"},
        {"name": "a", "type": "x" * 64},
    ],
)
def test_as_much_as_there_may_be(entry: dict[str, Any]) -> None:
    found = parse(entry)
    assert len(found) == entry.get("count", 1)
    assert max(len(unit.name) for unit in found.units) <= 64


@pytest.mark.parametrize(
    ("entry", "names"),
    [
        ("a", ["a"]),
        ({"name": "a"}, ["a"]),
        ({"name": "a", "count": 1}, ["a-0"]),
        ({"name": "a", "count": 2}, ["a-0", "a-1"]),
        ({"name": "a", "count": 11}, [f"a-{n}" for n in range(11)]),
    ],
)
def test_units_of_an_entry_with_a_count_have_numbers(entry: Any, names: list[str]) -> None:
    """Also one alone: the count may grow, and no unit's name changes by that."""
    assert [unit.name for unit in parse(entry).units] == names


def test_units_that_are_alike_have_properties_of_their_own() -> None:
    one, two = parse({"name": "a", "count": 2, "properties": {"x": 1}}).units
    assert one.properties == two.properties
    assert one.properties is not two.properties


def test_units_are_added_at_the_end_only() -> None:
    """A unit's number is part of records."""
    before = parse("a", "b").remembered()
    parse("a", "b").check(before)
    parse("a", "b", "c").check(before)
    parse("a").check(b"")
    typed = parse({"name": "a", "type": "disk"}, "b")
    typed.check(typed.remembered())
    for units, words in (
        (("a", "c"), "unit 'b', number 1, is gone; records know units by their number"),
        (("a",), "unit 'b', number 1, is gone"),
        (("b", "a"), "unit 'a' was number 0, and is now number 1"),
        (("a", "x", "b"), "unit 'b' was number 1, and is now number 2"),
        (("a", {"name": "b", "type": "disk"}), "unit 'b' was of type 'unit', and is now of type 'disk'"),
    ):
        with pytest.raises(InventoryError, match=words):
            parse(*units).check(before)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "inventory: needs `units:` with a list"),
        ({"unit": []}, "there is no key 'unit'; did you mean units?"),
        ({"units": []}, "`units` needs a list of at least one unit"),
        ({"units": {"a": 1}}, "`units` needs a list of at least one unit"),
        ({"units": [5]}, "units.0.: is '5'; a unit is its name"),
        ({"units": [{}]}, "units.0.: `name` is 'None'; it needs 1 to 64 letters"),
        ({"units": ["ok", "../up"]}, "units.1.: `name` is '../up'"),
        ({"units": [{"name": "a", "typ": "b"}]}, "there is no key 'typ'; did you mean type?"),
        ({"units": [{"name": "a", "type": ""}]}, "`type` is ''"),
        ({"units": [{"name": "a", "properties": [1]}]}, "`properties` is .*needs names and values"),
        ({"units": [{"name": "a", "properties": {"x": {1}}}]}, "must be what JSON can say"),
        ({"units": [{"name": "a", "properties": CIRCULAR}]}, "must be what JSON can say"),
        ({"units": [{"name": "a", "properties": {"x": [float("nan")]}}]}, "must be what JSON can say"),
        ({"units": [{"name": "a", "count": 0}]}, "`count` is '0'; it needs a number from 1"),
        ({"units": [{"name": "a", "count": 100_001}]}, "`count` is '100001'; it needs a number from 1"),
        ({"units": [{"name": "a" * 65}]}, "`name` is 'a{65}'"),
        ({"units": [{"name": "a" * 62, "count": 11}]}, "too long for names such as a{62}-10"),
        ({"units": ["b", {"name": "a", "count": 100_000}]}, "more than 100000 units"),
        ({"units": [{"name": "a", "type": "x" * 65}]}, "`type` is "),
        ({"units": [{"name": 5}]}, "`name` is '5'.*in quotes, if it is all digits"),
        ({"units": [{"name": "a", "count": 2}, "a-1"]}, "units 1 and 2 are both named 'a-1'"),
        ({"units": [{"name": "a", "count": True}]}, "`count` is 'True'"),
        ({"units": [{"name": "a" * 63, "count": 2}]}, "too long for names such as"),
        ({"units": ["a", "b", "a"]}, "units 0 and 2 are both named 'a'"),
        ({"units": [{"name": "a", "count": 60_000}, {"name": "b", "count": 60_000}]}, "more than 100000 units"),
    ],
)
def test_what_is_no_inventory(value: Any, words: str) -> None:
    with pytest.raises(InventoryError, match=words):
        Inventory.parse(value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InventoryError, match=r"none.yaml: cannot be read"):
        Inventory.read(tmp_path / "none.yaml")
    (tmp_path / "bad.yaml").write_text("units: [")
    with pytest.raises(InventoryError, match=r"bad.yaml: is no YAML"):
        Inventory.read(tmp_path / "bad.yaml")
