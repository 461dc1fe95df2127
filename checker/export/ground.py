"""States as rows of variables, for a known number of machines, and the steps of the explorer between them.

Theory of operation. The prover's transition relation (prove/encode) is over functions, with quantifiers. Here every
function is read at each combination of its arguments. A mailbox keeps the newest message of each kind and the one
before it, as the explorer does (explore/channels.py). The prover's relation has faults, and allows more than the
explorer's steps where an expression has no encoding; `GroundRelation` has the explorer's steps alone: messages come in
their turn, values of events are in the explored ranges, and time passes up to the clock's horizon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import z3

from leasehold.checker.prove.encode.effects import Content, Done, PartialStep
from leasehold.checker.prove.encode.encoding import Encoding
from leasehold.checker.prove.encode.fault_scope import FaultScope
from leasehold.checker.prove.encode.formulas import Term, Unencodable, conjunction, disjunction
from leasehold.checker.prove.encode.messages import MessageValue
from leasehold.checker.prove.encode.state import NUMBER, Function, Key, StateSchema, SymbolicState, is_name
from leasehold.checker.prove.encode.terms import Bindings, term
from leasehold.checker.prove.encode.transitions import SymbolicStep, TransitionRelation
from leasehold.checker.prove.encode.values import SetValue, Sorts
from leasehold.spec.language import types as t
from leasehold.spec.language.lower import Choice, Offer, Passage
from leasehold.spec.language.model import Channel, Datum, Message, System

SLOT = t.Instance("message", 2)  # of a kind, that a mailbox keeps: the newest, and the one before it
NEWEST, BEFORE = z3.IntVal(0), z3.IntVal(1)


class GroundSorts(Sorts):
    """Enumerations are numbers; the constants of a step are recorded."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[tuple[t.Type, Term]] = []

    def sort(self, type_: t.Type) -> Any:
        return z3.IntSort() if isinstance(type_, t.Enum) else super().sort(type_)

    def member(self, type_: t.Enum | t.Instance, value: Any) -> Term:
        return z3.IntVal(type_.members.index(value) if isinstance(type_, t.Enum) else value)

    def scalar_within(self, type_: t.Type, term: Term) -> Term:
        if isinstance(type_, t.Enum):
            return conjunction(term >= 0, term < len(type_.members))
        return super().scalar_within(type_, term)

    def constant(self, name: str, type_: t.Type) -> Term:
        made = super().constant(name, type_)
        self.made.append((type_, made))
        return made

    def anything(self, name: str) -> Term:
        """Without faults every machine is reachable."""
        return z3.BoolVal(True)

    def fresh(self, name: str, type_: t.Type) -> tuple[Any, Term]:
        if isinstance(type_, t.Set) and type_.of is not None:
            inside = [(member, self.constant(name, t.BOOL)) for member in self.known(type_.of) or []]
            held = SetValue(type_.of, lambda m: disjunction(*(conjunction(m == k, chosen) for k, chosen in inside)))
            return held, z3.BoolVal(True)
        return super().fresh(name, type_)


@dataclass(frozen=True)
class GroundVariable:
    """One variable of a state: a function's value at known arguments."""

    key: Key
    at: tuple[Term, ...]
    type: t.Type

    @property
    def name(self) -> str:
        return f"{'.'.join(self.key)}[{', '.join(map(str, self.at))}]" if self.at else ".".join(self.key)

    def variable(self, sorts: Sorts) -> Term:
        return z3.Const(self.name, sorts.sort(self.type))


class GroundSchema(StateSchema):
    """The state variables, with the messages that are kept."""

    def _add_place(self, channel: Channel, kinds: list[Message], at: tuple[t.Type, ...]) -> None:
        if channel.kind == "set":
            super()._add_place(channel, kinds, at)
            return
        for message in kinds:
            self._add(("number", channel.name, message.name), at, NUMBER)
            self._add(("there", channel.name, message.name), at, t.BOOL)
        self._add_fields(channel, kinds, at)

    def places(self, channel: Channel, kinds: list[Message]) -> Iterator[tuple[list[Message], tuple[t.Type, ...]]]:
        if channel.kind == "set":
            yield from super().places(channel, kinds)
        elif channel.kind != "mailbox":
            raise Unencodable(f"{channel.name}, a channel that keeps any number of messages")
        else:
            yield from (([kind], (*self.ends(channel), SLOT)) for kind in kinds)

    def parts(self) -> Iterator[GroundVariable]:
        """Every function at each combination of its arguments."""
        for variable in self.variables.values():
            for key, arguments, type_ in variable.parts():
                for at in product(*map(self._members, arguments)):
                    yield GroundVariable(key, at, type_)

    def _members(self, type_: t.Type) -> list[Term]:
        if isinstance(type_, t.Bool):
            return [z3.BoolVal(False), z3.BoolVal(True)]
        members = self.sorts.known(type_) if isinstance(type_, t.Enum | t.Instance) else None
        if members is None:
            raise Unencodable(f"a part of the state for each {type_}")
        return members

    def unknown(self, name: str) -> GroundState:
        """A state that is made of one variable for each part."""
        rows: dict[Key, list[tuple[tuple[Term, ...], Term]]] = {}
        for part in self.parts():
            rows.setdefault(part.key, []).append((part.at, part.variable(self.sorts)))
        return GroundState(self, {key: _reader(row) for key, row in rows.items()})


