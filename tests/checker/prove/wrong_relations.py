"""Errors seeded into the prover's transition relation: a comparison that does not find them is of no use.

Each is a relation with one error that makes false proofs: a step is missing, a guard is too strong, a part of the
state keeps a value that it does not have, or something is assumed that need not be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import z3

from leasehold.checker.prove.encode.effects import PartialStep
from leasehold.checker.prove.encode.state import SymbolicState
from leasehold.checker.prove.encode.transitions import SymbolicStep, TransitionRelation
from leasehold.checker.prove.encode.values import Term
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


def changed(name: str, after: Callable[[SymbolicState, SymbolicStep], SymbolicState | None]) -> None:
    """A relation whose steps lead somewhere else."""

    class Changed(TransitionRelation):
        def steps(self, s: SymbolicState) -> Steps:
            for step in super().steps(s):
                other = after(s, step)
                yield step if other is None else replace(step, after=other)

    ERRORS[name] = Changed


def keeping(head: str, only: Callable[[SymbolicStep], bool] = lambda step: True) -> Callable[..., SymbolicState | None]:
    """Variables of a kind keep their values."""

    def after(s: SymbolicState, step: SymbolicStep) -> SymbolicState | None:
        if not only(step):
            return None
        kept = {key: f for key, f in s.functions.items() if key[0] == head}
        return step.after.with_functions({**step.after.functions, **kept})

    return after


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

changed("states_stay", keeping("state", is_taken))
changed("data_stay", keeping("data", is_taken))
changed("messages_stay", keeping("present", lambda step: " ignores " in step.name))
changed("received_stays", keeping("received", is_taken))
changed("contents_stay", keeping("field", is_taken))
changed("kinds_stay", keeping("kind", is_taken))
changed("recovery_says_nothing", keeping("present", lambda step: step.name.endswith(" recovers")))
changed("crashes_while_recovering_say_nothing", keeping("present", lambda step: step.name.endswith("crashes again")))
changed("actors_stay_up", keeping("up", is_taken))


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
class FieldsOfMessagesAreUnset(TransitionRelation):
    def _fields(self, channel: Channel, message: Message, content: Any) -> Mapping[Any, Any]:
        return {}


@error
class CrashesLoseRecords(TransitionRelation):
    def _read(self, s: SymbolicState, roles: list[Role], me: Term) -> SymbolicState:
        for role in roles:
            for state in role.states.values():
                if state.name == role.initial and not role.indexed:
                    s = s.put(("state", role.name), (), self.sorts.member(role.control, state.name))
        return s
