"""What each kind of fault adds to a system's actions: a function from a lowered form to one with the fault in it.

A kind is a row of catalogue.yaml and one function here, in any module of this folder, under `@adds(NAME)`.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any, TypeAlias

from leasehold.spec.language.lower import Relation

Adds: TypeAlias = Callable[[Relation, Any], Relation]  # a relation, and the kind's value in the budget

_rows: dict[str, Adds] = {}


def adds(name: str) -> Callable[[Adds], Adds]:
    """Registers what a kind of fault adds."""

    def register(function: Adds) -> Adds:
        _rows[name] = function
        return function

    return register


@cache
def rows() -> Mapping[str, Adds]:
    """By the kind's name, what it adds."""
    for module in pkgutil.iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
    return _rows
