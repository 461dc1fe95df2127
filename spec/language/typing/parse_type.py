"""The text of a type to the type."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Mapping

from leasehold.spec.language.diagnostics import Sink
from leasehold.spec.language.read.source import YamlNode
from leasehold.spec.language.types import (
    BOOL,
    INT,
    OPAQUE,
    TIME,
    UNKNOWN,
    Enum,
    Instance,
    Map,
    Opaque,
    Option,
    Seq,
    Set,
    Type,
    UnknownType,
    members,
)

MAX_CELLS = 4096
MAX_LENGTH = 64


def parse_type(
    node: YamlNode,
    names: Mapping[str, Enum | Instance],
    sink: Sink,
    constant: Callable[[str], int | None] = lambda name: None,
) -> Type:
    """A type's text to the type: `int`, `set[unit]`, `map[participant, bool]`, `option[time]`, `seq[unit, 3]`.

    Args:
        node: the text.
        names: types by name.
        sink: hears what is wrong.
        constant: the value of a constant, by which a sequence may be bounded; None: there is none of this name.
    """
    basic: dict[str, Type] = {"int": INT, "bool": BOOL, "time": TIME, "opaque": OPAQUE}

    def unknown(word: str) -> Type:
        known = [*basic, *names, "set[...]", "map[..., ...]", "option[...]", "seq[..., ...]"]
        sink.unknown("unknown_type", node.place, word, known)
        return UNKNOWN

    def small(tree: ast.expr) -> Enum | Instance | None:
        kind = build(tree)
        if isinstance(kind, (Enum, Instance)):
            return kind
        if not isinstance(kind, UnknownType):
            sink.error("no_small_type", node.place, why=ast.unparse(tree))
        return None

    def longest(tree: ast.expr) -> int | None:
        """The greatest length of a sequence: a number, or a constant."""
        most: object = None
        match tree:
            case ast.Constant(value=most):
                pass
            case ast.Name(id=name):
                most = constant(name)
        if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= MAX_LENGTH:
            shown = ast.unparse(tree) + ("" if most is None or isinstance(tree, ast.Constant) else f" = {most}")
            sink.error("sequence_length", node.place, length=shown, most=MAX_LENGTH)
            return None
        return most

    def within(outer: str, tree: ast.Subscript, of: ast.expr, *refused: type[Type]) -> Type:
        """The type of what an option or a sequence holds."""
        inner = build(of)
        if not isinstance(inner, refused):
            return inner
        wording = "option_within" if isinstance(inner, Option) else "opaque_within"
        held = inner.of if isinstance(inner, Option) else inner
        sink.error(wording, node.place, outer=outer, type=ast.unparse(tree), inner=held)
        return UNKNOWN

    def build(tree: ast.expr) -> Type:
        match tree:
            case ast.Name(id=name):
                return basic.get(name) or names.get(name) or unknown(name)
            case ast.Subscript(value=ast.Name(id="set"), slice=of):
                kind = small(of)
                return Set(kind) if kind else UNKNOWN
            case ast.Subscript(value=ast.Name(id="map"), slice=ast.Tuple(elts=[key, of])):
                kind, inner = small(key), build(of)
                return Map(kind, inner) if kind and not isinstance(inner, UnknownType) else UNKNOWN
            case ast.Subscript(value=ast.Name(id="option"), slice=of):
                inner = within("an option", tree, of, Option)
                return UNKNOWN if isinstance(inner, UnknownType) else Option(inner)
            case ast.Subscript(value=ast.Name(id="seq"), slice=ast.Tuple(elts=[of, most])):
                inner, length = within("a sequence", tree, of, Option, Opaque), longest(most)
                return UNKNOWN if isinstance(inner, UnknownType) or length is None else Seq(inner, length)
            case ast.Subscript(value=ast.Name(id="seq")):
                sink.error("unbounded_sequence", node.place, type=ast.unparse(tree))
                return UNKNOWN
        return unknown(ast.unparse(tree))

    if node.kind != "text" or len(node.text) > 200 or not node.text.isascii():
        return unknown(node.text[:40] or node.kind)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = build(ast.parse(node.text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return unknown(node.text[:40])
    if (count := _cells(result)) > MAX_CELLS:
        sink.error("too_many_cells", node.place, result=result, count=f"{count:,}", max_cells=f"{MAX_CELLS:,}")
        return UNKNOWN
    return result


def _cells(type_: Type) -> int:
    match type_:
        case Map(key=key, of=of):
            return len(members(key)) * _cells(of)
        case Option(of=of) if of is not None:
            return 1 + _cells(of)
        case Seq(of=of, most=most) if of is not None:
            return 1 + most * _cells(of)
    return 1
