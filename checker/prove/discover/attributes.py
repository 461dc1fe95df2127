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
from typing import Any

from leasehold.checker.explore.channels import entries
from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.layout import State as Cells
from leasehold.checker.prove.encode.lemma import lemma_scope, parsed
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.diagnostics import SpecError
from leasehold.spec.language.model import Channel, Datum, Message, Property, Role, System

Value = Any
Values = frozenset[Value]
Read = Callable[[Cells, int], Value]
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
    text: Callable[[Values], str]
    roles: frozenset[str]
    cases: Values = frozenset()
    location: bool = False
    member: bool = False
    predicate: bool = False


@dataclass(frozen=True)
class _Datum:
    """A datum of a machine, or of the machine that a variable stands for."""

    text: str
    name: str
    role: Role
    datum: Datum
    at: Read

    @property
    def type(self) -> t.Type:
        return self.datum.type


class Vocabulary:
    """The attributes of one system.

    Args:
        system: with small constants.
    """

    def __init__(self, system: System) -> None:
        self.system = system
        self.reference = reference_of(system)
        self.layout = self.reference.layout
        self.scope = lemma_scope(system)
        self.single = [r for r in system.roles.values() if not r.indexed]
        self.several = [r for r in system.roles.values() if r.indexed]
        taken = _names(system)
        self.variable = {r.name: _variable(r, taken) for r in self.several}

    def of_system(self) -> Iterator[Attribute]:
        """Attributes that name no instance."""
        for role in self.single:
            yield self._location(role, role.name)
        for role in self.several:
            one = self.variable[role.name]
            for state in _declared(role):
                words = f"any({one}.state == {state} for {one} in {role.name})"
                yield self._case(words, f"some_{role.name}_{state}", {role.name})
        for message in self.system.messages.values():
            ends = {message.sender, message.receiver}
            yield self._case(f"len(pending({message.name})) != 0", f"{message.name}_pending", ends)
            yield self._pending(message)
        for channel in self.system.channels.values():
            if channel.kind == "mailbox":
                words, ends = f"heard({channel.name})", {channel.sender, channel.receiver}
                text = _boolean(words, f"not {words}")
                yield _attribute(f"{channel.name}_heard", self._holds(words), text, ends)
        data = [self._datum(role, d, role.name) for role in self.single for d in role.data.values()]
        yield from self._of_data(data)
        if self.system.clock is not None:
            clock = self.layout.clock
            assert clock is not None
            for d in data:
                if isinstance(d.type, t.Time):
                    yield _compared(d.text, d.name, d.at, "now", lambda s, i: s[clock], {d.role.name})
        for message in self.system.messages.values():
            yield from self._of_fields(message)
        for p in self.system.properties.values():
            yield from self._of_property(p)

    def of_instance(self, role: Role) -> Iterator[Attribute]:
        """Attributes of any one instance of a role."""
        one = self.variable[role.name]
        yield self._location(role, one)
        data = [self._datum(role, d, one) for d in role.data.values()]
        yield from self._of_data(data)
        for owner in self.single:
            for d in (self._datum(owner, d, owner.name) for d in owner.data.values()):
                if isinstance(d.type, t.Set) and d.type.of == role.instance:
                    inside = lambda s, i, d=d: i in d.at(s, 0)  # noqa: E731
                    otherwise = f"{one} not in {d.text}"
                    yield _truth(f"{one} in {d.text}", f"in_{d.name}", inside, owner, otherwise, member=True)
                if isinstance(d.type, t.Map) and d.type.key == role.instance:
                    cell = Datum(d.datum.name, d.type.of, None)
                    at = lambda s, i, d=d: d.at(s, 0)[i]  # noqa: E731
                    yield from self._of_data([_Datum(f"{d.text}[{one}]", d.name, owner, cell, at)])

    # Machines

    def _location(self, role: Role, who: str) -> Attribute:
        base = {name: state.base or name for name, state in role.states.items()}
        cell = self._cell(role, None)
        return _enumerated(
            f"{who}.state", role.name, lambda s, i: base[cell(s, i)], _declared(role), role, location=True
        )

    def _datum(self, role: Role, datum: Datum, who: str) -> _Datum:
        return _Datum(f"{who}.{datum.name}", f"{role.name}_{datum.name}", role, datum, self._cell(role, datum.name))

    def _cell(self, role: Role, name: str | None) -> Read:
        """A datum, or the control state, of an instance; of the one machine of a role that is not indexed."""
        at = [self.layout.at(role.name, i, name) for i in range(role.count)]
        return (lambda s, i: s[at[i]]) if role.indexed else (lambda s, i: s[at[0]])

    def _of_data(self, data: Sequence[_Datum]) -> Iterator[Attribute]:
        for d in data:
            match d.type:
                case t.Bool():
                    yield _truth(d.text, d.name, d.at, d.role)
                case t.Enum(members=members):
                    yield _enumerated(d.text, d.name, d.at, members, d.role)
                case t.Int() | t.Time():
                    initial = d.datum.initial
                    first = initial if isinstance(initial, int) and not d.datum.any_initial else 0
                    low = 0 if isinstance(d.type, t.Time) else d.type.low
                    yield _compared(
                        d.text, d.name, d.at, str(first), partial(_constant, first), {d.role.name},
                        known="==>" if low == first else "",
                    )  # fmt: skip
                case t.Option():
                    some = lambda s, i, d=d: d.at(s, i) is not None  # noqa: E731
                    yield _truth(f"{d.text} != none", d.name, some, d.role, f"{d.text} == none")
                case t.Set(of=t.Instance(count=count) as of):
                    yield _filled(d, of.name, count)
        for a, b in combinations(data, 2):
            roles = {a.role.name, b.role.name}
            match a.type, b.type:
                case (t.Int(), t.Int()) | (t.Time(), t.Time()):
                    yield _compared(a.text, f"{a.name}_and_{b.name}", a.at, b.text, b.at, roles)
                case (t.Opaque(), t.Opaque()):
                    yield _equal(a, b)
                case (t.Enum(), t.Enum()) | (t.Bool(), t.Bool()) if a.type == b.type:
                    yield _equal(a, b)
                case (t.Set(of=t.Instance()), t.Set()) if a.type == b.type:
                    yield _compared(a.text, f"{a.name}_and_{b.name}", a.at, b.text, b.at, roles, signs=SUBSETS)

    # Messages

    def _pending(self, message: Message) -> Attribute:
        """Whether messages of a kind are on their way, and some of them not received."""
        channel = self.system.channel_of(message.name)
        cells = [lane.cell for lane in self.layout.lanes if lane.channel is channel]
        sent, unreceived = (self._sent(channel, message, cells, fresh) for fresh in (False, True))
        words = {frozenset({"none"}): f"len(pending({message.name})) == 0"}
        if channel.kind == "mailbox":
            words[frozenset({"none", "old"})] = f"not any(m.number > 0 for m in pending({message.name}))"
            words[frozenset({"old"})] = words[frozenset({"none", "old"})]
        return _attribute(
            message.name, lambda s, i: "new" if unreceived(s) else "old" if sent(s) else "none",
            lambda seen: words.get(seen, ""), {message.sender, message.receiver},
        )  # fmt: skip

    def _of_fields(self, message: Message) -> Iterator[Attribute]:
        """The fields of messages, against constants and the data of their sender and receiver."""
        channel = self.system.channel_of(message.name)
        ends = [self.system.roles[end] for end in (channel.sender, channel.receiver)]
        cells = [lane.cell for lane in self.layout.lanes if lane.channel is channel]
        if not message.fields or any(role.indexed for role in ends):
            return
        data = [self._datum(role, d, role.name) for role in ends for d in role.data.values()]
        for fresh in (False, True) if channel.kind == "mailbox" else (False,):
            found = self._sent(channel, message, cells, fresh)
            which = f"for m in pending({message.name}){' if m.number > 0' if fresh else ''}"
            name = f"{'new_' if fresh else ''}{message.name}"
            for n, f in enumerate(message.fields):
                read = lambda s, n=n, found=found: [e[2][n] for e in found(s)]  # noqa: E731
                yield from _of_field(f, read, which, f"{name}_{f.name}", data, {r.name for r in ends})

    def _sent(
        self, channel: Channel, message: Message, cells: Sequence[int], fresh: bool
    ) -> Callable[[Cells], list[Any]]:
        def found(s: Cells) -> list[Any]:
            every = (e for cell in cells for e in entries(channel.kind, s[cell]))
            return [e for e in every if e[1] == message.name and (e[0] > 0 or not fresh)]

        return found

    # Closed formulas

    def _holds(self, words: str) -> Read:
        holds = self.reference.world(parsed(words, self.scope))
        return lambda s, i: bool(holds(s, (), -1))

    def _case(self, words: str, name: str, roles: Collection[str]) -> Attribute:
        """A formula that tells cases apart, and is not claimed itself."""
        return replace(_attribute(name, self._holds(words), _claimed(words), roles, {True}), predicate=True)

    def _of_property(self, p: Property) -> Iterator[Attribute]:
        """The parts of a property: a lemma may say when each of them holds."""
        if p.kind != "always":
            return
        for part in _conjuncts(p.claim):
            words = x.text(part)
            with suppress(SpecError):  # not every expression prints as it was written
                yield _attribute(p.name, self._holds(words), _claimed(words), [])


