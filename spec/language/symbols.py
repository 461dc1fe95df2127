"""Symbols: the declared names of a system, and the one that stands at a place of its files.

Nothing is resolved here: keys.yaml tells what kind of thing a text or a key names, and the parts of expressions, as
they were typed (infer.py), tell what each stands for. Where there are errors, the symbols are those of what is right.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

from leasehold.spec.language import expression as x
from leasehold.spec.language import model as m
from leasehold.spec.language.declare.declare import doc_of, text_of
from leasehold.spec.language.diagnostics import NOWHERE, Place
from leasehold.spec.language.load import Reading
from leasehold.spec.language.read import shape
from leasehold.spec.language.read.files import FileTree, SpecFiles, entries
from leasehold.spec.language.read.shape_check import fitting
from leasehold.spec.language.read.source import YamlNode
from leasehold.spec.language.types import Enum, Instance, Set, Type, show
from leasehold.spec.language.typing.definitions import OWN_WORDS, Definition
from leasehold.spec.language.typing.infer import FUNCTIONS, TypedPart

SHARED = x.SHARED.name
_WITH_WORDS = frozenset(["expression", "condition", "type", "channel kind", "budget", "target", "definition"])
_WORD = re.compile(r"[A-Za-z_]\w*")
_BEFORE = re.compile(r"([A-Za-z_]\w*)(?:\[[^\]]*\])?\.\w*\Z")  # what has a field, before the cursor
# The words of expressions that no system declares.
WORDS = (*FUNCTIONS, *OWN_WORDS, "and", "or", "not", "in", "if", "else", "for", "true", "false", "none")
Identity: TypeAlias = tuple[str, str, str]  # kind, owner and name


@dataclass(frozen=True, slots=True)
class Symbol:
    """A declared name.

    Attributes:
        kind: what it is, such as `state`; those of `names` in keys.yaml, and `field`, `type`, `member`, ...
        owner: the role that it belongs to; of a field, also `message NAME` or `event ROLE NAME`.
        detail: its declaration, in a line.
    """

    kind: str
    owner: str
    name: str
    detail: str
    doc: str
    place: Place


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A word of a file, from a place up to another, and what it names; None where that is a type alone."""

    start: Place
    end: Place
    symbol: Symbol | None
    type: Type | None = None


@dataclass(frozen=True, slots=True)
class Slot:
    """A text or a key of a file.

    Attributes:
        kind: of the text, as keys.yaml has it; `key` for one that it lists, with the `doc` of that.
        around: the mappings that it is in, the outermost first, each with the key under which it is.
    """

    kind: str
    node: YamlNode
    around: tuple[tuple[YamlNode, str], ...]
    doc: str = ""

    @property
    def key(self) -> str:
        return self.around[-1][1] if self.around else ""

    def beside(self, *keys: str) -> str:
        """The text under the first of some keys that stands beside it."""
        found = (self.around[-1][0].get(key) for key in keys) if self.around else ()
        return next((node.text for node in found if node is not None and node.kind == "text"), "")

    def holds(self, place: Place) -> bool:
        if not self.node.text:
            return place.line == self.node.place.line and place.column >= self.node.place.column
        spans = self.node.spans or ((0, self.node.place.line, self.node.place.column),)
        (_, first, column), (offset, last, begin) = spans[0], spans[-1]
        end = begin + len(self.node.text[offset:].rstrip())
        return (first, column) <= (place.line, place.column) <= (last, end)

    def offset(self, place: Place) -> int:
        """Returns the offset in its text of a place within it."""
        spans = self.node.spans or ((0, self.node.place.line, self.node.place.column),)
        start, _, column = next(span for span in reversed(spans) if (span[1], span[2]) <= (place.line, place.column))
        return min(start + place.column - column, len(self.node.text))