class GroundState(SymbolicState):
    """A state whose messages lie in places."""

    schema: GroundSchema

    def number(self, channel: Channel, kind: Message, *at: Term) -> Term:
        """The number of a message that is kept."""
        return self.read(("number", channel.name, kind.name), *at)

    def there(self, channel: Channel, kind: Message, *at: Term) -> Term:
        """Returns whether a message that is kept is on its way."""
        return self.read(("there", channel.name, kind.name), *at)

    def message_at(self, channel: Channel, kinds: list[Message], at: tuple[Term, ...]) -> tuple[Term, MessageValue]:
        if channel.kind == "set":
            return super().message_at(channel, kinds, at)
        (kind,) = kinds
        rank = self.number(channel, kind, *at) - self.received(channel, at[:-1])
        there = conjunction(self.there(channel, kind, *at), rank >= 0)
        return there, MessageValue(
            partial(is_name, kind.name), lambda _, name: self.read(("field", channel.name, kind.name, name), *at), rank,
            kinds, latest=self.number(channel, kind, *at) == self.sent(channel, at[:-1]),
            ends=self._machines(channel, at),
        )  # fmt: skip

    def latest_messages(self, name: str, holds: Callable[[MessageValue], Term]) -> Term:
        return self.every_message(name, lambda m: z3.Implies(m.latest, holds(m)))

    def unused(self, channel: Channel) -> Term:
        def nothing(key: Key, *at: Term) -> Term:
            value = self.functions[key](*at)
            return z3.Not(value) if z3.is_bool(value) else value == 0

        heads = ("sent", "received", "number", "there", "field")
        mine = [
            variable
            for variable in self.schema.variables.values()
            if variable.key[0] in heads and variable.key[1] == channel.name
        ]
        parts = [(key, arguments) for variable in mine for key, arguments, _ in variable.parts()]
        return conjunction(*(self.schema.sorts.for_all(arguments, partial(nothing, key)) for key, arguments in parts))


class GroundRelation(TransitionRelation):
    """The steps of the explorer without faults."""

    schema: GroundSchema
    sorts: GroundSorts

    def steps(self, s: SymbolicState) -> Iterator[SymbolicStep]:
        self._now = Bindings(self.sorts, s, self.constants)
        return super().steps(s)

    def _offered(self, s: SymbolicState, choice: Choice, offers: Sequence[Offer]) -> Iterator[SymbolicStep]:
        for offer in offers:
            me, _ = self.machine(offer.role, offer.role.name)
            arguments, _ = self.fields(offer.fields)
            for e in offer.outside:
                term(e, self.frame(s, None, arguments, it=me))  # raises where the prover would allow the event always
        self.sorts.made.clear()
        return super()._offered(s, choice, offers)

    def fields(self, fields: Sequence[Datum]) -> tuple[dict[str, Any], list[Term]]:
        found, given = super().fields(fields)
        for datum in fields:
            low, high = (term(e, self._now) for e in datum.explore) if datum.explore else (z3.IntVal(0), z3.IntVal(0))
            given.append(explored(self.sorts, datum.type, found[datum.name], low, high))
        return found, given

    def _forgotten(self, before: SymbolicState, after: SymbolicState, channel: Channel) -> SymbolicState:
        return after  # a message has a place only until two others of its kind have come

    def _duplicates(self, s: SymbolicState, message: Message) -> Iterator[SymbolicStep]:
        return iter(())

    def _taken_out(
        self, s: SymbolicState, channel: Channel, message: Message, ends: tuple[Term, ...]
    ) -> tuple[Mapping[str, Any], list[Term], SymbolicState]:
        assert isinstance(s, GroundState)
        here, slot = s, self.sorts.constant("slot", SLOT)
        at = (*ends, slot)
        number, received = s.number(channel, message, *at), s.received(channel, ends)

        def in_turn(kind: Message, other: Term) -> Term:
            earlier = here.number(channel, kind, *ends, other)
            pending = conjunction(here.there(channel, kind, *ends, other), received < earlier)
            return z3.Not(conjunction(pending, earlier < number))

        given = [self.sorts.within(SLOT, slot), s.there(channel, message, *at), number > received]
        given += [self.sorts.every(SLOT, partial(in_turn, kind)) for kind in self.schema.messages(channel)]
        after = s.put(("there", channel.name, message.name), at, z3.BoolVal(False))
        _, content = s.message_at(channel, [message], at)
        arguments = {f.name: content.field(message.name, f.name) for f in message.fields}
        return arguments, given, after.put(("received", channel.name), ends, number)

    def _write_message(
        self, work: PartialStep, channel: Channel, message: Message, content: Content, sends: Done, number: Done
    ) -> None:
        """The newest message of a kind becomes the one before it."""
        s, width = work.state, len(self.schema.ends(channel))

        def at_slot(slot: Term, *at: Term) -> Term:
            return conjunction(sends(*at), at[width] == slot)

        values: dict[Key, Done] = {
            ("there", channel.name, message.name): lambda *at: z3.BoolVal(True),
            ("number", channel.name, message.name): number, **self._fields(channel, message, content),
        }  # fmt: skip
        for key, value in values.items():
            older = work.state.write(
                key, partial(at_slot, BEFORE), lambda *at, key=key: s.read(key, *at[:width], NEWEST)
            )
            work.state = older.write(key, partial(at_slot, NEWEST), value)

    def _time(self, s: SymbolicState, passage: Passage) -> SymbolicStep:
        step = super()._time(s, passage)
        return SymbolicStep(step.name, step.took, (*step.given, s.now < passage.clock.horizon), step.after)


