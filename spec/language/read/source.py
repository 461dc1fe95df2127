"""YAML text to a tree that remembers where everything stands.

Theory of operation. The text is read as YAML *events*, never constructed into objects: no tag is honoured, anchors and
aliases are refused (so that no text can expand), and size and depth are bounded before anything is built. Scalars
keep their text: `on`, `yes` and `no` are words here, not booleans, and a version 1.10 is not a number.
"""

from __future__ import annotations

import keyword
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from leasehold.spec.language.diagnostics import Place, Sink

MAX_BYTES = 1 << 20
MAX_DEPTH = 24
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Kind = Literal["mapping", "list", "text"]
MAX_NAME = 64
NAME = re.compile(rf"[a-z][a-z0-9_]{{0,{MAX_NAME - 1}}}\Z")
INTEGER = re.compile(r"-?[0-9]{1,18}\Z")
# Words of the expression language and of Python; what bore one as its name could not be named in an expression.
# And keys that a digest leaves out (files.py): of what bore one it would say nothing.
UNDIGESTED = ("doc", "faults")
RESERVED = frozenset([*(k for k in keyword.kwlist if k.islower()), "true", "false", "none", *UNDIGESTED])


@dataclass(frozen=True, slots=True)
class YamlNode:
    """A piece of a YAML file: a mapping (name to KeyedNode), a list or a text, and where it starts."""

    kind: Kind
    place: Place
    text: str = ""
    items: tuple[YamlNode, ...] = ()
    entries: tuple[tuple[str, KeyedNode], ...] = ()
    spans: tuple[tuple[int, int, int], ...] = ()  # offset, line and column: where its lines stand in the file
    comment: str = field(default="", compare=False)  # what follows ` #` behind a text that is not quoted

    def __iter__(self) -> Iterator[YamlNode]:
        return iter(self.items)

    def get(self, key: str) -> YamlNode | None:
        for name, entry in self.entries:
            if name == key:
                return entry.value
        return None

    def key_place(self, key: str) -> Place:
        for name, entry in self.entries:
            if name == key:
                return entry.key
        return self.place

    def pairs(self) -> Iterator[tuple[str, Place, YamlNode]]:
        for name, entry in self.entries:
            yield name, entry.key, entry.value

    def pairs_of(self, key: str) -> Iterator[tuple[str, Place, YamlNode]]:
        """The entries of the mapping under a key; none where there is no such key."""
        value = self.get(key)
        return iter(()) if value is None else value.pairs()

    def names(self, key: str) -> tuple[YamlNode, ...]:
        """The names under a key: a text, or each of a list; none where there is no such key."""
        value = self.get(key)
        return () if value is None else (value,) if value.kind == "text" else value.items

    def inside(self, offset: int) -> Place:
        """The place of a character of this text, where that can be told."""
        spans = [span for span in self.spans if span[0] <= offset]
        if not spans:
            return self.place
        start, line, column = spans[-1]
        return Place(self.place.file, line, column + offset - start)


@dataclass(frozen=True, slots=True)
class KeyedNode:
    key: Place
    value: YamlNode


_OPEN: ContextVar[Mapping[Path, str]] = ContextVar("open texts")


@contextmanager
def open_texts(texts: Mapping[Path, str]) -> Iterator[None]:
    """Lets texts stand for files, by resolved path, in all that is read meanwhile: an editor has not saved them."""
    token = _OPEN.set(texts)
    try:
        yield
    finally:
        _OPEN.reset(token)