class SymbolTable:
    """The symbols of a system as it was read.

    Args:
        reading: the system.
        parts: the parts of its expressions, as `traced` collects them.
        earlier: the symbols of before, which stand where it cannot be read.
    """

    def __init__(self, reading: Reading, parts: Sequence[TypedPart], earlier: SymbolTable | None = None) -> None:
        self.reading = reading
        self.symbols: dict[Identity, Symbol] = {}
        if reading.system is not None:
            for symbol in _declared(reading.files, reading.system):
                self.symbols.setdefault((symbol.kind, symbol.owner, symbol.name), symbol)
        elif earlier is not None:
            self.symbols = earlier.symbols
        self._places = {symbol.place: symbol for symbol in reversed(self.symbols.values())}
        self._slots: dict[Path, list[Slot]] = {}
        self._parts: dict[tuple[str, int], list[TypedPart]] = {}  # by file and line
        for part in parts:
            for line in range(part.start.line, part.end.line + 1):
                self._parts.setdefault((part.start.file, line), []).append(part)

    @cached_property
    def _roles_of(self) -> Mapping[Type, str]:
        system = self.reading.system
        return {} if system is None else {role.control: name for name, role in system.roles.items()}

    def find(self, kind: str, owner: str, name: str) -> Symbol | None:
        return self.symbols.get((kind, owner, name))

    def at(self, path: Path, line: int, column: int) -> Occurrence | None:
        """The word at a place of a file; None where there is none that names something."""
        slot = self._slot(path, line, column)
        if slot is None:
            return None
        role = _role_of(self.reading.files.trees[path])
        if slot.kind in _WITH_WORDS:
            word = _word_at(slot.node.text, slot.offset(Place(slot.node.place.file, line, column)))
            return None if word is None else self._word(slot, role, *word)
        if slot.kind == "key":
            symbol: Symbol | None = Symbol("key", "", slot.node.text, "", slot.doc, slot.node.place)
        elif slot.kind == "name":
            symbol = self._declared_at(slot.node.place, slot.node.text)
        else:
            symbol = self._named(slot, role)
        return _occurrence(slot, 0, len(slot.node.text), symbol)

    def names(self, path: Path, line: int, column: int) -> list[Symbol]:
        """The symbols that may stand at a place of a file; all, where the file is not YAML."""
        slot = self._slot(path, line, column)
        if slot is None:
            return [] if path in self.reading.files.trees else list(self.symbols.values())
        owner = _role_of(self.reading.files.trees[path])
        if slot.kind in ("expression", "condition"):
            place = Place(slot.node.place.file, line, column)
            return list(self._in_expression(slot, owner, slot.node.text[: slot.offset(place)]))
        if slot.kind == "sent field":
            return [s for s in self.symbols.values() if s.kind == "field" and s.owner == self._sent(slot, owner)]
        if slot.kind == "target":
            return [s for s in self.symbols.values() if s.kind == "field" and s.owner == owner]
        if slot.kind == "type":
            return [s for s in self.symbols.values() if s.kind in ("type", "role")]
        if slot.kind == "event":
            role = self._event_role(slot, owner)
            return [s for s in self.symbols.values() if (s.kind, s.owner) == ("event", role) or self._received(s, role)]
        owned = slot.kind in ("state", "task")
        return [s for s in self.symbols.values() if s.kind == slot.kind and (s.owner == owner or not owned)]

    # Places

    def slots(self, path: Path) -> list[Slot]:
        """All texts and keys of a file, as far as it has the shape that it should have."""
        if path not in self._slots:
            tree = self.reading.files.trees.get(path)
            self._slots[path] = [] if tree is None else [*_slots(tree.node, tree.record, ())]
        return self._slots[path]

    def _declared_at(self, place: Place, name: str) -> Symbol | None:
        symbol = self._places.get(place)
        return symbol if symbol is not None and symbol.name == name else None

    def _slot(self, path: Path, line: int, column: int) -> Slot | None:
        """The text or key at a place of a file; an empty text, too."""
        place = Place("", line, column)
        return next((slot for slot in self.slots(path) if slot.holds(place)), None)

    def _word(self, slot: Slot, role: str, word: str, first: int, last: int) -> Occurrence | None:
        """A word of a text that has several."""
        match slot.kind:
            case "target":
                holder = SHARED if slot.node.text.startswith(f"{SHARED}.") else role
                return _occurrence(slot, first, last, self.find("field", holder, word))
            case "definition":
                return _occurrence(slot, first, last, self._declared_at(slot.node.place, word))
            case "type":
                return _occurrence(slot, first, last, self._small(word))
        return self._typed(slot, word, slot.node.inside(first), slot.node.inside(last), role)

    def _typed(self, slot: Slot, word: str, start: Place, end: Place, role: str) -> Occurrence | None:
        """A word of an expression: what the innermost part that names it stands for, or what type that part has."""
        covering = [p for p in self._parts.get((start.file, start.line), ()) if p.start <= start and end <= p.end]
        covering.sort(key=lambda p: (p.end.line, p.end.column))
        covering.sort(key=lambda p: (p.start.line, p.start.column), reverse=True)
        for i, part in enumerate(covering):
            if symbol := self._meant(part.meaning, word, slot, role, covering[i:]):
                return Occurrence(start, end, symbol)
        if slot.key == "to" and (symbol := self.find("role", "", word)):
            return Occurrence(start, end, symbol)  # the role alone is no expression
        exact = [p.meaning for p in covering if (p.start, p.end) == (start, end)]
        typed = next((e for e in exact if not isinstance(e, Definition)), None)
        return None if typed is None else Occurrence(start, end, None, typed.type)

    # Names

    def _small(self, name: str) -> Symbol | None:
        return self.find("type", "", name) or self.find("role", "", name)

    def _event(self, role: str, name: str) -> Symbol | None:
        return self.find("event", role, name) or self.find("message", "", name)

    def _received(self, symbol: Symbol, role: str) -> bool:
        system = self.reading.system
        known = system.messages.get(symbol.name) if system is not None and symbol.kind == "message" else None
        return known is not None and known.receiver == role

    def _fields_of_event(self, role: str, event: str) -> str:
        """The owner of an event's fields."""
        return f"event {role} {event}" if self.find("event", role, event) else f"message {event}"

    def _event_role(self, slot: Slot, role: str) -> str:
        return (slot.beside("drive", "to") if slot.key == "event" else "") or role

    def _sent(self, slot: Slot, role: str) -> str:
        """The owner of the fields that a task gives."""
        message = slot.beside("send")
        return f"message {message}" if message else self._fields_of_event(slot.beside("drive"), slot.beside("event"))

    def _named(self, slot: Slot, role: str) -> Symbol | None:
        kind, name = slot.kind, slot.node.text
        match kind:
            case "state" | "task":
                return self.find(kind, role, name)
            case "event":
                return self._event(self._event_role(slot, role), name)
            case "sent field":
                return self.find("field", self._sent(slot, role), name)
            case "transition":
                transitions = (s for s in self.symbols.values() if s.kind == kind)
                return next((s for s in transitions if fnmatchcase(s.name, name)), None)
            case "property":
                return next((s for k in (kind, "lemma", "end") if (s := self.find(k, "", name))), None)
        return self.find(kind, "", name)

    def _meant(
        self, meaning: x.Expression | Definition, word: str, slot: Slot, role: str, around: Sequence[TypedPart]
    ) -> Symbol | None:
        """The symbol of a word in the text of a part of an expression; None where the part does not name it."""
        match meaning:
            case Definition(name=name, role=of) if name == word:
                return self.find("definition", of, name)
            case x.ConstantRef(name=name) if name == word:
                return self.find("constant", "", name)
            case x.Data(role=of, name=name) if name == word:
                return self.find("field", of, name)
            case x.Literal_(type=Enum(name=of) as kind, value=value) if value == word:
                if kind in self._roles_of:
                    return self.find("state", self._roles_of[kind], word)
                return self.find("member", of, word) or self.find("message", "", word)
            case x.Literal_(type=Instance(name=name) | Set(of=Enum(name=name) | Instance(name=name))) if name == word:
                return self._small(word)
            case x.InstanceAt(type=Instance(name=name)) if name == word:
                return self._small(word)
            case x.Took(event=event, role=of) | x.Accepts(event=event, role=of) if event == word:
                return self._event(of, word)
            case x.Pending(name=name) if name == word:
                return self.find("message", "", word) or self.find("channel", "", word)
            case x.GlobalQuery(subjects=subjects) if word in subjects:
                return self.find("channel", "", word) or self.find("role", "", word)
            case x.Argument(name=name) if name == word:
                return self._argument(name, slot, role)
            case x.MessageField(variable=variable, name=name) if name == word:
                return self._message_field(variable, name, around)
        of_role = isinstance(meaning, x.Data | x.ControlState | x.Took | x.Accepts) and meaning.role == word
        return self.find("role", "", word) if of_role else None

    def _argument(self, name: str, slot: Slot, role: str) -> Symbol | None:
        """A field of the event that is consumed where an expression stands."""
        keys = [key for _, key in slot.around]
        owners = [self._fields_of_event(role, event) for on, event in pairwise(keys) if on == "on"]
        if keys[:1] == ["environment"]:
            owners.append(self._fields_of_event(slot.beside("to"), slot.beside("event") or keys[1]))
        # A task reads what all events that start it have alike.
        owners += [s.owner for s in self.symbols.values() if s.kind == "field" and self._comes_to(s.owner, role)]
        return next((s for owner in owners if (s := self.find("field", owner, name))), None)

    def _comes_to(self, owner: str, role: str) -> bool:
        kind, _, name = owner.partition(" ")
        if kind == "event":
            return name.startswith(f"{role} ")
        message = self.find("message", "", name) if kind == "message" else None
        return message is not None and self._received(message, role)

    def _message_field(self, variable: str, name: str, around: Iterable[TypedPart]) -> Symbol | None:
        for part in around:
            for inner in () if isinstance(part.meaning, Definition) else x.walk(part.meaning):
                match inner:
                    case x.Quantifier(variable=v, domain=x.Pending(name=message)) if v == variable:
                        return self.find("field", f"message {message}", name)
        return None

    def _in_expression(self, slot: Slot, role: str, before: str) -> Iterator[Symbol]:
        """The symbols that may follow in an expression."""
        has_field = _BEFORE.search(before)
        base = has_field.group(1) if has_field else ""
        if base in ("event", "msg"):
            keys = [key for _, key in slot.around]
            owners = {self._fields_of_event(role, event) for on, event in pairwise(keys) if on == "on"}
            yield from (s for s in self.symbols.values() if s.kind == "field" and s.owner in owners)
        elif has_field:
            for s in self.symbols.values():
                took = s.kind == "event" or (s.kind == "message" and self._received(s, base))
                if (s.kind == "field" and s.owner == base) or (took and s.owner in (base, "")):
                    yield s
        else:
            anywhere = ("constant", "definition", "type", "role", "channel", "message")
            yield from (Symbol("word", "", word, "a word of the language", "", NOWHERE) for word in WORDS)
            for s in self.symbols.values():
                of_role = s.kind in ("field", "state", "definition") and s.owner == role and role
                if (
                    of_role
                    or (s.kind == "state" and not role)
                    or s.kind == "member"
                    or (s.kind in anywhere and not s.owner)
                ):
                    yield s


