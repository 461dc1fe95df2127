"""A symbolic state: a global state whose values are terms, how it is read, and how it is changed.

Theory of operation. Every state variable is a function: of the instance where a role has several, of the member where
it is a set or map, of the number where it is a pending message. An arbitrary state has uninterpreted functions; after a
step they are terms over those before. So a claim about all instances stays a claim about an arbitrary one, and nothing
is written out instance by instance.

Messages lie in a channel by their numbers, without a bound on how many: `sent` is the last number given, `received` the
last one consumed, `present` says of a number whether its message is on its way. A mailbox delivers any that is above
`received`, and the rest is then stale (paper, section 4.2). The explorer keeps fewer, as a sender's older messages are
soon overtaken; a network that holds on to them all does everything that the explorer's does, and more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations_with_replacement
from typing import Any

import z3

from leasehold.checker.prove.encode.formulas import Term, Unencodable, applied, conjunction, disjunction
from leasehold.checker.prove.encode.messages import MessageLane, MessageValue
from leasehold.checker.prove.encode.values import ScalarPart, Sorts, composed, leaves
from leasehold.spec.language import types as t
from leasehold.spec.language.expression import SHARED
from leasehold.spec.language.lower import messages_of
from leasehold.spec.language.model import Channel, Message, Role, System

Function = Callable[..., Term]
LaneOf = Callable[..., tuple[Term, ...]]  # of a sender, where several send into a line: the ends of its lane
Key = tuple[str, ...]
NUMBER = t.INT  # of a message in its channel
SOME_PLACE = z3.IntVal(2)  # in a line, of which no more is known than that it is neither 0 nor surely 1


@dataclass(frozen=True, slots=True)
class StateVariable:
    """A typed variable of a state, for each combination of its arguments."""

    key: Key
    arguments: tuple[t.Type, ...]
    type: t.Type

    def parts(self) -> Iterator[tuple[Key, tuple[t.Type, ...], t.Type]]:
        """The functions that it is made of: key, arguments and result."""
        for leaf in leaves(self.type):
            yield (*self.key, *leaf.name), (*self.arguments, *leaf.at), leaf.type

    def read(self, functions: Mapping[Key, Function], at: tuple[Term, ...]) -> Any:
        return composed(self.type, lambda name, places: functions[*self.key, *name](*at, *places))

    def written(
        self, functions: Mapping[Key, Function], where: Callable[..., Term], value: Callable[..., Any]
    ) -> dict[Key, Function]:
        """The functions after a value was written at all arguments for which `where` holds."""
        width = len(self.arguments)

        def put(was: Function, leaf: ScalarPart) -> Function:
            def new(*at: Term) -> Term:
                part = leaf.of(value(*at[:width]), at[width:])
                return was(*at) if part is None else part

            def read(*at: Term) -> Term:
                test = where(*at[:width])
                if z3.is_true(test):
                    return new(*at)
                return was(*at) if z3.is_false(test) else z3.If(test, new(*at), was(*at))

            return read

        keys = {(*self.key, *leaf.name): leaf for leaf in leaves(self.type)}
        return {key: put(functions[key], leaf) for key, leaf in keys.items()}


class StateSchema:
    """The state variables of a system."""

    def __init__(self, system: System, sorts: Sorts) -> None:
        self.system, self.sorts = system, sorts
        self.variables: dict[Key, StateVariable] = {}
        self.actor_of = {role: name for name, roles in system.actors.items() for role in roles}
        for name, datum in system.shared.items():
            self._add(("data", SHARED.name, name), (), datum.type)
        for role in system.roles.values():
            at = self.index(role)
            self._add(("state", role.name), at, role.control)
            for datum in role.data.values():
                self._add(("data", role.name, datum.name), at, datum.type)
            if role.name not in self.actor_of:
                self._add(("up", role.name), at, t.BOOL)
        for name in system.actors:
            self._add(("up", name), (), t.BOOL)
        for channel in system.channels.values():
            self._add_channel(channel)
        self._add(("now",), (), t.TIME)

    def _add(self, key: Key, arguments: tuple[t.Type, ...], type_: t.Type) -> None:
        self.variables[key] = StateVariable(key, arguments, type_)

    def _add_channel(self, channel: Channel) -> None:
        for name in ("sent", "received") if channel.kind != "set" else ():
            self._add((name, channel.name), self.line_types(channel), NUMBER)
        for kinds, at in self.places(channel, self.messages(channel)):
            self._add_place(channel, kinds, at)

    def _add_place(self, channel: Channel, kinds: list[Message], at: tuple[t.Type, ...]) -> None:
        """The variables of the messages of some kinds."""
        if channel.kind == "set":
            for field in kinds[0].fields:
                if isinstance(field.type, t.Set | t.Map | t.Option | t.Seq):
                    clash = f"field `{field.name}` of `{kinds[0].name}` is a {field.type}, and channel `{channel.name}`"
                    raise Unencodable(f"{clash} is a set; make that channel a `multiset`, or explore the system")
            self._add(("in", channel.name, kinds[0].name), at, t.BOOL)
            return
        self._add(("present", channel.name), at, t.BOOL)
        self._add(("kind", channel.name), at, self.kinds(channel))
        self._add_fields(channel, kinds, at)

    def _add_fields(self, channel: Channel, kinds: list[Message], at: tuple[t.Type, ...]) -> None:
        for message in kinds:
            for field in message.fields:
                self._add(("field", channel.name, message.name, field.name), at, field.type)

    # What roles and channels are indexed by

    def index(self, role: Role) -> tuple[t.Type, ...]:
        return (role.instance,) if role.indexed else ()

    def at(self, role: Role, instance: Term) -> tuple[Term, ...]:
        return (instance,) if role.indexed else ()

    def ends(self, channel: Channel) -> tuple[t.Type, ...]:
        """Returns the types that tell a channel's lanes apart: both machines, or the one number that they have."""
        sender, receiver = (self.index(self.system.roles[name]) for name in (channel.sender, channel.receiver))
        return sender if self._in_pairs(channel) else (*sender, *receiver)

    def line_types(self, channel: Channel) -> tuple[t.Type, ...]:
        """Returns the types that tell a channel's lines apart, in which messages have their numbers.

        In a queue the messages of all senders to one receiver share a line; else each lane is one.
        """
        if not self.several_send(channel):
            return self.ends(channel)
        return self.index(self.system.roles[channel.receiver])

    def line(self, channel: Channel, ends: Sequence[Term]) -> tuple[Term, ...]:
        """The line of which a lane is part."""
        return tuple(ends[len(ends) - len(self.line_types(channel)) :])

    def several_send(self, channel: Channel) -> bool:
        """Returns whether several machines send into one line of a channel."""
        return channel.kind == "queue" and self.system.roles[channel.sender].indexed and not self._in_pairs(channel)

    def beside(self, channel: Channel, ends: Sequence[Term]) -> tuple[tuple[t.Type, ...], LaneOf]:
        """The lanes of the line of which a lane is part: the types that tell them apart, and the lane of each."""
        if not self.several_send(channel):
            return (), lambda: tuple(ends)
        receiver = self.receiver(channel, ends)
        return self.index(self.system.roles[channel.sender]), lambda sender: self.between(channel, sender, receiver)

    def _in_pairs(self, channel: Channel) -> bool:
        """Returns whether each machine at one end talks with that of its number at the other, and there are as many."""
        one, other = (self.system.roles[name] for name in (channel.sender, channel.receiver))
        alike = (one.instance.counted_by, one.instance.count) == (other.instance.counted_by, other.instance.count)
        return channel.same_index and one.indexed and other.indexed and alike

    def between(self, channel: Channel, sender: Term, receiver: Term) -> tuple[Term, ...]:
        """The lane between two machines; where it is in pairs, they have one number."""
        at, beside = self.at(self.system.roles[channel.sender], sender), self.system.roles[channel.receiver]
        return at if self._in_pairs(channel) else (*at, *self.at(beside, receiver))

    def sender(self, channel: Channel, at: Sequence[Term]) -> Term:
        """The sending machine of arguments that begin with a channel's ends."""
        return at[0] if self.system.roles[channel.sender].indexed else z3.IntVal(0)

    def receiver(self, channel: Channel, at: Sequence[Term]) -> Term:
        """The receiving machine of arguments that begin with a channel's ends."""
        return at[len(self.ends(channel)) - 1] if self.system.roles[channel.receiver].indexed else z3.IntVal(0)

    def messages(self, channel: Channel) -> list[Message]:
        return list(messages_of(self.system, channel))

    def named(self, name: str) -> tuple[Channel, list[Message]]:
        """The channel and the messages that a name stands for: of one message, or of a channel."""
        channel, one = self.system.channel_named(name), self.system.messages.get(name)
        return channel, self.messages(channel) if one is None else [one]

    def places(self, channel: Channel, kinds: list[Message]) -> Iterator[tuple[list[Message], tuple[t.Type, ...]]]:
        """Yields for some kinds where messages may lie: what they are told apart by, first the channel's ends."""
        if channel.kind == "set":
            yield from (([kind], (*self.ends(channel), *(f.type for f in kind.fields))) for kind in kinds)
        else:
            yield kinds, (*self.ends(channel), NUMBER)

    def kinds(self, channel: Channel) -> t.Enum:
        return t.Enum(f"{channel.name} messages", tuple(m.name for m in self.messages(channel)))

    def up(self, role: Role, instance: Term) -> tuple[Key, tuple[Term, ...]]:
        """The variable of whether a machine's actor runs. Machines that no actor is declared to play have one each."""
        actor = self.actor_of.get(role.name)
        return (("up", actor), ()) if actor is not None else (("up", role.name), self.at(role, instance))

    # States

    def unknown(self, name: str) -> SymbolicState:
        """An arbitrary state; its functions have names with this before."""
        functions: dict[Key, Function] = {}
        for variable in self.variables.values():
            for key, arguments, result in variable.parts():
                full_name = f"{name}.{'.'.join(key)}"
                sort = self.sorts.sort(result)
                if arguments:
                    functions[key] = applied(z3.Function(full_name, *map(self.sorts.sort, arguments), sort))
                else:
                    constant = z3.Const(full_name, sort)
                    functions[key] = lambda constant=constant: constant
        return SymbolicState(self, functions)


