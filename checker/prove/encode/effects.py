"""The effects of tasks on a state: messages put on their way, and events handed to subsidiary machines.

Theory of operation. The work that follows a commit is done task by task. Where the actor may crash, each message and
each event has a flag that says whether it was done, so any part of the work may be missing. A message that is sent
again keeps its number; that it is the same message is a side condition of the step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import z3

from leasehold.checker.prove.encode.formulas import Term, Unencodable, conjunction, disjunction
from leasehold.checker.prove.encode.state import Key, StateSchema, SymbolicState
from leasehold.checker.prove.encode.terms import Bindings, term
from leasehold.checker.prove.encode.values import Sorts
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.lower import Choice, Piece, lower
from leasehold.spec.language.model import Channel, Message, Role, System

Lane: TypeAlias = Callable[..., tuple[Term, Term]]  # of a channel's ends: whether they are the step's, the receiver
Content: TypeAlias = Callable[..., Any]  # of a field's name and a channel's ends: the field's value
Done: TypeAlias = Callable[..., Term]  # of a receiver, or of a channel's ends: whether it is done there


@dataclass
class PartialStep:
    """A step while its work is done: the state so far, its side conditions, and what is chosen in it."""

    state: SymbolicState
    side_conditions: list[tuple[str, Term]] = field(default_factory=list)
    given: list[Term] = field(default_factory=list)


class TaskEffects:
    """The effects of tasks on a state.

    Args:
        constants: values of the system's constants.
    """

    def __init__(self, schema: StateSchema, constants: Mapping[str, Any]) -> None:
        self.schema, self.constants = schema, constants
        self.system: System = schema.system
        self.lowered = lower(self.system)
        self.sorts: Sorts = schema.sorts

    def frame(
        self,
        s: SymbolicState,
        me: Term,
        arguments: Mapping[str, Any] | None = None,
        sender: Term = None,
        **variables: Any,
    ) -> Bindings:
        return Bindings(self.sorts, s, self.constants, me, arguments or {}, sender, variables)

    def _do(
        self,
        work: PartialStep,
        role: Role,
        piece: Piece,
        me: Term,
        died: Term | None,
        again: bool,
        tested: tuple[SymbolicState, Term] | None = None,
        to: Term = None,
        passed: Mapping[str, Any] | None = None,
    ) -> None:
        """A piece of work, `to` one machine or to all that are wanted. Where the actor dies, any part is not done.

        Conditions are tested in the state so far; where the term of `tested` holds, in its state.
        """
        self._check_one_by_one(piece)
        done = self._done(piece.target, died)
        before = work.state
        tests = tested if tested is not None and any(x.mentions(e, reads_others) for e in piece.conditions) else None

        def conditions(s: SymbolicState, other: Term) -> Term:
            frame = self.frame(s, me, passed, it=other)
            return conjunction(*(term(e, frame) for e in piece.conditions))

        def wanted(other: Term) -> Term:
            holds = conditions(before, other)
            if tests is not None:
                holds = z3.If(tests[1], conditions(tests[0], other), holds)
            return holds if to is None else conjunction(holds, other == to)

        if piece.channel is not None:
            self._send(work, role, piece, piece.channel, me, wanted, done, again, passed)
        else:
            self._drive(work, piece, me, lambda other: conjunction(wanted(other), done(other)))

    def _check_one_by_one(self, piece: Piece) -> None:
        """Work for several machines is done for one after the other; here for all at once, so none may see another's.

        Raises:
            Unencodable: what is done for a machine may depend on what was done for another before it.
        """
        if not piece.target.indexed:
            return

        def sees(node: x.Expression) -> bool:
            if piece.channel is not None:
                return x.reads_messages(node)
            if isinstance(node, x.Quantifier):
                return node.variable == "it"  # then `it` is not always the machine that is driven
            if not isinstance(node, x.ControlState | x.Data) or node.role != piece.target.name:
                return False
            return not (isinstance(node.owner, x.BoundVariable) and node.owner.name == "it")

        if any(x.mentions(e, sees) for e in (*piece.conditions, *piece.fields)):
            raise Unencodable(f"{piece.task.name}: for each {piece.target.name} it depends on what it did for others")

    def _done(self, target: Role, died: Term | None) -> Callable[[Term], Term]:
        if died is None:
            return lambda other: z3.BoolVal(True)
        if not target.indexed:
            done = self.sorts.constant("done", t.BOOL)
            return lambda other: disjunction(z3.Not(died), done)
        of = t.Set(target.instance)
        some, _ = self.sorts.fresh("done", of)
        return lambda other: disjunction(z3.Not(died), some.holds(other))

    def _send(
        self,
        work: PartialStep,
        role: Role,
        piece: Piece,
        channel: Channel,
        me: Term,
        wanted: Done,
        done: Done,
        again: bool,
        passed: Mapping[str, Any] | None,
    ) -> None:
        s = work.state
        message = self.system.messages[piece.event]
        fields = {f.name: e for f, e in zip(message.fields, piece.fields, strict=True)}

        def lane(*at: Term) -> tuple[Term, Term]:
            """Returns the formula that a channel's ends are of this sender and a wanted receiver; and that receiver."""
            mine = at[0] == me if role.indexed else z3.BoolVal(True)
            other = self.schema.receiver(channel, at)
            same = other == me if channel.same_index else z3.BoolVal(True)
            return conjunction(mine, same, wanted(other)), other

        def content(name: str, *ends: Term) -> Any:
            return term(fields[name], self.frame(s, me, passed, it=self.schema.receiver(channel, ends)))

        put = self._announce if channel.kind == "set" else partial(self._put_in, me=me)
        put(work, channel, message, lane, content, done, again)

    def _put_in(
        self,
        work: PartialStep,
        channel: Channel,
        message: Message,
        lane: Lane,
        content: Content,
        done: Done,
        again: bool,
        me: Term = None,
    ) -> None:
        """Puts a message on its way under the next number, or again under the last; `me`: its sender, if it is one."""
        s, width = work.state, len(self.schema.ends(channel))
        last = again and channel.kind == "mailbox"

        def sends(*at: Term) -> Term:
            on_lane, other = lane(*at[:width])
            return conjunction(on_lane, done(other))

        def number(*at: Term) -> Term:
            return s.sent(channel, at[:width]) if last else s.sent(channel, at[:width]) + 1

        if last:
            self._require_same_message(work, channel, message, content, sends)
        else:
            work.state = self._numbered(work.state, channel, lane, me)
        self._write_message(work, channel, message, content, sends, number)

    def _numbered(self, s: SymbolicState, channel: Channel, lane: Lane, me: Term) -> SymbolicState:
        """The state in which each line that a message is put into has given one more number."""
        key, several = ("sent", channel.name), self.schema.several_send(channel)

        def sends(*line: Term) -> Term:
            receiver = line[0] if line else z3.IntVal(0)
            return lane(*(self.schema.between(channel, me, receiver) if several else line))[0]

        return s.write(key, sends, lambda *line: s.read(key, *line) + 1)

    def _write_message(
        self, work: PartialStep, channel: Channel, message: Message, content: Content, sends: Done, number: Done
    ) -> None:
        """Writes a message where it lies on its way."""
        width, kind = len(self.schema.ends(channel)), self.sorts.member(self.schema.kinds(channel), message.name)

        def here(*at: Term) -> Term:
            return conjunction(sends(*at), at[width] == number(*at))

        values: dict[Key, Done] = {
            ("present", channel.name): lambda *at: z3.BoolVal(True),
            ("kind", channel.name): lambda *at: kind,
            **self._fields(channel, message, content),
        }
        for key, value in values.items():
            work.state = work.state.write(key, here, value)

    def _fields(self, channel: Channel, message: Message, content: Content) -> dict[Key, Callable[..., Any]]:
        """The values of a message's fields, by the variables that they are written to."""
        width = len(self.schema.ends(channel))

        def value(name: str, *at: Term) -> Any:
            return content(name, *at[:width])

        return {("field", channel.name, message.name, f.name): partial(value, f.name) for f in message.fields}

    def _require_same_message(
        self, work: PartialStep, channel: Channel, message: Message, content: Content, sends: Done
    ) -> None:
        """Requires that a message that is sent again is the one that its number had."""
        s = work.state

        def alike(*ends: Term) -> Term:
            last = s.sent(channel, ends)
            fields = lambda name: content(name, *ends)  # noqa: E731
            same = s.message(channel, ends, last).equals(message, fields, self.sorts)
            return z3.Implies(conjunction(sends(*ends), s.pending(channel, ends, last)), same)

        claim = self.sorts.for_all(self.schema.ends(channel), alike)
        work.side_conditions.append((f"{message.name} is sent again as it was", claim))

    def _announce(
        self,
        work: PartialStep,
        channel: Channel,
        message: Message,
        lane: Lane,
        content: Content,
        done: Done,
        again: bool,
    ) -> None:
        """Puts a message into a set."""
        width = len(self.schema.ends(channel))

        def here(*at: Term) -> Term:
            on_lane, other = lane(*at[:width])
            values = zip(message.fields, at[width:], strict=True)
            same = (self.sorts.equal(v, content(f.name, *at[:width])) for f, v in values)
            return conjunction(on_lane, done(other), *same)

        work.state = work.state.write(("in", channel.name, message.name), here, lambda *at: z3.BoolVal(True))

    def _drive(self, work: PartialStep, piece: Piece, me: Term, wanted: Callable[[Term], Term]) -> None:
        """Hands an event of a machine to subsidiary machines."""
        self._driven_by(work, piece, lambda other: me, wanted)

    def _driven_by(
        self, work: PartialStep, piece: Piece, driver: Callable[[Term], Term], wanted: Callable[[Term], Term]
    ) -> None:
        """Hands an event to subsidiary machines, each of its driver, to all at once: none of them sees another."""
        s, driven = work.state, piece.target
        after = s
        names = [f.name for f in self.system.fields_of(driven.name, piece.event)]

        def other(*at: Term) -> Term:
            return at[0] if driven.indexed else z3.IntVal(0)

        def frame(*at: Term) -> Bindings:
            values = self.frame(s, driver(other(*at)), it=other(*at))
            fields = {n: term(e, values) for n, e in zip(names, piece.fields, strict=True)}
            return self.frame(s, other(*at), fields)

        def moves(choice: Choice, *at: Term) -> Term:
            guard = [] if choice.guard is None else [term(choice.guard, frame(*at))]
            return conjunction(wanted(other(*at)), s.is_in(driven.name, other(*at), choice.transition.source), *guard)

        def value(e: x.Expression, *at: Term) -> Any:
            return term(e, frame(*at))

        for state in driven.states:
            for choice in self.lowered.moves.get((driven.name, state, piece.event), ()):
                self._check_driven(driven, choice)
                for update in choice.updates:
                    key = ("data", driven.name, update.name)
                    after = after.write(key, partial(moves, choice), partial(value, update.value))
                target = self.sorts.member(driven.control, choice.transition.target)
                after = after.write(("state", driven.name), partial(moves, choice), lambda *at, target=target: target)
        work.state = after

    def _check_driven(self, driven: Role, choice: Choice) -> None:
        transition = choice.transition
        if choice.work:
            raise Unencodable(f"{transition.name} sends or drives while it is driven itself")
        if any(update.shared for update in transition.updates):
            raise Unencodable(f"{transition.name} changes a shared variable while it is driven")
        if any(update.key is not None for update in transition.updates):
            raise Unencodable(f"{transition.name} changes a cell of a map while it is driven")

        def looks(e: x.Expression) -> bool:
            return isinstance(e, x.ControlState | x.Data) and e.owner is not None and e.role == driven.name

        if x.mentions(transition.guard, looks) or any(x.mentions(u.value, looks) for u in transition.updates):
            raise Unencodable(f"{transition.name} reads other machines of {driven.name} while it is driven")


def reads_others(node: x.Expression) -> bool:
    """Returns whether a part of an expression reads what a piece of work before may have changed."""
    return x.reads_messages(node) or (isinstance(node, x.Data | x.ControlState) and node.owner is not None)