def _role_of(tree: FileTree) -> str:
    """The role whose machine a file describes; empty for other files."""
    named = tree.node.get("role")
    return named.text if named is not None and tree.record is shape.FILES["role"] else ""


def _occurrence(slot: Slot, first: int, last: int, symbol: Symbol | None) -> Occurrence | None:
    """The characters of a slot that name a symbol."""
    return None if symbol is None else Occurrence(slot.node.inside(first), slot.node.inside(last), symbol)


def _word_at(text: str, offset: int) -> tuple[str, int, int] | None:
    return next(((w[0], w.start(), w.end()) for w in _WORD.finditer(text) if w.start() <= offset <= w.end()), None)


def _key(place: Place, name: str) -> YamlNode:
    return YamlNode("text", place, name, spans=((0, place.line, place.column),))


def _slots(node: YamlNode, wanted: shape.YamlShape, around: tuple[tuple[YamlNode, str], ...]) -> Iterator[Slot]:
    match fitting(node, wanted):
        case shape.TextShape(of=of):
            yield Slot(of, node, around)
        case shape.ListShape(of=of):
            for item in node:
                yield from _slots(item, of, around)
        case shape.MappingShape(of=of, keys=keys):
            for name, place, value in node.pairs():
                yield Slot(keys, _key(place, name), around)
                yield from _slots(value, of, (*around, (node, name)))
        case shape.RecordShape(keys=known):
            for name, place, value in node.pairs():
                if name in known:
                    yield Slot("key", _key(place, name), (*around, (node, name)), known[name].doc)
                    yield from _slots(value, known[name].shape, (*around, (node, name)))


