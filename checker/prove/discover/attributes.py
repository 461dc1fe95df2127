"""Attributes of states: what a candidate lemma may speak of, each with finitely many values.

An attribute is read from an explored state, for one instance of a role or for none. Its value is a set: usually of one
member, and of several where the attribute is about all messages of a kind. The value of a comparison is its sign, and
of a set whether it is empty or has all instances, so that candidates make sense for any numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from operator import eq
from typing import Any

from leasehold.checker.explore.channels import entries
from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.ground import function
from leasehold.checker.explore.layout import State as Cells
from leasehold.checker.prove.encode.lemma import lemma_scope, parsed
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.diagnostics import SpecError
from leasehold.spec.language.model import Message, Property, Role, System
from leasehold.spec.language.render.python_source import Frame, source

Value = Any
Values = frozenset[Value]
Read = Callable[[Cells, int], Value]
Text = Callable[[Values], str]
SIGNS = {"<": "{0} < {1}", "==": "{0} == {1}", ">": "{1} < {0}", "<==": "{0} <= {1}", "==>": "{1} <= {0}"}
SUBSETS = {**SIGNS, "<": SIGNS["<=="], ">": SIGNS["==>"]}


@dataclass(frozen=True)
class Attribute:
    """Something that a state has one of finitely many values for.

    Attributes:
        name: for names of lemmas.
        read: its values in a state, for an instance (-1: none).
        text: the claim that its value is among some; empty where there is nothing to say.
        roles: whose state it reads.
        cases: the values that may tell cases apart.
        location: it is a machine's control state.
        member: whether an instance is in a set; that none or all are is claimed of the set.
        predicate: a formula about the whole state.
    """

    name: str
    read: Callable[[Cells, int], Values]
    text: Text
    roles: frozenset[str]
    cases: Values = frozenset()
    location: bool = False
    member: bool = False
    predicate: bool = False


@dataclass(frozen=True)
class _Operand:
    """An expression that is compared: a datum of a machine, a cell of a map, or the time.

    Attributes:
        name: for names of lemmas.
        first: the first value of a number.
    """

    words: str
    name: str
    type: t.Type
    roles: frozenset[str]
    read: Read
    first: int = 0


class Vocabulary:
    """The attributes of one system.

    Args:
        system: with small constants.
    """

    def __init__(self, system: System) -> None:
        self.system = system
        self.layout = reference_of(system).layout
        self.scope = lemma_scope(system)
        self.single = [r for r in system.roles.values() if not r.indexed]
        self.several = [r for r in system.roles.values() if r.indexed]
        self.owners = [r for r in system.holders.values() if not r.indexed]  # of data that no instance has
        taken = _names(system)
        self.variable = {r.name: _variable(r, taken) for r in self.several}

    def of_system(self) -> Iterator[Attribute]:
        """Attributes that name no instance."""
        for role in self.single:
            yield self._location(role, role.name)
        for role in self.several:
            one = self.variable[role.name]
            for state in _declared(role):
                expression = f"any({one}.state == {state} for {one} in {role.name})"
                yield self._case(expression, f"some_{role.name}_{state}", {role.name})
        for message in self.system.messages.values():
            ends = {message.sender, message.receiver}
            yield self._case(f"len(pending({message.name})) != 0", f"{message.name}_pending", ends)
            yield self._pending(message)
        for channel in self.system.channels.values():
            if channel.kind == "mailbox":
                expression, ends = f"heard({channel.name})", {channel.sender, channel.receiver}
                yield _attribute(
                    f"{channel.name}_heard", self._value(expression), _boolean(expression, f"not {expression}"), ends
                )
        data = [d for role in self.owners for d in self._data(role, role.name)]
        yield from _of_data(data)
        if self.system.clock is not None:
            now = self._value("now")
            for d in (d for d in data if isinstance(d.type, t.Time)):
                yield _attribute(d.name, _both(_sign, d.read, now), _signs(d.words, "now"), d.roles)
        for message in self.system.messages.values():
            yield from self._of_fields(message)
        for p in self.system.properties.values():
            yield from self._of_property(p)

    def of_instance(self, role: Role) -> Iterator[Attribute]:
        """Attributes of any one instance of a role."""
        one = self.variable[role.name]
        yield self._location(role, one)
        yield from _of_data(self._data(role, one))
        for d in (d for owner in self.owners for d in self._data(owner, owner.name)):
            if d.type in (role.instance, t.Option(role.instance)):
                expression = f"{d.words} == {one}"
                text = _boolean(expression, f"{d.words} != {one}")
                yield _attribute(f"is_{d.name}", self._value(expression, role), text, d.roles, (False, True))
            if isinstance(d.type, t.Set) and d.type.of == role.instance:
                expression = f"{one} in {d.words}"
                text = _boolean(expression, f"{one} not in {d.words}")
                inside = _attribute(f"in_{d.name}", self._value(expression, role), text, d.roles, (False, True))
                yield replace(inside, member=True)
            if isinstance(d.type, t.Map) and d.type.key == role.instance:
                expression = f"{d.words}[{one}]"
                yield from _of_data([replace(d, words=expression, type=d.type.of, read=self._value(expression, role))])

    # Machines

    def _value(self, expression: str, role: Role | None = None) -> Read:
        """The value of an expression, which may have the variable of a role in it, in a state."""
        one = "" if role is None else self.variable.get(role.name, "")
        scope = self.scope.bind(**{one: role.instance}) if role is not None and one else self.scope
        frame = Frame(self.layout, self.system.values(), variables={one: "b"})
        value = function(source(parsed(expression, scope, None), frame))
        return lambda s, i: value(s, (), i)

    def _location(self, role: Role, who: str) -> Attribute:
        base = {name: state.base or name for name, state in role.states.items()}
        state, expression = self._value(f"{who}.state", role), f"{who}.state"
        members = _declared(role)
        attribute = _attribute(
            role.name, lambda s, i: base[state(s, i)], _among(expression, members), {role.name}, members
        )
        return replace(attribute, location=True)

    def _data(self, role: Role, who: str) -> list[_Operand]:
        """The data of a machine, or of the machine that a variable stands for."""
        operands = []
        for d in role.data.values():
            expression, name = f"{who}.{d.name}", f"{role.name}_{d.name}"
            first = d.initial if isinstance(d.initial, int) and not d.any_initial else 0
            operands.append(
                _Operand(expression, name, d.type, frozenset({role.name}), self._value(expression, role), first)
            )
        return operands

    # Messages

    def _pending(self, message: Message) -> Attribute:
        """Returns whether messages of a kind are on their way, and some of them not received."""
        none, fresh = f"len(pending({message.name})) == 0", f"any(m.number > 0 for m in pending({message.name}))"
        empty, unreceived = self._value(none), self._value(fresh)
        texts = {frozenset({"none"}): none}
        if self.system.channel_of(message.name).kind == "mailbox":
            texts |= dict.fromkeys((frozenset({"none", "old"}), frozenset({"old"})), f"not {fresh}")
        return _attribute(
            message.name,
            lambda s, i: "none" if empty(s, i) else "new" if unreceived(s, i) else "old",
            lambda seen: texts.get(seen, ""),
            {message.sender, message.receiver},
        )

    def _of_fields(self, message: Message) -> Iterator[Attribute]:
        """The fields of messages, against constants and the data of their sender and receiver."""
        channel = self.system.channel_of(message.name)
        ends = [self.system.roles[end] for end in (channel.sender, channel.receiver)]
        if not message.fields or any(role.indexed for role in ends):
            return
        cells = [lane.cell for lane in self.layout.lanes if lane.channel is channel]
        data = [d for role in ends for d in self._data(role, role.name)]
        for fresh in (False, True) if channel.kind == "mailbox" else (False,):

            def sent(s: Cells, fresh: bool = fresh) -> list[tuple[Any, ...]]:
                every = (e for cell in cells for e in entries(channel.kind, s[cell]))
                return [e[2] for e in every if e[1] == message.name and (e[0] > 0 or not fresh)]

            which = f"for m in pending({message.name}){' if m.number > 0' if fresh else ''}"
            prefix = f"{'new_' if fresh else ''}{message.name}"
            for n, f in enumerate(message.fields):
                for name, value, text, roles in _of_field(f"m.{f.name}", f"{prefix}_{f.name}", f.type, data):
                    every = _of_every(sent, n, value)
                    yield Attribute(name, every, _for_every(text, which), roles | {r.name for r in ends})

    # Closed formulas

    def _case(self, expression: str, name: str, roles: Collection[str]) -> Attribute:
        """A formula that tells cases apart, and is not claimed itself."""
        return replace(
            _attribute(name, self._value(expression), _boolean(expression, ""), roles, {True}), predicate=True
        )

    def _of_property(self, p: Property) -> Iterator[Attribute]:
        """The parts of a property: a lemma may say when each of them holds."""
        for part in x.conjuncts(p.claim) if p.kind == "always" else ():
            expression = x.text(part)
            with suppress(SpecError):  # not every expression prints as it was written
                yield _attribute(p.name, self._value(expression), _boolean(expression, ""), [])


def _attribute(name: str, read: Read, text: Text, roles: Collection[str], cases: Collection[Value] = ()) -> Attribute:
    """An attribute that has one value in a state."""
    one: dict[Value, Values] = {}  # sets of one value, made once
    return Attribute(
        name,
        lambda s, i: one.get(v := read(s, i)) or one.setdefault(v, frozenset((v,))),
        text,
        frozenset(roles),
        frozenset(cases),
    )


def _of_data(data: Sequence[_Operand]) -> Iterator[Attribute]:
    """Data, each by itself and compared with each other."""
    for d in data:
        cases: Sequence[Value] = (False, True) if isinstance(d.type, t.Bool | t.Option | t.Seq) else ()
        if isinstance(d.type, t.Enum):
            yield _attribute(d.name, d.read, _among(d.words, d.type.members), d.roles, d.type.members)
        elif (alone := _alone(d.words, d.type, d.first)) is not None:
            yield _attribute(d.name, _then(alone[0], d.read), alone[1], d.roles, cases)
    for a, b in combinations(data, 2):
        if (compared := _compared(a.words, a.type, b)) is not None:
            value, text = compared
            yield _attribute(f"{a.name}_and_{b.name}", _both(value, a.read, b.read), text, a.roles | b.roles)


def _of_field(
    expression: str, name: str, kind: t.Type, data: Sequence[_Operand]
) -> Iterator[tuple[str, Callable[[Value, Cells], Value], Text, frozenset[str]]]:
    """A field of a message, by itself and compared with data: names, its value in a state, and what it says."""
    if isinstance(kind, t.Enum):
        for member in kind.members:
            text = _boolean(f"{expression} == {member}", f"{expression} != {member}")
            yield f"{name}_{member}", partial(_in_state, partial(eq, member), None), text, frozenset()
    elif (alone := _alone(expression, kind)) is not None:
        yield name, partial(_in_state, alone[0], None), alone[1], frozenset()
    for d in data:
        if (compared := _compared(expression, kind, d)) is not None:
            value, text = compared
            yield f"{name}_and_{d.name}", partial(_in_state, value, d), text, d.roles


def _in_state(value: Callable[..., Value], beside: _Operand | None, field: Value, s: Cells) -> Value:
    """Returns what tells a field's values apart, where it is compared with an operand in that state."""
    return value(field) if beside is None else value(field, beside.read(s, 0))


