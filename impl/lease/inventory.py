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
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from leasehold.impl.actor.environment import EnvironmentMismatch
from leasehold.impl.files import Unreadable, read_yaml
from leasehold.impl.handlers.handler import UNIT_NAME
from leasehold.impl.words import choices

MOST = 100_000
Word = Annotated[str, Meta(pattern=f"^{UNIT_NAME.pattern}$")]


class UnitEntry(Struct, forbid_unknown_fields=True):
    """A unit as a file lists it, or several that are alike.

    Attributes:
        name: its persistent name; of several, what their names begin with.
        type: the type of resource.
        properties: what handlers are told of it.
        count: how many units there are, named NAME-0, NAME-1, ...; left out, one, named NAME.
        site: in the inventory of a broker, the site that has it; left out: the only one that is trusted.
    """

    name: Word
    type: Word = "unit"
    properties: dict[str, Any] = {}
    count: Annotated[int, Meta(ge=1, le=MOST)] | UnsetType = UNSET
    site: Word | UnsetType = UNSET


class InventoryFile(Struct, forbid_unknown_fields=True):
    """The units of a site. Records know them by position, so new ones are added at the end.

    Attributes:
        units: each by its name, or with its keys.
    """

    units: Annotated[list[UnitEntry | Word], Meta(min_length=1)]


_WORD = (
    "it needs 1 to 64 letters, digits, `.`, `_` or `-`, beginning with a letter or digit "
    "(in quotes, if it is all digits)"
)
_NEEDS = {
    "name": _WORD,
    "type": _WORD,
    "properties": "it needs names and values, as in properties: {cpus: 2}",
    "count": f"it needs a number from 1 to {MOST}",
    "site": "it needs the name of an actor",
}


class InventoryError(EnvironmentMismatch):
    """An inventory cannot be used: the operator's to mend. The message says where, what, and the remedy."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit.

    Attributes:
        name: its persistent name: letters, digits, `.`, `_` and `-`, as it becomes the name of a directory.
        type: the type of resource, of which tickets are given.
        properties: what handlers are told of it.
        site: the site that has it; empty: the only one that is known.
    """

    name: str
    type: str = "unit"
    properties: Mapping[str, Any] = field(default_factory=dict)
    site: str = ""


@dataclass(frozen=True, slots=True)
class Inventory:
    """All units, by number."""

    units: tuple[Unit, ...]

    def __len__(self) -> int:
        return len(self.units)

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(u.type for u in self.units))

    def name(self, index: int) -> str | None:
        return self.units[index].name if 0 <= index < len(self.units) else None

    def number(self, name: str) -> int | None:
        return next((n for n, unit in enumerate(self.units) if unit.name == name), None)

    def properties(self, index: int) -> Mapping[str, Any]:
        return self.units[index].properties if 0 <= index < len(self.units) else {}

    def type(self, index: int) -> str:
        return self.units[index].type if 0 <= index < len(self.units) else ""

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
        """The list to keep with the records, and to give to `check` at the next start."""
        listed = [[u.name, u.type, u.site] if u.site else [u.name, u.type] for u in self.units]
        return json.dumps(listed, separators=(",", ":")).encode()

    def check(self, remembered: bytes) -> None:
        """Refuses an inventory in which a unit has another number, or another type, than records know it by.

        Raises:
            InventoryError: a remembered unit is not where it was.
        """
        now = {u.name: n for n, u in enumerate(self.units)}
        for number, (name, type, *site) in enumerate(json.loads(remembered) if remembered else ()):
            remedy = "records know units by their number: keep the old units as they were, and add new ones at the end"
            if name not in now:
                raise InventoryError(f"unit {name!r}, number {number}, is gone; {remedy}")
            if now[name] != number:
                raise InventoryError(f"unit {name!r} was number {number}, and is now number {now[name]}; {remedy}")
            if self.units[number].type != type:
                raise InventoryError(
                    f"unit {name!r} was of type {type!r}, and is now of type {self.units[number].type!r}; {remedy}"
                )
            if site and self.units[number].site != site[0]:
                raise InventoryError(
                    f"unit {name!r} was at {site[0]}, and is now at {self.units[number].site or 'no site'}; {remedy}"
                )

    @classmethod
    def read(cls, path: Path) -> Inventory:
        """Reads a file.

        Raises:
            InventoryError: it cannot be read, or is no inventory.
        """
        try:
            return cls.parse(read_yaml(path), str(path))
        except Unreadable as error:
            raise InventoryError(str(error)) from None

    @classmethod
    def parse(cls, value: object, where: str = "inventory") -> Inventory:
        """Reads `{units: [...]}`.

        Raises:
            InventoryError: it is no inventory.
        """
        if not isinstance(value, Mapping):
            raise InventoryError(f"{where}: needs `units:` with a list below it, as in `units: [{{name: node-a}}]`")
        _check_keys(value, InventoryFile, where)
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


def units_at(sites: Mapping[str, Mapping[str, int]], own: bool = False) -> list[dict[str, Any]]:
    """Units as a file lists them, of sites, by site and type: SITE-TYPE-0, SITE-TYPE-1, ...

    Args:
        sites: by name, how many units of each type there are.
        own: whether the list is the site's own; that of a broker says at which site each unit is.
    """
    return [
        {"name": f"{site}-{type}", "type": type, "count": count, **({} if own else {"site": site})}
        for site, types in sites.items()
        for type, count in types.items()
    ]


def _check_keys(given: Mapping[Any, Any], kind: type[Struct], where: str) -> None:
    keys = kind.__struct_fields__
    for key in given:
        if key not in keys:
            raise InventoryError(f"{where}: there is no key {str(key)[:60]!r}{choices(str(key), keys)}")


def _entry(entry: object, where: str) -> list[Unit]:
    if isinstance(entry, str):
        entry = {"name": entry}
    if not isinstance(entry, Mapping):
        raise InventoryError(
            f"{where}: is {str(entry)[:60]!r}; a unit is its name, or as in {{name: node-a, type: node}}"
        )
    _check_keys(entry, UnitEntry, where)
    try:
        unit = msgspec.convert(entry, UnitEntry)
    except msgspec.ValidationError as e:
        key = next(k for k in UnitEntry.__struct_fields__ if re.search(rf"`(\$\.)?{k}\b", str(e)))
        raise InventoryError(f"{where}: `{key}` is {str(entry.get(key))[:80]!r}; {_NEEDS[key]}") from None
    try:
        json.dumps(unit.properties, allow_nan=False)
    except (TypeError, ValueError) as e:
        raise InventoryError(f"{where}: `properties` must be what JSON can say: {e}; put dates in quotes") from None
    site = "" if unit.site is UNSET else unit.site
    if unit.count is UNSET:
        return [Unit(unit.name, unit.type, unit.properties, site)]
    if len(f"{unit.name}-{unit.count - 1}") > 64:
        raise InventoryError(
            f"{where}: `name` is too long for names such as {unit.name}-{unit.count - 1}; 64 letters are the most"
        )
    return [Unit(f"{unit.name}-{i}", unit.type, dict(unit.properties), site) for i in range(unit.count)]
