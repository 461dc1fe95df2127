"""The work that machines owe: whether actors, at rest, leave undone what the specification asks for, or do too much.

Theory of operation. An actor is at rest when no request waits for a turn. Then, by the specification alone:

- no timer of its machines is due, as a due timer ends its state within the turn (`timers: prompt`);
- for each handler task of a machine's state of which every answer leaves the state, a call is under way: its answer
  would have moved the machine;
- no answer of a machine's subsidiaries has come true that the machine would take, as it is taken within the turn;
- for each message that a machine's state sends until it is answered, the outbox has a message of that machine, unless a
  peer has refused it;
- for each session (a `fifo`) with messages that are not acknowledged, the outbox has one of them;
- the outbox says nothing again that a machine's state does not say: what a state has said that was left is given up,
  or said until it is taken, where it was left in the same turn.

The guards are those of the explorer's reference, evaluated on the records: so what the specification asks for is
compared with the actor's own books of timers, calls and messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from leasehold.checker.explore.ground import GroundMachine
from leasehold.checker.recovery.properties import RunProperties
from leasehold.faults.simulation.simulation import ControlledActor, Simulation
from leasehold.impl.actor import session
from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.table import MachineInstance
from leasehold.impl.core.work import SendWork, local
from leasehold.spec.language.model import Call


def owed(sim: Simulation, properties: RunProperties, lease: str, state: Sequence[Any]) -> Iterator[str]:
    """Yields what the machines of a lease owe, in words.

    Args:
        sim: the actors.
        properties: the specification, grounded.
        lease: whose machines.
        state: their records, as the explorer has them (`PropertyMonitor.state`).
    """
    passage = properties.world.relation.passage
    prompt = passage is not None and bool(passage.unless)
    for machine in properties.world.machines:
        name = sim.program.roles[machine.role.name].machine(machine.instance)
        actor, instance = sim.actors.get(sim.players[name]), sim.held(lease, name)
        if actor is None or instance is None or not actor.running or actor.queue:
            continue
        if instance.serves != lease:
            continue
        where = f"{name} of {lease} is in {instance.state}"
        if prompt and properties.world.due(machine, state):
            yield f"{where}, and its timer has run out"
        yield from (
            f"{where}, and no handler is at work on {task}" for task in _idle_tasks(machine, actor, instance, state)
        )
        yield from (f"{where}, and has not taken {event}, which has come true" for event in _untaken(actor, instance))
        under_way = {pending.neighbour for pending in actor.outbox.of(instance.key)}
        for neighbour in (
            set(session.neighbours(instance)) - under_way if all(who for _, who in instance.addressed) else ()
        ):
            yield f"{where}, and {session.queued(instance, neighbour)[0].message} is not sent any more"
        targets = {w.neighbour for w in instance.core.work[instance.state](instance.record) if isinstance(w, SendWork)}
        for pending in actor.outbox.of(instance.key):
            if not (pending.ordered or pending.last) and pending.neighbour not in targets:
                yield f"{where}, and {pending.message} is said again, which its state does not say"
        if instance.core.over(instance.state) or actor.outbox.of(instance.key) or instance.key in actor.outbox.refusals:
            continue  # a machine at its end waits for no answer
        asked = (w for w in machine.work[instance.state] if w.lane is not None and w.wanted(state, (), -1))
        for message in (w.piece.event for w in asked):
            if not properties.system.messages[message].answer and not sim.program.messages[message].ordered:
                yield f"{where}, and {message} is not sent any more"


def _untaken(actor: ControlledActor, instance: MachineInstance) -> Iterator[str]:
    """The answers of a machine's subsidiaries that it would take now; one that has no room for what follows waits."""
    if actor.controlled:
        return
    now = actor.clock.now()
    for answer in instance.core.offered(instance.record):
        event = local(answer, state_epoch=instance.state_epoch)
        if instance.core.step(instance.record, event, now)[1].taken and session.has_room(
            actor.program, instance, event, now
        ):
            yield answer


def _idle_tasks(machine: GroundMachine, actor: Actor, instance: MachineInstance, state: Sequence[Any]) -> Iterator[str]:
    """The handler tasks of a machine's state that nobody is at work on."""
    role = machine.role
    here = role.states[instance.state]
    at_work = {*actor.calls.of(instance.key)}
    for name in here.tasks:
        task = role.tasks[name]
        if not isinstance(task, Call) or not task.target.startswith("handler.") or not task.answers:
            continue
        if task.when is not None and not machine.function(task.when)(state, (), -1):
            continue
        ways = [way for answer in task.answers for way in here.on.get(answer, ())]
        if all(way.target != instance.state for way in ways) and not at_work & {name, "action"}:
            yield name
