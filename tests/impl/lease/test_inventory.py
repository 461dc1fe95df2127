"""Inventories: numbers that never change, and errors that say where and what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leasehold.impl.lease.inventory import Inventory, InventoryError, Unit


def parse(*units: Any) -> Inventory:
    return Inventory.parse({"units": list(units)})


def test_a_file(tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    file.write_text("units:\n- {name: node-a, properties: {cpus: 2}}\n- {name: disk, count: 2, type: disk}\n- plain\n")
    inventory = Inventory.read(file)
    assert inventory.units == (
        Unit("node-a", "unit", {"cpus": 2}), Unit("disk-0", "disk"), Unit("disk-1", "disk"), Unit("plain"),
    )  # fmt: skip
    assert inventory.numbers("disk") == (1, 2)
    assert inventory.types == ("unit", "disk")


def test_units_are_added_at_the_end_only() -> None:
    """A unit's number is part of records."""
    before = parse("a", "b").remembered()
    parse("a", "b").check(before)
    parse("a", "b", "c").check(before)
    parse("a").check(b"")
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
        ({"units": [{"name": "a", "count": 0}]}, "`count` is '0'; it needs a number from 1"),
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
