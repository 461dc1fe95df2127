"""The expressions within the typed model, without a walker for each of its classes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from leasehold.spec.language.expression import Expression, Node


def expressions(part: object) -> Iterator[Expression]:
    """Every expression within a part of the model, such as a task or a role; not what is inside an expression."""
    inside: Iterable[object] = ()
    match part:
        case Node():
            yield part  # type: ignore[misc]
        case Mapping():
            inside = part.values()
        case tuple():
            inside = part
        case _:
            kind: Any = type(part)
            inside = [getattr(part, name) for name in _fields_of(kind)]
    for item in inside:
        yield from expressions(item)


@cache  # there are few types, and many parts of each
def _fields_of(kind: type) -> tuple[str, ...]:
    """The names of the fields of a dataclass; of another type, none."""
    return tuple([f.name for f in fields(kind)]) if is_dataclass(kind) else ()
