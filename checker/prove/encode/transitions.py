"""The transition relation: every step of a system, as relations between symbolic states.

Theory of operation. There is one relation for each transition (and for each message that is ignored), over an arbitrary
machine, any fields and any message; not one for each value. A relation allows every step of the explorer
(checker/explore/reference.py, faulty.py), and sometimes more, never less:

- the actor may crash in the step: any part of the work that follows the commit is done, and the actor is down;
- any pending message may be lost, be overtaken, or come again; a machine in a state that sends may send again;
- an actor that is down recovers at any time, does its work again, and may crash again meanwhile;
- where the scope has it, an actor loses its store between two steps, with what was on its way to and from it;
- time passes without end, but waits for timers that are due.

The number of faults has no limit, so a claim that is proved for these relations holds for any number of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import z3

from leasehold.checker.prove.encode.composite import CompositeSteps
from leasehold.checker.prove.encode.effects import PartialStep
from leasehold.checker.prove.encode.fault_scope import FaultScope
from leasehold.checker.prove.encode.formulas import Term, Unencodable, conjunction, disjunction
from leasehold.checker.prove.encode.state import NUMBER, Function, StateSchema, SymbolicState
from leasehold.checker.prove.encode.terms import Bindings, StepLabel, first_value, term
from leasehold.checker.prove.encode.values import MapValue, Sorts
from leasehold.spec.language import types as t
from leasehold.spec.language.lower import Choice, Offer, Passage, Piece
from leasehold.spec.language.model import Channel, Datum, Message, Role, Transition


@dataclass(frozen=True)
class SymbolicStep:
    """A relation between states.

    Attributes:
        name: as a path shows it.
        took: its label, for `took(...)`.
        given: its guard, over the state before and the constants that are chosen.
        after: the state after.
        side_conditions: conditions under which the relation lacks no step; else nothing is proved.
        transition: the transition that is taken, if any.
        together: for claims about steps, the state after with all that the explorer does in the step; None: `after`.
        composite: the explorer's step is several others here, so it is for claims about steps alone.
        cases: conditions over the state before by which the solver is asked, one at a time and then none of them.
    """

    name: str
    took: StepLabel
    given: tuple[Term, ...]
    after: SymbolicState
    side_conditions: tuple[tuple[str, Term], ...] = ()
    transition: Transition | None = None
    together: SymbolicState | None = None
    composite: bool = False
    cases: tuple[Term, ...] = ()

    @property
    def whole(self) -> SymbolicState:
        """The state after, for claims about steps."""
        return self.after if self.together is None else self.together


class TransitionRelation(CompositeSteps):
    """All steps from a state.

    Args:
        constants: values of the system's constants.
        scope: the faults.

    Raises:
        Unencodable: there are faults, and channels without the numbers that recovery needs.
    """

    def __init__(self, schema: StateSchema, constants: Mapping[str, Any], scope: FaultScope) -> None:
        super().__init__(schema, constants)
        self.scope = scope
        others = [channel.name for channel in self.system.channels.values() if channel.kind != "mailbox"]
        if scope.any and others:
            raise Unencodable(f"faults of actors and the network beside {others[0]}, which is no mailbox")
        begins_one_way = all(map(_begins_one_way, self.system.roles.values()))
        if scope.amnesia and not (self.system.initially is None and begins_one_way):
            raise Unencodable("amnesia where machines have several first states")

    def why_no_proof(self) -> str:
        """Returns why no claim has a proof; empty where they have."""
        return self.why_no_recovery([role for role in self.system.roles.values() if self.at_once(role)])

    def steps(self, s: SymbolicState) -> Iterator[SymbolicStep]:
        """Every step from a state."""
        for (role, state, event), choices in self.lowered.moves.items():
            message = self.system.messages.get(event)
            for choice in choices:
                if message is not None and message.receiver == role:
                    yield from self._received(s, choice, message)
                else:
                    offers = [o for o in self.lowered.offers[role, state] if o.event == event]
                    yield from self._offered(s, choice, offers)
        for message in self.system.messages.values():
            yield from self._passed_over(s, message)
            yield from self._duplicates(s, message)
        for (role, state), work in self.lowered.work.items():
            yield from self._again(s, self.system.roles[role], state, work)
        yield from self._faults(s)
        if self.lowered.passage is not None:
            yield self._time(s, self.lowered.passage)

    # Machines

    def machine(self, role: Role, name: str) -> tuple[Term, list[Term]]:
        """Any machine of a role."""
        if not role.indexed:
            return z3.IntVal(0), []
        me = self.sorts.constant(name, role.instance)
        return me, [self.sorts.within(role.instance, me)]

    def fields(self, fields: Sequence[Datum]) -> tuple[dict[str, Any], list[Term]]:
        """Any values of an event's fields."""
        values, given = {}, []
        for datum in fields:
            values[datum.name], valid = self.sorts.fresh(datum.name, datum.type)
            given.append(valid)
        return values, given

    def _offered(self, s: SymbolicState, choice: Choice, offers: Sequence[Offer]) -> Iterator[SymbolicStep]:
        """A local event comes, with any fields; never one that only a parent drives."""
        if not offers:
            return
        role, event = offers[0].role, choice.transition.event
        me, given = self.machine(role, role.name)
        arguments, valid = self.fields(offers[0].fields)
        given += [s.running(role.name, me), s.is_in(role.name, me, choice.transition.source), *valid]
        own, outside = self.frame(s, me, arguments), self.frame(s, None, arguments, it=me)
        ways = []
        for offer in offers:
            conditions = [term(e, own) for e in offer.conditions]
            # A condition without an encoding allows the event at any time, which adds steps only.
            with suppress(Unencodable):
                conditions += [disjunction(*(term(e, outside) for e in offer.outside))] if offer.outside else []
            ways.append(conjunction(*conditions))
        took = StepLabel(role.name, me, event)
        yield from self._step(s, role, choice, me, arguments, None, took, [*given, disjunction(*ways)])

    def _received(self, s: SymbolicState, choice: Choice, message: Message) -> Iterator[SymbolicStep]:
        me, sender, arguments, given, after = self._delivery(s, message)
        role = self.system.roles[message.receiver]
        given += [s.is_in(role.name, me, choice.transition.source)]
        took = StepLabel(role.name, me, message.name)
        yield from self._step(s, role, choice, me, arguments, sender, took, given, after)

    def _delivery(
        self, s: SymbolicState, message: Message
    ) -> tuple[Term, Term, Mapping[str, Any], list[Term], SymbolicState]:
        """Any message of a kind that may be received: its ends, its fields, what is given, and the state without it."""
        system = self.system
        channel = system.channel_of(message.name)
        me, given = self.machine(system.roles[message.receiver], message.receiver)
        sender, valid = self.machine(system.roles[message.sender], message.sender)
        given += [*valid, s.running(message.receiver, me)]
        if channel.same_index:
            given.append(me == sender)
        ends = self.schema.between(channel, sender, me)
        if channel.kind == "set":
            values, _ = self.fields(message.fields)
            # A set holds what was sent, and nothing says that it was within the ranges of numbers.
            valid = [
                self.sorts.within(f.type, values[f.name]) for f in message.fields if isinstance(f.type, t.Instance)
            ]
            inside = s.functions["in", channel.name, message.name](*ends, *values.values())
            return me, sender, values, [*given, *valid, inside], s
        arguments, valid, after = self._taken_out(s, channel, message, ends)
        return me, sender, arguments, [*given, *valid], after

    def _taken_out(
        self, s: SymbolicState, channel: Channel, message: Message, ends: tuple[Term, ...]
    ) -> tuple[Mapping[str, Any], list[Term], SymbolicState]:
        """Any message of a kind on its way between two machines: its fields, what is given, the state without it."""
        number = self.sorts.constant("number", NUMBER)
        content, received = s.message(channel, ends, number), s.received(channel, ends)
        given = [s.pending(channel, ends, number), content.is_kind(message.name)]
        in_turn = channel.durable and channel.reorder == 0
        if channel.kind == "mailbox" or in_turn:
            given.append(self._is_new(channel, number, received))
        if in_turn:  # a mailbox forgets older messages of a kind, and so passes them over
            senders, lane_of = self.schema.beside(channel, ends)

            def waits_not(*at: Term) -> Term:
                *sender, other = at
                there = s.read(("present", channel.name), *lane_of(*sender), other)
                return z3.Not(conjunction(received < other, other < number, there))

            given.append(self.sorts.for_all((*senders, NUMBER), waits_not))
        copy = self._copy(channel)
        after = s.put(("present", channel.name), (*ends, number), copy)
        if channel.kind == "mailbox" or in_turn:
            moved = number if channel.kind == "mailbox" else z3.If(copy, received, number)
            after = after.put(("received", channel.name), self.schema.line(channel, ends), moved)
        return {f.name: content.field(message.name, f.name) for f in message.fields}, given, after

    def _is_new(self, channel: Channel, number: Term, received: Term) -> Term:
        """Returns whether a receiver takes the message of a number for one that it has not received yet."""
        return number > received

    def _copy(self, channel: Channel) -> Term:
        """Returns whether a copy stays: the message was doubled, or its receiver crashes before it acknowledges it."""
        stays = channel.duplicate != 0 or (channel.kind == "mailbox" and self.scope.any)
        return self.sorts.constant("copy", t.BOOL) if stays else z3.BoolVal(False)

    def _step(
        self,
        s: SymbolicState,
        role: Role,
        choice: Choice,
        me: Term,
        arguments: Mapping[str, Any],
        sender: Term,
        took: StepLabel,
        given: list[Term],
        base: SymbolicState | None = None,
    ) -> Iterator[SymbolicStep]:
        """Takes a transition: commits the record, then does the work, or part of it."""
        frame = self.frame(s, me, arguments, sender)
        if choice.guard is not None:
            given = [*given, term(choice.guard, frame)]
        # The guard is of the state before, updates are of the one without the message.
        taking = self.frame(base or s, me, arguments, sender)
        committed = self._committed(base or s, role, choice, me, taking)
        passed = {u.name: term(u.value, taking) for u in choice.passes}
        work = PartialStep(committed)
        died = self.sorts.constant("dies", t.BOOL) if self.scope.crash else None
        # An actor that dies may have done any part of the work that the commit calls for.
        tested = None if died is None else (committed, died)
        for piece in choice.work:
            self._do(work, role, piece, me, died, again=False, tested=tested, passed=passed)
        state = work.state if died is None else self._down(work.state, role, me, died)
        sent_through = {piece.channel.name: piece.channel for piece in choice.work if piece.channel is not None}
        together = state
        for channel in sent_through.values():
            if channel.kind == "mailbox" and not self._loses(channel):
                state = together = self._forgotten(s, together, channel)
            elif channel.kind == "mailbox" and self.reads.messages:  # else it is the loss of messages, as other steps
                together = self._forgotten(s, together, channel)
        if died is not None:
            together = self._stopped(together, role, me, died)
        name, conditions = choice.transition.name, tuple(work.side_conditions)
        yield SymbolicStep(name, took, tuple(given), state, conditions, choice.transition, together)

    def _stopped(self, s: SymbolicState, role: Role, me: Term, died: Term) -> SymbolicState:
        """The state in which others have stopped with an actor, and messages are lost with them.

        That is so where a claim about steps looks at who runs, or at messages.
        """
        s = self._others_down(s, role, me, died) if self.reads.running else s
        return self._emptied(s, died) if self.reads.messages else s

    def _loses(self, channel: Channel) -> bool:
        """Returns whether any message of a channel may be lost, in a step of its own."""
        return channel.lose != 0 or (channel.kind == "mailbox" and self.scope.any)

    def _down(self, s: SymbolicState, role: Role, me: Term, died: Term) -> SymbolicState:
        """The state in which the actor of a machine has stopped, where it died, and goes on where it did not."""
        key, at = self.schema.up(role, me)
        return s.put(key, at, z3.BoolVal(False) if z3.is_true(died) else z3.Not(died))

    def _committed(self, s: SymbolicState, role: Role, choice: Choice, me: Term, frame: Bindings) -> SymbolicState:
        transition = choice.transition
        own = self.schema.at(role, me)
        after = s
        for update in choice.updates:
            value = term(update.value, frame)
            key, at = ("data", update.holder(role.name), update.name), () if update.shared else own
            if update.key is not None:
                member = term(update.key, frame)
                old = after.read(key, *at)  # another update may have changed another cell
                value = _with_cell(self.sorts, old, member, value)
            after = after.put(key, at, value)
        if transition.target != transition.source:
            target = self.sorts.member(role.control, transition.target)
            after = after.put(("state", role.name), own, target)
        return after

    # What is not a transition

    def _passed_over(self, s: SymbolicState, message: Message) -> Iterator[SymbolicStep]:
        """A message that is ignored or refused is consumed, and nothing else happens."""
        if self.system.channel_of(message.name).waits:
            return
        role = self.system.roles[message.receiver]
        me, sender, arguments, given, after = self._delivery(s, message)
        frame = self.frame(s, me, arguments, sender)
        moves = [
            self._moves(s, role, c, frame)
            for (name, state, event), choices in self.lowered.moves.items()
            if (name, event) == (role.name, message.name) and not self._is_deaf(role, state)
            for c in choices
        ]
        given = [*given, z3.Not(disjunction(*moves))] if moves else given
        together = after
        if self.scope.crash:
            died = self.sorts.constant("dies", t.BOOL)
            after = self._down(after, role, me, died)
            together = self._stopped(after, role, me, died)
        took = StepLabel(role.name, me, message.name, ignored=True)
        yield SymbolicStep(f"{role.name} ignores {message.name}", took, tuple(given), after, together=together)

    def _duplicates(self, s: SymbolicState, message: Message) -> Iterator[SymbolicStep]:
        """A message that was received already is consumed, and its sender is sent the state's messages again."""
        mailboxes = [channel for channel in self.system.channels.values() if channel.kind == "mailbox"]
        channel = self.system.channel_of(message.name)
        if channel.kind != "mailbox" or not (self.scope.any or any(other.duplicate for other in mailboxes)):
            return
        if self.scope.any and not self.reads.messages:
            return  # it is lost, and each message is sent again: steps of their own
        role = self.system.roles[message.receiver]
        me, given = self.machine(role, role.name)
        sender, valid = self.machine(self.system.roles[message.sender], message.sender)
        same = [me == sender] if channel.same_index else []
        ends = self.schema.between(channel, sender, me)
        number = s.received(channel, ends)
        pending = s.pending_kind(channel, (*ends, number), message.name)
        given += [*valid, *same, s.running(role.name, me), *pending]
        work = PartialStep(s.put(("present", channel.name), (*ends, number), z3.BoolVal(False)))
        for piece, states in self.work_by_task(role, list(role.states)) if not message.answer else ():
            if piece.channel is not None and piece.target.name == message.sender:
                self._do_inside(work, s, role, piece, me, states, to=sender)
        name, conditions = f"{role.name} has {message.name} again", tuple(work.side_conditions)
        yield SymbolicStep(name, StepLabel(), tuple(given), work.state, conditions, composite=self.scope.any)

    def _do_inside(
        self,
        work: PartialStep,
        s: SymbolicState,
        role: Role,
        piece: Piece,
        me: Term,
        states: Sequence[str],
        to: Term,
    ) -> None:
        """Does a piece of work again, for one receiver, if the machine is in one of some states."""
        inside = disjunction(*(s.is_in(role.name, me, state) for state in states))
        guarded = PartialStep(work.state, [])
        self._do(guarded, role, piece, me, None, again=True, to=to)
        work.side_conditions += [(text, z3.Implies(inside, claim)) for text, claim in guarded.side_conditions]
        work.state = _either(inside, guarded.state, work.state)

    def _moves(self, s: SymbolicState, role: Role, choice: Choice, frame: Bindings) -> Term:
        """Returns whether a machine may take a transition."""
        guard = True if choice.guard is None else term(choice.guard, frame)
        return conjunction(s.is_in(role.name, frame.me, choice.transition.source), guard)

    def _is_deaf(self, role: Role, state: str) -> bool:
        """Returns whether a machine passes over messages in a state that it should act on."""
        return False

    def _again(self, s: SymbolicState, role: Role, state: str, work: Sequence[Piece]) -> Iterator[SymbolicStep]:
        """A machine sends its state's messages again: for a duplicate, or as what it sent, or the answer, was lost."""
        for piece in work if self.scope.any else ():
            if piece.channel is None:
                continue
            me, given = self.machine(role, role.name)
            done = PartialStep(s)
            # To one of its receivers, to others in other steps.
            to, valid = self.machine(piece.target, piece.target.name) if piece.target.indexed else (None, [])
            self._do(done, role, piece, me, None, again=True, to=to)
            given += valid
            given += [s.running(role.name, me), s.is_in(role.name, me, state)]
            name, conditions = f"{role.name}/{state}: {piece.task.name} again", tuple(done.side_conditions)
            yield SymbolicStep(name, StepLabel(), tuple(given), done.state, conditions)

    def at_once(self, role: Role) -> bool:
        """Returns whether all machines of a role are one actor's, which recovers them in one step."""
        return role.indexed and role.name in self.schema.actor_of and self.scope.crash

    def _faults(self, s: SymbolicState) -> Iterator[SymbolicStep]:
        for channel in self.system.channels.values():
            if self._loses(channel) and channel.kind != "set":
                yield from self._losses(s, channel)
        if self.scope.any and self.reads.any and not self.system.channels:  # else a message that is not there is lost
            yield SymbolicStep("the network is parted", StepLabel(), (), s, composite=True)
        if not self.scope.crash:
            return
        for name, roles in self._actors():
            yield from self._crash(s, name, roles)
            if self.scope.amnesia:
                yield self._forgets(s, name, roles)

    def _actors(self) -> Iterator[tuple[str, list[Role]]]:
        """The actors, each with its roles: those that are declared, and one for each machine of another role."""
        roles = self.system.roles
        for name, names in self.system.actors.items():
            yield name, [role for role in roles.values() if role.name in names]
        for role in roles.values():
            if role.name not in self.schema.actor_of:
                yield role.name, [role]

    def _losses(self, s: SymbolicState, channel: Channel) -> Iterator[SymbolicStep]:
        """Any message of a channel is lost."""
        where = tuple(self.sorts.constant("end", e) for e in (*self.schema.ends(channel), NUMBER))
        given = [*map(self.sorts.within, self.schema.ends(channel), where[:-1])]
        after = s.put(("present", channel.name), where, z3.BoolVal(False))
        yield SymbolicStep(f"{channel.name} loses a message", StepLabel(), tuple(given), after)

    def _crash(self, s: SymbolicState, actor: str, roles: list[Role]) -> Iterator[SymbolicStep]:
        """An actor stops between two steps, or recovers."""
        me, given = self.machine(roles[0], roles[0].name)
        key, at = self.schema.up(roles[0], me)
        down = self._down(s, roles[0], me, z3.BoolVal(True))
        stopped = self._stopped(down, roles[0], me, z3.BoolVal(True))
        runs = s.read(key, *at)
        yield SymbolicStep(f"{actor} crashes", StepLabel(), (*given, runs), down, together=stopped)
        again = self.sorts.constant("again", t.BOOL)
        read = self._read(s, roles, me)
        work, cases = PartialStep(read), list[Term]()
        for role in roles:
            if self.at_once(role):
                self._all_again(work, read, role, self._recovered(role), again)
            else:
                mine = me if role is roles[0] and not self._shared(roles) else z3.IntVal(0)
                inside = self._recover(work, read, role, mine, again)
                cases = cases or inside
        back = work.state.put(key, at, z3.Not(again))
        given, conditions = [*given, z3.Not(s.read(key, *at)), *work.given], tuple(work.side_conditions)
        name, once = f"{actor} recovers", z3.Not(again)
        yield SymbolicStep(name, StepLabel(), (*given, once), back, conditions, cases=tuple(cases))
        name, whole = f"{actor} crashes again", self._stopped(back, roles[0], me, again)
        yield SymbolicStep(name, StepLabel(), (*given, again), back, conditions, together=whole, cases=tuple(cases))

    def _forgets(self, s: SymbolicState, actor: str, roles: list[Role]) -> SymbolicStep:
        """An actor, up or down, loses its store: its machines are as at first, and it is down.

        Nothing is on its way from or to it. It numbers its messages anew, and what was sent to it last counts as not
        received, so it is sent again; a lane through which nothing was sent yet has a first number that is.
        """
        me, given = self.machine(roles[0], roles[0].name)
        whole = self._shared(roles)

        def is_own(role: str, instance: Term) -> Term:
            if all(role != own.name for own in roles):
                return z3.BoolVal(False)
            return z3.BoolVal(True) if whole or not self.system.roles[role].indexed else instance == me

        after = s
        for role in roles:
            own = partial(_at_instance, partial(is_own, role.name))
            (state,) = role.initial
            first = self.sorts.member(role.control, state.name)
            after = after.write(("state", role.name), own, lambda *at, first=first: first)
            for datum in role.data.values():

                def value(*at: Term, datum: Datum = datum) -> Any:
                    return first_value(datum, self.frame(s, at[0] if at else z3.IntVal(0)))

                after = after.write(("data", role.name, datum.name), own, value)
        for channel in self.system.channels.values():
            after = self._without_store(after, channel, is_own)
        key, at = self.schema.up(roles[0], me)
        after = after.put(key, at, z3.BoolVal(False))
        return SymbolicStep(f"{actor} loses its store", StepLabel(), tuple(given), after)

    def _without_store(self, s: SymbolicState, channel: Channel, is_own: Callable[[str, Term], Term]) -> SymbolicState:
        """The state in which a mailbox is as an actor without its store finds it."""

        def sends(*ends: Term) -> Term:
            return is_own(channel.sender, self.schema.sender(channel, ends))

        def takes_part(*ends: Term) -> Term:
            return disjunction(sends(*ends), is_own(channel.receiver, self.schema.receiver(channel, ends)))

        def last(*ends: Term) -> Term:
            given = s.sent(channel, ends)
            return z3.If(sends(*ends), 0, z3.If(given > 0, given, 1))

        width = len(self.schema.ends(channel))
        after = s.write(("present", channel.name), lambda *at: takes_part(*at[:width]), lambda *at: z3.BoolVal(False))
        after = after.write(("sent", channel.name), takes_part, last)
        return after.write(
            ("received", channel.name), takes_part, lambda *ends: z3.If(sends(*ends), 0, last(*ends) - 1)
        )

    def _read(self, s: SymbolicState, roles: list[Role], me: Term) -> SymbolicState:
        """The state once an actor has read its records again."""
        return s

    def _shared(self, roles: list[Role]) -> bool:
        return roles[0].name in self.schema.actor_of

    def _recover(self, work: PartialStep, s: SymbolicState, role: Role, me: Term, died: Term) -> list[Term]:
        """Does the work of a machine's state again, for any state, and says by which states there is some."""
        base, cases = work.state, []
        for state in self._recovered(role):
            done = PartialStep(base)
            for piece, states in self.work_by_task(role, [state]):
                if states:  # recovery knows what is to do before it does any of it
                    self._do(done, role, piece, me, died, again=True, tested=(s, z3.BoolVal(True)))
            if done.state is base:
                continue
            inside = s.is_in(role.name, me, state)
            work.side_conditions += [(text, z3.Implies(inside, claim)) for text, claim in done.side_conditions]
            work.state = _either(inside, done.state, work.state)  # a machine is in one state alone
            cases.append(inside)
        return cases

    def _recovered(self, role: Role) -> list[str]:
        """The states whose work recovery does again."""
        return list(role.states)

    def _time(self, s: SymbolicState, passage: Passage) -> SymbolicStep:
        """Time passes, unless it has to wait for a timer."""
        given = []
        for role in {offer.role.name: offer.role for offer in passage.unless}.values():
            timers = [c for offer in passage.unless if offer.role is role for c in offer.choices]

            def rests(me: Term, role: Role = role, timers: list[Choice] = timers) -> Term:
                frame = self.frame(s, me)
                due = [self._moves(s, role, c, frame) for c in timers]
                return z3.Not(conjunction(s.running(role.name, me), disjunction(*due)))

            given.append(self.sorts.every(role.instance, rests) if role.indexed else rests(z3.IntVal(0)))
        after = s.put(("now",), (), s.now + 1)
        return SymbolicStep("time passes", StepLabel(), tuple(given), after)


def _with_cell(sorts: Sorts, cells: Any, member: Term, value: Any) -> Any:
    return MapValue(cells.key, lambda k: sorts.choice(k == member, value, cells.at(k)))


def _begins_one_way(role: Role) -> bool:
    """Returns whether a machine has one first state, which is the one that it has after amnesia."""
    return len(role.initial) == 1 and not any(datum.any_initial for datum in role.data.values())


def _at_instance(holds: Callable[[Term], Term], *at: Term) -> Term:
    return holds(at[0] if at else z3.IntVal(0))


def _either(test: Term, then: SymbolicState, otherwise: SymbolicState) -> SymbolicState:
    """One of two states."""
    if then is otherwise:
        return then

    def one(f: Function, g: Function) -> Function:
        return f if f is g else then.schema.sorts.remembered(lambda *at: z3.If(test, f(*at), g(*at)))

    return then.with_functions({key: one(f, otherwise.functions[key]) for key, f in then.functions.items()})
