"""What a machine consumes.

An event is a tuple, as millions of them are made a second; `Message`, `Local`, `TICK` and `RECOVER` make them, and the
positions are those of `Event`.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Event(NamedTuple):
    """One event.

    Attributes:
        name: the message or local event of the specification; `tick` and `recover` besides.
        fields: its fields, in the order of the specification.
        neighbour: of a message, the sender's position among the neighbours of the machine (`Core.neighbours`); else -1.
        number: of a message, its sequence number.
        entry: of an answer, the entry of the state that asked for it (docs/reference/core.md); -1: it answers nothing.
    """

    name: str
    fields: tuple[Any, ...] = ()
    neighbour: int = -1
    number: int = 0
    entry: int = -1


TICK = Event("tick")
RECOVER = Event("recover")


def message(name: str, fields: tuple[Any, ...], neighbour: int, number: int) -> Event:
    """A neighbour's message."""
    return Event(name, fields, neighbour, number)


def local(name: str, fields: tuple[Any, ...] = (), entry: int = -1) -> Event:
    """An answer of a task, a word from outside, or what a parent hands to a subsidiary machine."""
    return Event(name, fields, -1, 0, entry)
