"""The effects of tasks on a state: messages put on their way, and events handed to subsidiary machines.

Theory of operation. The work that follows a commit is done task by task. Where the actor may crash, each message and
each event has a flag that says whether it was done, so any part of the work may be missing. A message that is sent
again keeps its number; that it is the same message is a side condition of the step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import z3

from leasehold.checker.prove.encode.state import StateSchema, SymbolicState
from leasehold.checker.prove.encode.terms import Bindings, term
from leasehold.checker.prove.encode.values import Sorts, Term, Unencodable, conjunction, disjunction
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.lower import Choice, Piece, lower
from leasehold.spec.language.model import Channel, Message, Role, System


@dataclass
class PartialStep:
    """A step while its work is done: the state so far, and what is side_conditions."""

    state: SymbolicState
    side_conditions: list[tuple[str, Term]] = field(default_factory=list)


class TaskEffects:
    """What tasks do to a state.

    Args:
        constants: values of the system's constants.
    """

    def __init__(self, schema: StateSchema, constants: Mapping[str, Any]) -> None:
        self.schema, self.constants = schema, constants
        self.system: System = schema.system
        self.lowered = lower(self.system)
        self.sorts: Sorts = schema.sorts

    def frame(
        self, s: SymbolicState, me: Term, arguments: Mapping[str, Any] | None = None, sender: Term = None,
        **variables: Any,
    ) -> Bindings:  # fmt: skip
        return Bindings(self.sorts, s, self.constants, me, arguments or {}, sender, variables)

    def _do(self, work: PartialStep, role: Role, piece: Piece, me: Term, died: Term | None, again: bool) -> None:
        """A piece of work. Where the actor dies, any part of it may not have been done."""
        done = self._done(piece.target, died)
        before = work.state

        def wanted(other: Term) -> Term:
            frame = self.frame(before, me, it=other)
            return conjunction(*(term(e, frame) for e in piece.conditions))

        if piece.channel is not None:
            self._send(work, role, piece, piece.channel, me, wanted, done, again)
        else:
            self._drive(work, piece, me, lambda other: conjunction(wanted(other), done(other)))

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
        self, work: PartialStep, role: Role, piece: Piece, channel: Channel, me: Term,
        wanted: Callable[[Term], Term], done: Callable[[Term], Term], again: bool,
    ) -> None:  # fmt: skip
        s, receiver = work.state, piece.target
        message = self.system.messages[piece.event]
        fields = {f.name: e for f, e in zip(message.fields, piece.fields, strict=True)}

        def lane(*at: Term) -> tuple[Term, Term]:
            """That a channel's ends are of this sender, and the receiver."""
            mine = at[0] == me if role.indexed else z3.BoolVal(True)
            other = at[-1] if receiver.indexed else z3.IntVal(0)
            same = other == me if channel.same_index else z3.BoolVal(True)
            return conjunction(mine, same, wanted(other)), other

        def content(name: str, other: Term) -> Any:
            return term(fields[name], self.frame(s, me, it=other))

        width = len(self.schema.ends(channel))
        if channel.kind == "set":
            self._announce(work, channel, message, lane, content, done, width)
            return
        self._put_in(work, channel, message, lane, content, done, again)

    def _put_in(
        self, work: PartialStep, channel: Channel, message: Message, lane: Callable[..., tuple[Term, Term]],
        content: Callable[[str, Term], Any], done: Callable[[Term], Term], again: bool,
    ) -> None:  # fmt: skip
        """Puts a message on its way under the next number, or again under the last."""
        s, width = work.state, len(self.schema.ends(channel))
        receiver = self.system.roles[channel.receiver]
        sent = ("sent", channel.name)

        def sends(*at: Term) -> Term:
            held, other = lane(*at[:width])
            return conjunction(held, done(other))

        def number(*at: Term) -> Term:
            last = s.read(sent, *at[:width])
            return last if again and channel.kind == "mailbox" else last + 1

        def here(*at: Term) -> Term:
            return conjunction(sends(*at), at[width] == number(*at))

        if again and channel.kind == "mailbox":
            self._require_same_message(work, channel, message, content, sends)
        else:
            work.state = work.state.write(sent, lambda *at: lane(*at)[0], number)
        work.state = work.state.write(("present", channel.name), here, lambda *at: z3.BoolVal(True))
        kind = self.sorts.member(self.schema.kinds(channel), message.name)
        work.state = work.state.write(("kind", channel.name), here, lambda *at: kind)
        for datum in message.fields:
            key = ("field", channel.name, message.name, datum.name)
            work.state = work.state.write(
                key,
                here,
                lambda *at, name=datum.name: content(name, at[width - 1] if receiver.indexed else z3.IntVal(0)),
            )

    def _require_same_message(
        self, work: PartialStep, channel: Channel, message: Message, content: Callable[[str, Term], Any],
        sends: Callable[..., Term],
    ) -> None:  # fmt: skip
        """Requires that a message that is sent again is the one that its number had."""
        s = work.state
        receiver = self.system.roles[channel.receiver]

        def alike(*ends: Term) -> Term:
            other = ends[-1] if receiver.indexed else z3.IntVal(0)
            last = s.read(("sent", channel.name), *ends)
            was = s.message(channel, ends, last)
            fields = (self.sorts.equal(was.field(message.name, f.name), content(f.name, other)) for f in message.fields)
            given = conjunction(sends(*ends), s.pending(channel, ends, last))
            return z3.Implies(given, conjunction(was.is_kind(message.name), *fields))

        claim = self.sorts.for_all(self.schema.ends(channel), alike)
        work.side_conditions.append((f"{message.name} is sent again as it was", claim))

    def _announce(
        self, work: PartialStep, channel: Channel, message: Message, lane: Callable[..., tuple[Term, Term]],
        content: Callable[[str, Term], Any], done: Callable[[Term], Term], width: int,
    ) -> None:  # fmt: skip
        """Puts a message into a set."""

        def here(*at: Term) -> Term:
            held, other = lane(*at[:width])
            same = [
                self.sorts.equal(value, content(f.name, other))
                for f, value in zip(message.fields, at[width:], strict=True)
            ]
            return conjunction(held, done(other), *same)

        work.state = work.state.write(("in", channel.name, message.name), here, lambda *at: z3.BoolVal(True))

    def _drive(self, work: PartialStep, piece: Piece, me: Term, wanted: Callable[[Term], Term]) -> None:
        """Hands an event to subsidiary machines, to all at once: none of them sees another."""
        s, driven = work.state, piece.target
        after = s
        names = [f.name for f in self.system.fields_of(driven.name, piece.event)]
        for state in driven.states:
            for choice in self.lowered.moves.get((driven.name, state, piece.event), ()):
                transition = choice.transition
                self._check_driven(driven, choice)

                def frame(other: Term) -> Bindings:
                    values = self.frame(s, me, it=other)
                    return self.frame(s, other, {n: term(e, values) for n, e in zip(names, piece.fields, strict=True)})

                def moves(*at: Term, choice: Choice = choice) -> Term:
                    other = at[0] if driven.indexed else z3.IntVal(0)
                    guard = [] if choice.guard is None else [term(choice.guard, frame(other))]
                    return conjunction(wanted(other), s.is_in(driven.name, other, choice.transition.source), *guard)

                for update in choice.updates:

                    def value(*at: Term, update: Any = update) -> Any:
                        return term(update.value, frame(at[0] if driven.indexed else z3.IntVal(0)))

                    after = after.write(("data", driven.name, update.name), moves, value)
                target = self.sorts.member(driven.control, transition.target)
                after = after.write(("state", driven.name), moves, lambda *at, target=target: target)
        work.state = after

    def _check_driven(self, driven: Role, choice: Choice) -> None:
        transition = choice.transition
        if choice.work:
            raise Unencodable(f"{transition.name} sends or drives while it is driven itself")
        if any(update.key is not None for update in transition.updates):
            raise Unencodable(f"{transition.name} changes a cell of a map while it is driven")

        def looks(e: x.Expression) -> bool:
            return isinstance(e, x.State | x.Data) and e.owner is not None and e.role == driven.name

        if x.mentions(transition.guard, looks) or any(x.mentions(u.value, looks) for u in transition.updates):
            raise Unencodable(f"{transition.name} reads other machines of {driven.name} while it is driven")
