"""An event in one line, for people."""

from __future__ import annotations

from leasehold.impl.events.event import (
    AnyEvent,
    ForgottenEvent,
    FoundEvent,
    MachineStep,
    MigratedEvent,
    PrunedEvent,
    RecoveredEvent,
    RefusedEvent,
    SealEvent,
    StepEvent,
)


def summary(event: AnyEvent) -> str:
    """Returns what happened: `tenant:1 authority nascent -> priming: redeem from service_manager (1)`."""
    match event:
        case StepEvent(step=step):
            return _step(step)
        case RefusedEvent():
            return f"{event.lease} {event.machine} refused {event.event} of {event.cause or 'nobody'}: {event.reason}"
        case RecoveredEvent():
            more = f", {event.unrecorded} commits without events" if event.unrecorded else ""
            return f"recovered as epoch {event.epoch} with {event.machines} machines{more}"
        case FoundEvent():
            return f"{event.lease} {event.machine} is in {event.record.state}"
        case ForgottenEvent():
            return f"{event.lease} {event.machine} is forgotten, in {event.state}"
        case MigratedEvent():
            return f"migrated {event.records} records from {event.source[:12]} to {event.spec[:12]}"
        case PrunedEvent():
            late = f", not read by {', '.join(event.overtaken)}" if event.overtaken else ""
            return f"events up to {event.until} are dropped{late}"
        case SealEvent():
            return f"sealed with key {event.key[:12]} ({event.why})"


def _step(step: MachineStep) -> str:
    state = step.record.state if step.record.state == step.source else f"{step.source} -> {step.record.state}"
    text = f"{step.lease} {step.machine} {state}: {step.event}"
    if step.received is not None:
        text += f" from {step.received.machine} ({step.received.number})"
    elif step.cause:
        text += f" by {step.cause}"
    if not step.transition:
        text += f", not taken: {step.reason}"
    parts = [f"sends {sent.message} to {sent.to} ({sent.number})" for sent in step.sends]
    parts += [f"calls {call.target}" for call in step.starts]
    parts += [f"[{_step(driven)}]" for driven in step.driven]
    return "; ".join((text, *parts))
