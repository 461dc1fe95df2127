"""Edits of YAML text in place: entries are added, replaced and removed, and every other character stays.

Theory of operation. The text is composed into nodes that know where they begin and end. An edit cuts and inserts text
there, in the style of the mapping that it is about, a block or braces. Then the result is read again: as data it must
be what the edit means, and nothing else may have changed. So a layout that is not foreseen costs an error, which says
what to do by hand, and never a wrong file.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import yaml

Value: TypeAlias = "str | int | Mapping[str, Value]"
KeyPath: TypeAlias = tuple[str, ...]

_Loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_PLAIN = re.compile(r"[A-Za-z0-9_][\w./#*-]*( [\w./*-]+)*", re.ASCII)
WIDTH = 120  # of a line, beyond which an entry in braces begins a line of its own


class CannotEdit(Exception):
    """The text has a layout in which this is not edited: the user has to. The message says what."""


class YamlEditor:
    """A YAML text with the edits made so far.

    A path names a mapping by the keys that lead to it; the empty path is the whole file.
    """

    def __init__(self, text: str) -> None:
        self._mark = "\ufeff" if text.startswith("\ufeff") else ""
        self._text = text.removeprefix(self._mark)
        self._line_end = "\r\n" if "\r\n" in text else "\n"
        self._root = _composed(self._text)

    @property
    def text(self) -> str:
        return self._mark + self._text

    def has(self, path: KeyPath) -> bool:
        return self._found(path) is not None

    def keys(self, path: KeyPath) -> list[str]:
        """The keys of the mapping at a path; none where there is no such mapping."""
        node = self._found(path)
        return [key.value for key, _ in _entries(node)]

    def replace(self, path: KeyPath, value: str | int) -> None:
        """Writes another text in the place of the one at a path.

        Raises:
            CannotEdit: something else stands there.
        """
        node = self._node(path)
        if not isinstance(node, yaml.ScalarNode):
            raise CannotEdit(f"line {_line(node)}: write `{value}` for {path[-1]} by hand")
        start, end = node.start_mark.index, node.end_mark.index
        if node.style in ("|", ">"):
            end = start + len(self._text[start:end].rstrip())
        self._change([(start, end, _scalar(value))], lambda data: _put(data, path, str(value)), f"write {path[-1]}")

    def substitute(self, line: int, column: int, old: str, new: str) -> None:
        """Writes one word for another at a place, both counted from 1, where the text has it; perhaps in quotes.

        Raises:
            CannotEdit: the word does not stand there.
        """
        start = _offset(self._text, line, column)
        start += self._text[start : start + 1] in ("'", '"')
        end = start + len(old)
        if self._text[start:end] != old or re.match(r"\w", self._text[end : end + 1]):
            raise CannotEdit(f"line {line}: write `{new}` for `{old}` by hand")
        text = self._text[:start] + new + self._text[end:]
        root = _composed(text)
        _data(root)  # a key that stands twice now is told
        self._text, self._root = text, root

    def add(self, path: KeyPath, key: str, value: Value) -> None:
        """Adds an entry to the mapping at a path, behind those that it has.

        Raises:
            CannotEdit: there is no mapping, or the key stands there already.
        """
        node = self._found(path)
        what = f"add `{_scalar(key)}: {_flow(value)}`"
        if node is None and not path:
            lead = self._text if not self._text or self._text.endswith("\n") else self._text + self._line_end
            cuts = [(0, len(self._text), lead + self._block(key, value, 0, 2))]
        elif node is None or key in self.keys(path) or not (_entries(node) or _is_empty(node)):
            place = "" if node is None else f"line {_line(node)}: "
            raise CannotEdit(f"{place}{what} by hand")
        elif not _entries(node):
            cuts = self._filled(path, node, key, value)
        elif node.flow_style:
            cuts = self._in_braces(node, key, value)
        else:
            indent = node.start_mark.column
            cuts = [self._behind(_end(node, self._text), indent, self._block(key, value, indent, self._step(path)))]
        self._change(cuts, lambda data: _put(data, (*path, key), _plain_value(value)), what)

    def remove(self, path: KeyPath, key: str) -> None:
        """Takes an entry out of the mapping at a path, with all its lines.

        Raises:
            CannotEdit: it is the only one there, or shares a line in a way in which it is not taken out.
        """
        node = self._node((*path, key))
        entries = _entries(self._node(path))
        at = next(i for i, (k, _) in enumerate(entries) if k.value == key)
        what = f"take {key} out"
        if len(entries) == 1:
            raise CannotEdit(f"line {_line(node)}: {what} by hand, as nothing is left there")
        if self._node(path).flow_style:
            cuts = self._out_of_braces(self._node(path), at)
        else:
            start = entries[at][0].start_mark.index
            begin = self._text.rfind("\n", 0, start) + 1
            if self._text[begin:start].strip():
                raise CannotEdit(f"line {_line(entries[at][0])}: {what} by hand")
            cuts = [(begin, self._line_after(_end(entries[at][1], self._text)), "")]
        self._change(cuts, lambda data: _put(data, (*path, key), None), what)

    # Where things stand

    def _found(self, path: KeyPath) -> Any:
        node = self._root
        for key in path:
            node = next((value for k, value in _entries(node) if k.value == key), None)
        return node

    def _node(self, path: KeyPath) -> Any:
        node = self._found(path)
        if node is None:
            raise CannotEdit(f"there is no {'.'.join(path)}")
        return node

    def _line_after(self, at: int) -> int:
        """The beginning of the line that follows a place."""
        end = self._text.find("\n", at)
        return len(self._text) if end < 0 else end + 1

    def _step(self, path: KeyPath) -> int:
        """Returns how much further the entries of a mapping are indented than its key."""
        node = self._node(path)
        column = self._key(path).start_mark.column if path else None
        step = node.start_mark.column - column if column is not None and _entries(node) else 0
        return step if step > 0 else self._step(path[:-1]) if path else 2

    def _key(self, path: KeyPath) -> Any:
        return next(k for k, _ in _entries(self._node(path[:-1])) if k.value == path[-1])

    # Text of entries

    def _block(self, key: str, value: Value, indent: int, step: int) -> str:
        """The lines of an entry; a mapping has a line for each of its own, in which further ones are in braces."""
        lead = " " * indent
        if isinstance(value, Mapping) and value:
            inner = " " * step
            lines = [f"{lead}{_scalar(key)}:", *(f"{lead}{inner}{_scalar(k)}: {_flow(v)}" for k, v in value.items())]
        else:
            lines = [f"{lead}{_scalar(key)}: {_flow(value)}"]
        return "".join(line + self._line_end for line in lines)

    def _behind(self, end: int, indent: int, lines: str) -> tuple[int, int, str]:
        """Lines behind the one on which something ends, and behind comments that are indented as it is."""
        at = self._line_after(end)
        while (comment := re.compile(rf" {{{max(indent, 1)},}}#").match(self._text, at)) is not None:
            at = self._line_after(comment.end())
        lead = "" if self._text[at - 1 : at] in ("", "\n") else self._line_end
        return at, at, lead + lines

    def _filled(self, path: KeyPath, node: Any, key: str, value: Value) -> list[tuple[int, int, str]]:
        """The first entry of a mapping that has none: `{}`, or nothing at all."""
        start, end = node.start_mark.index, node.end_mark.index
        within_braces = any(self._node(path[:n]).flow_style for n in range(len(path)))
        if within_braces or not path:
            lead = " " if self._text[start - 1 : start] == ":" else ""
            colon = ":" if within_braces and not _is_marked(self._key(path), self._text) else ""
            return [(start, end, f"{colon}{lead or (' ' if colon else '')}{{{_scalar(key)}: {_flow(value)}}}")]
        while start and self._text[start - 1] == " " and start < end:
            start -= 1
        indent = self._key(path).start_mark.column + self._step(path)
        return [(start, end, ""), self._behind(end, indent, self._block(key, value, indent, self._step(path)))]

    def _in_braces(self, node: Any, key: str, value: Value) -> list[tuple[int, int, str]]:
        """An entry behind the others in braces, on a line of its own where they have several or theirs is full."""
        entry = f"{_scalar(key)}: {_flow(value)}"
        last = _entries(node)[-1]
        end = max(_end(last[1], self._text), last[0].end_mark.index)
        comma = _comma(self._text, end, node.end_mark.index)
        first = _entries(node)[0][0].start_mark
        line = self._text[self._text.rfind("\n", 0, end) + 1 : self._line_after(end)].rstrip("\r\n")
        several = node.start_mark.line != node.end_mark.line or len(line) + len(entry) > WIDTH
        if not several:
            at = end if comma is None else comma + 1
            return [(at, at, f"{',' if comma is None else ''} {entry}")]
        indent = " " * (first.column if first.line != node.start_mark.line else node.start_mark.column + 1)
        at = end if comma is None else comma + 1
        cuts = [(at, at, ",")] if comma is None else []
        rest = re.compile(r"[ \t]*(#[^\n]*)?\r?\n").match(self._text, at)
        if rest is None:  # the brace, or another comment, stands there
            return [(at, at, f"{',' if comma is None else ''}{self._line_end}{indent}{entry}")]
        return [*cuts, (rest.end(), rest.end(), f"{indent}{entry}{',' if comma is not None else ''}{self._line_end}")]

    def _out_of_braces(self, node: Any, at: int) -> list[tuple[int, int, str]]:
        entries = _entries(node)
        start = entries[at][0].start_mark.index
        end = max(_end(entries[at][1], self._text), entries[at][0].end_mark.index)
        comma = _comma(self._text, end, node.end_mark.index)
        cuts = []
        if comma is not None:
            end = comma + 1
        elif at:  # the last: the comma before it goes
            before = max(_end(entries[at - 1][1], self._text), entries[at - 1][0].end_mark.index)
            dropped = _comma(self._text, before, start)
            assert dropped is not None
            cuts = [(dropped, dropped + 1, "")]
        begin = self._text.rfind("\n", 0, start) + 1
        rest = re.compile(r"[ \t]*(#[^\n]*)?\r?\n").match(self._text, end)
        if rest is not None and not self._text[begin:start].strip():
            return [*cuts, (begin, rest.end(), "")]
        while comma is not None and self._text[end : end + 1] == " ":
            end += 1
        while comma is None and self._text[start - 1 : start] == " ":
            start -= 1
        return [*cuts, (start, end, "")]

    def _change(self, cuts: list[tuple[int, int, str]], meaning: Callable[[Any], None], what: str) -> None:
        """Makes the edit, if the text then is what it means."""
        meant = {} if self._root is None or _is_empty(self._root) else _data(self._root)
        meaning(meant)
        text = self._text
        for start, end, new in sorted(cuts, reverse=True):
            text = text[:start] + new + text[end:]
        try:
            root = _composed(text)
            same = _data(root) == meant
        except CannotEdit:
            same = False
        if not same:
            raise CannotEdit(
                f"line {self._text.count(chr(10), 0, cuts[0][0]) + 1}: {what} by hand; the layout there is not edited"
            )
        self._text, self._root = text, root


def _composed(text: str) -> Any:
    try:
        return yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise CannotEdit(f"it is not YAML: {' '.join(str(error).split())}") from None


def _entries(node: Any) -> list[tuple[Any, Any]]:
    return node.value if isinstance(node, yaml.MappingNode) else []


def _is_empty(node: Any) -> bool:
    """Returns whether nothing stands at a place, or a mapping without entries."""
    return not node.value and (
        isinstance(node, yaml.MappingNode) or (isinstance(node, yaml.ScalarNode) and not node.style)
    )


def _is_marked(key: Any, text: str) -> bool:
    """Returns whether a colon follows a key."""
    return re.compile(r"\s*:").match(text, key.end_mark.index) is not None


def _line(node: Any) -> int:
    line: int = node.start_mark.line
    return line + 1


def _end(node: Any, text: str) -> int:
    """The place behind the last character of a node, where comments and empty lines may follow."""
    end: int = node.end_mark.index
    if isinstance(node, yaml.ScalarNode):
        return end if node.style not in ("|", ">") else len(text[:end].rstrip())
    if node.flow_style or not node.value:
        return end
    return _end(node.value[-1][1] if isinstance(node, yaml.MappingNode) else node.value[-1], text)


def _comma(text: str, start: int, end: int) -> int | None:
    """The place of a comma between two places, outside of comments."""
    found = re.compile(r"(?:\s|(?<=\s)#[^\n]*\n)*,").match(text, start, end)
    return None if found is None else found.end() - 1


def _offset(text: str, line: int, column: int) -> int:
    at = 0
    for _ in range(line - 1):
        at = text.find("\n", at) + 1
    return at + column - 1


def _data(node: Any) -> Any:
    """A node as data: mappings keep the order of their entries."""
    if isinstance(node, yaml.MappingNode):
        pairs = [(key.value, _data(value)) for key, value in node.value]
        if len({key for key, _ in pairs}) < len(pairs):
            raise CannotEdit(f"line {_line(node)}: a key stands twice")
        return dict(pairs)
    return [_data(item) for item in node.value] if isinstance(node, yaml.SequenceNode) else node.value


def _plain_value(value: Value) -> Any:
    return {k: _plain_value(v) for k, v in value.items()} if isinstance(value, Mapping) else str(value)


def _put(data: Any, path: KeyPath, value: Any) -> None:
    """Writes a value at a path into data; None: takes the entry out."""
    for key in path[:-1]:
        if not data[key]:
            data[key] = {}
        data = data[key]
    if value is None:
        del data[path[-1]]
    else:
        data[path[-1]] = copy.copy(value)


def _scalar(value: str | int) -> str:
    """A text as YAML has it, without quotes where it needs none, also within braces."""
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def _flow(value: Value) -> str:
    if not isinstance(value, Mapping):
        return _scalar(value)
    return "{" + ", ".join(f"{_scalar(key)}: {_flow(of)}" for key, of in value.items()) + "}"