def _of_every(
    sent: Callable[[Cells], list[tuple[Any, ...]]], n: int, value: Callable[[Value, Cells], Value]
) -> Callable[[Cells, int], Values]:
    """The values that a field has in all messages of a kind."""
    return lambda s, i: frozenset(value(fields[n], s) for fields in sent(s))


def _for_every(text: Text, which: str) -> Text:
    """A claim about all messages of a kind."""
    return lambda seen: f"all({claim} {which})" if (claim := text(seen)) else ""


def _alone(expression: str, kind: t.Type, first: int = 0) -> tuple[Callable[[Any], Value], Text] | None:
    """Returns how the values of a type are told apart, and what is said of them."""
    match kind:
        case t.Bool():
            return bool, _boolean(expression, f"not {expression}")
        case t.Int() | t.Time():
            low = 0 if isinstance(kind, t.Time) else kind.low
            return lambda v: _sign(v, first), _signs(expression, str(first), "==>" if low == first else "")
        case t.Option():
            return lambda v: v is not None, _boolean(f"{expression} != none", f"{expression} == none")
        case t.Seq():
            return bool, _boolean(f"{expression} != []", f"{expression} == []")
        case t.Set(of=t.Instance(count=count, name=whole)):
            texts = {
                frozenset({"no"}): f"{expression} == {{}}",
                frozenset({"all"}): f"{expression} == {whole}",
                frozenset({"some", "all"}): f"{expression} != {{}}",
                frozenset({"no", "some"}): f"{expression} != {whole}",
                frozenset({"some"}): f"{expression} != {{}} and {expression} != {whole}",
            }
            filled = lambda v: "no" if not v else "all" if len(v) == count else "some"  # noqa: E731
            return filled, lambda seen: texts.get(seen, "")
    return None


