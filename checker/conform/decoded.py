"""Reads steps and records of events back into the values that cores compute with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from leasehold.faults.simulation.steps import LoggedStep
from leasehold.impl.core.core import Core, Named, Program
from leasehold.impl.core.stepping import Numbers
from leasehold.impl.core.values import ValueFault, named_fields
from leasehold.impl.core.work import Event, Outcome, Record
from leasehold.impl.events.event import MachineRecord, MachineStep
from leasehold.impl.store.store import RecordKey
from leasehold.impl.words import parted


class StepFault(ValueError):
    """An event has what no event of the system can have; the message says what."""


class StepDecoder:
    """Decodes steps and records.

    Args:
        program: the compiled system.
    """

    def __init__(self, program: Program) -> None:
        self.program = program

    def machine(self, name: str) -> tuple[Core, int]:
        """The role and number of a machine.

        Raises:
            StepFault: the system has none of this name.
        """
        entry = self.program.machines.get(name)
        if entry is None:
            raise StepFault(f"the system {self.program.system} has no machine {name[:60]!r}")
        core, number = entry
        return core, number

    def record(self, machine: str, plain: MachineRecord, below: tuple[Any, ...] = ()) -> Record:
        """A record; `below` are the subsidiary machines that it sees.

        Raises:
            StepFault: it is none of this machine.
        """
        core, number = self.machine(machine)
        if plain.state not in core.states:
            raise StepFault(f"{core.role} has no state {plain.state[:60]!r}")
        own = (number,) if core.indexed else ()
        data = self.values(machine, tuple((f.name, f.type) for f in core.fields), plain.data)
        numbers: tuple[Any, ...] = ()
        if not core.subsidiary:
            numbers = (self._numbers(core, number, plain.sent), self._numbers(core, number, plain.received))
        elif plain.sent or plain.received:
            raise StepFault(f"{machine} is a subsidiary machine, and exchanges no messages")
        for task in plain.since:
            if task not in core.since:
                raise StepFault(f"{core.role} has no task {task[:60]!r} that may outlive its state")
        since = tuple(plain.since.get(task, 0) for task in core.since)
        if any(number < 0 for number in (plain.epoch, *since)):
            raise StepFault(f"{machine} has a negative epoch")
        return (plain.state, *own, *data, *numbers, plain.epoch, *since, *below)

    def _numbers(self, core: Core, own: int, named: Mapping[str, int]) -> Any:
        numbers: Any = Numbers() if core.dynamic_neighbours else [0] * len(core.neighbours)
        for name, number in named.items():
            machine, channel = parted(name)
            role, other = self.machine(machine)
            at = core.position(role.role, other, own, channel)
            if at is None or number <= 0:
                raise StepFault(f"{core.machine(own)} cannot have {number} as the number of a message of {name}")
            numbers[at] = number
        return numbers if core.dynamic_neighbours else tuple(numbers)

    def values(self, of: str, kinds: Named, given: Mapping[str, Any]) -> tuple[Any, ...]:
        """Fields in their order, as values of their types.

        Raises:
            StepFault: one is missing, unknown, or no value of its type.
        """
        try:
            return named_fields(kinds, given)
        except ValueFault as fault:
            raise StepFault(f"{of}: {fault}") from None

    def event(self, step: MachineStep) -> Event:
        """Returns what a step has consumed.

        Raises:
            StepFault: the machine consumes no such event.
        """
        core, number = self.machine(step.machine)
        epoch = -1 if step.answers is None else step.answers.epoch
        if step.received is None:
            fields = self.fields(core, step.event, step.fields)
            return step.event, fields, -1, 0, epoch
        shape = self.program.messages.get(step.event)
        if shape is None:
            raise StepFault(f"there is no message {step.event[:60]!r}")
        peer, other = self.machine(step.received.machine)
        at = core.position(peer.role, other, number, step.received.channel)
        if at is None or (shape.sender, shape.receiver, shape.channel) != (peer.role, core.role, step.received.channel):
            raise StepFault(f"{step.machine} receives no {step.event} from {step.received.name}")
        return step.event, self.values(step.event, shape.fields, step.fields), at, step.received.number, epoch

    def fields(self, core: Core, event: str, given: Mapping[str, Any]) -> tuple[Any, ...]:
        """The fields of a local event or timer.

        Raises:
            StepFault: the role has no such event, or it has other fields.
        """
        if event == "tick":
            kinds: Named = ()
        elif event in core.events:
            kinds = core.events[event]
        else:
            raise StepFault(f"{core.role} has no event {event[:60]!r}")
        return self.values(event, kinds, given)

    def step(self, step: MachineStep, now: int, befores: Iterable[Record], below: Mapping[str, Any]) -> LoggedStep:
        """A step, and those that it drives.

        Args:
            step: as the event has it.
            now: its time.
            befores: the records before it and each of those that it drives, in order.
            below: the subsidiary machines that its lease sees, by role.

        Raises:
            StepFault: it is no step of the system.
        """
        records = iter(befores)
        return self._step(step, now, records, below, step.serves or step.lease)

    def _step(self, step: MachineStep, now: int, befores: Any, below: Mapping[str, Any], lease: str) -> LoggedStep:
        core, number = self.machine(step.machine)
        seen = tuple(below[sub.role] for sub in core.below)
        before = (*next(befores)[: core.below_at], *seen)
        sends = []
        for sent in step.sends:
            peer, other = self.machine(sent.to)
            at = core.position(peer.role, other, number, sent.channel)
            shape, ends = self.program.messages.get(sent.message), (core.role, peer.role, sent.channel)
            if at is None or shape is None or (shape.sender, shape.receiver, shape.channel) != ends:
                raise StepFault(f"{step.machine} sends no {sent.message[:60]} to {sent.name}")
            sends.append((at, sent.message, self.values(sent.message, shape.fields, sent.fields)))
        kind = "taken" if step.transition else "ignored"
        return LoggedStep(
            RecordKey(step.lease, step.machine),
            lease,
            core,
            self.event(step),
            now,
            before,
            self.record(step.machine, step.record, seen),
            Outcome(kind, step.event, step.transition, (), step.reason),
            sends,
            [call.task for call in step.starts],
            [self._step(one, now, befores, below, lease) for one in step.driven],
        )
