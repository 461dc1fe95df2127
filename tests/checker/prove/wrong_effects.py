"""Errors seeded into the transition relation, continued: wrong frames, wrong states, channels taken for others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import z3

from leasehold.checker.prove.encode.effects import PartialStep
from leasehold.checker.prove.encode.formulas import Term, conjunction
from leasehold.checker.prove.encode.state import SymbolicState
from leasehold.checker.prove.encode.terms import Bindings, StepLabel, term
from leasehold.checker.prove.encode.transitions import SymbolicStep, TransitionRelation
from leasehold.checker.prove.encode.values import MapValue
from leasehold.spec.language.expression import Data
from leasehold.spec.language.lower import Choice, Offer, Piece
from leasehold.spec.language.model import Channel, Message, Role
from tests.checker.prove.wrong_relations import LosesSome, Steps, changed, error, stronger

# What a step writes, and where


@error
class CellsClearTheRest(TransitionRelation):
    """An update of a cell of a map sets every cell."""

    def _committed(self, s: SymbolicState, role: Role, choice: Choice, me: Term, frame: Bindings) -> SymbolicState:
        after, own = super()._committed(s, role, choice, me, frame), self.schema.at(role, me)
        for update in choice.updates:
            if update.key is not None:
                key, value = ("data", role.name, update.name), term(update.value, frame)
                cells = after.read(key, *own)
                after = after.put(key, own, MapValue(cells.key, lambda k, value=value: value))
        return after


@error
class CellsReadTheOldMap(TransitionRelation):
    """Of two cells that are updated, one keeps its value."""

    def _committed(self, s: SymbolicState, role: Role, choice: Choice, me: Term, frame: Bindings) -> SymbolicState:
        after = super()._committed(s, role, choice, me, frame)
        for update in choice.updates:
            if update.key is not None:
                key = ("data", role.name, update.name)
                one = super()._committed(s, role, replace(choice, updates=(update,)), me, frame)
                after = after.with_functions({**after.functions, key: one.functions[key]})
        return after


@error
class RecordsAreShared(TransitionRelation):
    """An update is one of every machine's record."""

    def _committed(self, s: SymbolicState, role: Role, choice: Choice, me: Term, frame: Bindings) -> SymbolicState:
        after = super()._committed(s, role, choice, me, frame)
        for update in (u for u in choice.updates if not u.shared):
            key = ("data", role.name, update.name)
            value = after.read(key, *self.schema.at(role, me))
            after = after.write(key, lambda *at: z3.BoolVal(True), lambda *at, value=value: value)
        return after


@error
class WhatTasksReadIsNotKept(TransitionRelation):
    """What a task reads of the step that starts it is as it was before."""

    def _committed(self, s: SymbolicState, role: Role, choice: Choice, me: Term, frame: Bindings) -> SymbolicState:
        kept = tuple(u for u in choice.updates if u.shared or not role.data[u.name].captured)
        return super()._committed(s, role, replace(choice, updates=kept), me, frame)


@error
class TasksReadTheNewRecord(TransitionRelation):
    """What a task reads of the data before the step is the data after it."""

    def _committed(self, s: SymbolicState, role: Role, choice: Choice, me: Term, frame: Bindings) -> SymbolicState:
        after = super()._committed(s, role, choice, me, frame)
        own = [u for u in choice.updates if not u.shared]
        for update in (u for u in own if role.data[u.name].captured and isinstance(u.value, Data)):
            value = term(update.value, replace(frame, view=after))
            after = after.put(("data", role.name, update.name), self.schema.at(role, me), value)
        return after


class _ReadsTheOldRecord(TransitionRelation):
    """What a task of a transition depends on may be read of the state before the commit."""

    old: SymbolicState | None = None
    piece: tuple[Piece, Term] | None = None

    def _step(self, s: SymbolicState, role: Role, choice: Choice, *rest: Any) -> Steps:
        self.old = s
        yield from super()._step(s, role, choice, *rest)
        self.old = None

    def _send(self, work: PartialStep, role: Role, piece: Piece, channel: Channel, me: Term, *rest: Any) -> None:
        self.piece, self.passed = (piece, me), rest[-1]
        super()._send(work, role, piece, channel, me, *rest)


@error
class FieldsAreOfTheOldRecord(_ReadsTheOldRecord):
    """A message says what its sender's record was before the commit."""

    def _put_in(
        self, work: PartialStep, channel: Channel, message: Message, lane: Any, content: Any, *rest: Any
    ) -> None:
        if self.old is not None and self.piece is not None:
            (piece, me), old = self.piece, self.old
            fields = {f.name: e for f, e in zip(message.fields, piece.fields, strict=True)}

            def content(name: str, *ends: Term) -> Any:
                return term(fields[name], self.frame(old, me, self.passed, it=self.schema.receiver(channel, ends)))

        super()._put_in(work, channel, message, lane, content, *rest)