# Declarations


def _declared(files: SpecFiles, system: m.System) -> Iterator[Symbol]:
    for name, place, node in entries(files.sections["types"]):
        members = node.names("members")
        listed = ", ".join(member.text for member in members)
        detail = f"one of {listed}" if members else f"{text_of(node, 'count')} members"
        yield Symbol("type", "", name, detail, doc_of(node), place)
        for member in members:
            yield Symbol("member", name, member.text, f"a {name}", "", member.place)
    for name, place, node in entries(files.sections["actors"]):
        yield Symbol("actor", "", name, f"plays {', '.join(role.text for role in node)}", "", place)
    for c in system.constants.values():
        yield Symbol("constant", "", c.name, f"{c.type} = {show(c.type, c.value)}", c.doc, c.place)
    for role in system.roles.values():
        yield from _of_role(role)
    yield from _fields(SHARED, system.shared.values())
    for message in system.messages.values():
        detail = f"from {message.sender} to {message.receiver}"
        yield Symbol("message", "", message.name, detail, message.doc, message.place)
        yield from _fields(f"message {message.name}", message.fields)
    for channel in system.channels.values():
        detail = f"{channel.kind} from {channel.sender} to {channel.receiver}, for {', '.join(channel.messages)}"
        yield Symbol("channel", "", channel.name, detail, channel.doc, channel.place)
    for action in system.environment.values():
        detail = f"offers {action.event} to {action.role}"
        yield Symbol("environment action", "", action.name, detail, action.doc, action.place)
    for kind, claims in (("property", system.properties), ("lemma", system.lemmas)):
        for p in claims.values():
            yield Symbol(kind, "", p.name, p.kind, "\n\n".join(filter(None, (p.doc, p.source))), p.place)
    for end in system.ends or ():
        yield Symbol("end", "", end.name, "a state in which nothing more need happen", "", end.place)
    yield from _definitions(system.definitions.values())


