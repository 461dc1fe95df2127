"""Rules that turn records of an older specification into records of this one, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from leasehold.spec.language.diagnostics import NOWHERE, Place
from leasehold.spec.language.types import Value


@dataclass(frozen=True, slots=True)
class MigratedField:
    """The source of a field's value: an old field, a new record, or `value`, the same for every record.

    Attributes:
        source: the old field; empty where the value comes from none.
        initial: it begins as in a new record.
        value: where there is neither.
        cells: the value of the cells that an old map does not have; `filled` says whether there is one.
    """

    name: str
    source: str = ""
    value: Value = None
    cells: Value = None
    filled: bool = False
    initial: bool = False
    place: Place = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class MigratedRole:
    """The change of a role's records.

    Attributes:
        was: the role's old name.
        states: new names of old states.
        fields: by their new names.
        drop: old fields whose values are given up.
        forget: old states in which machines are given up that are no longer there.
    """

    name: str
    was: str
    states: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, MigratedField] = field(default_factory=dict)
    drop: frozenset[str] = frozenset()
    forget: frozenset[str] = frozenset()
    place: Place = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Migration:
    """The rules to turn records of an older specification into records of this one; `source` begins the old digest."""

    source: str
    roles: Mapping[str, MigratedRole] = field(default_factory=dict)
    doc: str = ""
    place: Place = field(default=NOWHERE, compare=False)
