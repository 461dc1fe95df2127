"""The machines of all leases, as the events up to a cut have left them.

Theory of operation. Beside its record (checker/history/fold.py), events tell the history of a machine: its transitions,
failures and refusals, who plays its neighbours, and since when it is in its state. With the specification, the record
says what the state asks for and what it waits for (views.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from leasehold.checker.explain.story import StoryEntry, step_entry
from leasehold.checker.history.fold import EventFold, FoldedMachine, MachineOf
from leasehold.impl.actor.table import BELOW
from leasehold.impl.events.event import (
    AnyEvent,
    FoundEvent,
    MachineStep,
    RecoveredEvent,
    RefusedEvent,
    StepEvent,
)


@dataclass
class KnownMachine(FoldedMachine):
    """The facts that events tell of a machine.

    Attributes:
        since: the tick at which it came to its state; None: that was before the events.
        peers: by neighbour, the actor that plays it.
        history: its transitions, failures and refusals; each transition with what it has said since.
        came: the step that led to its state; None: it is not among the events.
        restarts: how often its actor has begun the calls and messages of its state again.
    """

    since: int | None = None
    peers: dict[str, str] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    came: StoryEntry | None = None
    restarts: int = 0

    def note(self, event: AnyEvent, **entry: Any) -> None:
        """Adds to its history; what is refused again and again is there once, with how often."""
        last = self.history[-1] if self.history else {}
        if "refused" in entry and (last.get("refused"), last.get("words")) == (entry["refused"], entry["words"]):
            entry["times"] += self.history.pop()["times"]
        self.history.append({"at": event.now, "time": event.time, **entry})

    def say(self, message: str) -> None:
        """Notes what it has said since its last transition."""
        messages = next((step["said"] for step in reversed(self.history) if "said" in step), [message])
        if message not in messages:
            messages.append(message)


@dataclass
class KnownActor:
    """The facts that events tell of an actor: its last event, and the place from which they tell."""

    position: int
    now: int
    time: float
    first: int
    agreement: str = ""


class KnownMachines(EventFold[KnownMachine]):
    """All machines that events have told of so far, and their actors.

    Attributes:
        actors: by name.
    """

    def __init__(self) -> None:
        super().__init__(KnownMachine)
        self.actors: dict[str, KnownActor] = {}

    def take(self, event: AnyEvent) -> None:
        actor = self.actors.setdefault(event.actor, KnownActor(0, 0, 0.0, event.position))
        actor.position, actor.now, actor.time = event.position, event.now, event.time
        match event:
            case RefusedEvent():
                refusing = self.machines.get(MachineOf(event.actor, event.lease, event.machine))
                if refusing is not None:
                    refusing.note(event, refused=event.event, words=event.reason, times=1)
            case RecoveredEvent():
                actor.agreement = event.agreement
                for known in self.of(event.actor).values():
                    known.restarts += 1
        super().take(event)

    def find(self, event: FoundEvent) -> KnownMachine:
        before, known = self.machines.get(MachineOf(event.actor, event.lease, event.machine)), super().find(event)
        if before is not None and before.record.epoch == event.record.epoch:  # it has not moved meanwhile
            known.since, known.came, known.peers = before.since, before.came, before.peers
            known.history, known.restarts = before.history, before.restarts
        return known

    def step(self, event: StepEvent, step: MachineStep) -> KnownMachine:
        known = super().step(event, step)
        if step.received is not None:
            known.peers[step.received.machine] = step.received.actor
        known.peers |= {sent.to: sent.actor for sent in step.sends if sent.actor}
        if step.answers is not None and not step.answers.well:
            known.note(event, failure=step.event, words=step.answers.words)
        if step.transition:
            moved = {"from": step.source, "to": step.record.state}
            known.note(event, transition=step.transition, **moved, said=[])
        for sent in step.sends:
            known.say(sent.message)
        if step.source != step.record.state:
            known.since, known.restarts = event.now, 0
            known.came = step_entry(event, step, step is not event.step)
        return known

    def plays(self, actor: str, lease: str) -> bool:
        """Returns whether an actor has a machine of a lease that is not forgotten."""
        return any(
            (key.actor, key.lease) == (actor, lease) and known.forgotten is None for key, known in self.machines.items()
        )

    def leases(self) -> Iterator[str]:
        """All leases that were told of."""
        yield from dict.fromkeys(key.lease for key in self.machines if key.lease != BELOW)
