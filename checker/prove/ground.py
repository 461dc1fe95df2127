"""States as rows of variables, where the number of machines is known: for engines that take no quantifiers.

Every function of a state (world.py) is read off at each combination of its arguments: booleans and unbounded numbers.
Of a mailbox the newest message of each kind and the one before it are kept, as the explorer does (explore/channels.py).
Steps are those of steps.py, but for how messages are taken out and put in.

Numbers of messages may be left out: then a receiver may take what it has taken before, or what it should find stale.
That is more than a system does, so what holds of it holds of the system too, and is easier to find; but for claims that
speak of messages, as it has messages that the system has no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import z3

from leasehold.checker.prove.encoding import Encoding
from leasehold.checker.prove.steps import Scope, Step, Steps, same_places
from leasehold.checker.prove.terms import MessageValue, Took
from leasehold.checker.prove.values import Sorts, Term, Unsupported, conjunction
from leasehold.checker.prove.world import NUMBER, Function, Key, State, World
from leasehold.spec.language import types as t
from leasehold.spec.language.model import Channel, Message, System

SLOT = t.Instance("message", 2)  # of a kind, that a mailbox keeps: the newest, and the one before it
NEWEST, BEFORE = z3.IntVal(0), z3.IntVal(1)


@dataclass(frozen=True)
class Place:
    """One variable of a state: a function's value at known arguments."""

    key: Key
    at: tuple[Term, ...]
    type: t.Type

    @property
    def name(self) -> str:
        return f"{'.'.join(self.key)}[{', '.join(map(str, self.at))}]" if self.at else ".".join(self.key)


class GroundWorld(World):
    """What there is in a state: of messages, those that are kept, with their numbers or without."""

    def __init__(self, system: System, sorts: Sorts, *, numbered: bool) -> None:
        self.numbered = numbered
        super().__init__(system, sorts)

    def _add_channel(self, channel: Channel) -> None:
        if channel.kind == "set":
            super()._add_channel(channel)
            return
        if channel.kind != "mailbox":
            raise Unsupported(f"{channel.name}, a channel that keeps any number of messages")
        ends = self.ends(channel)
        for name in ("sent", "received") if self.numbered else ():
            self._add((name, channel.name), ends, NUMBER)
        for message in self.messages(channel):
            if self.numbered:
                self._add(("number", channel.name, message.name), (*ends, SLOT), NUMBER)
            self._add(("there", channel.name, message.name), (*ends, SLOT), t.BOOL)
            for field in message.fields:
                self._add(("field", channel.name, message.name, field.name), (*ends, SLOT), field.type)

    def state_of(self, functions: Mapping[Key, Function]) -> GroundState:
        return GroundState(self, functions)

    def places(self) -> Iterator[Place]:
        for slot in self.slots.values():
            for key, arguments, type_ in slot.parts():
                for at in product(*map(self._members, arguments)):
                    yield Place(key, at, type_)

    def _members(self, type_: t.Type) -> list[Term]:
        if isinstance(type_, t.Bool):
            return [z3.BoolVal(False), z3.BoolVal(True)]
        members = self.sorts.known(type_) if isinstance(type_, t.Enum | t.Instance) else None
        if members is None:
            raise Unsupported(f"a part of the state for each {type_}")
        return members

    def state(self, values: Mapping[Place, Term]) -> GroundState:
        """The state with these values."""
        rows: dict[Key, list[tuple[tuple[Term, ...], Term]]] = {}
        for place, value in values.items():
            rows.setdefault(place.key, []).append((place.at, value))
        return self.state_of({key: _reader(row) for key, row in rows.items()})


