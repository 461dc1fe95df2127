"""Compares YAML trees with their shapes (shape.py), and reports every difference."""

from __future__ import annotations

import re
import unicodedata

from leasehold.spec.language.diagnostics import Place, Sink, listed, near_miss, printable
from leasehold.spec.language.shape import CHOICES, Alternatives, ListShape, MappingShape, RecordShape, Shape, TextShape
from leasehold.spec.language.source import INTEGER, MAX_NAME, NAME, RESERVED, Node

_FLAGS = {"yes": "true", "on": "true", "no": "false", "off": "false"}  # words that YAML 1.1 takes for flags


def check(node: Node, shape: Shape, sink: Sink, where: str = "the file") -> bool:
    """Compares a tree with its shape, all the way down; True when nothing was reported."""
    before = len(sink.found)
    _check(node, shape, sink, where)
    return len(sink.found) == before


def _kind(shape: Shape) -> str:
    match shape:
        case TextShape():
            return "text"
        case ListShape():
            return "list"
        case _:
            return "mapping"


def _wanted(shape: Shape) -> str:
    match shape:
        case TextShape(of=of):
            return {"text": "a text", "expression": "an expression", "name": "a name"}.get(of, f"a {of}")
        case ListShape(of=of):
            return f"a list ({_wanted(of)} each)"
        case RecordShape(title=title):
            return f"{title} (a mapping)"
        case MappingShape():
            return "a mapping by name"
        case Alternatives(choices=choices):
            return " or ".join(_wanted(c) for c in choices)


def _remedy(shape: Shape) -> str:
    match shape:
        case TextShape():
            return "write it on one line; quote it if it has brackets, colons or hashes in it"
        case ListShape():
            return "write `[one, two]`, or a line `- one` for each"
        case RecordShape(keys=keys):
            return f"its keys: {listed(keys, 30)}"
        case MappingShape():
            return "write a line `NAME: ...` for each"
        case Alternatives(choices=choices):
            return _remedy(choices[-1])


def _check(node: Node, shape: Shape, sink: Sink, where: str) -> None:
    if isinstance(shape, Alternatives):
        fitting = [c for c in shape.choices if _kind(c) == node.kind]
        if fitting:
            _check(node, fitting[0], sink, where)
            return
    if isinstance(shape, Alternatives) or _kind(shape) != node.kind:
        empty = node.kind == "text" and not node.text
        found = "nothing" if empty else {"text": f"`{node.text[:40]}`", "list": "a list"}.get(node.kind, "a mapping")
        quoted = isinstance(shape, TextShape) and node.kind != "text" and not node.entries and not node.items
        sink.error(
            "LH203", node.place, f"{where}: {_wanted(shape)} is wanted here, not {found}",
            near=f'`"{"{}" if node.kind == "mapping" else "[]"}"`, in quotes' if quoted else None,
            remedy=_remedy(shape),
        )  # fmt: skip
        return
    match shape:
        case TextShape(of=of):
            _check_text(node, of, sink, where)
        case ListShape(of=of):
            for item in node:
                _check(item, of, sink, where)
        case MappingShape(of=of, keys=keys):
            for name, place, value in node.pairs():
                if keys == "name":
                    _check_name(name, place, sink, where)
                _check(value, of, sink, f"{where}.{name[:40]}")
        case RecordShape():
            _check_record(node, shape, sink, where)


def _check_name(name: str, place: Place, sink: Sink, where: str) -> None:
    if name in RESERVED:
        sink.error("LH205", place, f"{where}: `{name}` is a word of the language", remedy=f"write `{name}_`, or so")
    elif not NAME.match(name):
        long = NAME.match(name[:MAX_NAME]) is not None and len(name) > MAX_NAME
        foreign = next((c for c in name[:MAX_NAME] if not " " <= c <= "~"), None)
        why = f": it has {len(name):,} characters" if long else ""
        if foreign is not None:
            why = f": it has {unicodedata.name(foreign, 'a control character')} (U+{ord(foreign):04X}) in it"
        fixed = re.sub(r"[^a-z0-9_]+", "_", name[:MAX_NAME].lower()).strip("_")
        sink.error(
            "LH205", place, f"{where}: {printable(name[:40])} is not a name{why}",
            near=f"`{fixed}`" if name.isascii() and NAME.match(fixed) and not long else None,
            remedy="a name has letters from a to z, digits and underscores, begins with a letter, and has at most "
            f"{MAX_NAME} characters",
        )  # fmt: skip


def _check_text(node: Node, of: str, sink: Sink, where: str) -> None:
    if of in CHOICES and node.text not in CHOICES[of]:
        *others, last = (f"`{word}`" for word in CHOICES[of])
        sink.error(
            "LH203", node.place, f"{where}: {', '.join(others)} or {last} is wanted here, not `{node.text[:40]}`",
            near=f"`{_FLAGS[node.text.lower()]}`" if node.text.lower() in _FLAGS else near_miss(node.text, CHOICES[of]),
            remedy="write `true`, or leave the key out",
        )  # fmt: skip
    elif of == "number" and not INTEGER.match(node.text):
        sink.error(
            "LH203", node.place, f"{where}: a number is wanted here, not `{node.text[:40]}`",
            remedy="write digits, at most 18 of them",
        )  # fmt: skip
    elif of == "name":
        _check_name(node.text, node.place, sink, where)
    elif of in ("expression", "type") and not node.text.strip():
        sink.error(
            "LH203", node.place, f"{where}: {'an' if of == 'expression' else 'a'} {of} is wanted here",
            remedy="write one, or leave the key out",
        )  # fmt: skip


def _check_record(node: Node, shape: RecordShape, sink: Sink, where: str) -> None:
    prefix = "" if where == "the file" else f"{where}: "
    meant = set()
    for name, place, value in node.pairs():
        key = shape.keys.get(name)
        if key is None and " " in name and value.kind == "text" and not value.text:
            sink.error(
                "LH201", place, f"{where}: `{name[:40]}` is read as a key of {shape.title}",
                remedy="inside braces a comma ends a text: put quotes around the text that holds it",
            )  # fmt: skip
        elif key is None:
            near = near_miss(name, shape.keys)
            meant.add(near)
            sink.error(
                "LH201", place, f"{prefix}{printable(name[:40])} is not a key of {shape.title}", near=near,
                remedy=f"its keys: {listed(shape.keys, 30)}",
            )  # fmt: skip
        else:
            _check(value, key.shape, sink, f"{where}.{name}" if where != "the file" else name)
    for name, key in shape.keys.items():
        if key.required and node.get(name) is None and f"`{name}`" not in meant:
            sink.error(
                "LH202", node.place, f"{prefix}the key `{name}` of {shape.title} is missing",
                remedy=f"write `{name}: ...`. {key.doc}",
            )  # fmt: skip
