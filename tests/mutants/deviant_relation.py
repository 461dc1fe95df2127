"""Relations for machines that make a mistake in what every machine does: a seeded mistake's proof has to fail.

Theory of operation. deviations.py lists the mistakes; here the same machines are relations, which allow
every step of the explorer, and sometimes more. So a property that is proved for them holds in spite of the mistake, and
one that the mistake violates is not proved.

A mistake changes one of a few things: which message counts as new, the record that a crash leaves, what recovery reads
and does, or (tasks before the commit) it adds a way to stop. Mistakes that only remove steps concern liveness and need
no relation: a duplicate that is dropped is one that is lost, and an actor that cannot recover stays down, as any actor
may.

These machines do not always count a number that they have used, and then use it again. The relations have one message
for each number, so it is a side condition of a step that its number is free, or has the same message (paper, section
4.2: a number is never used for two messages). Where a side condition does not hold, nothing is proved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import z3

from leasehold.checker.prove.encode.effects import Content, Done, Lane, PartialStep
from leasehold.checker.prove.encode.encoding import MakesRelation
from leasehold.checker.prove.encode.fault_scope import FaultScope
from leasehold.checker.prove.encode.formulas import Term, Unencodable, conjunction
from leasehold.checker.prove.encode.state import NUMBER, Key, StateSchema, SymbolicState
from leasehold.checker.prove.encode.terms import StepLabel, term
from leasehold.checker.prove.encode.transitions import SymbolicStep, TransitionRelation
from leasehold.faults.model import Budget
from leasehold.spec.language.lower import Choice
from leasehold.spec.language.model import Channel, Message, Role
from tests.mutants import deviant_messages as messages
from tests.mutants import deviant_recovery as recovery
from tests.mutants.deviation import Deviation
from tests.mutants.deviations import deviant


class DeviantRelation(TransitionRelation):
    """All steps from a state, of machines that make mistakes.

    Args:
        deviations: the mistakes; their arguments are read by the explorer.

    Raises:
        DeviationError: there is no such deviation, or the system has not what its arguments name.
        Unencodable: a deviation has no encoding.
    """

    def __init__(
        self, schema: StateSchema, constants: Mapping[str, Any], scope: FaultScope, deviations: Sequence[Deviation]
    ) -> None:
        super().__init__(schema, constants, scope)
        # Roles, by what they do wrong.
        self.work_first: set[str] = set()
        self.sent_unsaved: set[str] = set()
        self.sent_as_received: set[str] = set()
        self.received_unsaved: set[str] = set()
        self.executing_again: set[str] = set()
        # Their states.
        self.deaf: set[tuple[str, str]] = set()
        self.forgotten: set[tuple[str, str]] = set()
        self.moved: dict[tuple[str, str], str] = {}
        # Their fields.
        self.unsaved: set[tuple[str, str]] = set()
        for deviation in deviations:
            self._add(deviation)

    def _add(self, deviation: Deviation) -> None:
        match deviant(self.system, Budget(), deviation):
            case messages.TasksBeforeCommit(roles=roles):
                self.work_first |= roles
            case messages.SentNumberNotSaved(roles=roles):
                self.sent_unsaved |= roles
            case messages.SendNumbersFromReceived(roles=roles):
                self.sent_as_received |= roles
            case messages.ReceivedNumberNotSaved(roles=roles):
                self.received_unsaved |= roles
            case messages.DuplicateExecuted(roles=roles):
                self.executing_again |= roles
            case messages.NewerTakenForDuplicate(waiting=waiting):
                self.deaf |= waiting
            case recovery.NoRecovery(forgotten=forgotten):
                self.forgotten |= forgotten  # that no answer comes then takes steps away
            case recovery.RecoverTo(to=to):
                self.moved |= to
            case recovery.FieldNotSaved(lost=lost):
                self.unsaved |= {(role, name) for role, name in lost}
            case messages.DuplicateDropped() | recovery.Unrecoverable():
                pass  # they do less
            case _:
                raise Unencodable(f"machines that deviate ({deviation})")

    # Messages

    def _is_new(self, channel: Channel, number: Term, received: Term) -> Term:
        """A message that comes again is taken again; an older one is still stale, as it is for the explorer."""
        if channel.kind == "mailbox" and channel.receiver in self.executing_again:
            return number >= received
        return super()._is_new(channel, number, received)

    def _is_deaf(self, role: Role, state: str) -> bool:
        return (role.name, state) in self.deaf

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
        if not again and channel.kind == "mailbox" and channel.sender in self._losing_count:
            self._require_free_number(work, channel, message, lane, content, done)
        super()._put_in(work, channel, message, lane, content, done, again, me)

    @property
    def _losing_count(self) -> set[str]:
        """Roles that may give a number again."""
        return self.work_first | self.sent_unsaved | self.sent_as_received

    def _require_free_number(
        self, work: PartialStep, channel: Channel, message: Message, lane: Lane, content: Content, done: Done
    ) -> None:
        """The next number is free, or is on its way with the same message."""
        s = work.state

        def free(*ends: Term) -> Term:
            held, other = lane(*ends)
            number = s.sent(channel, ends) + 1
            same = s.message(channel, ends, number).equals(message, lambda name: content(name, *ends), self.sorts)
            return z3.Implies(conjunction(held, done(other), s.pending(channel, ends, number)), same)

        claim = self.sorts.for_all(self.schema.ends(channel), free)
        work.side_conditions.append((f"{message.name} has a number of its own", claim))

    # Work before the commit

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
        yield from super()._step(s, role, choice, me, arguments, sender, took, given, base)
        if not choice.work or role.name not in self.work_first or not self.scope.crash:
            return
        # The actor stops before its commit: what it was to consume is as it was, and so is its record.
        frame = self.frame(s, me, arguments, sender)
        guard = [] if choice.guard is None else [term(choice.guard, frame)]
        died = z3.BoolVal(True)
        work = PartialStep(self._committed(s, role, choice, me, frame))
        for piece in choice.work:
            self._do(work, role, piece, me, died, again=False)
            # Numbers are counted by the commit.
            counted = {key: f for key, f in s.functions.items() if key[0] == "sent"}
            work.state = work.state.with_functions({**work.state.functions, **counted})
        state = work.state
        own = self.schema.at(role, me)
        for key in (("state", role.name), *(("data", role.name, datum) for datum in role.data)):
            state = state.put(key, own, s.read(key, *own))
        after = self._down(state, role, me, died)
        name = f"{choice.transition.name}, before its commit"
        yield SymbolicStep(name, StepLabel(), (*given, *guard), after, tuple(work.side_conditions))

    # Crashes and recovery

    def _down(self, s: SymbolicState, role: Role, me: Term, died: Term) -> SymbolicState:
        """Returns who stops loses what it has not saved; all machines of an actor stop together."""
        down = super()._down(s, role, me, died)
        actor = self.schema.actor_of.get(role.name)
        stopping = [role] if actor is None else [self.system.roles[name] for name in self.system.actors[actor]]
        own = me if actor is None else None
        for other in stopping:
            for name in (name for owner, name in self.unsaved if owner == other.name):
                down = self._first_again(down, other, name, own, died)
        names = {other.name for other in stopping}
        for channel in self._mailboxes():
            if channel.sender in names & self.sent_unsaved:
                down = self._lower(down, ("sent", channel.name), channel, channel.sender, own, died)
            if channel.receiver in names & self.received_unsaved:
                down = self._lower(down, ("received", channel.name), channel, channel.receiver, own, died)
        return down

    def _mailboxes(self) -> list[Channel]:
        return [channel for channel in self.system.channels.values() if channel.kind == "mailbox"]

    def _first_again(self, s: SymbolicState, role: Role, name: str, own: Term | None, died: Term) -> SymbolicState:
        """A field has its first value again: of one machine, or of all."""
        datum = role.data[name]
        if datum.any_initial:
            value, _ = self.sorts.fresh(name, datum.type)
        else:
            value = self.sorts.literal(datum.type, datum.initial)
        return s.write(("data", role.name, name), lambda *at: conjunction(died, _is(at, own)), lambda *at: value)

    def _lower(
        self, s: SymbolicState, key: Key, channel: Channel, end: str, own: Term | None, died: Term
    ) -> SymbolicState:
        """Numbers of a role's channel are any from 0 up to what they were.

        The explorer's are lower by those of the last step alone.
        """
        some = self._some_number(channel)

        def value(*ends: Term) -> Term:
            was = s.read(key, *ends)
            return z3.If(conjunction(some(*ends) >= 0, some(*ends) <= was), some(*ends), was)

        return s.write(key, lambda *ends: conjunction(died, _is(self._end(channel, end, ends), own)), value)

    def _some_number(self, channel: Channel) -> Callable[..., Term]:
        """Any number for each pair of ends."""
        ends = self.schema.ends(channel)
        if ends:
            made: Callable[..., Term] = z3.FreshFunction(*map(self.sorts.sort, ends), self.sorts.sort(NUMBER))
            return made
        number = self.sorts.constant("number", NUMBER)
        return lambda: number

    def _end(self, channel: Channel, role: str, ends: tuple[Term, ...]) -> tuple[Term, ...]:
        """The machine of a role at its end of a channel."""
        if not self.system.roles[role].indexed:
            return ()
        return ends[:1] if role == channel.sender else ends[-1:]

    def _recovered(self, role: Role) -> list[str]:
        return [state for state in super()._recovered(role) if (role.name, state) not in self.forgotten]

    def _read(self, s: SymbolicState, roles: list[Role], me: Term) -> SymbolicState:
        """Recovery puts machines into other states, and takes what it has received for what it has sent."""
        own = None if self._shared(roles) else me
        read = s
        for (name, source), target in self.moved.items():
            role = self.system.roles[name]
            if role in roles:
                member = self.sorts.member(role.control, target)

                def there(*at: Term, role: Role = role, source: str = source) -> Term:
                    return conjunction(_is(at, own), s.is_in(role.name, at[0] if at else z3.IntVal(0), source))

                read = read.write(("state", name), there, lambda *at, member=member: member)
        for channel in self._mailboxes():
            role = self.system.roles[channel.sender]
            back = self._back(channel)
            if role in roles and role.name in self.sent_as_received and back is not None:
                read = self._as_received(read, channel, back, own)
        return read

    def _back(self, channel: Channel) -> Channel | None:
        """The mailbox in the other direction."""
        every = self._mailboxes()
        return next((c for c in every if (c.sender, c.receiver) == (channel.receiver, channel.sender)), None)

    def _as_received(self, s: SymbolicState, channel: Channel, back: Channel, own: Term | None) -> SymbolicState:
        """Returns what was sent last has at most the number of what was received last.

        It would have that number; the explorer closes the gaps that skipped numbers leave, and may have a lower one.
        """
        some = self._some_number(channel)

        def value(*ends: Term) -> Term:
            number = s.read(("received", back.name), *reversed(ends))
            return z3.If(some(*ends) <= number, some(*ends), number)

        return s.write(("sent", channel.name), lambda *ends: _is(self._end(channel, channel.sender, ends), own), value)


def _is(at: Sequence[Term], own: Term | None) -> Term:
    """Returns whether a machine is this one; any is where none is named."""
    return z3.BoolVal(True) if own is None or not at else at[0] == own


def relation_of(deviations: Sequence[Deviation]) -> MakesRelation:
    """Returns what makes the relations of machines that make these mistakes."""
    return partial(DeviantRelation, deviations=deviations) if deviations else TransitionRelation
