"""Alterations of logs: what a faulty core, store or network, or somebody who can write a store, may leave in them.

The table (planted/logs.yaml) has all, and what is found of each: most are another value of one field of a step. Each
takes the event at a position of an actor's log and gives what is there instead: none, one or several; None where it
does not apply there. Positions and digests are written anew behind it, as by one who cannot sign.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from leasehold.checker.conform.known import KnownSystem
from leasehold.impl.actor.table import BELOW
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
from leasehold.impl.words import over, parted
from tests.planted.table import rows

Alter = Callable[[KnownSystem, list[AnyEvent], int], list[AnyEvent] | None]
TABLE: dict[str, dict[str, Any]] = rows("logs.yaml")
OTHER = {
    "message": "client",
    "timer": "message",
    "policy": "timer",
    "handler": "probe",
    "probe": "parent",
    "client": "subsidiary",
    "subsidiary": "parent",
    "parent": "client",
}
# By what the table calls it, another value of a field of a step; None: it has none.
CHANGES: dict[str, Callable[[KnownSystem, MachineStep, Any], Any]] = {
    "more": lambda known, step, value: value + 1,
    "far_more": lambda known, step, value: value + 7,
    "less": lambda known, step, value: value - 1 if value else None,
    "first_more": lambda known, step, value: _with_first(value, lambda first: first + 1),
    "first_other": lambda known, step, value: _one_other(value),
    "drop_first": lambda known, step, value: type(value)([*(value.items() if isinstance(value, dict) else value)][1:]),
    "double_first": lambda known, step, value: (*value, *value[:1]),
    "double_last": lambda known, step, value: (*value, *value[-1:]),
    "add_field": lambda known, step, value: {**value, "more": 1},
    "add_call": lambda known, step, value: (*value, StartedCall("dance", "policy.dance")),
    "another_state": lambda known, step, value: _another(value, _core(known, step.machine).states),
    "another_event": lambda known, step, value: _another(value, _core(known, step.machine).events),
    "another_message": lambda known, step, value: _another(value, known.program.messages),
    "another_machine": lambda known, step, value: _another(value, known.program.machines),
    "another_cause": lambda known, step, value: OTHER.get(value),
    "another_transition": lambda known, step, value: _another(value, _transitions(known, step)),
}
# By what the table calls it, the steps that an alteration is one of.
OF: dict[str, Callable[[MachineStep], bool]] = {
    "message": lambda step: step.received is not None,
    "local": lambda step: step.received is None,
    "handler": lambda step: step.cause == "handler",
    "below": lambda step: step.lease == BELOW,
    "lease": lambda step: step.lease != BELOW,
}


def of_field(field: str, do: str = "", of: str = "", **values: Any) -> Alter:
    """An alteration of one field of a step: it has another value, which `do` makes, or `is`."""

    def alter(known: KnownSystem, events: list[AnyEvent], at: int) -> list[AnyEvent] | None:
        event = events[at]
        if not isinstance(event, StepEvent) or (of and not OF[of](event.step)):
            return None
        path = field.split(".")
        if (holder := _at(event.step, path[:-1])) is None:
            return None
        value = _at(holder, path[-1:])
        other = CHANGES[do](known, event.step, value) if do and value is not None else values.get("is")
        if other == value or (other is None and do):
            return None
        return [replace(event, step=_put(event.step, path, other))]

    return alter


def _at(value: Any, path: Sequence[str]) -> Any:
    """The part of a step at a path; None where there is none."""
    for name in path:
        if name.isdigit():
            value = value[int(name)] if int(name) < len(value) else None
        else:
            value = None if value is None else getattr(value, name)
    return value


def _put(value: Any, path: Sequence[str], other: Any) -> Any:
    """A step with another value at a path."""
    if not path:
        return other
    name, *rest = path
    if name.isdigit():
        return tuple(_put(one, rest, other) if at == int(name) else one for at, one in enumerate(value))
    return replace(value, **{name: _put(getattr(value, name), rest, other)})


def _another(value: str, among: Iterable[str]) -> str | None:
    return next((one for one in among if one != value), None)


def _transitions(known: KnownSystem, step: MachineStep) -> list[str]:
    return [t.name for t in known.system.roles[_core(known, step.machine).role].transitions()]


def _with_first(values: Mapping[str, Any], change: Callable[[Any], Any]) -> dict[str, Any] | None:
    """A mapping of which the first value is another."""
    name = next(iter(values), None)
    return None if name is None else {**values, name: change(values[name])}


ALTERATIONS: dict[str, Alter] = {name: of_field(**row["change"]) for name, row in TABLE.items() if "change" in row}


def alters(make: Alter) -> Alter:
    """An alteration of its own, which the table has as well."""
    assert make.__name__ in TABLE
    ALTERATIONS[make.__name__] = make
    return make


def of_step(make: Callable[[KnownSystem, MachineStep], MachineStep | None]) -> Alter:
    """An alteration of a step alone."""

    def alter(known: KnownSystem, events: list[AnyEvent], at: int) -> list[AnyEvent] | None:
        event = events[at]
        step = make(known, event.step) if isinstance(event, StepEvent) else None
        return [replace(event, step=step)] if step else None

    alter.__name__ = make.__name__
    return alters(alter)


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


# A step


@of_step
def an_answer_of_no_call(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    asked = step.received is None and step.event != "tick"
    return None if asked else replace(step, answers=EndedCall(step.record.epoch))


@of_step
def a_local_event_as_a_message(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    sender = next(iter(known.program.machines))
    return replace(step, received=ReceivedMessage(sender, "", 1)) if step.received is None else None


@of_step
def no_transition(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    return replace(step, transition="", reason="it is late") if step.transition else None


def _beside(known: KnownSystem, name: str) -> str | None:
    """The name of another channel's numbers, of one that leads the same way between the two machines."""
    machine, channel = parted(name)
    channels = known.system.channels
    ends = [(one.sender, one.receiver) for one in channels.values() if one.name == channel]
    same = (o.name for o in channels.values() if (o.sender, o.receiver) in ends and o.name != channel)
    return next((over(machine, other) for other in same), None)


