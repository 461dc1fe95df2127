"""Alterations of logs: what a faulty core, store or network, or somebody who can write a store, may leave in them.

Each takes the event at a position of an actor's log and gives what is there instead: none, one or several; None where
it does not apply there. Positions and digests are written anew behind it, as by one who cannot sign.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from leasehold.checker.conform.known import KnownSystem
from leasehold.impl.core.core import Core
from leasehold.impl.events.event import (
    ROOT,
    AnyEvent,
    EndedCall,
    ForgottenEvent,
    FoundEvent,
    MachineStep,
    ReceivedMessage,
    RecoveredEvent,
    RefusedEvent,
    StartedCall,
    StepEvent,
    digest,
    write,
)

Alter = Callable[[KnownSystem, list[AnyEvent], int], list[AnyEvent] | None]
ALTERATIONS: dict[str, Alter] = {}
OTHER = {"message": "client", "timer": "message", "policy": "timer", "handler": "probe", "probe": "parent",
         "client": "subsidiary", "subsidiary": "parent", "parent": "client"}  # fmt: skip


def alters(make: Alter) -> Alter:
    ALTERATIONS[make.__name__] = make
    return make


def of_step(make: Callable[[KnownSystem, MachineStep], MachineStep | None]) -> Alter:
    """An alteration of a step alone."""

    def alter(known: KnownSystem, events: list[AnyEvent], at: int) -> list[AnyEvent] | None:
        event = events[at]
        step = make(known, event.step) if isinstance(event, StepEvent) else None
        return [replace(event, step=step)] if step else None

    ALTERATIONS[make.__name__] = alter
    return alter


def rewritten(events: list[AnyEvent]) -> list[AnyEvent]:
    """Positions and digests written anew."""
    before, found = ROOT, list[AnyEvent]()
    for position, event in enumerate(events, 1):
        found.append(replace(event, position=position, before=before))
        before = digest(write(found[-1]))
    return found


def altered(name: str, known: KnownSystem, log: Mapping[str, list[AnyEvent]], actor: str, at: int) -> Any:
    """A log with one alteration; None where it does not apply."""
    events = log[actor]
    instead = ALTERATIONS[name](known, events, at)
    if instead is None:
        return None
    return {**log, actor: rewritten([*events[:at], *instead, *events[at + 1 :]])}


def _core(known: KnownSystem, machine: str) -> Core:
    return known.program.machines[machine][0]


def _record(step: MachineStep, **fields: Any) -> MachineStep:
    return replace(step, record=replace(step.record, **fields))


def _other(value: Any) -> Any:
    """Another value, perhaps one of its type."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case str():
            return value + "x"
        case list() if value:
            return [*value[:-1], _other(value[-1])]
        case None:
            return 1
    return None


def _one_other(values: Mapping[str, Any]) -> dict[str, Any] | None:
    for name, value in values.items():
        if (other := _other(value)) is not None:
            return {**values, name: other}
    return None


# Its record


