"""The layout of a state in a Promela model: where its parts lie, and what they are called there.

    type                what holds it
    bool                a byte, 0 or 1 (SPIN hides no bits)
    int, time, opaque   an int of 32 bits
    enumeration         a byte: the member's place, which has a name
    instance            a byte: its number
    set                 a number with one bit for each member
    option              two of these: whether there is a value, and the value, 0 where there is none
    map                 one of these for each cell
    sequence            its length, and one of these for each place, 0 from the length on

Names of the specification are lower case and stand as they are, but for words of Promela and C; whatever is made
besides has a capital letter. `Old_` before a part of a state is that part of the state before the step.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple, TypeAlias

from leasehold.checker.explore.layout import Lane, Layout
from leasehold.checker.export.shared import ExportError, UniqueNames, field_values, names_senders, numbered, repeated
from leasehold.spec.language import types as t
from leasehold.spec.language.lower import Relation, messages_of
from leasehold.spec.language.model import Channel, Datum, Message
from leasehold.spec.language.render.sequences import Sequences, SequenceValue

PROMELA = """
    active assert atomic bit bool break byte c_code c_decl c_expr c_state c_track chan cond d_proctype d_step default
    do else empty enabled eval false fi for full get_priority hidden if in init inline int len local ltl mtype nempty
    never nfull no_claim_possible notrace np_ od of pc_value pid printf printm priority proctype provided return run
    select set_priority short show skip spin_assert timeout trace true typedef unless unsigned xr xs always
    eventually implies equivalent next release stronguntil until weakuntil
"""
C = """
    auto case char const continue double enum extern float goto long main now register restrict signed sizeof static
    struct switch union void volatile while asm typeof
"""
RESERVED = frozenset([*PROMELA.split(), *C.split(), "kind", "number"])  # a message has a kind and a number of its own
SIZES = {"byte": 1, "short": 2, "int": 4}
BITS = ((8, "byte"), (15, "short"), (31, "int"))
PREFIXES = {"message": "MSG_", "event": "EVENT_", "role": "ROLE_"}


def safe(name: str) -> str:
    """A name of the specification as Promela takes it."""
    return f"{name}_V" if name in RESERVED else name


# Values

# The words for a value: two for an option, which say whether there is one and which; of a map those of each cell; of a
# sequence its length and those of each place. Where a sequence has fewer places than it may have, the rest are 0.
Words: TypeAlias = "str | tuple[Words, ...]"


def scalars(name: str, kind: t.Type) -> list[tuple[str, t.Type]]:
    """The names and types of the scalars that hold a value: several for an option, a map or a sequence."""
    match kind:
        case t.Map(key=key, of=of):
            return [s for k in range(len(t.members(key))) for s in scalars(f"{name}_{k}", of)]
        case t.Option(of=of) if of is not None:
            return [(f"{name}_some", t.BOOL), *scalars(name, of)]
        case t.Seq(of=of, most=most) if of is not None:
            return [(f"{name}_length", t.Int(0, most)), *(s for n in range(most) for s in scalars(f"{name}_{n}", of))]
        case _:
            return [(safe(name), kind)]


def shaped(kind: t.Type, scalars_: Sequence[str]) -> Words:
    """A value whose scalars have these words."""
    match kind:
        case t.Map(key=key, of=of):
            width = len(scalars_) // len(t.members(key))
            return tuple(shaped(of, scalars_[n : n + width]) for n in range(0, len(scalars_), width))
        case t.Option(of=of) if of is not None:
            return (scalars_[0], shaped(of, scalars_[1:]))
        case t.Seq(most=0):
            return (scalars_[0],)
        case t.Seq(of=of, most=most) if of is not None:
            width = (len(scalars_) - 1) // most
            return (scalars_[0], *(shaped(of, scalars_[n : n + width]) for n in range(1, len(scalars_), width)))
        case _:
            return scalars_[0]


def flat(value: Words) -> list[str]:
    """The words for a value's scalars."""
    return [value] if isinstance(value, str) else [word for part in value for word in flat(part)]


def reshaped(value: Words, scalars_: Iterator[str]) -> Words:
    """A value of the shape of another, of the next of these scalars."""
    return next(scalars_) if isinstance(value, str) else tuple([reshaped(part, scalars_) for part in value])