def _attribute(
    name: str, read: Read, text: Callable[[Values], str], roles: Collection[str], cases: Collection[Value] = (), *,
    location: bool = False, member: bool = False,
) -> Attribute:  # fmt: skip
    one: dict[Value, Values] = {}  # sets of one value, made once
    return Attribute(
        name, lambda s, i: one.get(v := read(s, i)) or one.setdefault(v, frozenset((v,))), text, frozenset(roles),
        frozenset(cases), location, member,
    )  # fmt: skip


def _enumerated(
    words: str, name: str, read: Read, members: Sequence[str], role: Role, *, location: bool = False
) -> Attribute:  # fmt: skip
    def text(seen: Values) -> str:
        some = [m for m in members if m in seen]
        if not some or len(some) == len(members):
            return ""
        return f"{words} == {some[0]}" if len(some) == 1 else f"{words} in {{{', '.join(some)}}}"

    return _attribute(name, read, text, {role.name}, members, location=location)


def _claimed(words: str) -> Callable[[Values], str]:
    """A formula that is claimed where it holds, and not where it does not."""
    return lambda seen: words if seen == {True} else ""


def _boolean(true: str, false: str) -> Callable[[Values], str]:
    return lambda seen: "" if len(seen) != 1 else true if True in seen else false


def _truth(
    words: str, name: str, read: Read, role: Role, otherwise: str = "", *, member: bool = False
) -> Attribute:  # fmt: skip
    text = _boolean(words, otherwise or f"not {words}")
    return _attribute(name, lambda s, i: bool(read(s, i)), text, {role.name}, (False, True), member=member)