@error
class ReceiversAreOfTheOldRecord(_ReadsTheOldRecord):
    """Who is sent a message follows from the sender's record before the commit."""

    def _send(
        self, work: PartialStep, role: Role, piece: Piece, channel: Channel, me: Term, wanted: Any, *rest: Any
    ) -> None:
        if (old := self.old) is not None:

            def wanted(other: Term) -> Term:
                return conjunction(*(term(e, self.frame(old, me, rest[-1], it=other)) for e in piece.conditions))

        super()._send(work, role, piece, channel, me, wanted, *rest)


changed("what_is_ignored_stays_new", lambda step: " ignores " in step.name, keeps="received")


# Channels taken for others


# That a bag keeps an order, or a fifo that reorders does, is no error here: claims do not see their messages' numbers,
# so before each step that is missing there is a state that looks alike and has the messages in another order.


@error
class BagsAreSets(TransitionRelation):
    """A message that is taken out of a bag is still there."""

    def _taken_out(self, s: SymbolicState, channel: Channel, *rest: Any) -> Any:
        arguments, given, after = super()._taken_out(s, channel, *rest)
        return arguments, given, s if channel.kind == "bag" else after


@error
class MailboxesHaveNoDuplicates(TransitionRelation):
    """A message that was received is not pending any more, as in a fifo."""

    def _taken_out(self, s: SymbolicState, channel: Channel, *rest: Any) -> Any:
        arguments, given, after = super()._taken_out(s, channel, *rest)
        if channel.kind != "mailbox":
            return arguments, given, after
        ends, received = self.schema.ends(channel), after.functions["received", channel.name]

        def old(*at: Term) -> Term:
            return at[-1] <= received(*at[: len(ends)])

        return arguments, given, after.write(("present", channel.name), old, lambda *at: z3.BoolVal(False))


@error
class ChannelsAreOfPairs(TransitionRelation):
    """A machine hears its like index alone."""

    def _delivery(self, s: SymbolicState, message: Message) -> Any:
        me, sender, arguments, given, after = super()._delivery(s, message)
        return me, sender, arguments, [*given, me == sender], after


@error
class OnlyTheFirstMessageIsLost(LosesSome):
    """As if a channel lost one message at most."""

    def loses(self, s: SymbolicState, channel: Channel, ends: Sequence[Term], number: Term) -> Term:
        return number == 1


@error
class OnlyTheFirstMachinesLose(LosesSome):
    def loses(self, s: SymbolicState, channel: Channel, ends: Sequence[Term], number: Term) -> Term:
        return conjunction(z3.BoolVal(True), *(end == 0 for end in ends))


# Recovery, offers, time and labels


@error
class RecoveryDoesOneTask(TransitionRelation):
    def work_by_task(self, role: Role, states: Sequence[str]) -> Iterator[tuple[Piece, list[str]]]:
        yield from list(super().work_by_task(role, states))[:1]


@error
class OnlyTheFirstOffer(TransitionRelation):
    """Of the environment's actions that offer one event, one counts."""

    def _offered(self, s: SymbolicState, choice: Choice, offers: Sequence[Offer]) -> Steps:
        return super()._offered(s, choice, [replace(o, outside=o.outside[:1]) for o in offers[:1]])


@error
class TimersAreDueWithoutGuard(TransitionRelation):
    """Time waits for a timer wherever its machine is in the state that has it."""

    in_time = False

    def _time(self, s: SymbolicState, passage: Any) -> SymbolicStep:
        self.in_time = True
        try:
            return super()._time(s, passage)
        finally:
            self.in_time = False

    def _moves(self, s: SymbolicState, role: Role, choice: Choice, frame: Any) -> Term:
        return super()._moves(s, role, replace(choice, guard=None) if self.in_time else choice, frame)


@error
class OnlyNodesFall(TransitionRelation):
    """There is no power cut."""

    def _others_down(self, s: SymbolicState, role: Role, me: Term, died: Term) -> SymbolicState:
        right = self.sorts.constant

        def constant(name: str, type_: Any) -> Term:
            return z3.BoolVal(False) if name == "cut" else right(name, type_)

        self.sorts.constant = constant  # type: ignore[method-assign]
        try:
            return super()._others_down(s, role, me, died)
        finally:
            del self.sorts.constant


def unlabelled(name: str, only: Callable[[SymbolicStep], bool]) -> None:
    """A relation whose `took(...)` is false of some steps."""

    class Unlabelled(TransitionRelation):
        def steps(self, s: SymbolicState) -> Steps:
            return (replace(step, took=StepLabel()) if only(step) else step for step in super().steps(s))

    Unlabelled.__name__ = name
    error(Unlabelled)


unlabelled("what_is_ignored_is_not_taken", lambda step: " ignores " in step.name)
unlabelled("crashes_are_nobodys_steps", lambda step: step.name.endswith((" crashes", " crashes again")))


def _initially(relation: TransitionRelation, s: SymbolicState, step: SymbolicStep) -> Term | None:
    held = relation.system.initially
    return None if held is None else term(held, relation.frame(s, None))


stronger("what_holds_initially_holds_always", _initially)