def pieces(value: Words) -> tuple[Words, ...]:
    """The parts of a value that has several."""
    assert not isinstance(value, str)
    return value


def zeros(value: Words) -> Words:
    """The words of a value that is not there, in the shape of another."""
    return "0" if isinstance(value, str) else tuple(map(zeros, value))


def alike(a: Words, b: Words) -> tuple[Words, Words]:
    """Two values in one shape: of two sequences, the shorter one has as many places as the longer."""
    if isinstance(a, str) or isinstance(b, str):
        return (zeros(b) if a == "0" else a, zeros(a) if b == "0" else b)
    pairs = [alike(one, other) for one, other in zip_longest(a, b, fillvalue="0")]
    left, right = (tuple(side) for side in zip(*pairs, strict=True))
    return left, right


def chosen(test: str, a: Words, b: Words) -> Words:
    """One value or another."""
    a, b = alike(a, b)
    if isinstance(a, str) or isinstance(b, str):
        return a if a == b or test == "true" else b if test == "false" else f"({test} -> {a} : {b})"
    return tuple(chosen(test, one, other) for one, other in zip(a, b, strict=True))


def same(a: Words, b: Words) -> str:
    """Returns the condition that two values are equal."""
    return both(list(map(_same, *map(flat, alike(a, b)))))


def _same(a: str, b: str) -> str:
    return f"({a} == {b})" if not (a.isdigit() and b.isdigit()) else "true" if a == b else "false"


def fitted(value: Words, have: t.Type, want: t.Type) -> Words:
    """A value of one type as a value of another that agrees with it."""
    match want, have:
        case t.Option(of=of), t.Option(of=inner) if of is not None:
            some, content = pieces(value)
            return (some, zero(of) if inner is None else fitted(content, inner, of))
        case t.Option(of=of), _ if of is not None:
            return ("true", fitted(value, have, of))
        case (_, _) if value == "0":  # it is not there
            return zero(want)
        case t.Map(of=of), t.Map(of=inner):
            return tuple([fitted(cell, inner, of) for cell in pieces(value)])
        case t.Seq(of=of, most=most), t.Seq(of=inner) if of is not None:
            length, *items = pieces(value)
            if inner is not None:
                items = [fitted(item, inner, of) for item in items]
            if most:
                items = [*items, *[zero(of)] * (most - len(items))][:most]
            return (length, *items)
    return value


def zero(kind: t.Type) -> Words:
    """The words of a value of a type that is not there."""
    return shaped(kind, ["0"] * len(scalars("", kind)))


def both(parts: Sequence[str]) -> str:
    """Returns the condition that all conditions hold."""
    return _joined(" && ", parts, "true", "false")


def either(parts: Sequence[str]) -> str:
    """Returns the condition that at least one condition holds."""
    return _joined(" || ", parts, "false", "true")


def _joined(glue: str, parts: Sequence[str], neutral: str, decides: str) -> str:
    parts = [part for part in parts if part != neutral]
    if decides in parts:
        return decides
    return f"({glue.join(parts)})" if len(parts) > 1 else parts[0] if parts else neutral


def opposite(condition: str) -> str:
    equal = re.fullmatch(r"\(([^()\s]+) == ([^()\s]+)\)", condition)
    otherwise = f"({equal[1]} != {equal[2]})" if equal else f"(!{condition})"
    return {"true": "false", "false": "true"}.get(condition, otherwise)


class WordAlgebra:
    """Numbers and conditions as words of Promela; what is known is worked out."""

    def number(self, value: int) -> str:
        return str(value)

    def plus(self, a: str, b: str) -> str:
        return str(int(a) + int(b)) if a.isdigit() and b.isdigit() else a if b == "0" else f"({a} + {b})"

    def minus(self, a: str, b: str) -> str:
        return f"({a} - {b})" if b != "0" else a

    def less(self, a: str, b: str) -> str:
        if a.isdigit() and b.isdigit():
            return "true" if int(a) < int(b) else "false"
        return f"({a} < {b})"

    def same(self, a: Words, b: Words) -> str:
        return same(a, b)

    def opposite(self, test: str) -> str:
        return opposite(test)

    def every(self, tests: Sequence[str]) -> str:
        return both(tests)

    def some(self, tests: Sequence[str]) -> str:
        return either(tests)

    def choice(self, test: str, then: Words, otherwise: Words) -> Words:
        return chosen(test, then, otherwise)