def _filled(d: _Datum, whole: str, count: int) -> Attribute:
    """Whether a set is empty, or has all instances."""
    words = {
        frozenset({"no"}): f"{d.text} == {{}}", frozenset({"all"}): f"{d.text} == {whole}",
        frozenset({"some", "all"}): f"{d.text} != {{}}", frozenset({"no", "some"}): f"{d.text} != {whole}",
        frozenset({"some"}): f"{d.text} != {{}} and {d.text} != {whole}",
    }  # fmt: skip

    def read(s: Cells, i: int) -> str:
        held = len(d.at(s, i))
        return "no" if not held else "all" if held == count else "some"

    return _attribute(d.name, read, lambda seen: words.get(seen, ""), {d.role.name})


def _sign(a: Any, b: Any) -> str:
    """How two numbers, or two sets, compare."""
    return "==" if a == b else "<" if a < b else ">" if a > b else "?"


def _signs(
    left: str, right: str, known: str = "", signs: Mapping[str, str] = SIGNS
) -> Callable[[Values], str]:  # fmt: skip
    def text(seen: Values) -> str:
        sign = "".join(s for s in ("<", "==", ">") if s in seen)
        return "" if "?" in seen or sign == known or sign not in signs else signs[sign].format(left, right)

    return text


def _compared(
    left: str, name: str, a: Read, right: str, b: Read, roles: Collection[str], known: str = "",
    signs: Mapping[str, str] = SIGNS,
) -> Attribute:  # fmt: skip
    return _attribute(name, lambda s, i: _sign(a(s, i), b(s, i)), _signs(left, right, known, signs), roles)