class _Recorded(dict[Key, Function]):
    """Functions that record which of them were read."""

    def __init__(self, functions: Mapping[Key, Function]) -> None:
        super().__init__(functions)
        self.read: set[Key] = set()

    def __getitem__(self, key: Key) -> Function:
        self.read.add(key)
        return super().__getitem__(key)


class SymbolicState:
    """One state; implements `leasehold.checker.prove.encode.terms.View`."""

    def __init__(self, schema: StateSchema, functions: Mapping[Key, Function]) -> None:
        self.schema = schema
        self.functions: dict[Key, Function] = dict(functions)

    def read(self, key: Key, *at: Term) -> Any:
        return self.schema.variables[key].read(self.functions, at)

    def write(self, key: Key, where: Callable[..., Term], value: Callable[..., Any]) -> SymbolicState:
        """The state in which a variable has another value at some arguments."""
        changed = self.schema.variables[key].written(self.functions, where, value)
        remembered = {key: self.schema.sorts.remembered(function) for key, function in changed.items()}
        return self.with_functions({**self.functions, **remembered})

    def put(self, key: Key, at: Sequence[Term], value: Any) -> SymbolicState:
        """The state in which a variable has another value at one place."""
        return self.write(key, lambda *other: same_places(other, at), lambda *other: value)

    def with_functions(self, functions: Mapping[Key, Function]) -> SymbolicState:
        """A state with the same variables."""
        return type(self)(self.schema, functions)

    def recorded(self) -> tuple[SymbolicState, set[Key]]:
        """The same state, and the keys of its functions that are read of it."""
        copy = self.with_functions({})
        copy.functions = _Recorded(self.functions)
        return copy, copy.functions.read

    @property
    def now(self) -> Term:
        return self.functions["now",]()

    def data(self, role: str, instance: Term, name: str) -> Any:
        return self.read(("data", role, name), *self.schema.at(self.schema.system.holders[role], instance))

    def control(self, role: str, instance: Term) -> Term:
        return self.read(("state", role), *self.schema.at(self.schema.system.roles[role], instance))

    def running(self, role: str, instance: Term) -> Term:
        key, at = self.schema.up(self.schema.system.roles[role], instance)
        return self.read(key, *at)

    def is_in(self, role: str, instance: Term, state: str) -> Term:
        of = self.schema.system.roles[role].control
        return self.control(role, instance) == self.schema.sorts.member(of, state)

    def sent(self, channel: Channel, ends: Sequence[Term]) -> Term:
        """The last number that was given to a message."""
        return self.read(("sent", channel.name), *self.schema.line(channel, ends))

    def received(self, channel: Channel, ends: Sequence[Term]) -> Term:
        """The number of the last message that was consumed."""
        return self.read(("received", channel.name), *self.schema.line(channel, ends))

    def heard(self, name: str, role: str = "", instance: Term = None) -> Term:
        channel = self.schema.system.channels[name]

        def counts(ends: tuple[Term, Term]) -> Term:
            """Returns whether one end is the machine that is asked about."""
            roles = channel.sender, channel.receiver
            return disjunction(*(end == instance for of, end in zip(roles, ends, strict=True) if of == role))

        if channel.kind != "mailbox":
            return self.every_message(name, lambda m: z3.Not(counts(m.ends)) if role else z3.BoolVal(False))

        def of_lane(*ends: Term) -> Term:
            here, machines = self.sent(channel, ends) <= self.received(channel, ends), self._machines(channel, ends)
            asked = [counts(machines)] if role else []
            asked += [machines[0] == machines[1]] if channel.same_index else []
            return z3.Implies(conjunction(*asked), here) if asked else here

        return self.schema.sorts.for_all(self.schema.ends(channel), of_lane)

    def every_message(self, name: str, holds: Callable[[MessageValue], Term]) -> Term:
        """Returns the formula that something holds of all messages on their way: of a kind, or in a channel."""
        channel, kinds = self.schema.named(name)

        def here(some: list[Message], *at: Term) -> Term:
            there, message = self.message_at(channel, some, at)
            return z3.Implies(there, holds(message))

        places = self.schema.places(channel, kinds)
        return conjunction(*(self.schema.sorts.for_all(types, partial(here, some)) for some, types in places))

    def latest_messages(self, name: str, holds: Callable[[MessageValue], Term]) -> Term:
        """Returns the formula that something holds of each message on its way that is the latest one of its lane.

        The number of that one is known, so nothing is said of all numbers.
        """
        channel, kinds = self.schema.named(name)

        def here(*ends: Term) -> Term:
            there, message = self.message_at(channel, kinds, (*ends, self.sent(channel, ends)))
            return z3.Implies(there, holds(message))

        return self.schema.sorts.for_all(self.schema.ends(channel), here)

    def at_most_one_message(self, name: str, holds: Callable[[MessageValue], Term]) -> Term:
        """Returns the formula that something holds of at most one message on its way: of two, not of both."""
        channel, kinds = self.schema.named(name)

        def here(some: list[Message], at: tuple[Term, ...]) -> Term:
            there, message = self.message_at(channel, some, at)
            return conjunction(there, holds(message))

        def apart(one: list[Message], other: list[Message], width: int, *at: Term) -> Term:
            both = conjunction(here(one, at[:width]), here(other, at[width:]))
            same = same_places(at[:width], at[width:]) if one == other else z3.BoolVal(False)
            return z3.Implies(both, same)

        pairs = combinations_with_replacement(list(self.schema.places(channel, kinds)), 2)
        return conjunction(
            *(
                self.schema.sorts.for_all((*at, *beside), partial(apart, one, other, len(at)))
                for (one, at), (other, beside) in pairs
            )
        )

    def message_at(self, channel: Channel, kinds: list[Message], at: tuple[Term, ...]) -> tuple[Term, MessageValue]:
        """Returns whether a message of some kinds is on its way at a place, and that message."""
        if channel.kind == "set":
            (kind,), values = kinds, at[len(self.schema.ends(channel)) :]
            fields = dict(zip([f.name for f in kind.fields], values, strict=True))
            inside = self.functions["in", channel.name, kind.name](*at)
            message = MessageValue(
                partial(is_name, kind.name),
                lambda _, name: fields[name],
                z3.IntVal(1),
                kinds,
                ends=self._machines(channel, at),
            )
            return inside, message
        *ends, number = at
        message, there = replace(self.message(channel, ends, number), kinds=kinds), self.pending(channel, ends, number)
        return conjunction(there, message.is_kind(kinds[0].name)) if len(kinds) == 1 else there, message

    def unused(self, channel: Channel) -> Term:
        """Returns the formula that nothing was ever sent through a channel."""

        def none(*at: Term) -> Term:
            sent, received = self.sent(channel, at[:-1]) == 0, self.received(channel, at[:-1]) == 0
            return conjunction(sent, received, z3.Not(self.read(("present", channel.name), *at)))

        return self.schema.sorts.for_all((*self.schema.ends(channel), NUMBER), none)

    def pending(self, channel: Channel, ends: Sequence[Term], number: Term) -> Term:
        """Returns whether a message is on its way and can still change something."""
        present = self.read(("present", channel.name), *ends, number)
        return conjunction(present, number >= self.received(channel, ends)) if channel.kind == "mailbox" else present

    def pending_kind(self, channel: Channel, at: tuple[Term, ...], kind: str) -> tuple[Term, Term]:
        """Returns the formulas that the message of a number is pending, and that it is of a kind."""
        *ends, number = at
        return self.pending(channel, ends, number), self.message(channel, ends, number).is_kind(kind)

    def message(self, channel: Channel, ends: Sequence[Term], number: Term) -> MessageValue:
        of = self.schema.kinds(channel)

        def is_kind(kind: str) -> Term:
            return self.read(("kind", channel.name), *ends, number) == self.schema.sorts.member(of, kind)

        def field(kind: str, name: str) -> Any:
            return self.read(("field", channel.name, kind, name), *ends, number)

        kinds, machines = self.schema.messages(channel), self._machines(channel, ends)
        if channel.unordered:
            return MessageValue(is_kind, field, z3.IntVal(1), kinds, ends=machines)
        lane = MessageLane(channel.name, self.schema.line(channel, ends), self, number)
        if channel.durable:  # its place in the line is 1 or more, and there are gaps between numbers
            senders, lane_of = self.schema.beside(channel, ends)

            def comes_next() -> Term:
                """Returns the formula that nothing is on its way before it."""

                def is_not_before(*at: Term) -> Term:
                    *sender, other = at
                    there = self.read(("present", channel.name), *lane_of(*sender), other)
                    return z3.Not(conjunction(there, other < number))

                return self.schema.sorts.for_all((*senders, NUMBER), is_not_before)

            return MessageValue(is_kind, field, SOME_PLACE, kinds, lane, ends=machines, comes_next=comes_next)
        rank, latest = number - self.received(channel, ends), number == self.sent(channel, ends)
        return MessageValue(is_kind, field, rank, kinds, lane, latest, machines)

    def _machines(self, channel: Channel, at: Sequence[Term]) -> tuple[Term, Term]:
        return self.schema.sender(channel, at), self.schema.receiver(channel, at)


def is_name(name: str, other: str) -> Term:
    return z3.BoolVal(name == other)


def same_places(at: Sequence[Term], other: Sequence[Term]) -> Term:
    parts = [a == b for a, b in zip(at, other, strict=True)]
    return parts[0] if len(parts) == 1 else conjunction(*parts) if parts else z3.BoolVal(True)
