"""Operators and functions of TLA+, C, Python and other languages, and how they are written here: foreign.yaml."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TypeAlias

from leasehold.spec.language import table

Hint: TypeAlias = tuple[str | None, str]  # the near miss, quoted for a message, and the remedy

_TABLE = table("foreign.yaml")
SYNTAX: str = _TABLE["remedies"]["syntax"]


def _hint(near: str, remedy: str) -> Hint:
    return f"`{near}`" if near else None, _TABLE["remedies"].get(remedy, remedy)


def _hints(section: str) -> dict[str, Hint]:
    """The rows of a section, by each of their names."""
    return {name: _hint(near, remedy) for names, near, remedy in _TABLE[section] for name in names.split()}


_OPERATOR = re.compile("|".join(f"({pattern})" for pattern, *_ in _TABLE["operators"]))
_FUNCTIONS, _METHODS, _CONSTRUCTS = _hints("functions"), _hints("methods"), _hints("constructs")
NAMES: dict[str, str] = {name: near for near, names in _TABLE["names"].items() for name in names.split()}


@dataclass(frozen=True, slots=True)
class ForeignConstruct:
    """Something foreign, and how it is written here.

    Attributes:
        text: the words that were found.
        offset: where they begin in the expression.
        near: what was meant, quoted for a message, or None.
        remedy: what to write.
    """

    text: str
    offset: int
    near: str | None
    remedy: str


def operator_in(source: str) -> ForeignConstruct | None:
    """The first foreign operator of a text that is not an expression."""
    match = _OPERATOR.search(source)
    if match is None or match.lastindex is None:
        return None
    _, near, remedy = _TABLE["operators"][match.lastindex - 1]
    return ForeignConstruct(match[0], match.start(), *_hint(near, remedy))


def function(name: str) -> Hint | None:
    """The near miss and the remedy for a foreign function or method."""
    return _FUNCTIONS.get(name) or (_METHODS.get(name.rpartition(".")[2]) if "." in name else None)


def construct(tree: ast.AST) -> Hint | None:
    """The near miss and the remedy for a construct of Python that is not part of the language."""
    return _CONSTRUCTS.get(type(tree).__name__)