def _exchanged(known: KnownSystem, numbers: Mapping[str, int]) -> dict[str, int] | None:
    """Numbers of which those of two channels stand for each other; None where there are no two that differ."""
    for name, number in numbers.items():
        other = _beside(known, name)
        if other is not None and numbers.get(other, 0) != number:
            exchanged = {**numbers, other: number, name: numbers.get(other, 0)}
            return {name: number for name, number in exchanged.items() if number}
    return None


@of_step
def sent_numbers_of_two_channels_exchanged(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    numbers = _exchanged(known, step.record.sent)
    return None if numbers is None else replace(step, record=replace(step.record, sent=numbers))


@of_step
def received_numbers_of_two_channels_exchanged(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    numbers = _exchanged(known, step.record.received)
    return None if numbers is None else replace(step, record=replace(step.record, received=numbers))


@of_step
def received_over_another_channel(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    other = _beside(known, step.received.name) if step.received is not None else None
    return None if other is None else replace(step, received=replace(step.received, channel=parted(other)[1]))


@of_step
def received_with_the_number_of_another_channel(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    """So that the record has it, too, as an actor with one number for both would leave it."""
    of = step.received
    other = _beside(known, of.name) if of is not None else None
    number = 0 if other is None else step.record.received.get(other, 0)
    if of is None or not number or number == of.number:
        return None
    heard = {**step.record.received, of.name: number}
    return replace(step, received=replace(of, number=number), record=replace(step.record, received=heard))


@of_step
def sent_over_another_channel(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    for at, sent in enumerate(step.sends):
        if (other := _beside(known, sent.name)) is not None:
            others = replace(sent, channel=parted(other)[1])
            return replace(step, sends=(*step.sends[:at], others, *step.sends[at + 1 :]))
    return None


@of_step
def sent_with_the_number_of_another_channel(known: KnownSystem, step: MachineStep) -> MachineStep | None:
    for at, sent in enumerate(step.sends):
        other = _beside(known, sent.name)
        number = 0 if other is None else step.record.sent.get(other, 0)
        if number and number != sent.number:
            return replace(step, sends=(*step.sends[:at], replace(sent, number=number), *step.sends[at + 1 :]))
    return None


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
) -> list[AnyEvent] | None:
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
def constants_that_are_not_those_agreed(known: KnownSystem, events: list[AnyEvent], at: int) -> list[AnyEvent] | None:
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
) -> list[AnyEvent] | None:
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
        position=0,
        before="",
        actor=event.actor,
        epoch=event.epoch,
        spec=event.spec,
        now=event.now,
        time=event.time,
        commit=event.commit,
        lease=step.lease,
        machine=step.machine,
        event=step.event,
        cause=step.cause,
        reason="it says no",
        fields=step.fields,
    )
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
