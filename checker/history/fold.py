"""The records of machines, as the events up to a moment have left them.

Theory of operation. Each event of a machine has its whole record, so a machine is what its last event says. After a
migration, or where events are missing, machines count as forgotten: those that are still there are told of again, as
found. One that begins again after it was forgotten is another one. Those who want more of a machine than its record
fold the same events into it (`step`, `find`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from leasehold.impl.actor.table import BELOW
from leasehold.impl.events.event import (
    AnyEvent,
    ForgottenEvent,
    FoundEvent,
    MachineRecord,
    MachineStep,
    MigratedEvent,
    RecoveredEvent,
    StepEvent,
)


class MachineOf(NamedTuple):
    """A machine of an actor; the lease is BELOW for one that belongs to it."""

    actor: str
    lease: str
    machine: str


def lease_of(recorded: MachineStep | FoundEvent) -> str:
    """The lease that a step or a record is about: of a machine that belongs to the actor, the one that it serves."""
    return recorded.serves if recorded.lease == BELOW else recorded.lease


@dataclass
class FoldedMachine:
    """A machine, as its last event has left it.

    Attributes:
        record, spec: as that event has it, and under which specification it was written.
        serves: its lease, or the one that has driven it last; empty: none has.
        position: of the last step; 0: nobody knows of one.
        forgotten: the tick at which it was forgotten; None: it was not.
    """

    record: MachineRecord
    spec: str
    serves: str
    position: int = 0
    forgotten: int | None = None


M = TypeVar("M", bound=FoldedMachine)


class EventFold(Generic[M]):
    """The machines that events have told of.

    Args:
        make: a machine of which nothing was known.

    Attributes:
        machines: by actor, lease and name.
    """

    def __init__(self, make: type[M]) -> None:
        self.make = make
        self.machines: dict[MachineOf, M] = {}

    def take(self, event: AnyEvent) -> None:
        """Takes the next event, in an order in which those of each actor are as in its chain."""
        match event:
            case StepEvent():
                for step in event.steps():
                    self.step(event, step)
            case FoundEvent():
                self.find(event)
            case ForgottenEvent():
                forgotten = self.machines.get(MachineOf(event.actor, event.lease, event.machine))
                if forgotten is not None:
                    forgotten.forgotten = event.now
            case RecoveredEvent() if event.unrecorded:
                self.forget_all(event)
            case MigratedEvent():
                self.forget_all(event)

    def step(self, event: StepEvent, step: MachineStep) -> M:
        """Takes one step of an event; returns its machine."""
        key = MachineOf(event.actor, step.lease, step.machine)
        machine, now = self.machines.get(key), (step.record, event.spec, lease_of(step), event.position)
        if machine is None or machine.forgotten is not None:
            machine = self.machines[key] = self.make(*now)
        else:
            machine.record, machine.spec, machine.serves, machine.position = now
        return machine

    def find(self, event: FoundEvent) -> M:
        """Takes a record that no step has left; returns its machine."""
        key = MachineOf(event.actor, event.lease, event.machine)
        before = self.machines.get(key)
        position = 0 if before is None else before.position
        machine = self.machines[key] = self.make(event.record, event.spec, lease_of(event), position)
        return machine

    def forget_all(self, event: AnyEvent) -> None:
        """Nothing is known any more of the machines of an event's actor."""
        for machine in self.of(event.actor).values():
            machine.forgotten = event.now

    def of(self, actor: str) -> dict[MachineOf, M]:
        """The machines of an actor that are not forgotten."""
        return {key: one for key, one in self.machines.items() if key.actor == actor and one.forgotten is None}
