"""A channel's kind as its text says it: one kind, or one of several by constants.

`fifo(2)` is one kind; `fifo(n) if ordered else bag` is one of two, in the syntax of expressions; and a name may be that
of a constant whose values are kinds. Which of them counts is the loader's business (load.py). A channel's messages are
held to the rules of each kind that it may have, so a specification is legal or not whatever the values of constants.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from leasehold.spec.language.diagnostics import Sink
from leasehold.spec.language.read.source import YamlNode
from leasehold.spec.language.typing.syntax import Syntax, syntax

_CONDITIONAL = re.compile(r"\bif\b")


@dataclass(frozen=True, slots=True)
class NamedKind:
    """A kind by its name, and its capacity where the text has one; `node` is the whole of it."""

    node: YamlNode
    word: str
    capacity: YamlNode | None


@dataclass(frozen=True, slots=True)
class KindByCondition:
    """One of two kinds, as a condition over constants says."""

    condition: YamlNode
    then: KindText
    otherwise: KindText


KindText: TypeAlias = NamedKind | KindByCondition


def kind_text(node: YamlNode, sink: Sink) -> KindText | None:
    """The kind that a text says, as far as syntax tells; None where it is none, which goes to the sink."""
    if not _CONDITIONAL.search(node.text):
        return _named(node)
    read = syntax(node, sink)
    return None if read is None else _of(read, read.tree)


def named_kinds(kind: KindText) -> Iterator[NamedKind]:
    """All kinds that a text names."""
    if isinstance(kind, NamedKind):
        yield kind
    else:
        yield from named_kinds(kind.then)
        yield from named_kinds(kind.otherwise)


def _of(read: Syntax, tree: ast.expr) -> KindText:
    if not isinstance(tree, ast.IfExp):
        return _named(_part(read, tree))
    return KindByCondition(_part(read, tree.test), _of(read, tree.body), _of(read, tree.orelse))


def _named(node: YamlNode) -> NamedKind:
    word, bracket, rest = node.text.partition("(")
    capacity = YamlNode("text", node.place, rest.rstrip().removesuffix(")")) if bracket else None
    return NamedKind(node, word.strip(), capacity)


def _part(read: Syntax, tree: ast.expr) -> YamlNode:
    place = read.place(tree)
    text = read.source[tree.col_offset : tree.end_col_offset]
    return YamlNode("text", place, text, spans=((0, place.line, place.column),))
