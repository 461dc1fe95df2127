"""Events that a turn has made and that are not written yet: values that a `Ready` lists, in order.

Steps are written down as they are taken and put into words when they are committed (chronicle.py), as records never
change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from leasehold.impl.actor.table import MachineInstance
from leasehold.impl.core.work import Event, Outcome, Record
from leasehold.impl.events.event import AnyEvent, EndedCall, FoundEvent, RefusedEvent, StepEvent
from leasehold.impl.store.store import RecordKey


@dataclass(slots=True, eq=False)
class StepDraft:
    """A step that has changed a record.

    Attributes:
        instance: whose.
        event: what came.
        before, record: before and after it.
        outcome: of the event.
        cause: where the event came from (`MachineStep.cause`).
        ended: the call that it ends.
        serves: of a machine that belongs to the actor, the lease that drives it.
        driven: the steps of subsidiary machines within it.
    """

    instance: MachineInstance
    event: Event
    before: Record
    record: Record
    outcome: Outcome
    cause: str
    ended: EndedCall | None
    serves: str
    driven: list[StepDraft] = field(default_factory=list)

    kind = StepEvent


class FoundDraft(NamedTuple):
    """A record that no step has left."""

    instance: MachineInstance
    record: Record

    @property
    def kind(self) -> type[AnyEvent]:
        return FoundEvent


class RefusedDraft(NamedTuple):
    """An event that was refused, its fields as the core has them."""

    instance: MachineInstance
    event: Event
    cause: str
    reason: str

    @property
    def kind(self) -> type[AnyEvent]:
        return RefusedEvent


class EventDraft(NamedTuple):
    """Any other event, and its own fields."""

    kind: type[AnyEvent]
    fields: Mapping[str, Any]


Draft: TypeAlias = StepDraft | FoundDraft | RefusedDraft | EventDraft


WORDS = 500  # characters that are taken of a text from outside


def words(text: str) -> str:
    """A text of a policy or handler, as every event can hold it."""
    return text[:WORDS] if text.isascii() else text[:WORDS].encode(errors="replace").decode()


def refused(key: RecordKey, event: str, cause: str, reason: str) -> EventDraft:
    """Returns what was refused before it came to a machine."""
    fields = {"lease": key.lease, "machine": key.machine, "event": event, "cause": cause, "reason": reason}
    return EventDraft(RefusedEvent, {name: words(text) for name, text in fields.items()})
