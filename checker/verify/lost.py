"""The loss of a record, as far as a later step shows it.

Theory of operation. A step tells the record after it, and where its machine stood before. Between two events of a
machine its record changes nowhere but where the actor recovers from its store; so it is as the last event has left it,
or it was lost there. A step tells that in three ways: it begins in another state, a field that its transition does
not write has another value afterwards, or a number is smaller than before. A record that begins anew has first values.

Of a field that the step itself writes, and of a machine that never steps again, nothing shows in a step. But an actor
that recovers tells the digest of each record that it has: so it is known that one was lost, though not what of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from leasehold.checker.history.fault import recovered_words
from leasehold.checker.verify.run_state import RunState
from leasehold.checker.verify.system import CutsOfSystem
from leasehold.impl.actor.table import BELOW
from leasehold.impl.core.values import ValueFault, from_plain
from leasehold.impl.events.event import MachineStep, RecoveredEvent, StepEvent, record_digest
from leasehold.spec.language.types import show


@dataclass(frozen=True, slots=True)
class LostRecord:
    """A record that is not as its last event has left it.

    Attributes:
        cells: of the run's state, those that had other values before the step.
        words: what differs in them.
        numbers: what differs besides, of which the state of a run has nothing.
    """

    cells: dict[int, Any]
    words: tuple[str, ...]
    numbers: tuple[str, ...]


def first_steps(event: StepEvent) -> Iterator[MachineStep]:
    """Yields the first step of each machine in an event."""
    yield from {step.machine: step for step in reversed([*event.steps()])}.values()


def lost_record(known: CutsOfSystem, run: RunState, step: MachineStep) -> LostRecord | None:
    """Returns what was lost of a machine's record since its last event in a run; None: nothing that its step shows."""
    place = known.machine(step.machine)
    if place is None or step.machine not in run.epochs:
        return None
    role, number = place
    core, data = known.program.roles[role], known.system.roles[role].data
    at, reasons = known.layout.at(role, number, None), list[str]()
    moved = step.source != run.state[at]
    if moved:
        reasons.append(f"takes {step.event} in {step.source}, and its last event has left it in {run.state[at]}")
    anew = moved and step.source == core.first_state(number) and step.record.epoch <= 1
    writes, cells = known.writes.get((role, step.transition), frozenset()), {at: step.source}
    for name, d in data.items():
        cell = known.layout.at(role, number, name)
        if anew:
            cells[cell] = known.first[cell]
        elif name not in writes and name in step.record.data:
            with suppress(ValueFault):  # the step itself is refused for that
                cells[cell] = from_plain(d.type, step.record.data[name])
        if not moved and cells.get(cell, run.state[cell]) != run.state[cell]:
            has = show(d.type, cells[cell])[:60]
            reasons.append(f"takes {step.event}, which does not write {name}; it is {has} now, and was left otherwise")
    numbers = [*_numbers(known, run, step, place)]
    if max(step.record.epoch, 1) < run.epochs[step.machine]:
        numbers.append(f"takes {step.event} with state epoch {step.record.epoch}, after {run.epochs[step.machine]}")
    changed = {cell: value for cell, value in cells.items() if value != run.state[cell]}
    return LostRecord(changed, tuple(reasons), tuple(numbers)) if reasons or numbers else None


def _numbers(known: CutsOfSystem, run: RunState, step: MachineStep, place: tuple[str, int]) -> Iterator[str]:
    """Numbers of messages that are smaller than they were."""
    for lane, name, sends in known.lanes_of[place]:
        replayed = run.lanes.get(lane.cell)
        if replayed is None:
            continue
        had = replayed.newest if sends else replayed.received
        has = (step.record.sent if sends else step.record.received).get(name, 0)
        if has < had and (sends or step.received is None or step.received.machine != name):
            side = "sent to" if sends else "received from"
            yield f"takes {step.event}, and the last number {side} {name} is {has}; it was {had} before"


def recovered_otherwise(run: RunState, event: RecoveredEvent) -> Iterator[str]:
    """The machines of a run that an actor recovers with another record than their last events have left, in words."""
    machines = {**event.records.get(BELOW, {}), **event.records.get(run.name, {})}
    for key, machine in sorted(run.machines.of(event.actor).items(), key=lambda item: item[0].machine):
        if (has := machines.get(key.machine, "")) != record_digest(machine.record):
            yield recovered_words(key.machine, has)