def _compared(expression: str, kind: t.Type, other: _Operand) -> tuple[Callable[[Any, Any], Value], Text] | None:
    """Returns how a value of a type is compared with an operand, and what is said of both; None: they cannot be."""
    match kind, other.type:
        case (t.Int(), t.Int()) | (t.Time(), t.Time()):
            return _sign, _signs(expression, other.words)
        case (t.Opaque(), t.Opaque()) | (t.Enum(), t.Enum()) | (t.Bool(), t.Bool()) if kind == other.type:
            return eq, _boolean(f"{expression} == {other.words}", f"{expression} != {other.words}")
        case (t.Set(of=t.Instance()), t.Set()) if kind == other.type:
            return _sign, _signs(expression, other.words, signs=SUBSETS)
    return None


def _then(value: Callable[[Any], Value], read: Read) -> Read:
    return lambda s, i: value(read(s, i))


def _both(value: Callable[[Any, Any], Value], a: Read, b: Read) -> Read:
    return lambda s, i: value(a(s, i), b(s, i))


def _among(expression: str, members: Sequence[str]) -> Text:
    """Returns the text that a value is one of some members."""

    def text(seen: Values) -> str:
        some = [m for m in members if m in seen]
        if not some or len(some) == len(members):
            return ""
        return f"{expression} == {some[0]}" if len(some) == 1 else f"{expression} in {{{', '.join(some)}}}"

    return text


