"""Every step that a system may take, as relations between a state and the next one, both made of terms.

Theory of operation. There is one relation for each transition (and for what a machine does with a message that it
ignores), over an arbitrary machine, any fields and any message; not one for each value. A relation allows everything
that the explorer's steps do (transition_system.py, faulty.py), and sometimes more, never less:

- the actor may crash in the step: of the work that follows the commit any part is done, and the actor is down;
- whatever is on its way may be lost, be overtaken, or come again; who is in a state that sends may send again;
- an actor that is down recovers at any time, does its work again, and may crash again while it does;
- time passes without end, but waits for timers that are due.

How often faults come has no limit, so what is proved of these relations holds for any number of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import z3

from leasehold.checker.prove.terms import Frame, Took, term
from leasehold.checker.prove.values import MapValue, Sorts, Term, Unsupported, conjunction, disjunction
from leasehold.checker.prove.world import NUMBER, State, World
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.model import Call, Channel, Datum, Drive, Message, Role, Send, System, Task, Transition


@dataclass(frozen=True)
class Scope:
    """Which faults steps may have in them; each without a limit.

    Attributes:
        crash: actors stop at any point, and recover.
        network: messages of mailboxes are lost, come again, and overtake each other.
    """

    crash: bool = True
    network: bool = True

    @property
    def words(self) -> str:
        some = [*(["crashes"] if self.crash else []), *(["losses, duplicates and overtaking"] if self.network else [])]
        return f"any number of {' and '.join(some)}" if some else "no faults but those that channels declare"


@dataclass(frozen=True)
class Step:
    """A relation between states.

    Attributes:
        name: as a path shows it.
        took: what it is, for `took(...)`.
        given: what has to hold, of the state before and of what is chosen.
        after: the state after.
        owed: what has to hold for the relation to be whole; else nothing is proved.
        transition: the one that is taken, if one is.
    """

    name: str
    took: Took
    given: tuple[Term, ...]
    after: State
    owed: tuple[tuple[str, Term], ...] = ()
    transition: Transition | None = None


@dataclass
class Work:
    """A step while its work is done: the state so far, and what is owed."""

    state: State
    owed: list[tuple[str, Term]] = field(default_factory=list)


class Steps:
    """All steps from a state.

    Args:
        constants: values of the system's constants.
        scope: the faults.
    """

    def __init__(self, world: World, constants: Mapping[str, Any], scope: Scope) -> None:
        self.world, self.constants, self.scope = world, constants, scope
        self.system: System = world.system
        self.sorts: Sorts = world.sorts
        self._answers = {
            role.name: {a for task in role.tasks.values() if not isinstance(task, Send) for a in task.answers}
            for role in self.system.roles.values()
        }

    def every(self, s: State) -> Iterator[Step]:
        """Every step from a state."""
        for role in self.system.roles.values():
            for transition in role.transitions():
                yield from self._taken(s, role, transition)
        for message in self.system.messages.values():
            yield from self._passed_over(s, message)
        for role in self.system.roles.values():
            yield from self._again(s, role)
        yield from self._faults(s)
        if self.system.clock is not None:
            yield self._time(s)

    # Machines

    def frame(
        self, s: State, me: Term, arguments: Mapping[str, Any] | None = None, sender: Term = None, **variables: Any
    ) -> Frame:  # fmt: skip
        return Frame(self.sorts, s, self.constants, me, arguments or {}, sender, variables)

    def machine(self, role: Role, name: str) -> tuple[Term, list[Term]]:
        """Any machine of a role."""
        if not role.indexed:
            return z3.IntVal(0), []
        me = self.sorts.constant(name, role.instance)
        return me, [self.sorts.within(role.instance, me)]

    def fields(self, fields: Sequence[Datum]) -> tuple[dict[str, Any], list[Term]]:
        """Any values of an event's fields."""
        found, given = {}, []
        for datum in fields:
            found[datum.name], valid = self.sorts.fresh(datum.name, datum.type)
            given.append(valid)
        return found, given

    def _taken(self, s: State, role: Role, transition: Transition) -> Iterator[Step]:
        message = self.system.messages.get(transition.event)
        if message is not None and message.receiver == role.name:
            yield from self._received(s, role, transition, message)
            return
        me, given = self.machine(role, role.name)
        arguments: dict[str, Any] = {}
        given += [s.running(role.name, me), s.is_in(role.name, me, transition.source)]
        if transition.event != "tick":
            offered = self._offered(s, role, transition, me)
            if offered is None:
                return
            arguments, valid, condition = offered
            given += [*valid, condition]
        took = Took(role.name, me, transition.event, consumed=True)
        yield from self._step(s, transition.name, role, transition, me, arguments, None, took, given)

    def _offered(
        self, s: State, role: Role, transition: Transition, me: Term
    ) -> tuple[dict[str, Any], list[Term], Term] | None:
        """Any fields of a local event, and when it may come; None where it never does (a parent drives it)."""
        event = transition.event
        fields = self.system.fields_of(role.name, event)
        arguments, valid = self.fields(fields)
        allowed = [o for o in self.system.environment.values() if (o.role, o.event) == (role.name, event)]
        outside = z3.BoolVal(True)
        if allowed and all(o.when is not None for o in allowed):
            frame = self.frame(s, None, arguments, it=me)
            # What cannot be said allows the event at any time; that is more than the system does.
            with suppress(Unsupported):
                outside = disjunction(*(term(o.when, frame) for o in allowed if o.when is not None))
        if event not in self._answers[role.name]:
            return (arguments, valid, outside) if allowed else None
        conditions = []
        for name in role.states[transition.source].tasks:
            task = role.tasks[name]
            if isinstance(task, Send) or event not in task.answers:
                continue
            parts = [task.when, task.answers[event]] if isinstance(task, Drive) else [task.when]
            own = self.frame(s, me, arguments)
            conditions.append(conjunction(*(term(p, own) for p in parts if p is not None)))
        return (arguments, valid, conjunction(disjunction(*conditions), outside)) if conditions else None

    def _received(self, s: State, role: Role, transition: Transition, message: Message) -> Iterator[Step]:
        channel, me, sender, number, given, after = self._delivery(s, message)
        given += [s.is_in(role.name, me, transition.source)]
        arguments = self._content(s, channel, message, me, sender, number)
        took = Took(role.name, me, message.name, consumed=True)
        yield from self._step(s, transition.name, role, transition, me, arguments, sender, took, given, after)

    def _delivery(self, s: State, message: Message) -> tuple[Channel, Term, Term, Any, list[Term], State]:
        """Any message of a kind that may be received, and the state in which it was."""
        system = self.system
        channel = system.channel_of(message.name)
        me, given = self.machine(system.roles[message.receiver], message.receiver)
        sender, valid = self.machine(system.roles[message.sender], message.sender)
        given += [*valid, s.running(message.receiver, me)]
        if channel.same_index:
            given.append(me == sender)
        ends = self.world.between(channel, sender, me)
        if channel.kind == "set":
            arguments, valid = self.fields(message.fields)
            inside = s.functions["in", channel.name, message.name](*ends, *arguments.values())
            return channel, me, sender, arguments, [*given, *valid, inside], s
        number, valid, after = self._taken_out(s, channel, message, ends)
        return channel, me, sender, number, [*given, *valid], after

    def _taken_out(
        self, s: State, channel: Channel, message: Message, ends: tuple[Term, ...]
    ) -> tuple[Term, list[Term], State]:
        """Any message of a kind on its way between two machines: its number, what is given, the state without it."""
        number = self.sorts.constant("number", NUMBER)
        given = [s.pending(channel, ends, number), s.message(channel, ends, number).is_kind(message.name)]
        received = s.read(("received", channel.name), *ends)
        if channel.kind != "bag":
            given.append(self._is_new(channel, number, received))
        if channel.kind == "fifo":  # a mailbox forgets older messages of a kind, and so passes them over

            def waits_not(other: Term) -> Term:
                there = s.read(("present", channel.name), *ends, other)
                return z3.Not(conjunction(received < other, other < number, there))

            given.append(self.sorts.for_all((NUMBER,), waits_not))
        copy = self._copy(channel)
        after = s.write(
            ("present", channel.name), lambda *at: same_places(at, (*ends, number)), lambda *at: copy,
        )  # fmt: skip
        if channel.kind != "bag":
            moved = number if channel.kind == "mailbox" else z3.If(copy, received, number)
            after = after.write(("received", channel.name), lambda *at: same_places(at, ends), lambda *at: moved)
        return number, given, after

    def _is_new(self, channel: Channel, number: Term, received: Term) -> Term:
        """Whether a receiver takes the message of a number for one that it has not received yet."""
        return number > received

    def _copy(self, channel: Channel) -> Term:
        """Whether a copy stays: the message was doubled, or its receiver crashes before it acknowledges it."""
        stays = channel.duplicate != 0 or (channel.kind == "mailbox" and (self.scope.network or self.scope.crash))
        return self.sorts.constant("copy", t.BOOL) if stays else z3.BoolVal(False)

    def _content(
        self, s: State, channel: Channel, message: Message, me: Term, sender: Term, number: Any
    ) -> dict[str, Any]:
        if channel.kind == "set":
            return dict(number)
        content = s.message(channel, self.world.between(channel, sender, me), number)
        return {f.name: content.field(message.name, f.name) for f in message.fields}

    def _step(
        self, s: State, name: str, role: Role, transition: Transition, me: Term, arguments: Mapping[str, Any],
        sender: Term, took: Took, given: list[Term], base: State | None = None,
    ) -> Iterator[Step]:  # fmt: skip
        """Takes a transition: commits the record, then does the work, or part of it."""
        frame = self.frame(s, me, arguments, sender)
        if transition.guard is not None:
            given = [*given, term(transition.guard, frame)]
        after = self._committed(base or s, role, transition, me, frame)
        work = Work(after)
        died = self.sorts.constant("dies", t.BOOL) if self.scope.crash else None
        for task in self._work_of(role, transition):
            self._do(work, role, task, me, died, again=False)
        state = work.state if died is None else self._down(work.state, role, me, died)
        yield Step(name, took, tuple(given), state, tuple(work.owed), transition)

    def _work_of(self, role: Role, transition: Transition) -> list[Task]:
        """What is done once a transition is committed."""
        at_target = () if transition.internal else role.states[transition.target].tasks
        return [role.tasks[name] for name in (*at_target, *transition.also)]

    def _down(self, s: State, role: Role, me: Term, died: Term) -> State:
        """The state in which the actor of a machine has stopped, where it died, and goes on where it did not."""
        key, at = self.world.up(role, me)
        runs = z3.BoolVal(False) if z3.is_true(died) else z3.Not(died)
        return s.write(key, lambda *a: same_places(a, at), lambda *a: runs)

    def _committed(self, s: State, role: Role, transition: Transition, me: Term, frame: Frame) -> State:
        own = self.world.at(role, me)
        after = s
        for update in transition.updates:
            value = term(update.value, frame)
            key = ("data", role.name, update.name)
            if update.key is not None:
                member = term(update.key, frame)
                old = s.read(key, *own)
                value = _with_cell(self.sorts, old, member, value)
            after = after.write(key, lambda *at: same_places(at, own), lambda *at, value=value: value)
        if transition.target != transition.source:
            target = self.sorts.member(role.control, transition.target)
            after = after.write(("state", role.name), lambda *at: same_places(at, own), lambda *at: target)
        return after

    # Work

    def _do(self, work: Work, role: Role, task: Task, me: Term, died: Term | None, again: bool) -> None:
        """A task of a work list. Where the actor dies, any part of it may not have been done."""
        if isinstance(task, Call):
            return
        target = self.system.roles[task.receiver if isinstance(task, Send) else task.role]
        done = self._done(target, died)
        before = work.state

        def wanted(other: Term) -> Term:
            frame = self.frame(before, me, it=other)
            return conjunction(*(term(e, frame) for e in (task.when, task.only) if e is not None))

        if isinstance(task, Send):
            self._send(work, role, task, me, wanted, done, again)
        else:
            self._drive(work, target, task, me, lambda other: conjunction(wanted(other), done(other)))

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
        self, work: Work, role: Role, task: Send, me: Term, wanted: Callable[[Term], Term],
        done: Callable[[Term], Term], again: bool,
    ) -> None:  # fmt: skip
        s, system = work.state, self.system
        channel = system.channel_between(role.name, task.receiver)
        receiver = system.roles[task.receiver]
        message = system.messages[task.message]

        def lane(*at: Term) -> tuple[Term, Term]:
            """That a channel's ends are of this sender, and the receiver."""
            mine = at[0] == me if role.indexed else z3.BoolVal(True)
            other = at[-1] if receiver.indexed else z3.IntVal(0)
            same = other == me if channel.same_index else z3.BoolVal(True)
            return conjunction(mine, same, wanted(other)), other

        def content(name: str, other: Term) -> Any:
            return term(task.fields[name], self.frame(s, me, it=other))

        width = len(self.world.ends(channel))
        if channel.kind == "set":
            self._announce(work, channel, message, lane, content, done, width)
            return
        self._put_in(work, channel, message, lane, content, done, again)

    def _put_in(
        self, work: Work, channel: Channel, message: Message, lane: Callable[..., tuple[Term, Term]],
        content: Callable[[str, Term], Any], done: Callable[[Term], Term], again: bool,
    ) -> None:  # fmt: skip
        """Puts a message on its way under the next number, or again under the last."""
        s, width = work.state, len(self.world.ends(channel))
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
            self._owe_the_same(work, channel, message, content, sends)
        else:
            work.state = work.state.write(sent, lambda *at: lane(*at)[0], number)
        work.state = work.state.write(("present", channel.name), here, lambda *at: z3.BoolVal(True))
        kind = self.sorts.member(self.world.kinds(channel), message.name)
        work.state = work.state.write(("kind", channel.name), here, lambda *at: kind)
        for datum in message.fields:
            key = ("field", channel.name, message.name, datum.name)
            work.state = work.state.write(
                key,
                here,
                lambda *at, name=datum.name: content(name, at[width - 1] if receiver.indexed else z3.IntVal(0)),
            )

    def _owe_the_same(
        self, work: Work, channel: Channel, message: Message, content: Callable[[str, Term], Any],
        sends: Callable[..., Term],
    ) -> None:  # fmt: skip
        """What is sent again under a number is what was sent under it; so a number has one message."""
        s = work.state
        receiver = self.system.roles[channel.receiver]

        def alike(*ends: Term) -> Term:
            other = ends[-1] if receiver.indexed else z3.IntVal(0)
            last = s.read(("sent", channel.name), *ends)
            was = s.message(channel, ends, last)
            fields = (self.sorts.equal(was.field(message.name, f.name), content(f.name, other)) for f in message.fields)
            given = conjunction(sends(*ends), s.pending(channel, ends, last))
            return z3.Implies(given, conjunction(was.is_kind(message.name), *fields))

        claim = self.sorts.for_all(self.world.ends(channel), alike)
        work.owed.append((f"{message.name} is sent again as it was", claim))

    def _announce(
        self, work: Work, channel: Channel, message: Message, lane: Callable[..., tuple[Term, Term]],
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

    def _drive(self, work: Work, driven: Role, task: Drive, me: Term, wanted: Callable[[Term], Term]) -> None:
        """Hands an event to subsidiary machines, to all at once: none of them sees another."""
        s = work.state
        after = s
        for state in driven.states.values():
            for transition in state.on.get(task.event, ()):
                self._check_driven(driven, transition)

                def frame(other: Term) -> Frame:
                    values = self.frame(s, me, it=other)
                    return self.frame(s, other, {n: term(e, values) for n, e in task.fields.items()})

                def moves(*at: Term, transition: Transition = transition) -> Term:
                    other = at[0] if driven.indexed else z3.IntVal(0)
                    guard = [] if transition.guard is None else [term(transition.guard, frame(other))]
                    return conjunction(wanted(other), s.is_in(driven.name, other, transition.source), *guard)

                for update in transition.updates:

                    def value(*at: Term, update: Any = update) -> Any:
                        return term(update.value, frame(at[0] if driven.indexed else z3.IntVal(0)))

                    after = after.write(("data", driven.name, update.name), moves, value)
                target = self.sorts.member(driven.control, transition.target)
                after = after.write(("state", driven.name), moves, lambda *at, target=target: target)
        work.state = after

    def _check_driven(self, driven: Role, transition: Transition) -> None:
        tasks = [driven.tasks[name] for name in (*driven.states[transition.target].tasks, *transition.also)]
        if any(not isinstance(task, Call) for task in tasks):
            raise Unsupported(f"{transition.name} sends or drives while it is driven itself")
        if any(update.key is not None for update in transition.updates):
            raise Unsupported(f"{transition.name} changes a cell of a map while it is driven")

        def looks(e: x.Expression) -> bool:
            return isinstance(e, x.State | x.Data) and e.owner is not None and e.role == driven.name

        if x.mentions(transition.guard, looks) or any(x.mentions(u.value, looks) for u in transition.updates):
            raise Unsupported(f"{transition.name} reads other machines of {driven.name} while it is driven")

    # What is not a transition

    def _passed_over(self, s: State, message: Message) -> Iterator[Step]:
        """A message that is ignored or refused is consumed, and nothing else happens."""
        if self.system.channel_of(message.name).kind == "set":
            return
        role = self.system.roles[message.receiver]
        channel, me, sender, number, given, after = self._delivery(s, message)
        arguments = self._content(s, channel, message, me, sender, number)
        frame = self.frame(s, me, arguments, sender)
        moves = [
            conjunction(s.is_in(role.name, me, state.name), term(transition.guard, frame) if transition.guard else True)
            for state in role.states.values()
            if not self._is_deaf(role, state.name)
            for transition in state.on.get(message.name, ())
        ]
        given = [*given, z3.Not(disjunction(*moves))] if moves else given
        if self.scope.crash:
            after = self._down(after, role, me, self.sorts.constant("dies", t.BOOL))
        took = Took(role.name, me, message.name, consumed=True)
        yield Step(f"{role.name} ignores {message.name}", took, tuple(given), after)

    def _is_deaf(self, role: Role, state: str) -> bool:
        """Whether a machine passes over messages in a state that it should act on."""
        return False

    def _again(self, s: State, role: Role) -> Iterator[Step]:
        """A machine sends its state's messages again: for a duplicate, or as what it sent, or the answer, was lost."""
        if not (self.scope.network or self.scope.crash):
            return
        for state in role.states.values():
            for name in state.tasks:
                task = role.tasks[name]
                if isinstance(task, Drive) and self.at_once(role):
                    yield self._driven_again(s, role, state.name, task)
                if (
                    not isinstance(task, Send)
                    or self.system.channel_between(role.name, task.receiver).kind != "mailbox"
                ):
                    continue
                me, given = self.machine(role, role.name)
                work = Work(s)
                # To any of its receivers: duplicates come one by one.
                target = self.system.roles[task.receiver]
                some = self.sorts.constant("some", t.BOOL)
                self._do(work, role, task, me, some if target.indexed else None, again=True)
                given += [s.running(role.name, me), s.is_in(role.name, me, state.name)]
                yield Step(
                    f"{role.name}/{state.name}: {name} again", Took(), tuple(given), work.state, tuple(work.owed)
                )

    def at_once(self, role: Role) -> bool:
        """Whether all machines of a role are one actor's. What it does when it recovers, each then does by itself."""
        return role.indexed and role.name in self.world.actor_of and self.scope.crash

    def _driven_again(self, s: State, role: Role, state: str, task: Drive) -> Step:
        me, given = self.machine(role, role.name)
        work = Work(s)
        self._do(work, role, task, me, None, again=True)
        given += [s.running(role.name, me), s.is_in(role.name, me, state)]
        return Step(f"{role.name}/{state}: {task.name} again", Took(), tuple(given), work.state)

    def _faults(self, s: State) -> Iterator[Step]:
        for channel in self.system.channels.values():
            loses = channel.lose != 0 or (channel.kind == "mailbox" and (self.scope.network or self.scope.crash))
            if loses and channel.kind != "set":
                yield from self._losses(s, channel)
        if not self.scope.crash:
            return
        roles = self.system.roles
        for name, names in self.system.actors.items():
            yield from self._crash(s, name, [role for role in roles.values() if role.name in names])
        for role in roles.values():
            if role.name not in self.world.actor_of:
                yield from self._crash(s, role.name, [role])

    def _losses(self, s: State, channel: Channel) -> Iterator[Step]:
        """Any message of a channel is lost."""
        where = tuple(self.sorts.constant("end", e) for e in (*self.world.ends(channel), NUMBER))
        given = [*map(self.sorts.within, self.world.ends(channel), where[:-1])]
        after = s.write(("present", channel.name), lambda *at: same_places(at, where), lambda *at: z3.BoolVal(False))
        yield Step(f"{channel.name} loses a message", Took(), tuple(given), after)

    def _crash(self, s: State, actor: str, roles: list[Role]) -> Iterator[Step]:
        """An actor stops between two steps, or recovers."""
        me, given = self.machine(roles[0], roles[0].name)
        key, at = self.world.up(roles[0], me)
        took = Took(roles[0].name, me, "crash", consumed=False)
        down = self._down(s, roles[0], me, z3.BoolVal(True))
        yield Step(f"{actor} crashes", took, (*given, s.read(key, *at)), down)
        again = self.sorts.constant("again", t.BOOL)
        read = self._read(s, roles, me)
        work = Work(read)
        for role in roles:
            self._recover(work, read, role, me if role is roles[0] and not self._shared(roles) else None, again)
        back = work.state.write(key, lambda *a: same_places(a, at), lambda *a: z3.Not(again))
        given = [*given, z3.Not(s.read(key, *at))]
        yield Step(f"{actor} recovers", Took(), (*given, z3.Not(again)), back, tuple(work.owed))
        yield Step(f"{actor} crashes again", took, (*given, again), back, tuple(work.owed))

    def _read(self, s: State, roles: list[Role], me: Term) -> State:
        """The state once an actor has read its records again."""
        return s

    def _shared(self, roles: list[Role]) -> bool:
        return roles[0].name in self.world.actor_of

    def _recover(self, work: Work, s: State, role: Role, me: Term, died: Term) -> None:
        """The work of a machine's state, whatever that is, done again."""
        tasks = dict.fromkeys(
            name for state in role.states.values() for name in state.tasks if not isinstance(role.tasks[name], Call)
        )
        if not tasks:
            return
        if me is None and self.at_once(role):
            return
        mine = me if me is not None else z3.IntVal(0)
        for name in tasks:
            task = role.tasks[name]
            states = [state for state in self._recovered(role) if name in role.states[state].tasks]
            inside = disjunction(*(s.is_in(role.name, mine, st) for st in states))
            guarded = Work(work.state, [])
            self._do(guarded, role, task, mine, died, again=True)
            work.owed += [(words, z3.Implies(inside, claim)) for words, claim in guarded.owed]
            work.state = _either(inside, guarded.state, work.state)

    def _recovered(self, role: Role) -> list[str]:
        """The states whose work recovery does again."""
        return list(role.states)

    def _time(self, s: State) -> Step:
        """Time passes, unless it has to wait for a timer."""
        given = []
        clock = self.system.clock
        assert clock is not None
        for role in self.system.roles.values() if not clock.late else ():
            ticks = [tr for tr in role.transitions() if tr.event == "tick"]
            if not ticks:
                continue

            def rests(me: Term, role: Role = role, ticks: list[Transition] = ticks) -> Term:
                frame = self.frame(s, me)
                due = [
                    conjunction(
                        s.is_in(role.name, me, tr.source), term(tr.guard, frame) if tr.guard is not None else True
                    )
                    for tr in ticks
                ]
                return z3.Not(conjunction(s.running(role.name, me), disjunction(*due)))

            given.append(self.sorts.every(role.instance, rests) if role.indexed else rests(z3.IntVal(0)))
        after = s.write(("now",), lambda *at: z3.BoolVal(True), lambda *at: s.now + 1)
        return Step("time passes", Took(), tuple(given), after)


def same_places(at: Sequence[Term], other: Sequence[Term]) -> Term:
    parts = [a == b for a, b in zip(at, other, strict=True)]
    return parts[0] if len(parts) == 1 else conjunction(*parts) if parts else z3.BoolVal(True)


def _with_cell(sorts: Sorts, cells: Any, member: Term, value: Any) -> Any:
    return MapValue(cells.key, lambda k: sorts.choice(k == member, value, cells.at(k)))


def _either(test: Term, then: State, otherwise: State) -> State:
    """One of two states."""
    if then is otherwise:
        return then
    functions = {
        key: f if f is otherwise.functions[key] else (
            lambda *at, f=f, g=otherwise.functions[key]: z3.If(test, f(*at), g(*at))
        )
        for key, f in then.functions.items()
    }  # fmt: skip
    return then.with_functions(functions)