SEQUENCES: Sequences[str] = Sequences(WordAlgebra())


def sequence(words: Words) -> SequenceValue[str]:
    """The sequence that lies in its words."""
    length, *values = pieces(words)
    assert isinstance(length, str)

    def at(place: str) -> Words:
        if place.isdigit():
            return values[int(place)] if int(place) < len(values) else "0"
        value = values[-1] if values else "0"
        for number in range(len(values) - 2, -1, -1):
            value = chosen(same(place, str(number)), values[number], value)
        return value

    return SequenceValue(length, len(values), at)


def sequence_words(value: SequenceValue[str]) -> Words:
    """The words of a sequence; those of places from its length on are 0."""

    def at(place: int) -> Words:
        there = SEQUENCES.algebra.less(str(place), value.length)
        return chosen(there, value.at(str(place)), "0")

    return (value.length, *map(at, range(value.most)))


def between(kind: t.Type, value: Words, low: str | int | None, high: str | int | None) -> list[str]:
    """Conditions for all numbers in a value to lie between two ends, which may be missing."""
    match kind:
        case t.Map(of=of):
            return [test for cell in value for test in between(of, cell, low, high)]
        case t.Option(of=of) if of is not None:
            return [f"(!{value[0]} || {test})" for test in between(of, value[1], low, high)]
        case t.Seq(of=of, most=most) if of is not None:
            cells = [between(of, cell, low, high) for cell in value[1:]]
            inside = [f"({value[0]} <= {place} || {test})" for place, tests in enumerate(cells) for test in tests]
            return [f"({value[0]} <= {most})", *inside]
        case t.Int() | t.Time() | t.Opaque():
            ends = [f"{low} <= {value}"] * (low is not None) + [f"{value} <= {high}"] * (high is not None)
            return [f"({' && '.join(ends)})"] if ends else []
    return []


def declared(kind: t.Type) -> str:
    """Promela's type for a scalar."""
    match kind:
        case t.Bool():
            return "byte"
        case t.Enum() | t.Instance():
            return "byte" if len(t.members(kind)) < 256 else "int"
        case t.Set(of=of):
            count = 0 if of is None else len(t.members(of))
            for bits, word in BITS:
                if count <= bits:
                    return word
            raise ExportError(f"a set of {of} has {count} members, and Promela's numbers 31 bits", "have fewer members")
        case _:
            return "int"


# The whole


class Leaf(NamedTuple):
    """A scalar of a state: the role, channel or other variable that it is of, its type, and where it lies."""

    owner: str
    type: str
    place: str


@dataclass(frozen=True, slots=True)
class MessagePlace:
    """A place where a message may lie on its way: a slot of a lane, or a member of a set.

    Attributes:
        present: whether one of the kinds that are asked for lies there.
        fields: of the message, with its `kind` and `number`.
        identity: words that are equal for equal messages of one channel.
    """

    channel: str
    present: str
    fields: Mapping[str, Words]
    identity: tuple[str, ...]


