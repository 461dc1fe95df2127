"""Puts steps and records into the words of events: plain data, by name (impl/events/event.py).

An opaque value of more than `LARGE` bytes stands there by its digest: `{"sha256": ..., "bytes": ...}`. No machine reads
opaque values, and properties compare them for equality alone, so what is left says as much; and a lease that tells
of a thousand units does not write megabytes at each step.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from leasehold.impl.actor.drafts import EventDraft, FoundDraft, RefusedDraft, StepDraft
from leasehold.impl.actor.table import MachineInstance
from leasehold.impl.core.codec import Codec
from leasehold.impl.core.core import Core, Named, Program
from leasehold.impl.core.values import to_plain
from leasehold.impl.core.work import CallWork, Event, Record, SendWork
from leasehold.impl.events.event import (
    MachineRecord,
    MachineStep,
    ReceivedMessage,
    SentMessage,
    StartedCall,
    record_digest,
)
from leasehold.spec.language import types as t

LARGE = 1024  # bytes of an opaque value as JSON
REMEMBERED = 10_000  # opaque values, so that those of an unchanged field are not looked at in each step
_NONE: dict[str, Any] = {}
Shapes: TypeAlias = tuple[tuple[str, t.Type | None], ...]  # fields by name; None: each value is plain data
_encode = msgspec.json.Encoder(order="deterministic").encode


class EventDescriber:
    """Describes what happened to the machines of a program.

    Args:
        program: the compiled system.
        codecs: by role, know which fields are not plain.
    """

    def __init__(self, program: Program, codecs: Mapping[str, Codec]) -> None:
        self.program = program
        self._shaped = {
            role: [(at, f.type) for at, f in enumerate(codec.core.fields, codec.core.data_at) if _is_shaped(f.type)]
            for role, codec in codecs.items()
        }
        self._messages = {name: _shapes(message.fields) for name, message in program.messages.items()}
        self._events = {
            (role, event): _shapes(fields)
            for role, core in program.roles.items()
            for event, fields in core.events.items()
        }
        self._neighbours = lru_cache(1000)(lambda role, number: program.neighbours(program.roles[role], number))
        self._known: dict[int, tuple[Any, Any]] = {}  # opaque values by identity, and how they are shown

    def fields_of(self, draft: FoundDraft | RefusedDraft | EventDraft) -> Mapping[str, Any]:
        """The own fields of an event."""
        if isinstance(draft, EventDraft):
            return draft.fields
        key, core = draft.instance.key, draft.instance.core
        where = {"lease": key.lease, "machine": key.machine}
        if isinstance(draft, FoundDraft):
            record = self.record(core, draft.record)
            return {**where, "record": record, "serves": draft.instance.serves if core.of_actor else ""}
        fields = self._fields(core, draft.event)
        return {**where, "event": draft.event[0], "cause": draft.cause, "reason": draft.reason, "fields": fields}

    def step(self, draft: StepDraft) -> MachineStep:
        """A step, and those that it drives."""
        instance, event, record, outcome = draft.instance, draft.event, draft.record, draft.outcome
        key, core = instance.key, instance.core
        neighbour = event[2]
        received = None
        if neighbour >= 0:
            peer = self.program.neighbour(core, instance.number, neighbour)
            received = ReceivedMessage(peer, instance.peers[neighbour], event[3])
        sends: tuple[SentMessage, ...] = ()
        starts: tuple[StartedCall, ...] = ()
        if outcome.work:
            sends = tuple(self._sent(instance, piece, record) for piece in outcome.work if type(piece) is SendWork)
            starts = tuple(StartedCall(piece.task, piece.target) for piece in outcome.work if type(piece) is CallWork)
        return MachineStep(
            key.lease,
            key.machine,
            event[0],
            self.record(core, record),
            draft.before[0],
            draft.cause,
            outcome.transition,
            self._fields(core, event),
            received,
            draft.ended,
            outcome.reason,
            draft.serves,
            sends,
            starts,
            tuple(map(self.step, draft.driven)) if draft.driven else (),
        )

    def record(self, core: Core, record: Record) -> MachineRecord:
        """A record."""
        plain = record
        if shaped := self._shaped[core.role]:
            changed = list(record)
            for at, kind in shaped:
                changed[at] = self._shown(kind, changed[at])
            plain = tuple(changed)
        sent = received = since = _NONE
        if not core.subsidiary:
            number = record[1] if core.indexed else 0
            sent = self._numbers(core, number, record[core.sent_at])
            received = self._numbers(core, number, record[core.received_at])
        if core.since:
            began = zip(core.since, record[core.state_epoch_at + 1 :], strict=False)
            since = {task: epoch for task, epoch in began if epoch}
        return MachineRecord(record[0], core.view(plain), record[core.state_epoch_at], sent, received, since)

    def digests(self, machines: Iterable[MachineInstance]) -> dict[str, dict[str, str]]:
        """Returns, by lease and machine, the digest of its record."""
        by_lease: dict[str, dict[str, str]] = {}
        for one in machines:
            by_lease.setdefault(one.key.lease, {})[one.key.machine] = record_digest(self.record(one.core, one.record))
        return by_lease

    def _numbers(self, core: Core, number: int, numbers: Any) -> dict[str, int]:
        """The numbers of messages by the neighbour's name."""
        if isinstance(numbers, dict):
            return {self.program.neighbour(core, number, at): n for at, n in sorted(numbers.items()) if n}
        return {name: n for name, n in zip(self._neighbours(core.role, number), numbers, strict=True) if n}

    def _fields(self, core: Core, event: Event) -> dict[str, Any]:
        name, values, neighbour, *_ = event
        if not values:
            return _NONE
        return self._named(self._messages[name] if neighbour >= 0 else self._events[core.role, name], values)

    def _sent(self, instance: MachineInstance, piece: SendWork, record: Record) -> SentMessage:
        core, at = instance.core, piece.neighbour
        fields = self._named(self._messages[piece.message], piece.fields(record))
        to = self.program.neighbour(core, instance.number, at)
        return SentMessage(to, record[core.sent_at][at], piece.message, fields, instance.peers[at])

    def _named(self, shapes: Shapes, values: Iterable[Any]) -> dict[str, Any]:
        """Fields as plain data by name."""
        return {
            name: value if kind is None else self._shown(kind, value)
            for (name, kind), value in zip(shapes, values, strict=True)
        }

    def _shown(self, kind: t.Type, value: t.Value) -> Any:
        """A value as plain data."""
        match kind:
            case t.Opaque():
                return self._opaque(value)
            case t.Map(of=t.Opaque()):
                known, look = self._known, self._opaque
                return [one and (k[1] if (k := known.get(id(one))) and k[0] is one else look(one)) for one in value]
            case t.Map(of=of) if _is_shaped(of):
                return [self._shown(of, one) for one in value]
            case t.Option(of=of) if of is not None:
                return None if value is None else self._shown(of, value)
        return to_plain(kind, value)

    def _opaque(self, value: Any) -> Any:
        """A value, or its digest; the last ones are remembered."""
        if not value or isinstance(value, bool | int | float):
            return value
        if (known := self._known.get(id(value))) is not None and known[0] is value:
            return known[1]
        body = _encode(value)
        large = len(body) > LARGE
        shown = {"sha256": hashlib.sha256(body).hexdigest(), "bytes": len(body)} if large else value
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known[id(value)] = value, shown
        return shown


def _shapes(fields: Named) -> Shapes:
    return tuple((name, kind if _is_shaped(kind) else None) for name, kind in fields)


def _is_shaped(kind: t.Type) -> bool:
    """Returns whether a value may not be plain yet, or large."""
    return isinstance(kind, t.Set | t.Map | t.Option | t.Opaque)
