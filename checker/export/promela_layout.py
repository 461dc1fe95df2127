"""Where the parts of a state lie in a Promela model, and what they are called there.

    type                what holds it
    bool                a byte, 0 or 1 (SPIN hides no bits)
    int, time, opaque   an int of 32 bits
    enumeration         a byte: the member's place, which has a name
    instance            a byte: its number
    set                 a number with one bit for each member
    option              two of these: whether there is a value, and the value, 0 where there is none
    map                 an array; in a message one field for each cell

A value is thus a row of *scalars*: one, two for an option, and those of every cell for a map. Names of the
specification are lower case and stand as they are, but for words of Promela and C; whatever is made besides has a
capital letter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from leasehold.checker.export.shared import UniqueNames, Unsupported, repeated, witnesses
from leasehold.spec.language import types as t
from leasehold.spec.language.lower import Relation, messages_of
from leasehold.spec.language.model import Channel, Message, Role

Scalar: TypeAlias = tuple[str, t.Type]  # a name, and the type of what it holds: no map, no option

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
RESERVED = frozenset([*PROMELA.split(), *C.split()])
BITS = ((8, "byte"), (15, "short"), (31, "int"))


def safe(name: str) -> str:
    """A name of the specification as Promela takes it."""
    return f"{name}_V" if name in RESERVED else name


def scalars(name: str, kind: t.Type) -> list[Scalar]:
    """The row of scalars that holds a value of a type."""
    match kind:
        case t.Map(key=key, of=of):
            if isinstance(of, t.Map):
                raise Unsupported(f"`{name}` is a map of maps", "use one map, or several fields")
            return [s for k in range(len(t.members(key))) for s in scalars(f"{name}_{k}", of)]
        case t.Option(of=of) if of is not None:
            if isinstance(of, t.Map | t.Option):
                raise Unsupported(f"`{name}` is an option of {of}", "use a field of its own for whether there is one")
            return [(f"{name}_some", t.BOOL), (name, of)]
        case _:
            return [(name, kind)]


def stored(name: str, kind: t.Type) -> list[tuple[str, t.Type, int | None]]:
    """The fields of a record for a datum: name, type, and of a map the number of cells."""
    if isinstance(kind, t.Map):
        if isinstance(kind.of, t.Map):
            raise Unsupported(f"`{name}` is a map of maps", "use one map, or several fields")
        return [(leaf, of, len(t.members(kind.key))) for leaf, of in scalars(name, kind.of)]
    return [(leaf, of, None) for leaf, of in scalars(name, kind)]


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
            raise Unsupported(f"a set of {of} has {count} members, and Promela's numbers 31 bits", "have fewer members")
        case _:
            return "int"


@dataclass(frozen=True, slots=True)
class ChannelLink:
    """What joins two machines: a channel from one to the other, by the words for their numbers."""

    channel: Channel
    place: str
    sender: str
    receiver: str


class PromelaNames:
    """Names and places of one system's model."""

    def __init__(self, relation: Relation, slots: int) -> None:
        self.relation, self.system, self.unlimited = relation, relation.system, slots
        self.names = UniqueNames({"BIT", "SIZE", "MIN", "MAX", "DIV", "MOD", "SLOTS"})
        self.controls = {role.control: role for role in self.system.roles.values()}
        for role in self.system.roles.values():
            for state in role.states:
                self.state(role, state)

    # Names

    def state(self, role: Role, state: str) -> str:
        return self.names.name(("state", role.name, state), f"{role.name}_{state}".upper())

    def constant(self, name: str) -> str:
        return self.names.name(("constant", name), name.upper())

    def kind(self, message: str) -> str:
        return self.names.name(("message", message), f"MSG_{message}".upper())

    def event(self, event: str) -> str:
        return self.names.name(("event", event), f"EVENT_{event}".upper())

    def role(self, role: str) -> str:
        return self.names.name(("role", role), f"ROLE_{role}".upper())

    def member(self, enum: t.Enum, member: str) -> str:
        """The name of an enumeration's member, of a control state or of a kind of message."""
        if enum in self.controls:
            return self.state(self.controls[enum], member)
        if enum.name == "message":
            return self.kind(member)
        return self.names.name(("member", enum.name, member), f"{enum.name}_{member}".upper())

    def literal(self, kind: t.Type, value: t.Value) -> list[str]:
        """A value as its row of scalars."""
        match kind:
            case t.Bool():
                return ["true" if value else "false"]
            case t.Enum():
                return [self.member(kind, value)]
            case t.Set(of=of):
                return [str(sum(1 << t.position(of, v) for v in value) if of is not None else 0)]
            case t.Map(of=of):
                return [s for cell in value for s in self.literal(of, cell)]
            case t.Option(of=of) if of is not None:
                if value is None:
                    return ["false", *("0" for _ in scalars("", of))]
                return ["true", *self.literal(of, value)]
            case _:
                return [f"({value})" if value < 0 else str(value)]

    # Machines

    def machine(self, role: str, instance: str, old: bool = False) -> str:
        found = self.system.roles[role]
        name = f"Old_{role}" if old else safe(role)
        return f"{name}[{instance}]" if found.indexed else name

    # Channels

    def slots(self, channel: Channel) -> int:
        """How many messages a joint has room for: as many as there can be, or as many as were wished."""
        if channel.kind == "mailbox":  # of each kind the newest and the one before it, and what came before, again
            return 2 * len(messages_of(self.system, channel)) + (2 if repeated(self.system, channel) else 0)
        return channel.capacity if channel.capacity is not None else self.unlimited

    def joints(self, channel: Channel) -> Iterator[ChannelLink]:
        """What joins the machines of a channel's roles, in the explorer's order."""
        sender, receiver = self.system.roles[channel.sender], self.system.roles[channel.receiver]
        for i in range(sender.count):
            for j in range(receiver.count):
                if i == j or not channel.same_index:
                    yield self.joint(channel, str(i), str(j))

    def joint(self, channel: Channel, i: str, j: str, old: bool = False) -> ChannelLink:
        """The joint of two machines; their numbers may be words of the model."""
        sender, receiver = self.system.roles[channel.sender], self.system.roles[channel.receiver]
        name = f"Old_{channel.name}" if old else safe(channel.name)
        if channel.same_index or receiver.count == 1:
            index = i
        elif sender.count == 1:
            index = j
        elif i.isdigit() and j.isdigit():
            index = str(int(i) * receiver.count + int(j))
        else:
            index = f"{i} * {receiver.count} + {j}"
        return ChannelLink(channel, f"{name}[{index}]" if self.dimension(channel) > 1 else name, i, j)

    def dimension(self, channel: Channel) -> int:
        """How many joints a channel has."""
        sender, receiver = self.system.roles[channel.sender].count, self.system.roles[channel.receiver].count
        return sender if channel.same_index else sender * receiver

    def entry(self, channel: Channel) -> list[Scalar]:
        """The fields of a slot besides kind and number: those of all kinds of message, each kind using its own."""
        found = {name: of for m in messages_of(self.system, channel) for name, of in self.fields(channel, m)}
        return list(found.items())

    def fields(self, channel: Channel, message: Message) -> list[Scalar]:
        """Where a slot has the fields of a kind of message; equal fields of several kinds share a place."""
        found = []
        for field in message.fields:
            others = [f for m in messages_of(self.system, channel) for f in m.fields if f.name == field.name]
            shared = all(f.type == field.type or _alike(f.type, field.type) for f in others)
            name = field.name if shared else f"{message.name}_{field.name}"
            found += [(_own(leaf), of) for leaf, of in scalars(name, field.type)]
        return found

    def held(self, channel: Channel, message: Message) -> list[tuple[t.Value, ...]]:
        """The messages of a kind that a `set` may hold: one bit for each combination of its fields' values."""
        for field in message.fields:
            if field.explore is None and any(_number(of) for _, of in scalars("", field.type)):
                raise Unsupported(
                    f"`{message.name}.{field.name}` is any number, and channel {channel.name} is a set",
                    "give the field `explore`: the values that it may have", field.place,
                )  # fmt: skip
        return witnesses(self.system, message.fields)


def _own(name: str) -> str:
    """A field's name in a slot, which has a kind and a number of its own."""
    return f"{name}_V" if name in ("kind", "number") else safe(name)


def _alike(a: t.Type, b: t.Type) -> bool:
    """Whether two types are held by the same scalars."""
    return _number(a) and _number(b)


def _number(kind: t.Type) -> bool:
    return isinstance(kind, t.Int | t.Time | t.Opaque)
