"""Events that the world outside gives machines: what clients and operators tell, handlers answer, and probes find."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from leasehold.impl.actor.drafts import words
from leasehold.impl.actor.environment import ActorError, Impossible
from leasehold.impl.actor.ready import Complete, Observe, Ready, Tell
from leasehold.impl.actor.stepper import Stepper
from leasehold.impl.actor.table import BELOW, MachineInstance
from leasehold.impl.core.core import Program
from leasehold.impl.core.values import ValueFault, check_sizes, given_fields
from leasehold.impl.core.work import Event, Outcome, local
from leasehold.impl.events.event import EndedCall
from leasehold.impl.notices import Kind, Notice
from leasehold.impl.store.store import RecordKey

log = logging.getLogger("leasehold.outside")


def tell(stepper: Stepper, ready: Ready, request: Tell) -> Outcome:
    """Gives a machine a client's event. A subsidiary machine takes those that the specification has from outside.

    Raises:
        ActorError: there is no such machine or event, or the machine refuses it; nothing has changed.
    """
    key, event, fields = request
    instances = stepper.table.instances
    fresh = key.lease == BELOW and key not in instances
    instance = _new_below(stepper, key) if fresh else stepper.find(key)  # one of a run is there once it was driven
    check_origin(stepper.program, instance, event)
    heard = local_event(instance, event, fields, -1)
    instances[key] = instance
    outcome = stepper.step(ready, instance, heard, outside=True)
    if fresh and outcome.taken:
        stepper.table.add_undriven(instance)
    elif fresh:
        del instances[key]  # nothing has happened to it yet
    if not outcome.taken and outcome.kind != "ignored":
        whose = key.machine if key.lease == BELOW else f"{key.machine} of {key.lease}"
        raise ActorError(f"{whose} does not take {event} in {instance.state}: {outcome.reason}")
    return outcome


def check_origin(program: Program, instance: MachineInstance, event: str) -> None:
    """Checks whether clients, operators and policies may give a machine an event.

    Raises:
        ActorError: it comes from what drives the machine or from its handlers, or when its subsidiary machines have
            come to where it waits for them, and they have not.
    """
    core, machine = instance.core, instance.key.machine
    known = program.from_outside[core.role] if core.subsidiary else core.events
    if event in core.events and event not in known:
        reason = f"{event} comes from what drives {machine} or from its handlers, and not from outside"
        raise ActorError(f"{reason}; from there come: {', '.join(known) or 'none'}")
    if event in program.from_below.get(core.role, ()) and event not in core.offered(instance.record):
        raise ActorError(f"{event} comes when the subsidiary machines of {machine} have come there, and they have not")


def _new_below(stepper: Stepper, key: RecordKey) -> MachineInstance:
    """A subsidiary machine of this actor that nothing has happened to."""
    core, number = stepper.program.machines.get(key.machine, (None, 0))
    units = stepper.environment.units
    if core is None or core.role not in stepper.table.below or (units is not None and units.name(number) is None):
        raise ActorError(f"this actor has no {key.machine[:60]}")
    return MachineInstance(key, core, core.first(number), [])


def observe(stepper: Stepper, ready: Ready, request: Observe) -> None:
    """A probe has found something, which counts in the state that it was found in."""
    instance = stepper.table.instances.get(request.key)
    if instance is None or instance.state_epoch != request.epoch:
        stepper.counts["late"] += 1
        return
    outcome = stepper.step(ready, instance, local(request.event), outside=True)
    if outcome.kind == "refused":
        why = f"{request.key.machine} of {request.key.lease} does not take it: {outcome.reason}"
        log.error("a probe has found %s, and %s", request.event, why)


def complete(stepper: Stepper, ready: Ready, request: Complete) -> None:
    """A handler call has ended."""
    instance, done = stepper.table.instances.get(request.key), request.done
    if instance is None:
        return
    data = {"event": request.event, "well": done.well, "words": done.words}
    ready.notices.append(Notice(Kind.ANSWERED, stepper.name, *request.key, request.event, ready.now, data))
    if done.facts and instance.state_epoch == request.epoch:
        instance.metadata["facts"] = dict(done.facts)
        ready.change(instance)
    stepper.ended = EndedCall(request.epoch, done.well, words(done.words))
    outcome = stepper.step(ready, instance, local(request.event, request.fields, request.epoch), outside=True)
    if outcome.kind == "refused":
        why = f"{request.key.machine} of {request.key.lease} does not take it: {outcome.reason}"
        log.error("a handler answers %s, and %s", request.event, why)


def local_event(instance: MachineInstance, event: str, fields: Mapping[str, Any], epoch: int) -> Event:
    """A local event of a machine, its fields by name.

    Raises:
        Impossible: the machine has no such event, or it has other fields, or larger ones.
    """
    shape = instance.core.events.get(event)
    if shape is None:
        known = ", ".join(instance.core.events)
        raise Impossible(f"{instance.core.role} has no event {event[:60]!r}; it has {known}")
    try:
        values = given_fields(shape, fields)
        check_sizes(shape, values)
    except ValueFault as fault:
        raise Impossible(f"{event}: {fault}") from None
    return local(event, values, epoch)
