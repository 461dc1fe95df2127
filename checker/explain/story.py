"""The story of a lease: what happened to its machines, one entry for each event and machine, as plain data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from leasehold.checker.history.fold import lease_of
from leasehold.impl.events.event import (
    AnyEvent,
    ForgottenEvent,
    FoundEvent,
    MachineStep,
    MigratedEvent,
    RecoveredEvent,
    RefusedEvent,
    StepEvent,
)


@dataclass(frozen=True, slots=True)
class StoryEntry:
    """The account that one event gives of one machine.

    Attributes:
        actor, position, now, time: the event: whose, where in its chain, at which tick, in seconds since 1970.
        kind: of the event.
        machine: which; empty: it is about the actor.
        source, state: the state before, and after.
        event, cause, fields: what it has consumed, and where that came from (`MachineStep.cause`).
        sender, number: of a message.
        transition: that was taken.
        reason: why none was taken, or why it was refused.
        well, words: of the end of a handler's call: whether it has done what it was called for, and what it says.
        sends, starts: the messages and calls that follow, by name: `ticket to broker`, `handler.join`.
        driven: another machine has driven it in the same step.
    """

    actor: str
    position: int
    now: int
    time: float
    kind: str
    machine: str = ""
    source: str = ""
    state: str = ""
    event: str = ""
    cause: str = ""
    fields: dict[str, Any] = field(default_factory=dict)
    sender: str = ""
    number: int = 0
    transition: str = ""
    reason: str = ""
    well: bool = True
    words: str = ""
    sends: tuple[str, ...] = ()
    starts: tuple[str, ...] = ()
    driven: bool = False

    @property
    def matters(self) -> bool:
        """Returns whether it has a place in a short story: something has changed, was decided, or has failed."""
        if self.kind != "step":
            return True
        return bool(self.transition) or self.cause in ("policy", "client", "probe") or not self.well

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "matters": self.matters}


def entries(event: AnyEvent, lease: str, plays: bool) -> Iterator[StoryEntry]:
    """Yields what an event says of a lease.

    Args:
        event: any.
        lease: which.
        plays: whether the actor has machines of the lease, so that what happens to the actor concerns it.
    """
    match event:
        case StepEvent():
            yield from _steps(event, event.step, lease, driven=False)
        case RefusedEvent() if event.lease == lease:
            yield _entry(
                event,
                "refused",
                machine=event.machine,
                event=event.event,
                cause=event.cause,
                fields=event.fields,
                reason=event.reason,
            )
        case FoundEvent() if lease in (event.lease, event.serves):
            yield _entry(event, "found", machine=event.machine, state=event.record.state)
        case ForgottenEvent() if event.lease == lease:
            yield _entry(event, "forgotten", machine=event.machine, state=event.state)
        case RecoveredEvent() if plays:
            yield _entry(event, "recovered", number=event.epoch)
        case MigratedEvent() if plays:
            yield _entry(event, "migrated", words=f"from specification {event.source[:12]} to {event.spec[:12]}")


def _steps(event: AnyEvent, step: MachineStep, lease: str, driven: bool) -> Iterator[StoryEntry]:
    if lease_of(step) == lease:
        yield step_entry(event, step, driven)
    for one in step.driven:
        yield from _steps(event, one, lease, driven=True)


def step_entry(event: AnyEvent, step: MachineStep, driven: bool) -> StoryEntry:
    """Returns what an event says of one step; `driven`: another machine's step has it."""
    came, ended = step.received, step.answers
    return _entry(
        event,
        "step",
        machine=step.machine,
        source=step.source,
        state=step.record.state,
        event=step.event,
        cause=step.cause,
        fields=step.fields,
        sender="" if came is None else came.machine,
        number=0 if came is None else came.number,
        transition=step.transition,
        reason=step.reason,
        well=ended is None or ended.well,
        words="" if ended is None else ended.words,
        sends=tuple(f"{sent.message} to {sent.to}" for sent in step.sends),
        starts=tuple(call.target for call in step.starts),
        driven=driven,
    )


def _entry(of: AnyEvent, kind: str, **more: Any) -> StoryEntry:
    return StoryEntry(of.actor, of.position, of.now, of.time, kind, **more)
