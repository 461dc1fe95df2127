"""The places in which an object keeps a name: what a checker still has of a machine that is forgotten."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from leasehold.checker.verify.system import CutsOfSystem
from leasehold.impl.core.core import Core, Program
from leasehold.spec import System

ASIDE = (System, Program, Core, CutsOfSystem, type)  # these are made before there are events


def places_of(whole: Any, name: str) -> set[str]:
    """Returns the paths of attributes under which an object has a name, alone or in a tuple; of containers `*`."""
    return {path for path, text in _texts(whole, "", set()) if text == name}


def _texts(value: Any, path: str, seen: set[int]) -> Iterator[tuple[str, str]]:
    """Yields the texts that a value has, with the path of each."""
    if isinstance(value, str):
        yield path, value
        return
    if value is None or isinstance(value, (int, float, bytes, *ASIDE)) or id(value) in seen:
        return
    if isinstance(value, Mapping):
        seen.add(id(value))
        for key, inner in value.items():
            yield from _texts(key, f"{path}.*" if not isinstance(key, str) else path, seen)
            yield from _texts(inner, f"{path}.*", seen)
    elif isinstance(value, list | tuple | set | frozenset | deque):
        if not isinstance(value, tuple):  # a small one may be there again under its old number
            seen.add(id(value))
        for inner in value:
            yield from _texts(inner, path, seen)
    elif type(value).__module__.startswith("leasehold."):
        seen.add(id(value))
        for attribute in _attributes(value):
            yield from _texts(getattr(value, attribute, None), f"{path}.{attribute}".lstrip("."), seen)


def _attributes(value: Any) -> list[str]:
    if isinstance(value, msgspec.Struct):
        return [*value.__struct_fields__]
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    return [*getattr(value, "__dict__", ()), *slots]
