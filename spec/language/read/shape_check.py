"""Compares YAML trees with their shapes (shape.py), and reports every difference."""

from __future__ import annotations

import re
import unicodedata

from leasehold.spec.language.diagnostics import Place, Sink, WordFix, fix_of_word, listed, near_miss, printable
from leasehold.spec.language.read.shape import (
    CHOICES,
    NAMES,
    Alternatives,
    ListShape,
    MappingShape,
    RecordShape,
    TextShape,
    YamlShape,
)
from leasehold.spec.language.read.source import INTEGER, MAX_NAME, NAME, RESERVED, YamlNode

FLAGS = {"yes": "true", "on": "true", "no": "false", "off": "false"}  # words that YAML 1.1 takes for flags


_WANTED = {"text": "a text", "expression": "an expression", "name": "a name"}


def check_shape(node: YamlNode, shape: YamlShape, sink: Sink, where: str = "the file") -> bool:
    """Compares a tree with its shape, all the way down; True when nothing was reported."""
    before = len(sink.found)
    _check(node, shape, sink, where)
    return len(sink.found) == before


def _kind(shape: YamlShape) -> str:
    match shape:
        case TextShape():
            return "text"
        case ListShape():
            return "list"
        case _:
            return "mapping"


def fitting(node: YamlNode, shape: YamlShape) -> YamlShape | None:
    """The shape that a tree's kind chooses among alternatives; None where the tree is of another kind."""
    choices = shape.choices if isinstance(shape, Alternatives) else (shape,)
    return next((choice for choice in choices if _kind(choice) == node.kind), None)


def _wanted(shape: YamlShape) -> str:
    match shape:
        case TextShape(of=of):
            return _WANTED.get("name" if of in NAMES else of, f"a {of}")
        case ListShape(of=of):
            return f"a list ({_wanted(of)} each)"
        case RecordShape(title=title):
            return f"{title} (a mapping)"
        case MappingShape():
            return "a mapping by name"
        case Alternatives(choices=choices):
            return " or ".join(_wanted(c) for c in choices)


def _remedy(shape: YamlShape) -> str:
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


def _check(node: YamlNode, shape: YamlShape, sink: Sink, where: str) -> None:
    chosen = fitting(node, shape)
    if chosen is None:
        empty = node.kind == "text" and not node.text
        actual = "nothing" if empty else {"text": f"`{node.text[:40]}`", "list": "a list"}.get(node.kind, "a mapping")
        quoted = isinstance(shape, TextShape) and node.kind != "text" and not node.entries and not node.items
        near = f'`"{"{}" if node.kind == "mapping" else "[]"}"`, in quotes' if quoted else None
        details = {"wanted": _wanted(shape), "found": actual, "remedy": _remedy(shape)}
        sink.error("wrong_kind", node.place, near=near, where=where, **details)
        return
    match chosen:
        case TextShape(of=of):
            _check_text(node, of, sink, where)
        case ListShape(of=of):
            for item in node:
                _check(item, of, sink, where)
        case MappingShape(of=of, keys=keys):
            for name, place, value in node.pairs():
                if _ends_text(name) and value.kind == "text" and not value.text:
                    sink.error("cut_by_comma", place, where=where, name=printable(name[:40]))
                    continue
                if keys in NAMES:
                    check_name(name, place, sink, where)
                _check(value, of, sink, f"{where}.{name[:40]}")
        case RecordShape():
            _check_record(node, chosen, sink, where)


def _ends_text(name: str) -> bool:
    """Returns whether a key closes a bracket that it does not open: it is the rest of a text that a comma has cut."""
    return any(name.count(end) > name.count(start) for start, end in ("()", "[]"))


def check_name(name: str, place: Place, sink: Sink, where: str) -> None:
    """Reports what is not a name."""
    if name in RESERVED:
        sink.error("reserved_name", place, where=where, name=name)
    elif not NAME.match(name):
        long = NAME.match(name[:MAX_NAME]) is not None and len(name) > MAX_NAME
        foreign = next((c for c in name[:MAX_NAME] if not " " <= c <= "~"), None)
        why = f": it has {len(name):,} characters" if long else ""
        if foreign is not None:
            why = f": it has {unicodedata.name(foreign, 'a control character')} (U+{ord(foreign):04X}) in it"
        fixed = re.sub(r"[^a-z0-9_]+", "_", name[:MAX_NAME].lower()).strip("_")
        near = f"`{fixed}`" if name.isascii() and NAME.match(fixed) and not long else None
        sink.error("not_a_name", place, near=near, where=where, name=printable(name[:40]), why=why, most=MAX_NAME)


def _check_text(node: YamlNode, of: str, sink: Sink, where: str) -> None:
    if of in CHOICES and node.text not in CHOICES[of]:
        *others, last = (f"`{word}`" for word in CHOICES[of])
        flag = FLAGS.get(node.text.lower())
        near = f"`{flag}`" if flag else near_miss(node.text, CHOICES[of])
        choices = f"{', '.join(others)} or {last}"
        first, details = CHOICES[of][0], {"where": where, "text": node.text[:40]}
        fix = WordFix(node.place, node.text, flag) if flag else fix_of_word(node.place, node.text, CHOICES[of])
        sink.error_to_fix("not_a_choice", node.place, fix, near=near, choices=choices, first=first, **details)
    elif of == "condition" and node.text.lower() in FLAGS:
        flag = FLAGS[node.text.lower()]
        fix, choices = WordFix(node.place, node.text, flag), "`true`, `false` or a condition"
        details = {"where": where, "text": node.text[:40]}
        sink.error_to_fix("not_a_choice", node.place, fix, near=f"`{flag}`", choices=choices, first="true", **details)
    elif of == "number" and not INTEGER.match(node.text):
        sink.error("not_a_number", node.place, where=where, node=node.text[:40])
    elif of in NAMES:
        check_name(node.text, node.place, sink, where)
    elif of in ("expression", "condition", "type") and not node.text.strip():
        sink.error("wanted_text", node.place, where=where, why="an" if of == "expression" else "a", of=of)


def _check_record(node: YamlNode, shape: RecordShape, sink: Sink, where: str) -> None:
    prefix = "" if where == "the file" else f"{where}: "
    meant = set()
    for name, place, value in node.pairs():
        key = shape.keys.get(name)
        if key is None and (" " in name or _ends_text(name)) and value.kind == "text" and not value.text:
            sink.error("comma_in_braces", place, where=where, name=name[:40], title=shape.title)
        elif key is None:
            near = near_miss(name, shape.keys)
            meant.add(near)
            details = {"prefix": prefix, "name": printable(name[:40]), "title": shape.title}
            fix = fix_of_word(place, name, shape.keys)
            sink.error_to_fix("unknown_key", place, fix, near=near, keys=shape.keys, **details)
        else:
            _check(value, key.shape, sink, f"{where}.{name}" if where != "the file" else name)
    for name, key in shape.keys.items():
        if key.required and node.get(name) is None and f"`{name}`" not in meant:
            sink.error("missing_key", node.place, prefix=prefix, name=name, title=shape.title, doc=key.doc)
