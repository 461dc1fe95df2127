"""Numbers and channels that may grow without end, of which a search of all states may not come to one either.

A number grows when a transition adds to what it was, directly or by way of other data and of messages. It is bounded
by a `max`, by the range that is explored of it, by a `constraint` of the system that reads it, or by a comparison of it
in the transition's guard, or in each condition under which the environment offers the event; and so is what grows only
by way of such a number. What is bounded by other means is not seen, so that this is a warning, which the author may
answer: `unbounded` of the field or channel says why it ends.

A channel without a capacity, whose messages are all kept, grows where its sender can send into it again and again
without waiting for anything: round a cycle of its states whose events come from outside, as answers of tasks, or as
messages of which there is no end themselves, and whose guards read nothing that changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from functools import partial
from typing import TypeAlias, TypeVar

from leasehold.spec.language import expression as x
from leasehold.spec.language.diagnostics import Sink
from leasehold.spec.language.model import (
    CHANNEL_KINDS_WITHOUT_CAPACITY,
    Call,
    Datum,
    Drive,
    Role,
    Send,
    System,
    Transition,
)
from leasehold.spec.language.types import Int, Seq, Type, number_of

_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
T = TypeVar("T")
_FieldRef: TypeAlias = tuple[str, str]  # a role and its datum, or a message or event and its field


def warn_of_unbounded(system: System, sink: Sink) -> None:
    """Warns of each number and channel that may grow without end, and of each answer to a warning that there is not."""
    for field, transition in unbounded(system).items():
        role, name = field
        place = system.holders[role].data[name].place
        sink.warning("unbounded_number", place, role=role, name=name, transition=transition.name)
    for channel, (message, transition) in unbounded_channels(system).items():
        place = system.channels[channel].place
        sink.warning("unbounded_channel", place, channel=channel, message=message, transition=transition.name)
    numbers, channels = _growing_numbers(system), _growing_channels(system)
    for holder in system.holders.values():
        for datum in holder.data.values():
            if datum.unbounded and (holder.name, datum.name) not in numbers:
                sink.warning("bounded_anyway", datum.place, what=f"{holder.name}.{datum.name}")
    for other in system.channels.values():
        if other.unbounded and len(other.kinds) == 1 and other.name not in channels:
            sink.warning("bounded_anyway", other.place, what=other.name)


def growing(system: System) -> list[str]:
    """Returns what may grow without end, in words."""
    numbers = [f"{role}.{name}" for role, name in unbounded(system)]
    return [*numbers, *(f"channel {name}" for name in unbounded_channels(system))]


def unbounded_channels(system: System) -> dict[str, tuple[str, Transition]]:
    """The channels that may grow without end, each with a message of it and a transition that sends it.

    Those of which the text says why they do not are left out.
    """
    return {name: of for name, of in _growing_channels(system).items() if not system.channels[name].unbounded}


def _growing_channels(system: System) -> dict[str, tuple[str, Transition]]:
    endless: dict[str, Transition] = {}  # messages of which any number may be sent
    while True:
        fresh = {m: t for role in system.roles.values() for m, t in _sent_endlessly(system, role, {*endless})}
        if fresh.keys() <= endless.keys():
            break
        endless = {**fresh, **endless}
    channels: dict[str, tuple[str, Transition]] = {}
    for message, transition in endless.items():
        channel = system.channel_of(message)
        keeps_all = channel.capacity is None and channel.kind not in CHANNEL_KINDS_WITHOUT_CAPACITY
        if keeps_all and not x.mentions(system.constraint, x.reads_messages):
            channels.setdefault(channel.name, (message, transition))
    return channels


def _sent_endlessly(system: System, role: Role, endless: Set[str]) -> Iterator[tuple[str, Transition]]:
    """The messages that a role can send again and again, each with a transition that sends it."""
    free = [t for t in role.transitions() if _is_free(system, role, t, endless)]
    following: dict[str, set[str]] = {}
    for t in free:
        following.setdefault(t.source, set()).add(t.target)
    for t in free:
        if t.source not in reached(following, t.target):
            continue
        for name in (*t.also, *(() if t.internal else role.states[t.target].tasks)):
            task = role.tasks[name]
            if isinstance(task, Send) and not any(_changes(e) for e in (task.when, task.only)):
                yield task.message, t


def _is_free(system: System, role: Role, t: Transition, endless: Set[str]) -> bool:
    """Returns whether a transition can be taken whenever its machine is in its source, whatever else has happened."""
    offered = {o.event for o in system.environment.values() if o.role == role.name and not _changes(o.when)}
    forever = {m.name for m in system.received_by(role.name) if system.channel_of(m.name).kind == "set"} & _sent(system)
    return t.event in {*offered, *role.answers, *endless, *forever} and not _changes(t.guard)


def _sent(system: System) -> set[str]:
    """The messages that some task sends."""
    return {t.message for role in system.roles.values() for t in role.tasks.values() if isinstance(t, Send)}


def _changes(e: x.Expression | None) -> bool:
    """Returns whether an expression reads something that may change."""
    return x.mentions(e, lambda inner: isinstance(inner, x.Data | x.ControlState | x.Pending | x.GlobalQuery | x.Now))


def unbounded(system: System) -> dict[_FieldRef, Transition]:
    """The numbers that may grow without end, each with a transition that adds to it.

    Those of which the text says why they do not are left out.
    """
    fields = _growing_numbers(system).items()
    return {(role, name): t for (role, name), t in fields if not system.holders[role].data[name].unbounded}


def _growing_numbers(system: System) -> dict[_FieldRef, Transition]:
    bounded = {field for field, datum in _fields(system) if _is_bounded(system, field, datum)}
    flows: dict[_FieldRef, set[_FieldRef]] = {}  # from what is read to what is set by it
    grown: list[tuple[_FieldRef, set[_FieldRef], Transition]] = []  # what is added to, what the sum reads
    for to, value, role, transition in _assignments(system):
        for source in _read(value, role, transition.event if transition else ""):
            if not bounded & {source, to}:
                flows.setdefault(source, set()).add(to)
        if transition is None or to in bounded or _offered_within(system, role, transition.event, to):
            continue
        if not _compared(transition.guard, to) and not _compared(value, to):
            read = {s for e in _sums(value) for s in _read(e, role, transition.event)}
            grown.append((to, read, transition))
    fields: dict[_FieldRef, Transition] = {}
    for to, read, transition in grown:
        if reached(flows, to) & read:
            fields.setdefault(to, transition)
    return fields


def _fields(system: System) -> Iterator[tuple[_FieldRef, Datum]]:
    """The fields of records, shared variables and messages."""
    for holder in system.holders.values():
        yield from (((holder.name, datum.name), datum) for datum in holder.data.values())
    for message in system.messages.values():
        yield from (((message.name, datum.name), datum) for datum in message.fields)


def _is_bounded(system: System, field: _FieldRef, datum: Datum) -> bool:
    """Returns whether a type, a range that is explored, or the constraint bounds what is in a field."""
    explored = datum.explore is not None and field[0] not in system.messages
    return explored or not _endless(datum.type) or x.mentions(system.constraint, partial(_names, field=field))


def _offered_within(system: System, role: str, event: str, field: _FieldRef) -> bool:
    """Returns whether an event comes from outside alone, and each time only while the field compares so."""
    offers = [o.when for o in system.environment.values() if (o.role, o.event) == (role, event)]
    tasks = [task for r in system.roles.values() for task in r.tasks.values()]
    driven = any(isinstance(task, Drive) and (task.role, task.event) == (role, event) for task in tasks)
    return bool(offers) and not driven and all(_compared(when, field) for when in offers)


def _assignments(system: System) -> Iterator[tuple[_FieldRef, x.Expression, str, Transition | None]]:
    """Every assignment: field, value, role of the machine, and transition (None: a task that is started)."""
    for role in system.roles.values():
        for transition in role.transitions():
            for update in transition.updates:
                yield (update.holder(role.name), update.name), update.value, role.name, transition
        for task in role.tasks.values():
            if not isinstance(task, Call):
                to = task.message if isinstance(task, Send) else task.event if isinstance(task, Drive) else ""
                for name, value in task.fields.items():
                    yield (to, name), value, role.name, None


def _read(value: x.Expression, role: str, event: str) -> Iterator[_FieldRef]:
    for e in x.walk(value):
        if isinstance(e, x.Data):
            yield e.role, e.name
        elif isinstance(e, x.Argument):
            yield event, e.name


def reached(following: Mapping[T, set[T]], start: T) -> set[T]:
    """All that some steps lead to, the start among it."""
    reachable, todo = {start}, [start]
    while todo:
        fresh = following.get(todo.pop(), set()) - reachable
        reachable |= fresh
        todo += fresh
    return reachable


def _endless(type_: Type) -> bool:
    number = number_of(type_)
    return isinstance(number, Int) and number.high is None


def _sums(value: x.Expression) -> Iterator[x.Expression]:
    """The sums and products in a value that nothing around them bounds; sequences that are joined are no sum."""
    op = value.op if isinstance(value, x.Apply) else ""
    if op in ("+", "*") and not isinstance(value.type, Seq):
        yield value
    elif op not in ("%", "min"):
        for child in x.children(value):
            yield from _sums(child)


def _compared(e: x.Expression | None, field: _FieldRef) -> bool:
    def compares(inner: x.Expression) -> bool:
        return isinstance(inner, x.Apply) and inner.op in _COMPARISONS and _mentions(inner, field)

    return x.mentions(e, compares)


def _mentions(e: x.Expression | None, field: _FieldRef) -> bool:
    return x.mentions(e, lambda inner: isinstance(inner, x.Data) and (inner.role, inner.name) == field)


def _names(e: x.Expression, field: _FieldRef) -> bool:
    """Returns whether it is the field, of a record or of any message on its way that has one of this name."""
    return _mentions(e, field) or (isinstance(e, x.MessageField) and e.name == field[1])