class GroundState(State):
    """A state whose messages lie in places."""

    world: GroundWorld

    def number(self, channel: Channel, kind: Message, *at: Term) -> Term:
        """The number of a message that is kept."""
        return self.read(("number", channel.name, kind.name), *at)

    def there(self, channel: Channel, kind: Message, *at: Term) -> Term:
        """Whether a message that is kept is on its way."""
        return self.read(("there", channel.name, kind.name), *at)

    def heard(self, name: str) -> Term:
        if not self.world.numbered:
            raise Unsupported("what was heard, without numbers")
        return super().heard(name)

    def every_message(self, name: str, holds: Callable[[MessageValue], Term]) -> Term:
        channel, kinds = self.world.named(name)
        if channel.kind == "set":
            return super().every_message(name, holds)

        def here(kind: Message, *at: Term) -> Term:
            there, rank = self.there(channel, kind, *at), None
            if self.world.numbered:
                rank = self.number(channel, kind, *at) - self.read(("received", channel.name), *at[:-1])
                there = conjunction(there, rank >= 0)

            def field(_: str, which: str) -> Any:
                if not which:
                    return [f.name for f in kind.fields]
                return self.read(("field", channel.name, kind.name, which), *at)

            message = MessageValue(lambda k: z3.BoolVal(k == kind.name), field, rank, (kind.name,))
            return z3.Implies(there, holds(message))

        return conjunction(
            *(
                self.world.sorts.for_all((*self.world.ends(channel), SLOT), lambda *at, kind=kind: here(kind, *at))
                for kind in kinds
            )
        )

    def unused(self, channel: Channel) -> Term:
        def nothing(key: Key, *at: Term) -> Term:
            value = self.functions[key](*at)
            return z3.Not(value) if z3.is_bool(value) else value == 0

        heads = ("sent", "received", "number", "there", "field")
        mine = [slot for slot in self.world.slots.values() if slot.key[0] in heads and slot.key[1] == channel.name]
        parts = [(key, arguments) for slot in mine for key, arguments, _ in slot.parts()]
        return conjunction(*(self.world.sorts.for_all(arguments, partial(nothing, key)) for key, arguments in parts))


class GroundSteps(Steps):
    """The same steps, with messages in places."""

    world: GroundWorld

    def _taken_out(
        self, s: State, channel: Channel, message: Message, ends: tuple[Term, ...]
    ) -> tuple[Term, list[Term], State]:
        place = self.sorts.constant("place", SLOT)
        at = (*ends, place)
        assert isinstance(s, GroundState)
        given = [self.sorts.within(SLOT, place), s.there(channel, message, *at)]
        copy = self._copy(channel)
        after = s.write(
            ("there", channel.name, message.name), lambda *a: same_places(a, at), lambda *a: copy
        )  # fmt: skip
        if not self.world.numbered:
            return place, given, after
        number = s.number(channel, message, *at)
        given.append(number > s.read(("received", channel.name), *ends))
        after = after.write(("received", channel.name), lambda *a: same_places(a, ends), lambda *a: number)
        return place, given, after

    def _content(
        self, s: State, channel: Channel, message: Message, me: Term, sender: Term, number: Any
    ) -> dict[str, Any]:
        if channel.kind == "set":
            return dict(number)
        ends = self.world.between(channel, sender, me)
        return {f.name: s.read(("field", channel.name, message.name, f.name), *ends, number) for f in message.fields}

    def _put_in(
        self, work: Any, channel: Channel, message: Message, lane: Callable[..., tuple[Term, Term]],
        content: Callable[[str, Term], Any], done: Callable[[Term], Term], again: bool,
    ) -> None:  # fmt: skip
        s, width = work.state, len(self.world.ends(channel))
        receiver = self.system.roles[channel.receiver]
        sent = ("sent", channel.name)

        def sends(*at: Term) -> Term:
            held, other = lane(*at[:width])
            return conjunction(held, done(other))

        def number(*at: Term) -> Term:
            last = s.read(sent, *at[:width])
            return last if again else last + 1

        def said(name: str, *at: Term) -> Any:
            return content(name, at[width - 1] if receiver.indexed else z3.IntVal(0))

        def moves(*at: Term) -> Term:
            """Whether the newest message becomes the one before: unless it is this one, sent again."""
            newest = (*at[:width], NEWEST)
            if not again:
                return z3.BoolVal(True)
            if self.world.numbered:
                return z3.Not(s.number(channel, message, *newest) == number(*at))
            fields = [("field", channel.name, message.name, f.name) for f in message.fields]
            same = (self.sorts.equal(s.read(key, *newest), said(key[-1], *at)) for key in fields)
            return z3.Not(conjunction(s.there(channel, message, *newest), *same))

        if self.world.numbered and again:
            self._owe_the_same_place(work, channel, message, content, sends)
        elif self.world.numbered:
            work.state = work.state.write(sent, lambda *at: lane(*at)[0], number)

        def newest(*at: Term) -> Term:
            return conjunction(sends(*at), at[width] == NEWEST)

        def before(*at: Term) -> Term:
            return conjunction(sends(*at), at[width] == BEFORE, moves(*at))

        values: dict[Key, Callable[..., Any]] = {("there", channel.name, message.name): lambda *at: z3.BoolVal(True)}
        if self.world.numbered:
            values["number", channel.name, message.name] = number
        for datum in message.fields:
            values["field", channel.name, message.name, datum.name] = partial(said, datum.name)
        for key, value in values.items():
            old = s.write(key, before, lambda *at, key=key: s.read(key, *at[:width], NEWEST))
            work.state = work.state.with_functions({
                **work.state.functions, **{k: f for k, f in old.write(key, newest, value).functions.items()
                                           if f is not s.functions[k]},
            })  # fmt: skip

    def _owe_the_same_place(
        self, work: Any, channel: Channel, message: Message, content: Callable[[str, Term], Any],
        sends: Callable[..., Term],
    ) -> None:  # fmt: skip
        """What is sent again under a number is what was sent under it."""
        s, receiver = work.state, self.system.roles[channel.receiver]
        assert isinstance(s, GroundState)

        def alike(kind: Message, *at: Term) -> Term:
            is_last = s.number(channel, kind, *at) == s.read(("sent", channel.name), *at[:-1])
            last = conjunction(s.there(channel, kind, *at), is_last)
            other = at[-2] if receiver.indexed else z3.IntVal(0)
            same = [z3.BoolVal(kind is message), *(
                self.sorts.equal(s.read(("field", channel.name, kind.name, f.name), *at), content(f.name, other))
                for f in message.fields if kind is message
            )]  # fmt: skip
            return z3.Implies(conjunction(sends(*at[:-1]), last), conjunction(*same))

        for kind in self.world.messages(channel):
            types = (*self.world.ends(channel), SLOT)
            claim = self.sorts.for_all(types, lambda *at, kind=kind: alike(kind, *at))
            work.owed.append((f"{message.name} is sent again as it was", claim))

    def _losses(self, s: State, channel: Channel) -> Iterator[Step]:
        types = (*self.world.ends(channel), SLOT)
        where = tuple(self.sorts.constant("end", e) for e in types)
        given = tuple(map(self.sorts.within, types, where))
        for kind in self.world.messages(channel):
            key = ("there", channel.name, kind.name)
            after = s.write(key, lambda *at: same_places(at, where), lambda *at: z3.BoolVal(False))
            yield Step(f"{channel.name} loses {kind.name}", Took(), (*given, s.read(key, *where)), after)


