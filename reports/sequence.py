"""A path as a sequence diagram: lifelines, and for each step the rows that are drawn for it.

Nothing here knows how it will be drawn: trace.py writes it as text, mermaid.py as Mermaid, lifelines.py as SVG and the
page draws it in the browser. A row stands on the lifeline `at`; where it has a `peer`, it is an arrow between the two.
Messages are drawn where they are received; where they are sent, a stub shows that they are on their way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from leasehold.checker.explore.result import Path, Snapshot, Step
from leasehold.faults.model.catalogue import catalogue

RowKind: TypeAlias = Literal[
    "receive",  # an arrow from peer to at: a message is consumed
    "again",  # the same for a message received again: no transition is taken
    "lose",  # an arrow from peer towards at that does not arrive
    "send",  # a stub from at towards peer: a message is put on its way
    "drive",  # an arrow from the parent (peer) to its subsidiary machine (at)
    "event",  # a local event
    "tick",  # a timer of the machine is due
    "state",  # the machine's new control state
    "ignore",  # the event changed nothing
    "crash",  # the machine's actor stops, by a crash or another fault
    "halt",  # it stops for good
    "recover",  # the machine starts again from its record
    "retry",  # the machine sends a lost message again
    "clock",  # a rule through all lifelines: time passes
    "partition",  # the same: the network falls into two sides
    "heal",  # the same: it is whole again
    "skew",  # a note through all lifelines: a clock leaves true time, or comes back to it
    "other",  # a note through all lifelines
]

MANY = 8  # lifelines that are always shown

# The row of a step's action, by the step's kind. A kind that does not stand here is a note.
_ROWS: Mapping[str, RowKind] = {
    "deliver": "receive",
    "duplicate": "again",
    "lose": "lose",
    "local": "event",
    "tick": "tick",
    "clock": "clock",
    "recover": "recover",
    "retry": "retry",
    "partition": "partition",
    "heal": "heal",
    "skew": "skew",
    "drift": "skew",
    **{fault.name: "halt" if fault.lasts else "crash" for fault in catalogue() if fault.stops},
}
_SPANNING = {"clock", "other", "partition", "heal", "skew"}
_ADDED: Mapping[str, str] = {
    "again": " (again)",
    "lose": " (lost)",
    "recover": " – recovery",
    "retry": " – retry",
    **{fault.name: f" – {fault.stops}" for fault in catalogue() if fault.stops},
}
# Their events are named for their kind; a row has it once.
_NAMED = {"crash", "halt", "recover", "retry"}
# How a text marks that an actor stops, and that it starts again.
MARKS: Mapping[str, str] = {
    name: name.upper() for name in (*(fault.name for fault in catalogue() if fault.stops), "recover")
}


@dataclass(frozen=True, slots=True)
class DiagramRow:
    kind: RowKind
    text: str
    at: str | None = None  # None: all lifelines
    peer: str | None = None
    fault: str = ""  # by which the actor stops; empty: by that which the kind names

    @property
    def name(self) -> str:
        """The kind, or the fault by which the actor stops."""
        return self.fault or self.kind

    @property
    def label(self) -> str:
        """The words beside the row's drawing."""
        # Only a machine that has siblings needs its name at a stub: the stub already points the way.
        if self.kind == "send" and self.peer and "[" in self.peer:
            return f"{self.text} → {self.peer}"
        return self.text + _ADDED.get(self.name, "")


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field of a machine's data, before and after a step."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class SequenceStep:
    """One step: its number from 1, its title, its rows, and its changes."""

    number: int
    title: str
    transition: str | None
    rows: tuple[DiagramRow, ...]
    mark: str  # such as CRASH; empty for a step without a fault
    control: Mapping[str, str]  # machines in a new control state, as it is shown
    data: tuple[FieldChange, ...]
    channels: Mapping[str, tuple[str, ...]] | None  # all that is on its way afterwards; None: as before
    now: int | None