@of_step
def another_state(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    others = [s for s in _core(known, step.machine).states if s != step.record.state]
    return _record(step, state=others[0]) if others else None


@of_step
def another_value(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    data = _one_other(step.record.data)
    return data and _record(step, data=data)


@of_step
def a_value_is_missing(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    return _record(step, data=dict(list(step.record.data.items())[1:])) if step.record.data else None


@of_step
def a_later_state_epoch(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    return _record(step, epoch=step.record.epoch + 1)


@of_step
def an_earlier_state_epoch(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    return _record(step, epoch=step.record.epoch - 1) if step.record.epoch else None


@of_step
def a_sent_number_is_higher(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    sent = step.record.sent
    return _record(step, sent={**sent, next(iter(sent)): next(iter(sent.values())) + 1}) if sent else None


@of_step
def a_sent_number_is_missing(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    return _record(step, sent=dict(list(step.record.sent.items())[1:])) if step.record.sent else None


@of_step
def a_received_number_is_higher(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    heard = step.record.received
    return _record(step, received={**heard, next(iter(heard)): next(iter(heard.values())) + 1}) if heard else None


@of_step
def a_received_number_is_missing(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    return _record(step, received=dict(list(step.record.received.items())[1:])) if step.record.received else None


@of_step
def a_task_began_at_another_epoch(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    since = step.record.since
    return _record(step, since={**since, next(iter(since)): next(iter(since.values())) + 1}) if since else None


# What it consumed


@of_step
def another_source(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    others = [s for s in _core(known, step.machine).states if s != step.source]
    return replace(step, source=others[0]) if others else None


@of_step
def another_event(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    others = [name for name in _core(known, step.machine).events if name != step.event]
    return replace(step, event=others[0]) if others and step.received is None else None


@of_step
def another_message(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    others = [name for name in known.program.messages if name != step.event]
    return replace(step, event=others[0]) if others and step.received is not None else None


@of_step
def another_field_of_a_message(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    fields = _one_other(step.fields) if step.received is not None else None
    return fields and replace(step, fields=fields)


@of_step
def a_field_is_missing(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    return replace(step, fields=dict(list(step.fields.items())[1:])) if step.fields else None


@of_step
def a_field_too_many(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    return replace(step, fields={**step.fields, "more": 1})


@of_step
def another_cause(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    return replace(step, cause=OTHER[step.cause]) if step.cause else None


@of_step
def an_answer_to_another_epoch(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    answers = step.answers
    return None if answers is None else replace(step, answers=replace(answers, epoch=answers.epoch + 1))


@of_step
def an_answer_to_nothing(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    return replace(step, answers=None) if step.answers is not None and step.cause == "handler" else None


@of_step
def an_answer_of_no_call(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    asked = step.received is None and step.event != "tick"
    return None if asked else replace(step, answers=EndedCall(step.record.epoch))


def _received(step: MachineStep, **fields: Any) -> MachineStep | None:
    return None if step.received is None else replace(step, received=replace(step.received, **fields))


@of_step
def from_another_machine(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    others = [name for name in known.program.machines if step.received and name != step.received.machine]
    return _received(step, machine=others[0]) if others else None


@of_step
def from_another_actor(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    return _received(step, actor="somebody")


@of_step
def a_number_that_was_not_sent(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    return step.received and _received(step, number=step.received.number + 7)


@of_step
def a_number_that_came_before(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    return step.received and _received(step, number=step.received.number - 1)


@of_step
def a_message_of_nobody(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    return replace(step, received=None) if step.received is not None else None


@of_step
def a_local_event_as_a_message(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    sender = next(iter(known.program.machines))
    return replace(step, received=ReceivedMessage(sender, "", 1)) if step.received is None else None


# What followed


@of_step
def another_transition(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    role = known.system.roles[_core(known, step.machine).role]
    others = [t.name for t in role.transitions() if t.name != step.transition]
    return replace(step, transition=others[0]) if others else None


@of_step
def no_transition(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    return replace(step, transition="", reason="it is late") if step.transition else None


@of_step
def another_reason(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    return replace(step, reason="for fun")


@of_step
def a_reason_is_missing(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    return replace(step, reason="") if step.reason else None


@of_step
def a_message_is_not_sent(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    return replace(step, sends=step.sends[1:]) if step.sends else None


@of_step
def a_message_is_sent_twice(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    return replace(step, sends=(*step.sends, step.sends[0])) if step.sends else None


def _sent(step: MachineStep, **fields: Any) -> MachineStep | None:
    return replace(step, sends=(replace(step.sends[0], **fields), *step.sends[1:])) if step.sends else None


@of_step
def sent_with_another_number(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    return step.sends and _sent(step, number=step.sends[0].number + 1)


@of_step
def sent_with_another_field(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    fields = _one_other(step.sends[0].fields) if step.sends else None
    return fields and _sent(step, fields=fields)


@of_step
def sent_as_another_message(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    others = [name for name in known.program.messages if step.sends and name != step.sends[0].message]
    return _sent(step, message=others[0]) if others else None


@of_step
def sent_to_another_machine(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    others = [name for name in known.program.machines if step.sends and name != step.sends[0].to]
    return _sent(step, to=others[0]) if others else None


@of_step
def a_call_is_not_begun(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    return replace(step, starts=step.starts[1:]) if step.starts else None


@of_step
def a_call_is_begun_twice(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    return replace(step, starts=(*step.starts, step.starts[0])) if step.starts else None


@of_step
def another_call(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    return replace(step, starts=(*step.starts, StartedCall("dance", "policy.dance")))


@of_step
def another_target(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    starts = step.starts
    return replace(step, starts=(replace(starts[0], target="policy.dance"), *starts[1:])) if starts else None


@of_step
def a_subsidiary_machine_is_not_driven(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    return replace(step, driven=step.driven[1:]) if step.driven else None


@of_step
def a_subsidiary_machine_is_driven_twice(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    return replace(step, driven=(*step.driven, step.driven[-1])) if step.driven else None


@of_step
def a_subsidiary_machine_becomes_another(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    if not step.driven:
        return None
    return replace(step, driven=(_record(step.driven[0], epoch=step.driven[0].record.epoch + 3), *step.driven[1:]))


@of_step
def it_serves_another_lease(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    return replace(step, serves="somebody:9") if step.lease == "-" else None


@of_step
def what_it_drives_serves_another_lease(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    return (
        replace(step, driven=(replace(step.driven[0], serves="somebody:9"), *step.driven[1:])) if step.driven else None
    )


@of_step
def of_another_lease(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    return replace(step, lease="somebody:9") if step.lease != "-" else None


@of_step
def of_a_machine_that_is_none(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    return replace(step, machine="nobody")


# The event


@alters
def of_another_specification(known: KnownSystem, events: list[AnyEvent], at: int) -> list[AnyEvent] | None:
    return [replace(events[at], spec="0" * 64)]


@alters
def of_an_incarnation_that_has_not_begun(known: KnownSystem, events: list[AnyEvent], at: int) -> list[AnyEvent] | None:
    return [replace(events[at], epoch=events[at].epoch + 1)] if not isinstance(events[at], RecoveredEvent) else None


@alters
def of_an_earlier_incarnation(known: KnownSystem, events: list[AnyEvent], at: int) -> list[AnyEvent] | None:
    return [replace(events[at], epoch=events[at].epoch - 1)] if at else None


@alters
def of_an_earlier_time(known: KnownSystem, events: list[AnyEvent], at: int) -> list[AnyEvent] | None:
    event = events[at]
    same = at and events[at - 1].epoch == event.epoch and events[at - 1].now > 0
    return [replace(event, now=events[at - 1].now - 1)] if same else None


@alters
def of_a_later_time_than_the_rest_of_its_commit(
    known: KnownSystem, events: list[AnyEvent], at: int
) -> list[AnyEvent] | None:  # fmt: skip
    event = events[at]
    same = at and (events[at - 1].commit, events[at - 1].epoch) == (event.commit, event.epoch)
    return [replace(event, now=event.now + 1)] if same else None


@alters
def of_an_earlier_commit(known: KnownSystem, events: list[AnyEvent], at: int) -> list[AnyEvent] | None:
    return [replace(events[at], commit=events[at - 1].commit - 1)] if at else None


# The log


def _steps_of(events: list[AnyEvent], of: StepEvent) -> Iterator[MachineStep]:
    """The steps of the machine of an event."""
    for event in events:
        for step in event.steps():
            if (step.lease, step.machine) == (of.step.lease, of.step.machine):
                yield step


def _is_followed(events: list[AnyEvent], at: int) -> bool:
    """Returns whether a transition is missed: it has changed the record, and the machine steps again later.

    Only signatures show what is missing at the end; and a message that moves nothing may as well have been lost.
    """
    event = events[at]
    if not isinstance(event, StepEvent) or not event.step.transition:
        return False
    before = [step.record for step in _steps_of(events[:at], event)]
    return before[-1:] != [event.step.record] and any(_steps_of(events[at + 1 :], event))


@alters
def a_step_is_missing(known: KnownSystem, events: list[AnyEvent], at: int) -> list[AnyEvent] | None:
    return [] if _is_followed(events, at) else None


@alters
def a_step_comes_twice(known: KnownSystem, events: list[AnyEvent], at: int) -> list[AnyEvent] | None:
    return [events[at], events[at]] if _is_followed([*events, events[at]], at) else None


@alters
def an_incarnation_is_missing(known: KnownSystem, events: list[AnyEvent], at: int) -> list[AnyEvent] | None:
    return [] if isinstance(events[at], RecoveredEvent) and 0 < at < len(events) - 1 else None


@alters
def an_incarnation_comes_twice(known: KnownSystem, events: list[AnyEvent], at: int) -> list[AnyEvent] | None:
    return [events[at], events[at]] if isinstance(events[at], RecoveredEvent) else None


@alters
def other_constants(known: KnownSystem, events: list[AnyEvent], at: int) -> list[AnyEvent] | None:
    event = events[at]
    return [replace(event, agreement=known.program.digest + ".0")] if isinstance(event, RecoveredEvent) else None


@alters
def commits_without_events(known: KnownSystem, events: list[AnyEvent], at: int) -> list[AnyEvent] | None:
    return [replace(events[at], unrecorded=3)] if isinstance(events[at], RecoveredEvent) and at else None


@alters
def more_machines_recover(known: KnownSystem, events: list[AnyEvent], at: int) -> list[AnyEvent] | None:
    event = events[at]
    follows = at + 1 < len(events) and isinstance(events[at + 1], FoundEvent)  # as where events begin late
    return [replace(event, machines=event.machines + 1)] if isinstance(event, RecoveredEvent) and not follows else None


@alters
def constants_that_are_not_those_agreed(
    known: KnownSystem, events: list[AnyEvent], at: int
) -> list[AnyEvent] | None:  # fmt: skip
    event = events[at]
    if not isinstance(event, RecoveredEvent) or not (shared := known.program.shared_constants):
        return None
    return [replace(event, constants={**event.constants, next(iter(shared)): 99})]


def _besides(event: StepEvent, kind: Callable[..., AnyEvent], **fields: Any) -> AnyEvent:
    """An event of the same commit."""
    of = {name: getattr(event, name) for name in ("actor", "epoch", "spec", "now", "time", "commit")}
    return kind(position=0, before="", lease=event.step.lease, machine=event.step.machine, **of, **fields)


@alters
def found_in_a_record_that_no_step_has_left(
    known: KnownSystem, events: list[AnyEvent], at: int
) -> list[AnyEvent] | None:  # fmt: skip
    event = events[at]
    if not isinstance(event, StepEvent):
        return None
    record = replace(event.step.record, epoch=event.step.record.epoch + 3)
    return [event, _besides(event, FoundEvent, record=record)]


@alters
def a_unit_is_forgotten(known: KnownSystem, events: list[AnyEvent], at: int) -> list[AnyEvent] | None:
    event = events[at]
    if not isinstance(event, StepEvent) or not _core(known, event.step.machine).subsidiary:
        return None
    return [event, _besides(event, ForgottenEvent, state=event.step.record.state)]


@alters
def forgotten_and_begun_again(known: KnownSystem, events: list[AnyEvent], at: int) -> list[AnyEvent] | None:
    event = events[at]
    if not isinstance(event, StepEvent) or not _core(known, event.step.machine).over(event.step.record.state):
        return None
    first = next(step for step in _steps_of(events, event) if step.source != step.record.state)
    return [event, _besides(event, ForgottenEvent, state=event.step.record.state), replace(event, step=first)]


@alters
def another_record_recovers(known: KnownSystem, events: list[AnyEvent], at: int) -> list[AnyEvent] | None:
    event = events[at]
    if not isinstance(event, RecoveredEvent) or not event.records or not at:
        return None
    lease, machines = next(iter(event.records.items()))
    return [replace(event, records={**event.records, lease: dict.fromkeys(machines, "0123456789abcdef")})]


@alters
def refused_what_is_taken_next(known: KnownSystem, events: list[AnyEvent], at: int) -> list[AnyEvent] | None:
    event = events[at]
    if not isinstance(event, StepEvent) or event.step.cause not in ("policy", "client", "handler", "probe"):
        return None
    step = event.step
    if not any(_steps_of(events[:at], event)):
        return None
    refused = RefusedEvent(
        position=0, before="", actor=event.actor, epoch=event.epoch, spec=event.spec, now=event.now, time=event.time,
        commit=event.commit, lease=step.lease, machine=step.machine, event=step.event, cause=step.cause,
        reason="it says no", fields=step.fields,
    )  # fmt: skip
    return [refused, event]


@alters
def forgotten_before_its_end(known: KnownSystem, events: list[AnyEvent], at: int) -> list[AnyEvent] | None:
    event = events[at]
    if not isinstance(event, StepEvent) or _core(known, event.step.machine).subsidiary:
        return None
    state = event.step.record.state
    return (
        None if _core(known, event.step.machine).over(state) else [event, _besides(event, ForgottenEvent, state=state)]
    )