class GroundEncoding(Encoding):
    """A system with as many machines as its constants say, over finitely many variables.

    Raises:
        Unsupported: something has no encoding with finitely many variables.
    """

    world: GroundWorld

    def __init__(
        self, system: System, *, numbered: bool, scope: Scope | None = None, limit_seconds: float = 10.0
    ) -> None:
        self._numbered = numbered
        sizes = {type_.name: type_.count for type_ in system.counted()}
        super().__init__(system, sizes=sizes, scope=scope, limit_seconds=limit_seconds)
        self.places = list(self.world.places())
        self.variables = [z3.Const(p.name, self.sorts.sort(p.type)) for p in self.places]
        self.rigid = [v for v in self.constants.values() if z3.is_const(v)]  # no step changes them
        self.state = self.world.state(dict(zip(self.places, self.variables, strict=True)))

    def _sorts(self) -> Sorts:
        return Sorts({}, plain=True)

    def _world(self) -> GroundWorld:
        return GroundWorld(self.system, self.sorts, numbered=self._numbered)

    def _steps(self) -> Steps:
        return GroundSteps(self.world, self.constants, self.scope)

    def rules(self) -> Iterator[Rule]:
        """Every step, for each choice of the machines and messages that take part in it."""
        made = self.sorts.made
        made.clear()
        for step in self.steps.every(self.state):
            values = {place: step.after.functions[place.key](*place.at) for place in self.places}
            after = self.world.state(values)
            chosen = [(type_, term) for type_, term in made if isinstance(type_, t.Instance)]
            for members in product(*(self.sorts.known(type_) or [] for type_, _ in chosen)):
                pairs = [(term, value) for (_, term), value in zip(chosen, members, strict=True)]
                given = put(conjunction(*step.given), pairs)
                if not z3.is_false(given):
                    yield Rule(step, after, given, [put(values[place], pairs) for place in self.places], pairs)
            made.clear()


@dataclass(frozen=True)
class Rule:
    """A step of known machines.

    Attributes:
        after: the state after it, in which machines are not known yet.
        given: when it may happen.
        then: what each place is after it.
        pairs: the machines.
    """

    step: Step
    after: GroundState
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