def explored(sorts: Sorts, kind: t.Type, value: Any, low: Term, high: Term) -> Term:
    """Returns the condition that all numbers in a value are within an explored range."""

    def between(of: t.Type, number: Term) -> Term:
        return conjunction(*([low <= number, number <= high] if isinstance(of, t.Int | t.Time | t.Opaque) else []))

    return sorts.every_part(kind, value, between)


class GroundEncoding(Encoding):
    """A system with as many machines as its constants say, over finitely many variables.

    Raises:
        Unencodable: something has no encoding with finitely many variables.
    """

    makes_sorts, makes_schema = GroundSorts, GroundSchema
    schema: GroundSchema
    sorts: GroundSorts

    def __init__(self, system: System) -> None:
        super().__init__(system, scope=FaultScope(crash=False, network=False), relation=GroundRelation)
        self.made, self.state = self.sorts.made, self.before
        self.places = list(self.schema.parts())
        self.variables = [place.variable(self.sorts) for place in self.places]

    def _constants(self, sizes: dict[str, int], values: object) -> dict[str, Any]:
        self.sorts.sizes.update({type_.name: type_.count for type_ in self.system.counted()})
        return {c.name: self.sorts.literal(c.type, c.value) for c in self.system.constants.values()}

    def rules(self) -> Iterator[GroundStep]:
        """Every step, for each choice of the machines and messages that take part in it."""
        made = self.made
        made.clear()
        for step in self.relation.steps(self.state):
            values = {place: step.after.functions[place.key](*place.at) for place in self.places}
            chosen = [(type_, term) for type_, term in made if isinstance(type_, t.Instance)]
            for members in product(*(self.sorts.known(type_) or [] for type_, _ in chosen)):
                pairs = [(term, value) for (_, term), value in zip(chosen, members, strict=True)]
                given = put(conjunction(*step.given), pairs)
                if not z3.is_false(given):
                    yield GroundStep(step, given, [put(values[place], pairs) for place in self.places], pairs)
            made.clear()


@dataclass(frozen=True)
class GroundStep:
    """A step of known machines.

    Attributes:
        given: when it may happen.
        then: what each place is after it.
        pairs: the machines.
    """

    step: SymbolicStep
    given: Term
    then: list[Term]
    pairs: list[tuple[Term, Term]]


def put(term: Term, pairs: Sequence[tuple[Term, Term]]) -> Term:
    """A term with known machines in it."""
    return z3.simplify(z3.substitute(term, *pairs))


def _reader(row: Sequence[tuple[tuple[Term, ...], Term]]) -> Function:
    """A function that is known at these arguments; it may be asked at others that are not known."""

    def read(*at: Term) -> Term:
        at = tuple(z3.simplify(a) for a in at)
        left = []
        for known, value in row:
            tests = [z3.simplify(a == k) for a, k in zip(at, known, strict=True)]
            if not any(map(z3.is_false, tests)):
                left.append((tests, value))
        value = left[-1][1]
        for tests, other in reversed(left[:-1]):
            value = other if all(map(z3.is_true, tests)) else z3.If(conjunction(*tests), other, value)
        return value

    return read