def read_file(path: Path, shown: str, sink: Sink) -> YamlNode | None:
    """Reads one YAML file; reports every mistake to the sink, and then returns None."""
    start = Place(shown)
    if (texts := _OPEN.get({})) and (text := texts.get(path.resolve())) is not None:
        return read_text(text, shown, sink)
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a device or a pipe"
            sink.error("not_a_file", start, what=kind)
            return None
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        sink.error("unreadable", start, why=why)
        return None
    if len(raw) > MAX_BYTES:
        size = max(status.st_size, len(raw))
        sink.error("too_large", start, size=f"{size:,}", max_bytes=f"{MAX_BYTES:,}")
        return None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place = _place_of(raw[: error.start].decode(), error.start, shown)
        sink.error("not_utf_8", place, byte=f"{raw[error.start]:02X}")
        return None
    return read_text(text, shown, sink)


def read_text(text: str, shown: str, sink: Sink) -> YamlNode | None:
    """Reads YAML text; reports every mistake to the sink, and then returns None."""
    start = Place(shown)
    try:
        return _Composer(text, shown, sink).build()
    except yaml.reader.ReaderError as error:
        sink.error("control_character", _place_of(text, error.position, shown), character=f"{error.character:04X}")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(shown, mark.line + 1, mark.column + 1) if mark else start
        context = f" {error.context}" if error.context else ""
        if error.context_mark and error.context_mark.line + 1 != place.line:
            context += f" that begins at line {error.context_mark.line + 1}"
        began = _line(text, error.context_mark.line + 1) if error.context_mark else ""
        line = _line(text, place.line)
        if "nesting depth" in str(error.problem):  # libyaml from 0.2.6 on has a limit, and scans ahead of what it gives
            sink.error("too_deep", place, max_depth=MAX_DEPTH)
        elif "\t" in line:
            sink.error("tab", place)
        else:
            remedy = yaml_remedy(line, place.column, str(error.problem), began)
            sink.error("not_yaml", place, problem=f"{error.problem}{context}", remedy=remedy)
    except yaml.YAMLError as error:
        sink.error("not_yaml_at_all", start, error=error)
    except _Refused:
        pass  # already reported
    return None


def yaml_remedy(line: str, column: int, problem: str, began: str = "") -> str:
    """The remedy where YAML's parser stops: it takes some characters of a text without quotes for its own.

    Args:
        line: where it stops.
        column: of it, from 1 on.
        problem: the parser's words.
        began: the line where what it was reading begins.
    """
    at = line[column - 1 : column]
    inside = "did not find expected ',' or" in problem
    if inside and " #" in began:
        return "` #` begins a comment: quote a text that holds it"
    if inside and at in ("{", "["):
        return 'quote a text that holds brackets: `{to: free, when: "waiting == {}"}`'
    ends = line[column - 1 :].strip() == ":" and line.count(": ") > 0
    if "mapping values are not allowed" in problem and ends:
        return f'`:` at the end of a line begins a value: quote the text, as in "{line.split()[-1]}"'
    if "mapping values are not allowed" in problem or (inside and at == ":"):
        return "`: ` begins a value: quote a text that holds it"
    if inside and at == "?":
        return "`? ` begins a key: quote a text that holds it"
    if "cannot start any token" in problem:
        return f"no text begins with `{at}`: quote it"
    if "whitespace or line break" in problem:
        return "`!` begins a tag: `not ...` is the negation, and a text that begins with `!` is quoted"
    if "escape character" in problem:
        return "between double quotes a backslash begins an escape: use single quotes"
    if "expected comment or line break" in problem:
        return "`>` and `|` begin a text of several lines: quote a text that begins so"
    return "check indentation, quotes and brackets just before"


def _place_of(text: str, position: int, shown: str) -> Place:
    before = text[:position].split("\n")
    return Place(shown, len(before), len(before[-1]) + 1)


class _Refused(Exception):
    """Reading stops here: the reason is in the sink."""


def _line(text: str, number: int) -> str:
    lines = text.splitlines()
    return lines[number - 1] if 0 < number <= len(lines) else ""


