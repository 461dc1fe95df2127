"""First pass over a system's trees: names, types, constants and how many machines there are.

Everything that an expression may refer to is known after this pass, so that the second (build.py) can resolve and type
every expression where it stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from leasehold.spec.language import expression as x
from leasehold.spec.language.constant import Constant, Reader
from leasehold.spec.language.declare.channel_kind import NamedKind, kind_text, named_kinds
from leasehold.spec.language.diagnostics import NOWHERE, DiscardingSink, Place, Sink, near_miss
from leasehold.spec.language.lower.outlive import control_of_text, name_of
from leasehold.spec.language.operators import DEFINABLE
from leasehold.spec.language.read.files import SpecFiles, as_mapping, entries
from leasehold.spec.language.read.source import INTEGER, YamlNode
from leasehold.spec.language.render.evaluate import Context, NoState, evaluate
from leasehold.spec.language.types import (
    INT,
    UNKNOWN,
    Bool,
    Enum,
    Instance,
    Int,
    Set,
    Type,
    UnknownType,
    Value,
    default,
)
from leasehold.spec.language.typing.definitions import OWN_WORDS, Definition
from leasehold.spec.language.typing.definitions import read as definitions_of
from leasehold.spec.language.typing.infer import FUNCTIONS
from leasehold.spec.language.typing.names import DeclaredNames, RoleNames, Scope
from leasehold.spec.language.typing.parse import parse
from leasehold.spec.language.typing.parse_type import parse_type

ANY = "any"  # of a bound that a run does not have
MAX_INSTANCES = 10_000
MAX_PAIRS = 250_000
MAX_VALUE = 10**18


@dataclass
class Declarations:
    """The result of the first pass."""

    names: DeclaredNames
    constants: dict[str, Constant] = field(default_factory=dict)

    def values(self) -> dict[str, Value]:
        return {n: c.value for n, c in self.constants.items()}


class Declarer:
    """Runs the first pass; errors go to the sink."""

    def __init__(self, files: SpecFiles, settings: Mapping[str, str], sink: Sink) -> None:
        self.files, self.settings, self.sink = files, settings, sink
        self.types: dict[str, Enum | Instance] = {}
        self.constants: dict[str, Constant] = {}
        self.roles: dict[str, RoleNames] = {}
        self.definitions: dict[str, Definition] = {}
        self.shared: dict[str, Type] = {}
        self.defaults: dict[str, Value] = {}
        self.counting: set[str] = set()  # constants that were read while declaring
        # Those of them that types, first values, numbers of machines and of faults are made of.
        self.bounding: set[str] = set()
        self.loaded_with: dict[Reader, set[str]] = {}  # those that were read while loading, by who reads them

    def declare(self) -> Declarations:
        self._constants(of_types=False)
        self._types()
        self._constants(of_types=True)
        self._settings_known()
        self._role_counts()
        self._role_names()
        return Declarations(self._names(), self.constants)

    def _names(self) -> DeclaredNames:
        small = self._small()
        messages: dict[str, Mapping[str, Type]] = {}
        ends_of: dict[str, tuple[str, str]] = {}
        for name, _, node in entries(self.files.messages):
            messages[name] = self._fields(as_mapping(node.get("fields")), small)
            ends_of[name] = text_of(node, "from"), text_of(node, "to")
        channels = self._carried(ends_of)
        numbered: set[str] = set()
        for name, _, node in entries(self.files.sections["channels"]):
            numbered.update(channels[name] if self._may_be(node) == {"mailbox"} else ())
        constants = {n: c.type for n, c in self.constants.items()}
        return DeclaredNames(
            constants,
            self.types,
            self.roles,
            messages,
            channels,
            self.definitions,
            self.shared,
            frozenset(numbered),
            ends_of,
        )

    def _may_be(self, channel: YamlNode) -> set[str]:
        """The words of all kinds that a channel may have."""
        kind = channel.get("kind")
        text = None if kind is None else kind_text(kind, DiscardingSink())
        return set() if text is None else {word for case in named_kinds(text) for word in self.kinds(case)}

    def kinds(self, case: NamedKind) -> tuple[str, ...]:
        """The words that a kind may be: all values of a constant of an enumeration, where the text names one."""
        constant = self.constants.get(case.word)
        return constant.type.members if constant is not None and isinstance(constant.type, Enum) else (case.word,)

    def _carried(self, ends_of: Mapping[str, tuple[str, str]]) -> dict[str, tuple[str, ...]]:
        """Each channel's messages: those that it lists; all that no channel lists, if it is the first to list none."""
        channels = {name: node for name, _, node in entries(self.files.sections["channels"])}
        listed = {message.text for node in channels.values() for message in node.names("messages")}
        rest = [message for message in ends_of if message not in listed]
        carried: dict[str, tuple[str, ...]] = {}
        for name, node in channels.items():
            ends, own = (text_of(node, "from"), text_of(node, "to")), node.names("messages")
            self._check_listed(name, ends, own, ends_of)
            named = rest if node.get("messages") is None else [message.text for message in own]
            carried[name] = tuple(m for m in ends_of if m in named and ends_of[m] == ends)
            rest = [message for message in rest if message not in carried[name]]
        return carried

    def _check_listed(
        self, channel: str, ends: tuple[str, str], listed: tuple[YamlNode, ...], ends_of: Mapping[str, tuple[str, str]]
    ) -> None:
        """Reports what a channel lists and no message is, or one between other roles."""
        for message in listed:
            if message.text not in ends_of:
                self.sink.unknown("unknown_message", message.place, message.text, ends_of)
            elif ends_of[message.text] != ends:
                sender, receiver = ends_of[message.text]
                details = {"channel": channel, "message": message.text, "sender": sender, "receiver": receiver}
                self.sink.error("message_of_others", message.place, **details)

    def _small(self) -> dict[str, Enum | Instance]:
        return {**self.types, **{n: r.instance for n, r in self.roles.items()}}

    def _fields(self, node: YamlNode, small: Mapping[str, Enum | Instance]) -> dict[str, Type]:
        return {name: self._type(decl, small) for name, _, decl in node.pairs()}

    def _type(self, decl: YamlNode, small: Mapping[str, Enum | Instance]) -> Type:
        discarding = DiscardingSink()  # a wrong one is reported once, when the field is built
        return parse_type(type_node(decl), small, discarding, self.number_of)

    def number_of(self, constant: str) -> int | None:
        """The value of a constant by which a sequence is bounded; None: there is none, or it is no number."""
        if constant not in self.constants:
            return None
        e = x.ConstantRef(type=self.constants[constant].type, name=constant)
        value = self.worked_out(e, bounds=True)[0]
        return value if isinstance(value, int) else None

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
            elif not isinstance(kind, (Bool, Enum, UnknownType)):
                self.sink.error("constant_type", place, name=name, kind=kind)
                kind = UNKNOWN
            declared = node.get("value")
            value = self._value(name, kind, declared.text, declared.place) if declared else default(kind)
            self.defaults[name] = value
            if name in self.settings:
                value = self._value(name, kind, self.settings[name], NOWHERE)
            running_node = node.get("running")
            running = (
                self._value(name, kind, running_node.text, running_node.place)
                if running_node and running_node.text != ANY
                else None
            )
            self.constants[name] = Constant(name, kind, value, doc_of(node), place, running_node is not None, running)

    def _value(self, name: str, kind: Type, text: str, place: Place) -> Value:
        text, known = text.strip(), ("true", "false") if isinstance(kind, Bool) else getattr(kind, "members", ())

        def wrong(wording: str, instead: Value, **details: Value) -> Value:
            code, near = "LH702" if place == NOWHERE else "", near_miss(text, known) if known else None
            self.sink.error(wording, place, near=near, code=code, name=name, text=text[:40], **details)
            return instead

        match kind:
            case Int(low=low, high=high):
                if not INTEGER.match(text):
                    return wrong("not_a_value_int", low or 0)
                value = int(text)
                if (low is not None and value < low) or (high is not None and value > high):
                    span = f"{'' if low is None else low}..{'' if high is None else high}"
                    wider = "" if place == NOWHERE else ", or wider bounds"
                    return wrong("outside_span", low or 0, span=span, value=value, wider=wider)
                return value
            case Bool():
                return text == "true" if text in known else wrong("not_a_value_bool", False)
            case Enum(members=names):
                return text if text in names else wrong("not_a_value_member", names[0], members=names)
        return 0

    def _settings_known(self) -> None:
        for name in self.settings:
            if name not in self.constants:
                self.sink.unknown("unknown_constant", NOWHERE, name, self.constants)

    def constant(
        self, node: YamlNode, want: Type = INT, *, bounds: bool = False, reader: Reader = "machines"
    ) -> Value | None:
        """The value of an expression over constants, or None when it is wrong (and reported).

        Args:
            node: the expression.
            want: its type.
            bounds: a type, a first value, a number of machines or of a channel's faults depends on the value.
            reader: what the value is for.
        """
        names = DeclaredNames({n: c.type for n, c in self.constants.items()}, self.types, {}, {}, {})
        before = len(self.sink.errors)
        e = parse(node, Scope(names, clock=False), self.sink, want)
        if len(self.sink.errors) > before:
            return None
        (value,) = self.worked_out(e, bounds=bounds, reader=reader)
        return value

    def worked_out(
        self, e: x.Expression, machines: int = 1, *, bounds: bool = False, reader: Reader = "machines"
    ) -> tuple[Value | None, ...]:
        """The value of an expression over constants for each machine (`self`); None where it is wrong (and reported).

        Args:
            e: the expression.
            machines: how many there are.
            bounds: as of `constant`.
            reader: as of `constant`.
        """
        read = set(_constants_of(e))
        self.counting |= read
        self.loaded_with.setdefault(reader, set()).update(read)
        if bounds:
            self.bounding |= read
        constants = {n: c.value for n, c in self.constants.items()}
        values = [evaluate(e, Context(NoState(), constants, self=i)) for i in range(machines)]
        if any(isinstance(value, int) and abs(value) > MAX_VALUE for value in values):
            self.sink.error("large_value", e.place)
            return (None,) * machines
        return tuple(values)

    # Types and roles

    def _types(self) -> None:
        for name, place, node in entries(self.files.sections["types"]):
            listed_members, count = node.get("members"), node.get("count")
            if (listed_members is None) == (count is None):
                self.sink.error("members_or_count", place, name=name)
            elif listed_members is not None:
                members = [m.text for m in listed_members]
                for member in listed_members:
                    if members.count(member.text) > 1:
                        self.sink.error("member_twice", member.place, member=member.text, name=name)
                if members:
                    self.types[name] = Enum(name, tuple(dict.fromkeys(members)))
                else:
                    self.sink.error("no_members", listed_members.place, name=name)
            elif count is not None:
                self.types[name] = Instance(
                    name, self._count(count, f"the type `{name}`"), counted_by=self._constant_named(count)
                )

    def _count(self, node: YamlNode, subject: str) -> int:
        value = self.constant(node, bounds=not self._constant_named(node))
        if value is None:
            return 1
        if not 1 <= value <= MAX_INSTANCES:
            wording = "count_written" if node.text.lstrip("-").isdigit() else "count_set"
            self.sink.error(wording, node.place, what=subject, value=value, most=MAX_INSTANCES)
            return 1
        return int(value)

    def _constant_named(self, count: YamlNode | None) -> str:
        """The constant that a number of instances is; empty where it is worked out, or a number."""
        return count.text if count is not None and count.kind == "text" and count.text in self.constants else ""

    def _role_counts(self) -> None:
        for name, _, node in entries(self.files.sections["roles"]):
            count_node = node.get("instances") if node.kind == "mapping" else None
            count = self._count(count_node, f"the role `{name}`") if count_node is not None else 1
            empty = Enum(f"a state of {name}", ())
            dynamic = node.kind == "mapping" and text_of(node, "dynamic") == "true"
            instance = Instance(name, count, count_node is not None, self._constant_named(count_node), dynamic)
            self.roles[name] = RoleNames(name, instance, empty, {}, frozenset(), count_node is not None)

    def _role_names(self) -> None:
        small, shared = self._small(), self.files.sections["shared"]
        self.shared = {name: self._type(item.node, small) for name, item in shared.items()}
        own = {*OWN_WORDS, *([x.SHARED.name] if shared else [])}
        for name, names in list(self.roles.items()):
            node = as_mapping(self.files.roles.get(name))
            declared = {s: place for s, place, _ in node.pairs_of("states")}
            data = self._fields(as_mapping(node.get("data")), small)
            local = [e for e, _, _ in node.pairs_of("events")]
            received = [m for m, _, n in entries(self.files.messages) if text_of(n, "to") == name]
            events = frozenset([*local, *received, *(["tick"] if "clock" in self.files.single else [])])
            remembering = self._remembering(node, declared, MAX_PAIRS // max(1, len(events)))
            states = tuple(s for state in declared for s in (state, *remembering.get(state, ())))
            if len(states) * len(events) > MAX_PAIRS:
                sizes = {"states": f"{len(states):,}", "events": f"{len(events):,}", "most": f"{MAX_PAIRS:,}"}
                self.sink.error("too_many_pairs", node.key_place("states"), **sizes)
            for word, place, _ in node.pairs_of("data"):
                if word in own:
                    self.sink.error("taken_name", place, word=word)
            self.roles[name] = RoleNames(
                name,
                names.instance,
                Enum(f"a state of {name}", states),
                data,
                events,
                names.indexed,
                frozenset(received),
                remembering,
            )
        self._clashes()
        self._definitions()

    def _definitions(self) -> None:
        known = {name: "functions" for name in FUNCTIONS if name not in DEFINABLE}
        for section, names in (("constants", self.constants), ("types", self.types), ("roles", self.roles)):
            known |= dict.fromkeys(names, section)
        known |= {x.SHARED.name: "system.yaml"} if self.shared else {}
        self.definitions = definitions_of(entries(self.files.sections["definitions"]), known, self.sink)
        known |= dict.fromkeys(self.definitions, "definitions of the system")
        for name, role in self.roles.items():
            own = as_mapping(as_mapping(self.files.roles.get(name)).get("definitions"))
            definitions = definitions_of(own.pairs(), {**known, **dict.fromkeys(role.data, "data")}, self.sink, name)
            self.roles[name] = replace(role, definitions=definitions)

    def _remembering(self, role: YamlNode, declared: Mapping[str, Place], most: int) -> dict[str, tuple[str, ...]]:
        """Returns by state the states that are made for tasks that outlive another one; their names must be free."""
        control = control_of_text(role)
        task_sets = control.remembering(most) if control is not None else {}
        taken: dict[str, str] = {}
        remembering: dict[str, tuple[str, ...]] = {}
        for state in (s for s in declared if s in task_sets):
            for running in task_sets[state]:
                name = name_of(state, running)
                if name in declared or name in taken:
                    tasks = " and ".join(f"`{t}`" for t in sorted(running))
                    run = f"run{'s' if len(running) == 1 else ''}"
                    also = "" if name in declared else f", and of one for `{taken[name]}`"
                    at = declared.get(name, declared[state])
                    self.sink.error("taken_state_name", at, name=name, state=state, tasks=tasks, run=run, also=also)
                taken[name] = state
            remembering[state] = tuple(n for r in task_sets[state] if (n := name_of(state, r)) not in declared)
        return remembering

    def _clashes(self) -> None:
        clashes: dict[str, str] = {}
        for section, known in (("constants", self.constants), ("types", self.types), ("roles", self.roles)):
            for word in known:
                if word in clashes:
                    place = self.files.sections[section][word].place
                    self.sink.error("ambiguous_name", place, word=word, clashes=clashes[word], section=section)
                clashes[word] = section
        shared = self.files.sections["shared"]
        taken = [(word, item.place) for word, item in shared.items() if word in OWN_WORDS]
        for section in (clashes.get(x.SHARED.name, ""), "channels"):
            if shared and (item := self.files.sections.get(section, {}).get(x.SHARED.name)):
                taken.append((x.SHARED.name, item.place))
        for word, place in taken:
            self.sink.error("taken_name", place, word=word)


def type_node(decl: YamlNode) -> YamlNode:
    """Returns where a field's type stands: the text itself, or its `type` key."""
    if decl.kind == "text":
        return decl
    return decl.get("type") or YamlNode("text", decl.place)


def text_of(node: YamlNode, key: str) -> str:
    value = node.get(key)
    return value.text if value is not None else ""


def doc_of(node: YamlNode) -> str:
    return " ".join(text_of(node, "doc").split())


def _number(node: YamlNode, key: str) -> int | None:
    text = text_of(node, key)
    return int(text) if INTEGER.match(text) else None


def _constants_of(e: x.Expression) -> Iterator[str]:
    """The constants that a value depends on: those that it names, and those that count the members of its types."""
    for node in x.walk(e):
        match node:
            case x.ConstantRef(name=name):
                yield name
            case x.Literal_(type=Set(of=Instance(counted_by=by))) if by and x.holds_all_members(node):
                yield by
            case x.InstanceAt(type=Instance(counted_by=by)) if by:  # it is counted around
                yield by
