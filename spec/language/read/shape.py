"""The shapes of YAML files: keys.yaml as values, for the reader, the JSON Schema and the reference page.

A shape describes the YAML at a place. shape_check.py compares a tree with its shape and reports every difference; a
tree that passes needs no further checks of its form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

from leasehold.spec.language import table


@dataclass(frozen=True, slots=True)
class TextShape:
    """A word or sentence; `of` says what it stands for, and is checked where it is used."""

    of: str = "text"  # text, name, expression, flag, fairness, owner, fate, number, type, channel kind, state set


@dataclass(frozen=True, slots=True)
class ListShape:
    of: YamlShape


@dataclass(frozen=True, slots=True)
class MappingShape:
    """A mapping from names that the user chooses."""

    of: YamlShape
    keys: str = "name"
    """One of NAMES, transition, target (`name` or `name[key]`), definition (`name(parameters)`) or anything."""


@dataclass(frozen=True, slots=True)
class ShapeKey:
    shape: YamlShape
    doc: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class RecordShape:
    title: str
    keys: Mapping[str, ShapeKey]


@dataclass(frozen=True, slots=True)
class Alternatives:
    """Alternatives that the kind of YAML (text, list, mapping) tells apart."""

    choices: tuple[YamlShape, ...]


YamlShape: TypeAlias = TextShape | ListShape | MappingShape | RecordShape | Alternatives

# All words that such a text may be.
CHOICES = {
    "flag": ("true", "false"),
    "fairness": ("true", "false", "strong"),
    "owner": ("actor", "run"),
    "fate": ("kept", "lost"),
}
NAME_SHAPE = TextShape("name")

_TABLE = table("keys.yaml")
NAMES = frozenset(["name", *_TABLE["names"]])  # kinds of texts and keys that are names


def shape(notation: Any) -> YamlShape:
    """The shape that keys.yaml writes so."""
    match notation:
        case str() if notation in _TABLE["records"]:
            return record(notation)
        case str():
            return shape(_TABLE["shapes"][notation]) if notation in _TABLE["shapes"] else TextShape(notation)
        case [of]:
            return ListShape(shape(of))
        case {"one of": choices}:
            return Alternatives(tuple(map(shape, choices)))
    ((keys, of),) = notation.items()
    return MappingShape(shape(of), keys)


@cache
def record(title: str) -> RecordShape:
    """The record of this title."""
    return record_of(title, _TABLE["records"][title])


def record_of(title: str, keys: Mapping[str, Any]) -> RecordShape:
    """A record whose keys are written as in keys.yaml: `[SHAPE, DOC]`, or `[SHAPE, DOC, required]`."""
    return RecordShape(title, {name: ShapeKey(shape(of), doc, bool(more)) for name, (of, doc, *more) in keys.items()})


FILES: Mapping[str, RecordShape] = {kind: record(title) for kind, title in _TABLE["files"].items()}

# An included file that holds part of system.yaml: nothing is required of it.
PART = RecordShape("part of a system", {n: ShapeKey(key.shape, key.doc) for n, key in FILES["system"].keys.items()})
