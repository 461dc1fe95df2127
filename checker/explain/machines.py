"""The machines of all leases, as the events up to a cut have left them.

Theory of operation. Each event of a machine has its whole record, so a machine is what its last event says. With the
specification, the record says what the state asks for and what it waits for (views.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from leasehold.checker.explain.story import StoryEntry, lease_of, step_entry
from leasehold.checker.verify.causal import with_driven
from leasehold.impl.actor.table import BELOW
from leasehold.impl.events.event import (
    AnyEvent,
    ForgottenEvent,
    FoundEvent,
    MachineRecord,
    MachineStep,
    MigratedEvent,
    RecoveredEvent,
    RefusedEvent,
    StepEvent,
)
from leasehold.impl.server.subscribers import add_said, add_step


class MachineOf(NamedTuple):
    """A machine of an actor; the lease is BELOW for one that belongs to it."""

    actor: str
    lease: str
    machine: str


@dataclass
class KnownMachine:
    """The facts that events tell of a machine.

    Attributes:
        record, spec: as its last event has it, and under which specification that was written.
        serves: its lease, or the one that has driven it last.
        since: the tick at which it came to its state; None: that was before the events.
        peers: by neighbour, the actor that plays it.
        history: its transitions, failures and refusals, as a running actor tells them.
        came: the step that led to its state; None: it is not among the events.
        forgotten: the tick at which it was forgotten; None: it was not.
        restarts: how often its actor has begun the calls and messages of its state again.
    """

    record: MachineRecord
    spec: str
    serves: str
    since: int | None = None
    peers: dict[str, str] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    came: StoryEntry | None = None
    forgotten: int | None = None
    restarts: int = 0


@dataclass
class KnownActor:
    """The facts that events tell of an actor: its last event, and the place from which they tell."""

    position: int
    now: int
    time: float
    first: int
    agreement: str = ""


class KnownMachines:
    """All machines that events have told of so far.

    Attributes:
        actors: by name.
        machines: by actor, lease and name.
    """

    def __init__(self) -> None:
        self.actors: dict[str, KnownActor] = {}
        self.machines: dict[MachineOf, KnownMachine] = {}

    def take(self, event: AnyEvent) -> None:
        """The next event, in an order that respects causality."""
        actor = self.actors.setdefault(event.actor, KnownActor(0, 0, 0.0, event.position))
        actor.position, actor.now, actor.time = event.position, event.now, event.time
        match event:
            case StepEvent():
                for step in with_driven(event.step):
                    self._step(event, step)
            case FoundEvent():
                self._found(event)
            case RefusedEvent():
                refusing = self.machines.get(MachineOf(event.actor, event.lease, event.machine))
                if refusing is not None:
                    told = {"refused": event.event, "words": event.reason, "times": 1}
                    add_step(refusing.history, {"at": event.now, "time": event.time, **told})
            case ForgottenEvent():
                forgotten = self.machines.get(MachineOf(event.actor, event.lease, event.machine))
                if forgotten is not None:
                    forgotten.forgotten = event.now
            case RecoveredEvent():
                actor.agreement = event.agreement
                for known in self._of(event.actor):
                    known.restarts += 1
                    if event.unrecorded:  # those that are still there follow as found
                        known.forgotten = event.now
            case MigratedEvent():
                for known in self._of(event.actor):
                    known.forgotten = event.now

    def _of(self, actor: str) -> list[KnownMachine]:
        return [known for key, known in self.machines.items() if key.actor == actor and known.forgotten is None]

    def _found(self, event: FoundEvent) -> None:
        key = MachineOf(event.actor, event.lease, event.machine)
        before, known = self.machines.get(key), KnownMachine(event.record, event.spec, event.serves or event.lease)
        if before is not None and before.record.epoch == event.record.epoch:  # it has not moved meanwhile
            known.since, known.came, known.peers = before.since, before.came, before.peers
            known.history, known.restarts = before.history, before.restarts
        self.machines[key] = known

    def _step(self, event: StepEvent, step: MachineStep) -> None:
        key, serves = MachineOf(event.actor, step.lease, step.machine), lease_of(step)
        known = self.machines.get(key)
        if known is None or known.forgotten is not None:
            known = self.machines[key] = KnownMachine(step.record, event.spec, serves)
        known.record, known.spec, known.serves = step.record, event.spec, serves
        if step.received is not None:
            known.peers[step.received.machine] = step.received.actor
        known.peers |= {sent.to: sent.actor for sent in step.sends if sent.actor}
        if step.answers is not None and not step.answers.well:
            told = {"failure": step.event, "words": step.answers.words}
            known.history.append({"at": event.now, "time": event.time, **told})
        if step.transition:
            moves = {"transition": step.transition, "from": step.source, "to": step.record.state, "said": []}
            known.history.append({"at": event.now, "time": event.time, **moves})
        for sent in step.sends:
            add_said(known.history, sent.message)
        if step.source != step.record.state:
            known.since, known.restarts = event.now, 0
            known.came = step_entry(event, step, step is not event.step)

    def plays(self, actor: str, lease: str) -> bool:
        """Returns whether an actor has a machine of a lease that is not forgotten."""
        return any(
            key.actor == actor and key.lease == lease and known.forgotten is None
            for key, known in self.machines.items()
        )

    def leases(self) -> Iterator[str]:
        """All leases that were told of."""
        yield from dict.fromkeys(key.lease for key in self.machines if key.lease != BELOW)