class _Composer:
    def __init__(self, text: str, shown: str, sink: Sink) -> None:
        self.lines = text.splitlines()
        self.shown = shown
        self.sink = sink
        self.events: Iterator[Any] = iter(yaml.parse(text, Loader=_Loader))

    def build(self) -> YamlNode:
        root: YamlNode | None = None
        for event in self.events:
            if isinstance(event, (yaml.StreamStartEvent, yaml.DocumentEndEvent, yaml.StreamEndEvent)):
                continue
            if isinstance(event, yaml.DocumentStartEvent):
                if root is not None:
                    self._refuse("second_document", event)
                continue
            root = self._node(event, 1)
        if root is None or (root.kind == "text" and not root.text):
            self.sink.error("empty_file", Place(self.shown))
            raise _Refused
        return root

    def _place(self, event: Any) -> Place:
        return Place(self.shown, event.start_mark.line + 1, event.start_mark.column + 1)

    def _refuse(self, wording: str, event: Any, **details: Any) -> None:
        self.sink.error(wording, self._place(event), **details)
        raise _Refused

    def _node(self, event: Any, depth: int) -> YamlNode:
        place = self._place(event)
        if depth > MAX_DEPTH:
            self._refuse("too_deep", event, max_depth=MAX_DEPTH)
        if isinstance(event, yaml.AliasEvent):
            self._refuse("alias", event, name=event.anchor)
        if event.anchor is not None:
            self._refuse("anchor", event, name=event.anchor)
        if event.tag is not None and not (isinstance(event, yaml.ScalarEvent) and event.tag == "!"):
            self._refuse("tag", event, name=event.tag)
        if isinstance(event, yaml.ScalarEvent):
            return self._text(event, place)
        if isinstance(event, yaml.SequenceStartEvent):
            items = []
            for inner in self.events:
                if isinstance(inner, yaml.SequenceEndEvent):
                    break
                items.append(self._node(inner, depth + 1))
            return YamlNode("list", place, items=tuple(items))
        return self._mapping(place, depth)

    def _text(self, event: Any, place: Place) -> YamlNode:
        spans = self._spans(event)
        if spans and event.style not in ("|", ">"):
            place = Place(place.file, *spans[0][1:])
        rest = self.lines[event.end_mark.line][event.end_mark.column :] if event.end_mark.line < len(self.lines) else ""
        comment = rest.lstrip().lstrip("#").strip() if not event.style and rest.lstrip().startswith("#") else ""
        return YamlNode("text", place, text=str(event.value), spans=spans, comment=comment)

    def _spans(self, event: Any) -> tuple[tuple[int, int, int], ...]:
        """Returns where the lines of a text stand in the file; none, where escapes keep the two from being compared."""
        text, start, end = str(event.value), event.start_mark, event.end_mark
        spans: list[tuple[int, int, int]] = []
        done = 0
        for number in range(start.line, min(end.line + 1, len(self.lines))):
            line = self.lines[number] if number < end.line else self.lines[number][: end.column]
            quoted = event.style in ('"', "'")
            if number == start.line:
                if event.style in ("|", ">"):
                    continue
                line = " " * (start.column + quoted) + line[start.column + quoted :]
            content = (line[:-1] if quoted and number == end.line else line).strip()
            if content:
                offset = text.find(content, done)
                if offset < 0 or text[done:offset].strip():
                    return ()
                spans.append((offset, number + 1, line.index(content) + 1))
                done = offset + len(content)
        return tuple(spans)

    def _mapping(self, place: Place, depth: int) -> YamlNode:
        entries: dict[str, KeyedNode] = {}
        for event in self.events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            key = self._node(event, depth + 1)
            value = self._node(next(self.events), depth + 1)
            if key.kind != "text":
                self.sink.error("key_not_a_word", key.place, kind=key.kind)
            elif key.text in entries:
                first = entries[key.text].key
                self.sink.error("key_again", key.place, key=key.text[:40], line=first.line)
            else:
                entries[key.text] = KeyedNode(key.place, value)
        return YamlNode("mapping", place, entries=tuple(entries.items()))
