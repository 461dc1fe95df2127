"""The units of a site: their names, types and properties, in an order that never changes.

A unit's number is its position, and records say numbers. So units are added at the end only; whoever keeps records
remembers the list too (`remembered`), and `check` refuses one in which a unit has gone or moved.

A list in YAML. `count` makes several at once: `disk-0`, `disk-1`, `disk-2`.

    units:
      - {name: node-a, properties: {cpus: 2}}
      - {name: disk, count: 3, type: disk}
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from leasehold.impl.words import choices

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MOST = 100_000
_KEYS = ("name", "type", "properties", "count")


class InventoryError(ValueError):
    """An inventory cannot be used: the operator's to mend. The message says where, what, and the remedy."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit.

    Attributes:
        name: its persistent name: letters, digits, `.`, `_` and `-`, as it becomes the name of a directory.
        type: the type of resource, of which tickets are given.
        properties: what handlers are told of it.
    """

    name: str
    type: str = "unit"
    properties: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Inventory:
    """All units, by number."""

    units: tuple[Unit, ...]

    def __len__(self) -> int:
        return len(self.units)

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(u.type for u in self.units))

    def numbers(self, type: str) -> tuple[int, ...]:
        """The units of a type."""
        return tuple(n for n, u in enumerate(self.units) if u.type == type)

    def the_type(self, type: str = "") -> str:
        """A type that there is; where none is asked for, the only one.

        Raises:
            InventoryError: there is no such type, or there are several.
        """
        types = self.types
        if not type and len(types) == 1:
            return types[0]
        if not type:
            raise InventoryError(f"there are several types of unit, {', '.join(types)}; say which is meant")
        if type not in types:
            raise InventoryError(f"there is no unit of type {type[:60]!r}{choices(type, types)}")
        return type

    def remembered(self) -> bytes:
        """What to keep with the records, and to give to `check` at the next start."""
        return json.dumps([[u.name, u.type] for u in self.units], separators=(",", ":")).encode()

    def check(self, remembered: bytes) -> None:
        """Refuses an inventory in which a unit has another number, or another type, than records know it by.

        Raises:
            InventoryError: a remembered unit is not where it was.
        """
        now = {u.name: n for n, u in enumerate(self.units)}
        for number, (name, type) in enumerate(json.loads(remembered) if remembered else ()):
            remedy = "records know units by their number: keep the old units as they were, and add new ones at the end"
            if name not in now:
                raise InventoryError(f"unit {name!r}, number {number}, is gone; {remedy}")
            if now[name] != number:
                raise InventoryError(f"unit {name!r} was number {number}, and is now number {now[name]}; {remedy}")
            if self.units[number].type != type:
                raise InventoryError(
                    f"unit {name!r} was of type {type!r}, and is now of type {self.units[number].type!r}; {remedy}"
                )

    @classmethod
    def read(cls, path: Path) -> Inventory:
        """Reads a file.

        Raises:
            InventoryError: it cannot be read, or is no inventory.
        """
        try:
            value = yaml.safe_load(path.read_text("utf-8"))
        except (OSError, UnicodeDecodeError) as e:
            raise InventoryError(f"{path}: cannot be read: {e}") from None
        except yaml.YAMLError as e:
            raise InventoryError(f"{path}: is no YAML: {' '.join(str(e).split())}") from None
        return cls.parse(value, str(path))

    @classmethod
    def parse(cls, value: object, where: str = "inventory") -> Inventory:
        """Reads `{units: [...]}`.

        Raises:
            InventoryError: it is no inventory.
        """
        if not isinstance(value, Mapping):
            raise InventoryError(f"{where}: needs `units:` with a list below it, as in `units: [{{name: node-a}}]`")
        for key in value:
            if key != "units":
                raise InventoryError(f"{where}: there is no key {str(key)[:60]!r}{choices(str(key), ('units',))}")
        listed = value.get("units")
        if not isinstance(listed, list) or not listed:
            raise InventoryError(
                f"{where}: `units` needs a list of at least one unit, as in `units: [{{name: node-a}}]`"
            )
        units: list[Unit] = []
        for i, entry in enumerate(listed):
            units += _entry(entry, f"{where}: units[{i}]")
            if len(units) > MOST:
                raise InventoryError(f"{where}: more than {MOST} units; have several sites")
        seen: dict[str, int] = {}
        for n, unit in enumerate(units):
            if seen.setdefault(unit.name, n) != n:
                raise InventoryError(
                    f"{where}: units {seen[unit.name]} and {n} are both named {unit.name!r}; each needs its own name"
                )
        return cls(tuple(units))


def _entry(entry: object, where: str) -> list[Unit]:
    if isinstance(entry, str):
        entry = {"name": entry}
    if not isinstance(entry, Mapping):
        raise InventoryError(
            f"{where}: is {str(entry)[:60]!r}; a unit is its name, or as in {{name: node-a, type: node}}"
        )
    for key in entry:
        if key not in _KEYS:
            raise InventoryError(f"{where}: there is no key {str(key)[:60]!r}{choices(str(key), _KEYS)}")
    name, type = entry.get("name"), entry.get("type", "unit")
    for key, text in (("name", name), ("type", type)):
        if not isinstance(text, str) or not NAME.fullmatch(text):
            raise InventoryError(
                f"{where}: `{key}` is {str(text)[:80]!r}; it needs 1 to 64 letters, digits, `.`, `_` or `-`, "
                "beginning with a letter or digit (in quotes, if it is all digits)"
            )
    properties = entry.get("properties", {})
    if not isinstance(properties, Mapping) or not all(isinstance(k, str) for k in properties):
        raise InventoryError(f"{where}: `properties` needs names and values, as in properties: {{cpus: 2}}")
    try:
        json.dumps(properties)
    except (TypeError, ValueError) as e:
        raise InventoryError(f"{where}: `properties` must be what JSON can say: {e}; put dates in quotes") from None
    if "count" not in entry:
        return [Unit(str(name), str(type), dict(properties))]
    count = entry["count"]
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST:
        raise InventoryError(f"{where}: `count` is {str(count)[:60]!r}; it needs a number from 1 to {MOST}")
    if len(f"{name}-{count - 1}") > 64:
        raise InventoryError(
            f"{where}: `name` is too long for names such as {name}-{count - 1}; 64 letters are the most"
        )
    return [Unit(f"{name}-{i}", str(type), dict(properties)) for i in range(count)]
