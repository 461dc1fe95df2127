"""Takes the step of an event with the compiled core, as the actor's loop does, and says what the log has otherwise.

Theory of operation. The core gives the whole record: with numbers, state epochs, and when tasks have begun that outlive
their state; and the work of the transition with the reasons of what is not taken. Events that it gives subsidiary
machines are steps within the same one. The machines are those of the actor's table, as the log has left them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from leasehold.checker.conform.comparison import show_typed, with_fields
from leasehold.impl.actor.table import BELOW, MachineInstance, MachinesOfActor, MachineTable
from leasehold.impl.core.core import CoreError, Program
from leasehold.impl.core.values import to_plain
from leasehold.impl.core.work import CallWork, DriveWork, Event, Outcome, Record, SendWork, Stepped, local
from leasehold.impl.events.event import MachineStep, StartedCall
from leasehold.impl.store.store import RecordKey
from leasehold.spec.language.types import show_plain

OUTSIDE = frozenset({"policy", "handler", "probe", "client"})  # causes that are held to contracts


class CompiledMachines:
    """The machines of one actor, as a log has left them.

    Args:
        program: the compiled system.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        roles = frozenset(name for name, core in program.roles.items() if not core.subsidiary)
        self.table = MachineTable(program, roles)
        self._of_lease: dict[str, dict[RecordKey, MachineInstance]] = {}

    def machine(self, key: RecordKey) -> MachineInstance:
        """A machine; one that nothing has happened to is made."""
        instance = self.table.instances.get(key)
        if instance is None:
            core, number = self.program.machines[key.machine]
            instance = self.table.instances[key] = self.table.new(key, core, number)
            self._of_lease.setdefault(key.lease, {})[key] = instance
        return instance

    def record(self, key: RecordKey) -> Record | None:
        """The record of a machine; None: nothing has happened to it."""
        instance = self.table.instances.get(key)
        return None if instance is None else instance.record[: instance.core.below_at]

    def set(self, key: RecordKey, record: Record) -> None:
        """A machine has a record."""
        instance = self.machine(key)
        instance.record = (*record[: instance.core.below_at], *instance.record[instance.core.below_at :])
        if instance.core.of_actor:
            self.table.see(instance, instance.record)

    def forget(self, key: RecordKey) -> None:
        """A machine is there no more."""
        instance = self.table.instances.pop(key, None)
        if instance is not None:
            of_lease = self._of_lease[key.lease]
            del of_lease[key]
            if not of_lease:
                del self._of_lease[key.lease]
            if instance.core.of_actor:
                self.table.below[instance.core.role].pop(instance.number, None)

    def below(self, lease: str) -> Mapping[str, Any]:
        """The subsidiary machines that a lease sees, by role."""
        return self.table.below_of(lease)

    # Steps

    def takes(self, key: RecordKey, event: Event, now: int, outside: bool) -> Stepped:
        """Returns what the core does with an event."""
        instance = self.machine(key)
        if not outside:
            return instance.core.step(instance.record, event, now)
        record, outcome = instance.core.step_outside(instance.record, event, now, MachinesOfActor(self.table, instance))
        if record is not instance.record:
            try:
                instance.core.check(record)
            except CoreError as error:
                return instance.record, Outcome("refused", event[0], reason=str(error).partition(";")[0])
        return record, outcome

    def difference(
        self,
        step: MachineStep,
        event: Event,
        after: Record,
        driven: list[tuple[Event, Record]],
        now: int,
        outside: bool,
    ) -> str:
        """Returns what a step has otherwise than the core; empty: nothing. The machines move as the core says.

        Args:
            step: as the log has it.
            event: what it consumes.
            after: the record that it leaves.
            driven: the same of the steps within it, in order.
            now: its time.
            outside: whether the event is held to its contract.
        """
        key = RecordKey(step.lease, step.machine)
        instance = self.machine(key)
        core, before = instance.core, instance.record
        record, outcome = self.takes(key, event, now, outside)
        if record is before:
            return f"it changes nothing: {outcome.kind}{f', {outcome.reason}' if outcome.reason else ''}"
        if step.transition != outcome.transition:
            return _words("it takes", outcome.transition or outcome.reason, step.transition or step.reason)
        if step.reason != outcome.reason:
            return _words("the reason is", repr(outcome.reason), repr(step.reason))
        self.set(key, record)
        for name, actual, wanted in zip(core.names, after, record[: core.below_at], strict=False):
            if actual != wanted:
                of = "the state epoch" if name == "entry" else f"`{name}`"
                kind = next((f.type for f in core.fields if f.name == name), None)
                return _words(f"{of} is", show_typed(kind, wanted), show_typed(kind, actual))
        sends: list[tuple[str, int, str, dict[str, Any]]] = []
        if why := self._works(step, instance, outcome, driven, now, sends):
            return why
        if (actual := [(s.name, s.number, s.message, s.fields) for s in step.sends]) != sends:
            texts = ([f"{n} {number} to {to} {show_plain(f)}" for to, number, n, f in all_] for all_ in (sends, actual))
            return _words("it sends", *map(", ".join, texts))
        starts = [StartedCall(piece.task, piece.target) for piece in outcome.work if isinstance(piece, CallWork)]
        if list(step.starts) != starts:
            return _words("it calls", *(", ".join(call.target for call in calls) for calls in (starts, step.starts)))
        return ""

    def _works(
        self,
        step: MachineStep,
        parent: MachineInstance,
        outcome: Outcome,
        driven: list[tuple[Event, Record]],
        now: int,
        sends: list[tuple[str, int, str, dict[str, Any]]],
    ) -> str:
        """Drives subsidiary machines, and returns what their steps have otherwise.

        Messages are made between them, in the order of the work, as they may say how far those machines are.
        """
        logged = iter(step.driven)
        for piece in outcome.work:
            if isinstance(piece, SendWork):
                sends.append(self._sent(parent, piece))
            if not isinstance(piece, DriveWork):
                continue
            ((key, event),) = self.driven_by(parent, (piece,))
            core = self.program.machines[key.machine][0]
            if key not in self.table.instances and core.of_run and not self._is_moved(key, event, now):
                self.forget(key)
                continue
            if self.takes(key, event, now, False)[0] is self.machine(key).record:
                continue
            one = next(logged, None)
            if one is None or (one.lease, one.machine, one.event) != (*key, event[0]):
                named = "nothing" if one is None else f"{one.event} to {one.machine}"
                return _words("it gives", f"{event[0]} to {key.machine}", named)
            given, after = driven.pop(0)
            if given != event or one.cause != "parent":
                kinds = core.events[event[0]]
                wanted, actual = (with_fields(name, kinds, values) for name, values, *_ in (event, given))
                by = one.cause or "no cause"
                return _words(f"it gives {key.machine}", f"{wanted} (parent)", f"{actual} ({by})")
            if why := self.difference(one, event, after, driven, now, False):
                return f"of {key.machine} {why}"
        if (one := next(logged, None)) is not None:
            return f"it gives no {one.event} to {one.machine}"
        return ""

    def _is_moved(self, key: RecordKey, event: Event, now: int) -> bool:
        return self.takes(key, event, now, False)[1].taken

    def asked_of_below(self, parent: MachineInstance) -> Iterator[tuple[RecordKey, Event]]:
        """The events that the state of a machine asks for at its subsidiary machines."""
        return self.driven_by(parent, parent.core.work[parent.state](parent.record))

    def driven_by(self, parent: MachineInstance, work: tuple[Any, ...]) -> Iterator[tuple[RecordKey, Event]]:
        """The events that work gives subsidiary machines."""
        for piece in work:
            if isinstance(piece, DriveWork):
                role, index = piece.machine
                core = self.program.roles[role]
                key = RecordKey(parent.key.lease if core.of_run else BELOW, core.machine(index))
                yield key, local(piece.event, piece.fields(parent.record))

    def _sent(self, instance: MachineInstance, piece: SendWork) -> tuple[str, int, str, dict[str, Any]]:
        number = instance.record[instance.core.sent_at][piece.neighbour]
        to = self.program.lane(instance.core, instance.number, piece.neighbour)
        kinds, values = self.program.messages[piece.message].fields, piece.fields(instance.record)
        fields = {name: to_plain(kind, v) for (name, kind), v in zip(kinds, values, strict=True)}
        return to, number, piece.message, fields

    def talking_in(self, lease: str) -> list[MachineInstance]:
        """The machines of a lease that are no subsidiary ones."""
        return [one for one in self._of_lease.get(lease, {}).values() if not one.core.subsidiary]

    def says(self, lease: str) -> Iterator[tuple[MachineInstance, SendWork]]:
        """The messages that the machines of a lease send again now, if they are asked."""
        for instance in self.talking_in(lease):
            for piece in instance.core.work[instance.state](instance.record):
                if isinstance(piece, SendWork) and not self.program.messages[piece.message].ordered:
                    yield instance, piece


def _words(subject: str, expected: str, actual: str) -> str:
    return f"{subject} {expected or 'nothing'}, and the log has {actual or 'nothing'}"
