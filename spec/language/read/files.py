"""A system's folder to the trees of its files: includes followed, shapes checked, everything merged by section.

system.yaml       the system: roles, channels, constants, environment
messages.yaml     the messages
roles/NAME.yaml   a machine each
invariants.yaml   properties and allowed ends (optional)
expected.yaml     what the checker must find (optional)
migrations.yaml   how records of older specifications become records of this one (optional)
lemmas.yaml       what the prover needs to know besides the properties (optional)

mutation.yaml, which `leasehold mutate` reads, is no part of what a system is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from leasehold.spec.language.diagnostics import NOWHERE, Place, Sink
from leasehold.spec.language.read import shape, shape_check
from leasehold.spec.language.read.source import UNDIGESTED, YamlNode, read_file

MAX_FILES = 64
_SECTIONS = ("constants", "types", "roles", "channels", "actors", "environment", "definitions", "shared")


@dataclass(frozen=True, slots=True)
class Item:
    """A named declaration: where its name stands, and its tree."""

    place: Place
    node: YamlNode


@dataclass(frozen=True, slots=True)
class FileTree:
    """A file's tree, and the shape that it should have."""

    path: Path
    node: YamlNode
    record: shape.RecordShape


@dataclass
class SpecFiles:
    """All declarations of a system, by section and name."""

    folder: Path
    trees: dict[Path, FileTree] = field(default_factory=dict)  # by resolved path
    system: YamlNode | None = None
    sections: dict[str, dict[str, Item]] = field(default_factory=lambda: {s: {} for s in _SECTIONS})
    messages: dict[str, Item] = field(default_factory=dict)
    roles: dict[str, YamlNode] = field(default_factory=dict)
    properties: dict[str, Item] = field(default_factory=dict)
    ends: dict[str, Item] | None = None
    single: dict[str, YamlNode] = field(default_factory=dict)  # clock, initially, constraint, product, faults, refines
    expected: YamlNode | None = None
    migrations: YamlNode | None = None
    lemmas: dict[str, Item] = field(default_factory=dict)
    digested: list[YamlNode] = field(default_factory=list)
    decided: bool = True  # properties are to be decided, so that limits of checkers count

    def digest(self) -> str:
        """A name for the text of the system: no places, comments, `doc`s, `faults`, nor what is beside it."""
        text = json.dumps([_plain(n) for n in self.digested], separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()


def _plain(node: YamlNode) -> object:
    if node.kind == "mapping":
        return {k: _plain(v) for k, _, v in node.pairs() if k not in UNDIGESTED}
    if node.kind == "list":
        return [_plain(n) for n in node]
    return node.text


class Gatherer:
    """Reads the files of one folder; every trouble goes to the sink."""

    def __init__(self, folder: Path, shown: str, sink: Sink, more: Sequence[Path] = ()) -> None:
        self.folder, self.shown, self.sink, self.more = folder, shown, sink, more
        self.files = SpecFiles(folder)
        self.count = 0

    def gather(self) -> SpecFiles:
        files = self.files
        system = self._read(self.folder / "system.yaml", shape.FILES["system"], required=True)
        files.system = system
        if system is None:
            return files
        if system.kind == "mapping":
            self._merge_system(system, (self.folder / "system.yaml",))
        for name, record in (
            ("messages.yaml", shape.FILES["messages"]),
            ("invariants.yaml", shape.FILES["invariants"]),
        ):
            node = self._read(self.folder / name, record)
            if node is not None and node.kind == "mapping":
                self._merge_named(node)
        for path in self.more:
            node = read_file(path, str(path), self.sink)
            if node is not None:
                self._check(path, node, shape.FILES["invariants"])
                if node.kind == "mapping":
                    self._merge(files.properties, as_mapping(node.get("properties")), "properties")
        for name, item in files.sections["roles"].items():
            role = self._read(self._path_of(name), shape.FILES["role"], required=True, asked=item.place)
            if role is not None:
                files.roles[name] = role
                files.digested.append(role)
        if system.kind == "mapping":
            self._strays()
        self._messages_are_there()
        files.expected = self._read(self.folder / "expected.yaml", shape.FILES["expected"])
        files.migrations = self._read(self.folder / "migrations.yaml", shape.FILES["migrations"])
        lemmas = self._read(self.folder / "lemmas.yaml", shape.FILES["lemmas"])
        if lemmas is not None and lemmas.kind == "mapping":
            self._merge(files.lemmas, as_mapping(lemmas.get("lemmas")), "lemmas")
        return files

    def _show(self, path: Path) -> str:
        try:
            return f"{self.shown}/{path.relative_to(self.folder)}".removesuffix("/.")
        except ValueError:
            return f"{self.shown}/{path}" if not path.is_absolute() else str(path)

    def _read(
        self, path: Path, record: shape.RecordShape, required: bool = False, asked: Place = NOWHERE
    ) -> YamlNode | None:
        shown = self._show(path)
        if not _exists(path):
            if required:
                near = f"`{path.with_suffix('.yml').name}`, renamed" if _exists(path.with_suffix(".yml")) else None
                self.sink.error("missing_file", Place(shown) if asked == NOWHERE else asked, near=near, shown=shown)
            return None
        if not self._counted(Place(shown) if asked == NOWHERE else asked):
            return None
        node = read_file(path, shown, self.sink)
        if node is None:
            return None
        self._check(path, node, record)
        return node

    def _check(self, path: Path, node: YamlNode, record: shape.RecordShape) -> None:
        self.files.trees[path.resolve()] = FileTree(path, node, record)
        shape_check.check_shape(node, record, self.sink)

    def _counted(self, asked: Place) -> bool:
        """Counts one more file, and returns whether it may be read."""
        self.count += 1
        if self.count == MAX_FILES + 1:
            self.sink.error("too_many_files", asked, max_files=MAX_FILES)
        return self.count <= MAX_FILES

    def _merge_system(self, node: YamlNode, trail: tuple[Path, ...]) -> None:
        files = self.files
        files.digested.append(node)
        for section in _SECTIONS:
            declared = node.get(section)
            if declared is not None and declared.kind == "mapping":
                self._merge(files.sections[section], declared, section)
        for key in ("clock", "initially", "constraint", "product", "faults", "refines", "runs"):
            value = node.get(key)
            if value is not None:
                if key in files.single:
                    self.sink.error("declared_twice", node.key_place(key), key=key)
                files.single[key] = value
        for item in node.names("include"):
            if item.kind == "text":
                self._include(item, trail)

    def _include(self, item: YamlNode, trail: tuple[Path, ...]) -> None:
        path = trail[-1].parent / item.text
        if not _exists(path):
            self.sink.error("missing_include", item.place, file=_shown_text(item.text), to=self._show(trail[-1].parent))
            return
        if any(path.resolve() == earlier.resolve() for earlier in trail):
            trace = " -> ".join(self._show(p) for p in (*trail, path))
            self.sink.error("include_cycle", item.place, item=item.text, trace=trace)
            return
        if not self._counted(item.place):
            return
        fragment = read_file(path, self._show(path), self.sink)
        if fragment is None:
            return
        if fragment.get("messages") is not None:
            record = shape.FILES["messages"]
        elif fragment.get("properties") is not None or fragment.get("ends") is not None:
            record = shape.FILES["invariants"]
        else:
            record = shape.PART
        self._check(path, fragment, record)
        if any(unreadable(d.code) and d.place.file == fragment.place.file for d in self.sink.found):
            return
        if record is shape.PART:
            self._merge_system(fragment, (*trail, path))
        else:
            self._merge_named(fragment)

    def _merge_named(self, node: YamlNode) -> None:
        files = self.files
        files.digested.append(node)
        messages, properties, ends = node.get("messages"), node.get("properties"), node.get("ends")
        if messages is not None:
            self._merge(files.messages, messages, "messages")
        if properties is not None:
            self._merge(files.properties, properties, "properties")
        if ends is not None:
            files.ends = files.ends or {}
            self._merge(files.ends, ends, "ends")

    def _merge(self, into: dict[str, Item], declared: YamlNode, section: str) -> None:
        for name, place, value in declared.pairs():
            if name in into:
                self.sink.error("declared_twice_under", place, name=name, section=section, place=into[name].place)
            else:
                into[name] = Item(place, value)

    def _strays(self) -> None:
        """A role's file that the system does not name is most likely a slip."""
        paths = map(self._path_of, self.files.sections["roles"])
        used = {path.resolve() if _exists(path) else path for path in paths}
        folder = self.folder / "roles"
        for path in sorted(folder.glob("*.yaml")) if folder.is_dir() else []:
            if _exists(path) and path.resolve() not in used:
                self.sink.error("stray_role", Place(self._show(path)), stem=path.stem)

    def _messages_are_there(self) -> None:
        """Without messages.yaml every send would be reported; say what is missing instead."""
        if self.files.messages or (self.folder / "messages.yaml").is_file():
            return
        for name, role in self.files.roles.items():
            for _, place, task in role.pairs_of("tasks"):
                if task.get("send") is not None and task.get("call") is None and task.get("drive") is None:
                    self.sink.error("no_messages", place, name=name)
                    return

    def _path_of(self, role: str) -> Path:
        node = self.files.sections["roles"][role].node
        chosen = node.get("file") if node.kind == "mapping" else None
        return self.folder / (chosen.text if chosen and chosen.kind == "text" else f"roles/{role}.yaml")


def _exists(path: Path) -> bool:
    """Returns whether there is something at a path, for all that one may know: in a closed folder there may be."""
    try:
        return path.exists()
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False


def _shown_text(text: str) -> str:
    return repr(text[:80])[1:-1] if len(text) <= 80 else repr(text[:77])[1:-1] + "..."


def unreadable(code: str) -> bool:
    """Returns whether an error ends reading after one pass: a tree is missing, or not what later passes take it for."""
    return code in ("LH202", "LH203") or (code.startswith("LH1") and code != "LH106")


def entries(items: dict[str, Item]) -> Iterator[tuple[str, Place, YamlNode]]:
    for name, item in items.items():
        yield name, item.place, item.node


def as_mapping(node: YamlNode | None) -> YamlNode:
    """The node, or an empty mapping where there is none."""
    return node if node is not None else YamlNode("mapping", NOWHERE)
