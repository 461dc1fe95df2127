"""First pass over a system's trees: names, types, constants and how many machines there are.

Everything that an expression may refer to is known after this pass, so that the second (build.py) can resolve and type
every expression where it stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from leasehold.spec.language import expression as x
from leasehold.spec.language.diagnostics import NOWHERE, Place, Quiet, Sink, listed, near_miss
from leasehold.spec.language.evaluate import Context, NoState, evaluate
from leasehold.spec.language.files import Files, as_mapping, entries
from leasehold.spec.language.model import Constant
from leasehold.spec.language.names import Names, RoleNames, Scope
from leasehold.spec.language.outlive import control_of_text, name_of
from leasehold.spec.language.parse import parse
from leasehold.spec.language.parse_type import parse_type
from leasehold.spec.language.source import INTEGER, Node
from leasehold.spec.language.types import (
    INT,
    UNKNOWN,
    Bool,
    Enum,
    Instance,
    Int,
    Type,
    Unknown,
    Value,
    default,
)  # fmt: skip

MAX_INSTANCES = 10_000
MAX_PAIRS = 250_000
MAX_VALUE = 10**18


@dataclass
class Declarations:
    """What the first pass found."""

    names: Names
    constants: dict[str, Constant] = field(default_factory=dict)

    def values(self) -> dict[str, Value]:
        return {n: c.value for n, c in self.constants.items()}


class Declarer:
    """Runs the first pass; errors go to the sink."""

    def __init__(self, files: Files, settings: Mapping[str, str], sink: Sink) -> None:
        self.files, self.settings, self.sink = files, settings, sink
        self.types: dict[str, Enum | Instance] = {}
        self.constants: dict[str, Constant] = {}
        self.roles: dict[str, RoleNames] = {}
        self.defaults: dict[str, Value] = {}
        self.counting: set[str] = set()  # constants that were read while declaring
        self.bounding: set[str] = set()  # those of them that types, first values and numbers of machines are made of

    def declare(self) -> Declarations:
        self._constants(of_types=False)
        self._types()
        self._constants(of_types=True)
        self._settings_known()
        self._role_counts()
        self._role_names()
        return Declarations(self._names(), self.constants)

    def _names(self) -> Names:
        small = self._small()
        messages: dict[str, Mapping[str, Type]] = {}
        for name, _, node in entries(self.files.messages):
            messages[name] = self._fields(as_mapping(node.get("fields")), small)
        channels: dict[str, tuple[str, ...]] = {}
        for name, _, node in entries(self.files.sections["channels"]):
            ends = text_of(node, "from"), text_of(node, "to")
            kinds = (m for m, _, n in entries(self.files.messages) if (text_of(n, "from"), text_of(n, "to")) == ends)
            channels[name] = tuple(kinds)
        constants = {n: c.type for n, c in self.constants.items()}
        return Names(constants, self.types, self.roles, messages, channels)

    def _small(self) -> dict[str, Enum | Instance]:
        return {**self.types, **{n: r.instance for n, r in self.roles.items()}}

    def _fields(self, node: Node, small: Mapping[str, Enum | Instance]) -> dict[str, Type]:
        quiet = Quiet()  # wrong types are reported once, when the field is built
        return {name: parse_type(type_node(decl), small, quiet) for name, _, decl in node.pairs()}

    # Constants and settings

    def _constants(self, of_types: bool) -> None:
        for name, place, node in entries(self.files.sections["constants"]):
            type_text = text_of(node, "type")
            if (type_text not in ("int", "bool")) != of_types:
                continue
            kind = parse_type(type_node(node), self.types, self.sink)
            low, high = _number(node, "min"), _number(node, "max")
            if isinstance(kind, Int):
                kind = Int(low, high)
            elif not isinstance(kind, (Bool, Enum, Unknown)):
                self.sink.error(
                    "LH303", place, f"the constant `{name}` cannot be of type {kind}",
                    remedy="constants are ints, bools and members of enumerations",
                )  # fmt: skip
                kind = UNKNOWN
            declared = node.get("value")
            value = self._value(name, kind, declared.text, declared.place) if declared else default(kind)
            self.defaults[name] = value
            if name in self.settings:
                value = self._value(name, kind, self.settings[name], NOWHERE)
            self.constants[name] = Constant(name, kind, value, doc_of(node), place)

    def _value(self, name: str, kind: Type, text: str, place: Place) -> Value:
        text = text.strip()
        code = "LH702" if place == NOWHERE else "LH307"
        match kind:
            case Int(low=low, high=high):
                if not INTEGER.match(text):
                    self.sink.error(
                        code, place, f"`{name}` is a number; `{text[:40]}` is not",
                        remedy="write it with at most 18 digits",
                    )  # fmt: skip
                    return low or 0
                value = int(text)
                if (low is not None and value < low) or (high is not None and value > high):
                    span = f"{'' if low is None else low}..{'' if high is None else high}"
                    self.sink.error(
                        code, place, f"`{name}` must lie in {span}; {value} does not",
                        remedy="choose another value" + ("" if place == NOWHERE else ", or wider bounds"),
                    )  # fmt: skip
                    return low or 0
                return value
            case Bool():
                if text not in ("true", "false"):
                    self.sink.error(
                        code, place, f"`{name}` is true or false; `{text[:40]}` is neither",
                        near=near_miss(text, ("true", "false")), remedy="write `true` or `false`",
                    )  # fmt: skip
                return text == "true"
            case Enum(members=names):
                if text not in names:
                    self.sink.error(
                        code, place, f"`{name}` is one of {listed(names)}; `{text[:40]}` is not",
                        near=near_miss(text, names), remedy="choose one of them",
                    )  # fmt: skip
                    return names[0]
                return text
        return 0

    def _settings_known(self) -> None:
        for name in self.settings:
            if name not in self.constants:
                self.sink.error(
                    "LH701", NOWHERE, f"there is no constant `{name[:40]}` to set",
                    near=near_miss(name, self.constants),
                    remedy=f"constants of this system: {listed(self.constants, 30)}",
                )  # fmt: skip

    def constant(self, node: Node, want: Type = INT, *, bounds: bool = False) -> Value | None:
        """The value of an expression over constants, or None when it is wrong (and reported).

        Args:
            node: the expression.
            want: its type.
            bounds: of it a type, a first value or a number of machines is made.
        """
        names = Names({n: c.type for n, c in self.constants.items()}, self.types, {}, {}, {})
        before = len(self.sink.found)
        e = parse(node, Scope(names, clock=False), self.sink, want)
        if len(self.sink.found) > before:
            return None
        read = {inner.name for inner in x.walk(e) if isinstance(inner, x.Constant)}
        self.counting |= read
        if bounds:
            self.bounding |= read
        value = evaluate(e, Context(NoState(), {n: c.value for n, c in self.constants.items()}))
        if isinstance(value, int) and abs(value) > MAX_VALUE:
            self.sink.error("LH307", node.place, "the value is too large", remedy="numbers have at most 18 digits")
            return None
        return value

    # Types and roles

    def _types(self) -> None:
        for name, place, node in entries(self.files.sections["types"]):
            listed_members, count = node.get("members"), node.get("count")
            if (listed_members is None) == (count is None):
                self.sink.error(
                    "LH204", place, f"the type `{name}` needs either `members` or `count`",
                    remedy="`members: [red, green]` or `count: 3`",
                )  # fmt: skip
            elif listed_members is not None:
                found = [m.text for m in listed_members]
                for member in listed_members:
                    if found.count(member.text) > 1:
                        self.sink.error(
                            "LH206", member.place, f"`{member.text}` stands twice in the type `{name}`",
                            remedy="remove one",
                        )  # fmt: skip
                if found:
                    self.types[name] = Enum(name, tuple(dict.fromkeys(found)))
                else:
                    self.sink.error(
                        "LH203", listed_members.place, f"the type `{name}` has no members", remedy="name one"
                    )
            elif count is not None:
                self.types[name] = Instance(
                    name, self._count(count, f"the type `{name}`"), counted_by=self._constant_named(count)
                )

    def _count(self, node: Node, what: str) -> int:
        value = self.constant(node, bounds=not self._constant_named(node))
        if value is None:
            return 1
        if not 1 <= value <= MAX_INSTANCES:
            self.sink.error(
                "LH702", node.place, f"{what} has {value} instances; 1 to {MAX_INSTANCES} are possible",
                remedy="set the constant that it is counted by with `--set NAME=VALUE`"
                if not node.text.lstrip("-").isdigit() else f"write a number from 1 to {MAX_INSTANCES}",
            )  # fmt: skip
            return 1
        return int(value)

    def _constant_named(self, count: Node | None) -> str:
        """The constant that a number of instances is; empty where it is worked out, or a number."""
        return count.text if count is not None and count.kind == "text" and count.text in self.constants else ""

    def _role_counts(self) -> None:
        for name, _, node in entries(self.files.sections["roles"]):
            count_node = node.get("instances") if node.kind == "mapping" else None
            count = self._count(count_node, f"the role `{name}`") if count_node is not None else 1
            empty = Enum(f"a state of {name}", ())
            instance = Instance(name, count, count_node is not None, self._constant_named(count_node))
            self.roles[name] = RoleNames(name, instance, empty, {}, frozenset(), count_node is not None)

    def _role_names(self) -> None:
        small = self._small()
        for name, names in list(self.roles.items()):
            node = as_mapping(self.files.roles.get(name))
            declared = {s: place for s, place, _ in as_mapping(node.get("states")).pairs()}
            data = self._fields(as_mapping(node.get("data")), small)
            local = [e for e, _, _ in as_mapping(node.get("events")).pairs()]
            received = [m for m, _, n in entries(self.files.messages) if text_of(n, "to") == name]
            events = frozenset([*local, *received, *(["tick"] if "clock" in self.files.single else [])])
            remembering = self._remembering(node, declared, MAX_PAIRS // max(1, len(events)))
            states = tuple(s for state in declared for s in (state, *remembering.get(state, ())))
            if len(states) * len(events) > MAX_PAIRS:
                self.sink.error(
                    "LH113", node.key_place("states"),
                    f"{len(states):,} states and {len(events):,} events are more than "
                    f"{MAX_PAIRS:,} pairs", remedy="split the role, or keep in data what is now told apart by states",
                )  # fmt: skip
            for word, place, _ in as_mapping(node.get("data")).pairs():
                if word in ("state", "self", "now", "event", "msg", "it"):
                    self.sink.error("LH205", place, f"`{word}` has a meaning of its own", remedy="choose another name")
            self.roles[name] = RoleNames(
                name, names.instance, Enum(f"a state of {name}", states), data, events, names.indexed, remembering
            )
        self._clashes()

    def _remembering(self, role: Node, declared: Mapping[str, Place], most: int) -> dict[str, tuple[str, ...]]:
        """By state, the states that are made for tasks that outlive another one; their names must be free."""
        control = control_of_text(role)
        found = control.remembering(most) if control is not None else {}
        taken: dict[str, str] = {}
        made: dict[str, tuple[str, ...]] = {}
        for state in (s for s in declared if s in found):
            for running in found[state]:
                name = name_of(state, running)
                if name in declared or name in taken:
                    tasks = " and ".join(f"`{t}`" for t in sorted(running))
                    also = "" if name in declared else f", and of one for `{taken[name]}`"
                    self.sink.error(
                        "LH206", declared.get(name, declared[state]),
                        f"`{name}` is the name of the state that is made for `{state}` while {tasks} still "
                        f"run{'s' if len(running) == 1 else ''}{also}",
                        remedy="rename one of the states that the text has",
                    )  # fmt: skip
                taken[name] = state
            made[state] = tuple(n for r in found[state] if (n := name_of(state, r)) not in declared)
        return made

    def _clashes(self) -> None:
        clashes: dict[str, str] = {}
        for section, known in (("constants", self.constants), ("types", self.types), ("roles", self.roles)):
            for word in known:
                if word in clashes:
                    place = self.files.sections[section][word].place
                    self.sink.error(
                        "LH206", place, f"`{word}` is declared under {clashes[word]} and under {section}",
                        remedy="rename one: an expression could not tell which is meant",
                    )  # fmt: skip
                clashes[word] = section


def type_node(decl: Node) -> Node:
    """Where a field's type stands: the text itself, or its `type` key."""
    if decl.kind == "text":
        return decl
    return decl.get("type") or Node("text", decl.place)


def text_of(node: Node, key: str) -> str:
    found = node.get(key)
    return found.text if found is not None else ""


def doc_of(node: Node) -> str:
    return " ".join(text_of(node, "doc").split())


def _number(node: Node, key: str) -> int | None:
    text = text_of(node, key)
    return int(text) if INTEGER.match(text) else None