class PromelaNames:
    """Names and places of one system's model.

    Attributes:
        lanes: by channel, its lanes; of a queue that several senders share, one for each receiver.
        remembered: the roles, channels and variables of which the state before a step is asked for.
    """

    def __init__(self, relation: Relation, slots: int) -> None:
        self.relation, self.system, self.unlimited = relation, relation.system, slots
        self.layout = Layout(relation)
        self.names = UniqueNames({"BIT", "SIZE", "MIN", "MAX", "DIV", "MOD"})
        self.controls = {role.control: role.name for role in self.system.roles.values()}
        for role in self.system.roles.values():
            for state in role.states:
                self.define("state", role.name, state)
        self.lanes = {
            name: [
                lane
                for lane in self.layout.lanes
                if lane.channel is channel and (lane.sender == 0 or not self.names_senders(channel))
            ]
            for name, channel in self.system.channels.items()
        }
        self.remembered: set[str] = set()

    # Names

    def define(self, *key: str) -> str:
        """The name of a constant, a role's state, a kind of message, an enumeration's member, an event or a role."""
        return self.names.name(key, (PREFIXES.get(key[0], "") + "_".join(key[1:])).upper())

    def kind(self, message: str) -> str:
        return self.define("message", message)

    def member(self, enum: t.Enum, member: str) -> str:
        """The name of an enumeration's member, of a control state or of a kind of message."""
        if enum in self.controls:
            return self.define("state", self.controls[enum], member)
        return self.kind(member) if enum.name == "message" else self.define("member", enum.name, member)

    def literal(self, kind: t.Type, value: t.Value) -> Words:
        """The words of a value."""
        match kind:
            case t.Bool():
                return "true" if value else "false"
            case t.Enum():
                return self.member(kind, value)
            case t.Set(of=of):
                return str(sum(1 << t.position(of, v) for v in value) if of is not None else 0)
            case t.Map(of=of):
                return tuple([self.literal(of, cell) for cell in value])
            case t.Option(of=of):
                absent = ("false", "0" if of is None else zero(of))
                return absent if value is None or of is None else ("true", self.literal(of, value))
            case t.Seq(of=of, most=most):
                items = [self.literal(of, v) for v in value] if of is not None else []
                rest = [zero(of)] * (most - len(items)) if of is not None else []
                return (str(len(value)), *items, *rest)
            case _:
                return f"({value})" if value < 0 else str(value)

    # Places

    def place(self, name: str, number: int | str | None, old: bool = False) -> str:
        """A role's record, that of shared variables, or a channel's lane; `number` tells apart one of several."""
        if old:
            self.remembered.add(name)
        word = f"Old_{safe(name)}" if old else safe(name)
        return word if number is None else f"{word}[{number}]"

    def machine(self, role: str, instance: int | str, old: bool = False) -> str:
        return self.place(role, instance if self.system.holders[role].indexed else None, old)

    def stands_in(self, role: str, instance: str, state: str) -> str:
        """Returns the condition that a machine is in a control state."""
        return f"({self.machine(role, instance)}.state == {self.define('state', role, state)})"

    def data(self, machine: str, name: str, kind: t.Type) -> Words:
        """A field of a machine's record."""
        return shaped(kind, [f"{machine}.{leaf}" for leaf, _ in scalars(name, kind)])

    def lane(self, lane: Lane, old: bool = False) -> str:
        lanes = self.lanes[lane.channel.name]
        number = [o.receiver for o in lanes].index(lane.receiver) if lane not in lanes else lanes.index(lane)
        return self.place(lane.channel.name, number if len(lanes) > 1 else None, old)

    def leaves(self) -> Iterator[Leaf]:
        """Every scalar of a state."""
        for role, i in self.system.records():
            record = self.machine(role.name, i)
            if role.states:
                yield Leaf(role.name, "byte", f"{record}.state")
            for d in role.data.values():
                yield from (Leaf(role.name, declared(of), f"{record}.{leaf}") for leaf, of in scalars(d.name, d.type))
        for lane in (lane for lanes in self.lanes.values() for lane in lanes):
            channel, place = lane.channel, self.lane(lane)
            yield from (Leaf(channel.name, "byte", bit) for _, _, bit in self.members(lane))
            for k in range(self.slots(channel)):
                yield from (Leaf(channel.name, of, f"{place}.slot[{k}].{name}") for name, of in self.slot(channel))
            if self.ranked(channel):
                yield Leaf(channel.name, "byte", f"{place}.newest")
        yield from (Leaf("budgets", "int", self.left(*budget)) for budget in self.layout.budgets)
        if self.system.clock is not None:
            yield Leaf("clock", "int", "clock")

    def left(self, channel: str, fault: str) -> str:
        """The variable that says how many of a channel's faults are left."""
        return f"Left_{channel}_{fault}"

    # Messages

    def names_senders(self, channel: Channel) -> bool:
        return names_senders(self.system, channel)

    def ranked(self, channel: Channel) -> bool:
        """Returns whether the messages of a channel have their ranks beside them, as the order does not tell them."""
        return channel.kind == "mailbox" and numbered(self.system, channel)

    def slots(self, channel: Channel) -> int:
        """Returns the number of messages that a lane has room for: the most there can be, or as many as wished.

        It is 0 for a channel that is a set.
        """
        if channel.kind == "set":
            return 0
        if channel.kind == "mailbox":  # of each kind the newest and the one before it, and what came before, again
            return 2 * len(messages_of(self.system, channel)) + (2 if repeated(self.system, channel) else 0)
        return channel.capacity if channel.capacity is not None else self.unlimited

    def slot(self, channel: Channel) -> list[tuple[str, str]]:
        """The fields of a slot with their types: those of all kinds of message, each kind using its own."""
        fields = {"kind": "byte", **({"number": "byte"} if self.ranked(channel) else {})}
        fields |= {"sender": "byte"} if self.names_senders(channel) else {}
        for message in messages_of(self.system, channel):
            fields |= {name: declared(of) for name, of in self.fields(channel, message)}
        return list(fields.items())

    def fields(self, channel: Channel, message: Message) -> list[tuple[str, t.Type]]:
        """Returns where a slot has the fields of a kind of message; equal fields of several kinds share a place."""
        fields = []
        for field in message.fields:
            others = [f for m in messages_of(self.system, channel) for f in m.fields if f.name == field.name]
            shared = all(f.type == field.type or (_number(f.type) and _number(field.type)) for f in others)
            name = field.name if shared else f"{message.name}_{field.name}"
            fields += scalars(name, field.type)
        return fields

    def members(self, lane: Lane, old: bool = False) -> Iterator[tuple[Message, list[str], str]]:
        """The messages that a `set` may hold: kind, fields' scalars, and the bit that says whether it does."""
        channel = lane.channel
        for message in messages_of(self.system, channel) if channel.kind == "set" else ():
            for field in message.fields:
                if field.explore is None and any(_number(of) for _, of in scalars("", field.type)):
                    raise ExportError(
                        f"`{message.name}.{field.name}` is any number, and channel {channel.name} is a set",
                        "give the field `explore`: the values that it may have",
                        field.place,
                    )
            for k, values in enumerate(field_values(self.system, message.fields)):
                terms = [w for f, v in zip(message.fields, values, strict=True) for w in flat(self.literal(f.type, v))]
                yield message, terms, f"{self.lane(lane, old)}.{safe(message.name)}_{k}"

    def named(self, fields: Sequence[Datum], terms: Sequence[str]) -> dict[str, Words]:
        """The fields of a message or event by name, from the terms of their scalars."""
        by_name: dict[str, Words] = {}
        for field in fields:
            width = len(scalars(field.name, field.type))
            by_name[field.name], terms = shaped(field.type, terms[:width]), terms[width:]
        return by_name

    def message_places(self, name: str, old: bool) -> Iterator[MessagePlace]:
        """All places where messages of a kind, or of a channel, may be on their way."""
        system = self.system
        channel = system.channel_named(name)
        kinds = [m for m in messages_of(system, channel) if name in (m.name, channel.name)]
        for lane in self.lanes[channel.name]:
            ends = {"sender": str(lane.sender), "receiver": str(lane.receiver)}
            fields: dict[str, Words]
            for message, terms, bit in self.members(lane, old):
                if message in kinds:
                    kind = self.kind(message.name)
                    fields = {**self.named(message.fields, terms), "kind": kind, "number": "1", **ends}
                    yield MessagePlace(channel.name, bit, fields, (kind, *terms))
            for k in range(self.slots(channel)):
                slot = f"{self.lane(lane, old)}.slot[{k}]"
                number = f"{slot}.number" if self.ranked(channel) else str(k + 1 if channel.kind == "mailbox" else 1)
                place = str(k + 1) if channel.durable else number
                ends |= {"sender": f"{slot}.sender"} if self.names_senders(channel) else {}
                fields = {"kind": f"{slot}.kind", "number": place, **ends}
                for m in kinds:
                    fields |= self.named(m.fields, [f"{slot}.{leaf}" for leaf, _ in self.fields(channel, m)])
                present = f"{slot}.kind == {self.kind(name)}" if name in system.messages else f"{slot}.kind != 0"
                identity = (*(f"{slot}.{cell}" for cell, _ in self.slot(channel) if cell != "sender"), number)
                yield MessagePlace(channel.name, f"({present})", fields, identity)


def _number(kind: t.Type) -> bool:
    return isinstance(kind, t.Int | t.Time | t.Opaque)
