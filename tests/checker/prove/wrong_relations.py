"""Errors seeded into the prover's transition relation: a comparison that does not find them is of no use.

Each is a relation with one error that makes false proofs: a step is missing, a guard is too strong, a part of the
state keeps a value that it does not have, or something is assumed that need not be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import z3

from leasehold.checker.prove.encode.effects import PartialStep
from leasehold.checker.prove.encode.formulas import Term
from leasehold.checker.prove.encode.state import NUMBER, SymbolicState
from leasehold.checker.prove.encode.transitions import SymbolicStep, TransitionRelation
from leasehold.spec.language import types as t
from leasehold.spec.language.lower import Choice
from leasehold.spec.language.model import Channel, Datum, Message, Role

ERRORS: dict[str, type[TransitionRelation]] = {}
Steps = Iterator[SymbolicStep]


def error(relation: type[TransitionRelation]) -> type[TransitionRelation]:
    ERRORS[relation.__name__] = relation
    return relation


def without(name: str, drops: Callable[[SymbolicStep], bool]) -> None:
    """A relation without some of the steps."""

    class Without(TransitionRelation):
        def steps(self, s: SymbolicState) -> Steps:
            return (step for step in super().steps(s) if not drops(step))

    ERRORS[name] = Without


def stronger(name: str, adds: Callable[[TransitionRelation, SymbolicState, SymbolicStep], Term | None]) -> None:
    """A relation whose steps have one condition more."""

    class Stronger(TransitionRelation):
        def steps(self, s: SymbolicState) -> Steps:
            for step in super().steps(s):
                condition = adds(self, s, step)
                yield step if condition is None else replace(step, given=(*step.given, condition))

    ERRORS[name] = Stronger


def changed(name: str, only: Callable[[SymbolicStep], bool], *ends: str, keeps: str) -> None:
    """A relation some of whose steps lead somewhere else: variables of a kind keep their values.

    Args:
        ends: the states after that are wrong: `after`, `together` or, left out, both.
    """

    class Changed(TransitionRelation):
        def steps(self, s: SymbolicState) -> Steps:
            kept = {key: f for key, f in s.functions.items() if key[0] == keeps}
            for step in super().steps(s):
                states = {"after": step.after, "together": step.whole}
                wrong = {end: state.with_functions({**state.functions, **kept}) for end, state in states.items()}
                right = {end: state for end, state in states.items() if ends and end not in ends}
                yield replace(step, **{**wrong, **right}) if only(step) else step

    ERRORS[name] = Changed


def is_taken(step: SymbolicStep) -> bool:
    return step.transition is not None


# Steps that are missing

without("no_first_transition", lambda step: is_taken(step) and step.name.endswith("0#go"))
without("no_local_events", lambda step: is_taken(step) and "#go" in step.name)
without("no_answers", lambda step: is_taken(step) and ("#done" in step.name or "#ready" in step.name))
without("no_ask", lambda step: is_taken(step) and "#ask" in step.name)
without("no_tell", lambda step: is_taken(step) and "#tell" in step.name)
without("no_second_choice", lambda step: is_taken(step) and step.name.endswith(".2"))
without("nothing_is_ignored", lambda step: " ignores " in step.name)
without("nothing_is_lost", lambda step: step.name.endswith("loses a message"))
without("nothing_is_said_again", lambda step: step.name.endswith(" again") and "/" in step.name)
without("nobody_crashes", lambda step: step.name.endswith(" crashes"))
without("nobody_recovers", lambda step: step.name.endswith(" recovers"))
without("no_second_crash", lambda step: step.name.endswith(" crashes again"))
without("time_stands", lambda step: step.name == "time passes")
without("no_ticks", lambda step: is_taken(step) and "#tick" in step.name)

# Guards that are too strong


def all_run(relation: TransitionRelation, s: SymbolicState) -> Term:
    return z3.And(*(relation.sorts.every(role.instance, lambda me, r=role: s.running(r.name, me)) if role.indexed
                    else s.running(role.name, z3.IntVal(0)) for role in relation.system.roles.values()))  # fmt: skip


stronger("all_have_to_run", lambda r, s, step: all_run(r, s) if is_taken(step) else None)
stronger("time_waits_for_all", lambda r, s, step: all_run(r, s) if step.name == "time passes" else None)
stronger("recovery_before_time", lambda r, s, step: s.now == 0 if step.name.endswith(" recovers") else None)


@error
class OnlyTheNextNumber(TransitionRelation):
    def _is_new(self, channel: Channel, number: Term, received: Term) -> Term:
        return number == received + 1


@error
class MailboxesInOrder(TransitionRelation):
    def _taken_out(self, s: SymbolicState, channel: Channel, message: Message, ends: tuple[Term, ...]) -> Any:
        arguments, given, after = super()._taken_out(s, channel, message, ends)
        later = z3.Int("later")
        there = s.read(("present", channel.name), *ends, later)
        none = z3.Not(z3.Exists([later], z3.And(later > s.received(channel, ends) + 1, there)))
        return arguments, [*given, none], after


@error
class OneMachineOnly(TransitionRelation):
    def machine(self, role: Role, name: str) -> tuple[Term, list[Term]]:
        me, given = super().machine(role, name)
        return me, [*given, me == 0]


@error
class FieldsAreFirstValues(TransitionRelation):
    def fields(self, fields: Sequence[Datum]) -> tuple[dict[str, Any], list[Term]]:
        found, given = super().fields(fields)
        return found, [*given, *(z3.Not(v) for v in found.values() if z3.is_bool(v))]


# Effects that are missing or wrong

changed("states_stay", is_taken, keeps="state")
changed("states_stay_in_parts", is_taken, "after", keeps="state")
changed("data_stay", is_taken, keeps="data")
changed("data_stay_in_parts", is_taken, "after", keeps="data")
changed("messages_stay", lambda step: " ignores " in step.name, keeps="present")
changed("received_stays", is_taken, keeps="received")
changed("recovery_says_nothing", lambda step: step.name.endswith(" recovers"), keeps="present")
changed("crashes_while_recovering_say_nothing", lambda step: step.name.endswith("crashes again"), keeps="present")
changed("actors_stay_up", is_taken, keeps="up")


@error
class NumbersStay(TransitionRelation):
    def _put_in(self, work: PartialStep, channel: Channel, *rest: Any) -> None:
        sent = {k: f for k, f in work.state.functions.items() if k[:2] == ("sent", channel.name)}
        super()._put_in(work, channel, *rest)
        work.state = work.state.with_functions({**work.state.functions, **sent})


@error
class OneUpdateIsForgotten(TransitionRelation):
    def _committed(self, s: SymbolicState, role: Role, choice: Choice, me: Term, frame: Any) -> SymbolicState:
        return super()._committed(s, role, replace(choice, updates=choice.updates[1:]), me, frame)


@error
class UpdatesReadWhatOthersWrote(TransitionRelation):
    def _committed(self, s: SymbolicState, role: Role, choice: Choice, me: Term, frame: Any) -> SymbolicState:
        after = s
        for update in choice.updates:
            one = replace(choice, updates=(update,))
            after = super()._committed(after, role, one, me, self.frame(after, me, frame.arguments, frame.sender))
        return after if choice.updates else super()._committed(s, role, choice, me, frame)


@error
class WorkIsDoneWhole(TransitionRelation):
    """A crash leaves no part of the work undone."""

    def _done(self, target: Role, died: Term | None) -> Callable[[Term], Term]:
        return lambda other: z3.BoolVal(True)


@error
class WorkIsNotDone(TransitionRelation):
    """A crash leaves all of the work undone."""

    def _done(self, target: Role, died: Term | None) -> Callable[[Term], Term]:
        return lambda other: z3.BoolVal(True) if died is None else z3.Not(died)


@error
class NoCrashInAStep(TransitionRelation):
    def _down(self, s: SymbolicState, role: Role, me: Term, died: Term) -> SymbolicState:
        return super()._down(s, role, me, died) if z3.is_true(died) else s


@error
class NoCopies(TransitionRelation):
    def _copy(self, channel: Channel) -> Term:
        return z3.BoolVal(False)


@error
class OnlySomeReceivers(TransitionRelation):
    """A message to all of a role goes to the first machine."""

    def _send(
        self, work: PartialStep, role: Role, piece: Any, channel: Channel, me: Term, wanted: Any, *rest: Any
    ) -> None:
        super()._send(work, role, piece, channel, me, lambda other: z3.And(wanted(other), other == 0), *rest)


@error
class NothingIsDriven(TransitionRelation):
    def _drive(self, work: PartialStep, piece: Any, me: Term, wanted: Callable[[Term], Term]) -> None:
        pass


@error
class DrivenStatesStay(TransitionRelation):
    def _drive(self, work: PartialStep, piece: Any, me: Term, wanted: Callable[[Term], Term]) -> None:
        before = {k: f for k, f in work.state.functions.items() if k == ("state", piece.target.name)}
        super()._drive(work, piece, me, wanted)
        work.state = work.state.with_functions({**work.state.functions, **before})


@error
class FieldsOfMessagesAreFalse(TransitionRelation):
    """Not unset: what was in the place of a message before it was sent is arbitrary, and a relation with more steps."""

    def _fields(self, channel: Channel, message: Message, content: Any) -> dict[Any, Any]:
        false = {f.name for f in message.fields if f.type == t.BOOL}
        found = super()._fields(channel, message, content)
        return {k: (lambda *at: z3.BoolVal(False)) if k[-1] in false else value for k, value in found.items()}


@error
class CrashesLoseRecords(TransitionRelation):
    def _read(self, s: SymbolicState, roles: list[Role], me: Term) -> SymbolicState:
        for role in roles:
            if not role.indexed:
                s = s.put(("state", role.name), (), self.sorts.member(role.control, role.initial[0].name))
        return s


@error
class LastPieceIsForgotten(TransitionRelation):
    def _step(self, s: SymbolicState, role: Role, choice: Choice, *rest: Any) -> Steps:
        return super()._step(s, role, replace(choice, work=choice.work[:-1]), *rest)


@error
class CellsStay(TransitionRelation):
    """An update of a cell of a map is forgotten."""

    def _committed(self, s: SymbolicState, role: Role, choice: Choice, me: Term, frame: Any) -> SymbolicState:
        updates = tuple(update for update in choice.updates if update.key is None)
        return super()._committed(s, role, replace(choice, updates=updates), me, frame)


@error
class DrivenDataStay(TransitionRelation):
    def _driven_by(self, work: PartialStep, piece: Any, *rest: Any) -> None:
        before = {k: f for k, f in work.state.functions.items() if k[:2] == ("data", piece.target.name)}
        super()._driven_by(work, piece, *rest)
        work.state = work.state.with_functions({**work.state.functions, **before})


@error
class SetsAreConsumed(TransitionRelation):
    """A message of a set is taken out."""

    def _received(self, s: SymbolicState, choice: Choice, message: Message) -> Steps:
        for step in super()._received(s, choice, message):
            if self.system.channel_of(message.name).kind != "set":
                yield step
                continue
            key = ("in", self.system.channel_of(message.name).name, message.name)
            none = {**step.whole.functions, key: lambda *at: z3.BoolVal(False)}
            yield replace(step, after=step.after.with_functions({**step.after.functions, key: none[key]}),
                          together=step.whole.with_functions(none))  # fmt: skip


# Guards that are too strong, and assumptions


@error
class OneMessageAtATime(TransitionRelation):
    """A message is sent only where the mailbox, fifo or bag has none."""

    def _put_in(self, work: PartialStep, channel: Channel, message: Message, lane: Any, content: Any, done: Any,
                again: bool) -> None:  # fmt: skip
        s, width = work.state, len(self.schema.ends(channel))

        def free(*at: Term) -> tuple[Term, Term]:
            held, other = lane(*at[:width])
            n = z3.Int("waiting")
            none = z3.Not(z3.Exists([n], s.pending(channel, at[:width], n)))
            return z3.And(held, none), other

        super()._put_in(work, channel, message, free, content, done, again)


class LosesSome(TransitionRelation):
    """Of the messages that may be lost, some are not: `loses` says which are, by their ends and number."""

    def loses(self, s: SymbolicState, channel: Channel, ends: Sequence[Term], number: Term) -> Term:
        raise NotImplementedError

    def _losses(self, s: SymbolicState, channel: Channel) -> Steps:
        for step in super()._losses(s, channel):
            present = step.after.functions["present", channel.name]
            ends = [self.sorts.constant("end", e) for e in self.schema.ends(channel)]
            number = self.sorts.constant("lost", NUMBER)
            gone = z3.And(s.read(("present", channel.name), *ends, number), z3.Not(present(*ends, number)))
            yield replace(step, given=(*step.given, gone, self.loses(s, channel, ends, number)))


@error
class DuplicatesAreNotLost(LosesSome):
    """What is lost was not received before."""

    def loses(self, s: SymbolicState, channel: Channel, ends: Sequence[Term], number: Term) -> Term:
        return number > s.received(channel, ends)


@error
class ItIsTheFirst(TransitionRelation):
    """`it`, where somebody is chosen, is the first machine."""

    def frame(self, s: SymbolicState, me: Term, arguments: Any = None, sender: Term = None, **variables: Any) -> Any:
        return super().frame(s, me, arguments, sender, **{name: z3.IntVal(0) for name in variables})


@error
class SendersAreTheFirst(TransitionRelation):
    def frame(self, s: SymbolicState, me: Term, arguments: Any = None, sender: Term = None, **variables: Any) -> Any:
        return super().frame(s, me, arguments, None if sender is None else z3.IntVal(0), **variables)


@error
class IgnoredOnlyWithoutRules(TransitionRelation):
    """A message is ignored only in states without a transition on it, whatever its guard."""

    def _moves(self, s: SymbolicState, role: Role, choice: Choice, frame: Any) -> Term:
        return s.is_in(role.name, frame.me, choice.transition.source)


@error
class TimeAlwaysWaits(TransitionRelation):
    """The clock waits for timers, however late they may be."""

    def _time(self, s: SymbolicState, passage: Any) -> SymbolicStep:
        ticks = [o for offers in self.lowered.offers.values() for o in offers if o.cause == "tick"]
        return super()._time(s, replace(passage, unless=tuple(ticks)))


stronger("time_ends", lambda r, s, step: s.now == 0 if step.name == "time passes" else None)
stronger("messages_come_at_first", lambda r, s, step: s.now == 0 if " ignores " in step.name else None)


@error
class OnlyTwoMachines(TransitionRelation):
    def machine(self, role: Role, name: str) -> tuple[Term, list[Term]]:
        me, given = super().machine(role, name)
        return me, [*given, me < 2]


@error
class RecoveryOfFirstStatesOnly(TransitionRelation):
    def _recovered(self, role: Role) -> list[str]:
        return [role.initial[0].name]


# Steps that are several at once

without("no_composite_steps", lambda step: step.composite)
without("nothing_is_had_again", lambda step: " has " in step.name and step.name.endswith(" again"))


@error
class NothingTogether(TransitionRelation):
    def steps(self, s: SymbolicState) -> Steps:
        return (replace(step, together=None) for step in super().steps(s))


@error
class OthersStayUp(TransitionRelation):
    def _others_down(self, s: SymbolicState, role: Role, me: Term, died: Term) -> SymbolicState:
        return s


@error
class NodesAreNotShared(TransitionRelation):
    def _up_of(self, actor: str) -> Any:
        return None


@error
class MailboxesForgetNothing(TransitionRelation):
    def _forgotten(self, before: SymbolicState, after: SymbolicState, channel: Channel) -> SymbolicState:
        return after


@error
class SeveralSendNothing(TransitionRelation):
    def _all_send(self, *_: Any) -> None:
        pass


@error
class SeveralDriveNothing(TransitionRelation):
    def _all_drive(self, *_: Any) -> None:
        pass


@error
class OnlyTheFirstDrives(TransitionRelation):
    def _wants(self, s: SymbolicState, role: Role, piece: Any, states: Sequence[str], me: Term, other: Term) -> Term:
        return z3.And(super()._wants(s, role, piece, states, me, other), me == 0)