def _equal(a: _Datum, b: _Datum) -> Attribute:
    words = _boolean(f"{a.text} == {b.text}", f"{a.text} != {b.text}")
    roles = {a.role.name, b.role.name}
    return _attribute(f"{a.name}_and_{b.name}", lambda s, i: a.at(s, i) == b.at(s, i), words, roles)


def _of_field(
    f: Datum, read: Callable[[Cells], list[Any]], which: str, name: str, data: Sequence[_Datum],
    roles: Collection[str],
) -> Iterator[Attribute]:  # fmt: skip
    """A field of all messages of a kind."""

    def every(
        name: str, value: Callable[[Any, Cells], Value], text: Callable[[Values], str], roles: Collection[str]
    ) -> Attribute:  # fmt: skip
        def claim(seen: Values) -> str:
            words = text(seen)
            return f"all({words} {which})" if words else ""

        return Attribute(name, lambda s, i: frozenset(value(v, s) for v in read(s)), claim, frozenset(roles))

    words = f"m.{f.name}"
    match f.type:
        case t.Bool():
            yield every(name, lambda v, s: bool(v), _boolean(words, f"not {words}"), roles)
        case t.Enum(members=members):
            for member in members:
                text = _boolean(f"{words} == {member}", f"{words} != {member}")
                yield every(f"{name}_{member}", partial(_is, member), text, roles)
        case t.Int() | t.Time():
            low = 0 if isinstance(f.type, t.Time) else f.type.low
            yield every(name, lambda v, s: _sign(v, 0), _signs(words, "0", "==>" if low == 0 else ""), roles)
        case t.Option():
            yield every(name, lambda v, s: v is None, _boolean(f"{words} == none", f"{words} != none"), roles)
    for d in data:
        both = f"{name}_and_{d.name}"
        match f.type, d.type:
            case (t.Int(), t.Int()) | (t.Time(), t.Time()):
                text = _signs(words, d.text)
                yield every(both, partial(_sign_beside, d), text, {*roles, d.role.name})
            case (t.Opaque(), t.Opaque()) | (t.Enum(), t.Enum()) | (t.Bool(), t.Bool()) if f.type == d.type:
                text = _boolean(f"{words} == {d.text}", f"{words} != {d.text}")
                yield every(both, partial(_same_as, d), text, {*roles, d.role.name})


def _constant(value: Value, s: Cells, i: int) -> Value:
    return value


def _is(member: str, v: Value, s: Cells) -> bool:
    return bool(v == member)


def _same_as(d: _Datum, v: Value, s: Cells) -> bool:
    return bool(v == d.at(s, 0))


def _sign_beside(d: _Datum, v: Value, s: Cells) -> str:
    return _sign(v, d.at(s, 0))


def _conjuncts(e: x.Expression) -> Iterator[x.Expression]:
    if isinstance(e, x.Apply) and e.op == "and":
        for operand in e.operands:
            yield from _conjuncts(operand)
    else:
        yield e


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
    found = {"m", *system.constants, *system.types, *system.messages, *system.channels}
    for role in system.roles.values():
        found |= {role.name, *role.states, *role.data}
    for type_ in system.types.values():
        found |= set(type_.members) if isinstance(type_, t.Enum) else set()
    return found
