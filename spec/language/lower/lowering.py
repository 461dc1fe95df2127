"""The lowering of the typed model to the lowered form: which events may come where, and what follows from each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from leasehold.spec.language import expression as x
from leasehold.spec.language.expression import Expression
from leasehold.spec.language.lower.captures import given, passed
from leasehold.spec.language.lower.form import Choice, Machine, ModelActor, Offer, Passage, Piece, Receive, Relation
from leasehold.spec.language.model import (
    Call,
    Channel,
    Drive,
    Fair,
    Message,
    Role,
    Send,
    State,
    System,
    Transition,
    machine_name,
)


def lower(system: System) -> Relation:
    """The steps of a system whose actors and network do not fail (but for the faults that its channels declare)."""
    roles = system.roles.values()
    moves = {
        (role.name, state.name, event): tuple(choice(system, role, tr) for tr in transitions)
        for role in roles
        for state in role.states.values()
        for event, transitions in state.on.items()
    }
    offers = {
        (role.name, state.name): (*_offers(system, role, state, moves), *_ticks(role, state, moves))
        for role in roles
        for state in role.states.values()
    }
    passage = None
    if system.clock is not None:
        ticks = [o for of_state in offers.values() for o in of_state if o.cause == "tick"]
        passage = Passage(system.clock, () if system.clock.late else tuple(ticks))
    work = {(r.name, s.name): tuple(_repeated(system, r, s.tasks)) for r in roles for s in r.states.values()}
    receives = tuple(_receive(system, channel, moves) for channel in system.channels.values())
    return Relation(system, offers, work, moves, receives, passage, tuple(_actors(system)))


def work_of(role: Role, transition: Transition) -> tuple[str, ...]:
    """The tasks that follow a transition, in their order; recovery starts those of the state again, not `also`."""
    at_target = () if transition.internal else role.states[transition.target].tasks
    return (*at_target, *transition.also)


def choice(system: System, role: Role, transition: Transition) -> Choice:
    names = [p.name for p in transition.passes]
    repeated = role.states[transition.target].tasks
    work = []
    for name in work_of(role, transition):
        task = role.tasks[name]
        if not isinstance(task, Call):
            task_piece = piece(system, role, task)
            read = task_piece if name in repeated else _changed(task_piece, partial(passed, role=role))
            work.append(_changed(read, partial(given, names=names)))
    return Choice(transition, transition.guard, transition.updates, tuple(work), transition.passes)


def _changed(of: Piece, change: Callable[[x.Expression], x.Expression]) -> Piece:
    return replace(of, conditions=tuple(map(change, of.conditions)), fields=tuple(map(change, of.fields)))


def reads_step(of: Piece) -> bool:
    """Returns whether a piece of work reads what its transition passes to it: it is not done again."""
    return any(x.mentions(e, lambda n: isinstance(n, x.Argument)) for e in (*of.conditions, *of.fields))


def _repeated(system: System, role: Role, names: tuple[str, ...]) -> Iterator[Piece]:
    """The pieces of a state's tasks that recovery does again; what a call begins is in no state but its own."""
    for task in (role.tasks[name] for name in names):
        if not isinstance(task, Call) and not reads_step(task_piece := piece(system, role, task)):
            yield task_piece


def piece(system: System, role: Role, task: Send | Drive) -> Piece:
    """The piece of work that a task is."""
    conditions = tuple(e for e in (task.when, task.only) if e is not None)
    if isinstance(task, Send):
        order = system.messages[task.message].fields
        target, channel = system.roles[task.receiver], system.channel_of(task.message)
    else:
        order = system.fields_of(task.role, task.event)
        target, channel = system.roles[task.role], None
    return Piece(task, target, conditions, tuple(task.fields[f.name] for f in order), channel)


def _offers(system: System, role: Role, state: State, moves: _Moves) -> Iterator[Offer]:
    """The local events that may come in a state: answers of its tasks, then what the environment does."""

    def offer(
        event: str,
        cause: str,
        name: str,
        own: list[Expression | None],
        outside: list[Expression | None],
        fair: Fair,
        each: tuple[str, ...] = (),
    ) -> Offer:
        conditions = tuple(e for e in own if e is not None)
        limits = () if any(e is None for e in outside) else tuple(e for e in outside if e is not None)
        choices = moves.get((role.name, state.name, event), ())
        fields = system.fields_of(role.name, event)
        return Offer(role, state.name, event, cause, name, fields, conditions, limits, choices, fair, each)  # type: ignore[arg-type]

    for name in state.tasks:
        task = role.tasks[name]
        for event in task.answers:
            own = [task.when, *([task.answers[event]] if isinstance(task, Drive) else [])]
            if event in state.on:
                outside = [o.when for o in system.environment.values() if (o.role, o.event) == (role.name, event)]
                yield offer(event, "answer", name, own, outside, Fair.WEAK)
    for event in role.events:
        if event in role.answers or event not in state.on:
            continue
        for o in system.environment.values():
            if (o.role, o.event) == (role.name, event):
                yield offer(event, "environment", o.name, [], [o.when], o.fair, o.fair_for_each)


def _ticks(role: Role, state: State, moves: _Moves) -> Iterator[Offer]:
    if "tick" in state.on:
        choices = moves[role.name, state.name, "tick"]
        yield Offer(role, state.name, "tick", "tick", "", (), (), (), choices, Fair.WEAK)


def _receive(system: System, channel: Channel, moves: _Moves) -> Receive:
    sender, receiver = system.roles[channel.sender], system.roles[channel.receiver]
    messages = messages_of(system, channel)
    choices = {
        (m.name, state): moves[receiver.name, state, m.name]
        for m in messages
        for state in receiver.states
        if (receiver.name, state, m.name) in moves
    }
    consumes, in_turn = channel.kind != "set", channel.durable or channel.kind == "mailbox"
    return Receive(channel, sender, receiver, messages, choices, consumes, in_turn, channel.waits)


def messages_of(system: System, channel: Channel) -> tuple[Message, ...]:
    """The messages that a channel carries."""
    return tuple(system.messages[name] for name in channel.messages)


def _actors(system: System) -> Iterator[ModelActor]:
    machines = [(role, Machine(role.name, i)) for role, i in system.machines()]
    for name, roles in system.actors.items():
        played = tuple(machine for role, machine in machines if role.name in roles)
        if played:
            yield ModelActor(name, played)
    declared = {role for roles in system.actors.values() for role in roles}
    for role, machine in machines:
        if role.name not in declared:
            yield ModelActor(machine_name(role, machine.instance), (machine,))


_Moves = dict[tuple[str, str, str], tuple[Choice, ...]]