def _of_role(role: m.Role) -> Iterator[Symbol]:
    number = f", {role.count} machines" if role.indexed else ""
    yield Symbol("role", "", role.name, f"{len(role.states)} states{number}", role.doc, role.place)
    yield from _fields(role.name, role.data.values())
    yield from _definitions(role.definitions.values())
    for state in role.states.values():
        if not state.remembers:
            tasks = f", starts {', '.join(state.tasks)}" if state.tasks else ""
            yield Symbol("state", role.name, state.name, f"of {role.name}{tasks}", state.doc, state.place)
    for transition in role.transitions():
        detail = f"to {transition.target}" if not transition.internal else "stays"
        yield Symbol("transition", "", transition.name, detail, transition.doc, transition.place)
    for event in role.events.values():
        yield Symbol("event", role.name, event.name, f"of {role.name}", event.doc, event.place)
        yield from _fields(f"event {role.name} {event.name}", event.fields)
    for task in role.tasks.values():
        yield Symbol("task", role.name, task.name, _work(task), task.doc, task.place)


def _work(task: m.Task) -> str:
    match task:
        case m.Send(message=message, receiver=receiver):
            return f"sends {message} to {receiver}"
        case m.Drive(event=event, role=role):
            return f"drives {role} by {event}"
        case m.Call(target=target):
            answers = f", answered by {', '.join(task.answers)}" if task.answers else ""
            return f"calls {target}{answers}"


def _fields(owner: str, fields: Iterable[m.Datum]) -> Iterator[Symbol]:
    for datum in fields:
        if not datum.captured:
            yield Symbol("field", owner, datum.name, str(datum.type), datum.doc, datum.place)


def _definitions(definitions: Iterable[Definition]) -> Iterator[Symbol]:
    for d in definitions:
        yield Symbol("definition", d.role, d.name, f"{d.usage}: {' '.join(d.source.split())}", "", d.place)
