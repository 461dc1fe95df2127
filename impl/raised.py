"""Events that are raised on machines unasked: by policies, by handlers beside their answers, and by detectors.

Theory of operation (paper, section 5.4). Who sees that something is wrong outside can force a machine to see to it: by
an event that the specification has from the world outside, such as `lost`, or by the recovery event, which begins the
work of the machine's state anew. Nobody does so without the actor's leave: its setting `raises` lists, by role, which
events it takes from them. Raising answers no question and takes no decision of the specification's: the machine judges
the event as any other.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any, Protocol

import msgspec
from msgspec import Meta

RECOVER = "recover"

Name = Annotated[str, Meta(max_length=256)]


class RaisedEvent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An event that is raised on one machine: a unit by its name, or another by its lease.

    Attributes:
        event: of those that the world outside gives the machine, without fields; `recover` is the recovery event, where
            the specification has none of this name.
        unit: the persistent name of a unit of the actor.
        lease: of a machine that is no unit of the actor.
        machine: which of the lease; left out: the only one that the actor has of it.
        reason: why, for the log.
    """

    event: Name = RECOVER
    unit: Name = ""
    lease: Name = ""
    machine: Name = ""
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.event} of {self.unit or ' of '.join(filter(None, (self.machine, self.lease))) or 'nothing'}"


def raised_event(plain: object) -> RaisedEvent:
    """An event from plain data, as a program writes it: `{"unit": "node1", "event": "lost"}`.

    Raises:
        ValueError: it is none.
    """
    try:
        raised = msgspec.convert(plain, RaisedEvent)
    except msgspec.ValidationError as error:
        raise ValueError(f"{plain!r:.80} raises no event: {error}") from None
    if bool(raised.unit) == bool(raised.lease) or (raised.unit and raised.machine):
        raise ValueError(f"{plain!r:.80} raises no event: name a `unit`, or a `lease` and perhaps its `machine`")
    return raised


class Detector(Protocol):
    """Watches something outside, such as a log or a sensor."""

    def watch(self) -> AsyncIterator[RaisedEvent]:
        """Yields what it finds, until it is closed; the next is asked for when the last was judged.

        One that ends, or fails, is begun again after a pause (impl/actor/detectors.py).
        """
        ...


def of_handler(given: Any) -> tuple[RaisedEvent, ...]:
    """The events in the result of a handler.

    Raises:
        ValueError: it is no list of them.
    """
    if not isinstance(given, list | tuple):
        raise ValueError(f"`raises` is {given!r:.60}; it needs a list of events")
    return tuple(one if isinstance(one, RaisedEvent) else raised_event(one) for one in given)
