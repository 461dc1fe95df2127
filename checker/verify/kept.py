"""The records that events have left, and what a step shows of one that was lost since.

Theory of operation. A step tells the record after it, and where its machine stood before. Between two events of a
machine its record changes nowhere but where the actor recovers from its store; so it is as the last event has left it,
or it was lost there. A step tells that in three ways: it begins in another state, a field that its transition does
not write has another value afterwards, or a number is smaller than before. A record that begins anew has first values.
What was lost in a field that the step itself writes is in no event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from leasehold.impl.core.core import Program
from leasehold.impl.core.values import to_plain
from leasehold.impl.events.event import MachineRecord, MachineStep
from leasehold.spec.language.model import System

RecordPlace: TypeAlias = tuple[str, str, str]  # actor, lease, machine


@dataclass(frozen=True)
class LostRecord:
    """A record that is not as its last event has left it.

    Attributes:
        state: where the machine stood before the step.
        data: the fields that had other values by then, as plain data.
        words: what differs.
    """

    state: str
    data: Mapping[str, Any] = field(default_factory=dict)
    words: tuple[str, ...] = ()


class KeptRecords:
    """The last record of each machine.

    Args:
        system, program: the system, and as it was compiled.
    """

    def __init__(self, system: System, program: Program) -> None:
        self.system, self.program = system, program
        self._last: dict[RecordPlace, MachineRecord] = {}
        self._writes = {
            (role.name, t.name): frozenset(u.name for u in t.updates)
            for role in system.roles.values()
            for t in role.transitions()
        }

    def note(self, actor: str, lease: str, machine: str, record: MachineRecord) -> None:
        """An event tells a record."""
        self._last[actor, lease, machine] = record

    def forget(self, actor: str, lease: str, machine: str) -> None:
        """An event tells that there is none any more."""
        self._last.pop((actor, lease, machine), None)

    def lost(self, actor: str, step: MachineStep) -> LostRecord | None:
        """What was lost of a record since its last event; None: nothing that the step shows."""
        last = self._last.get((actor, step.lease, step.machine))
        if last is None or step.machine not in self.program.machines:
            return None
        core, number = self.program.machines[step.machine]
        writes = self._writes.get((core.role, step.transition), frozenset())
        first = {f.name: to_plain(f.type, f.initial) for f in core.fields}
        words = []
        if step.source != last.state:
            words.append(f"takes {step.event} in {step.source}, and its last event has left it in {last.state}")
        anew = step.source == core.first_state(number) and step.record.epoch <= 1 < last.epoch + 1
        told = {name: value for name, value in step.record.data.items() if name not in writes}
        before = {**last.data, **told, **(first if anew and words else {})}
        changed = {name: value for name, value in before.items() if last.data.get(name) != value}
        if not words:
            words += [
                f"takes {step.event}, which does not write {name}, and finds it {value!r}; its last event has left it "
                f"{last.data.get(name)!r}"[:200]
                for name, value in changed.items()
            ]
        for what, now, then in (
            ("sent to", step.record.sent, last.sent), ("received from", step.record.received, last.received),
        ):  # fmt: skip
            words += [
                f"takes {step.event}, and has {what} {peer} {now.get(peer, 0)} messages; it had {n} before"
                for peer, n in then.items()
                if now.get(peer, 0) < n
            ]
        if step.record.epoch < last.epoch and not words:
            words.append(f"takes {step.event}, and has entered {step.record.epoch} states; it had {last.epoch} before")
        return LostRecord(step.source, changed, tuple(words)) if words else None