def _boolean(true: str, false: str) -> Text:
    return lambda seen: "" if len(seen) != 1 else true if True in seen else false


def _sign(a: Any, b: Any) -> str:
    """Returns how two numbers, or two sets, compare."""
    return "==" if a == b else "<" if a < b else ">" if a > b else "?"


def _signs(left: str, right: str, known: str = "", signs: Mapping[str, str] = SIGNS) -> Text:
    def text(seen: Values) -> str:
        sign = "".join(s for s in ("<", "==", ">") if s in seen)
        return "" if "?" in seen or sign == known or sign not in signs else signs[sign].format(left, right)

    return text


def _declared(role: Role) -> list[str]:
    """The states that the text declares; one that remembers a task counts as the one that it stands for."""
    return [s.name for s in role.states.values() if not s.remembers]


def _variable(role: Role, taken: Collection[str]) -> str:
    """The variable of a quantifier over a role: its first letter, unless that is a name of something."""
    name = role.name[0]
    while name in taken:
        name += "_"
    return name


def _names(system: System) -> set[str]:
    """Names that a variable must not have; messages have a variable of their own."""
    taken = {"m", *system.constants, *system.types, *system.messages, *system.channels}
    for role in system.roles.values():
        taken |= {role.name, *role.states, *role.data}
    for type_ in system.types.values():
        taken |= set(type_.members) if isinstance(type_, t.Enum) else set()
    return taken