@dataclass(frozen=True, slots=True)
class SequenceDiagram:
    """A path, drawn. `loop` is the number of the beat that an endless run returns to."""

    lifelines: tuple[str, ...]
    initial: Snapshot
    steps: tuple[SequenceStep, ...]
    loop: int | None
    waiting: tuple[str, ...]  # messages on their way at the end


def sequence(path: Path) -> SequenceDiagram:
    """Arranges a path for drawing. Lifelines are in the order of the system.

    Every machine has one; where there are more than MANY, only those that do something have.
    """
    steps = [sequence_step(number, step, before) for number, (before, step) in enumerate(path.moves(), 1)]
    machines = tuple(path.initial.control)
    if len(machines) > MANY:
        acting = {machine for b in steps for row in b.rows for machine in (row.at, row.peer)}
        machines = tuple(m for m in machines if m in acting) or machines[:1]
    return SequenceDiagram(
        machines,
        path.initial,
        tuple(steps),
        None if path.loop is None else path.loop + 1,
        tuple(f"{channel}: {message}" for channel, messages in path.final.channels.items() for message in messages),
    )


def sequence_step(number: int, step: Step, before: Snapshot) -> SequenceStep:
    """One step of a path, drawn."""
    after = step.state
    changed = (
        FieldChange(name, before.data.get(name, ""), value)
        for name, value in after.data.items()
        if before.data.get(name, "") != value
    )
    return SequenceStep(
        number,
        step.title,
        step.transition,
        tuple(_rows(step, before)),
        MARKS.get(step.kind, ""),
        {machine: state for machine, state in after.shown.items() if before.shown.get(machine) != state},
        tuple(changed),
        None if after.channels == before.channels else after.channels,
        after.now,
    )


def call_text(name: str, fields: Mapping[str, str]) -> str:
    """`ticket(units=1, end=2)`."""
    return f"{name}({', '.join(f'{k}={v}' for k, v in fields.items())})" if fields else name


def _rows(step: Step, before: Snapshot) -> Iterator[DiagramRow]:
    kind = _ROWS.get(step.kind, "other")
    if kind in _SPANNING or step.machine is None:
        now = "" if step.state.now is None else f"now = {step.state.now}"
        yield DiagramRow(kind, now if kind == "clock" and now else step.title, None)
    elif kind == "crash" and step.transition is not None:
        # The consumed event, then the commit and the work done, then the crash.
        event = step.transition.partition("#")[2].partition(".")[0]
        yield DiagramRow(
            "receive" if step.sender else "event", call_text(event, step.fields), step.machine, step.sender
        )
    elif kind in _NAMED:
        yield _stop(kind, step)
    else:
        yield DiagramRow(kind, call_text(step.event, step.fields), step.machine, step.sender)
        if step.transition is None and kind in {"receive", "event", "tick"}:
            yield DiagramRow("ignore", "ignored", step.machine)

    drawn = {d.machine for d in step.driven}
    for machine, state in step.state.control.items():
        if machine not in drawn and before.control.get(machine) != state:
            yield DiagramRow("state", step.state.shown[machine], machine)
    for driven in step.driven:
        yield DiagramRow("drive", driven.event, driven.machine, step.machine)
        if driven.before != driven.after:
            last = step.state.control.get(driven.machine) == driven.after
            yield DiagramRow("state", step.state.shown[driven.machine] if last else driven.after, driven.machine)
    for sent in step.sent:
        yield DiagramRow("send", call_text(sent.message, sent.fields), sent.sender, sent.receiver)
    if kind == "crash" and step.transition is not None:
        yield _stop(kind, step)


def _stop(kind: RowKind, step: Step) -> DiagramRow:
    fault = "" if kind == step.kind else step.kind
    return DiagramRow(kind, step.event.removeprefix(f"{step.kind}:"), step.machine, fault=fault)
