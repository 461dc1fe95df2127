"""What a machine consumes.

An event is a plain tuple, as millions of them are consumed a second:

    name        the message or local event of the specification; `tick` besides
    fields      its fields, in the order of the specification
    neighbour   of a message, the sender's position among the neighbours of the machine (`Core.neighbours`); else -1
    number      of a message, its sequence number; else 0
    state epoch of an answer, that of the state that asked for it; -1: it answers nothing
"""

from __future__ import annotations

from typing import Any, TypeAlias

Event: TypeAlias = tuple[str, tuple[Any, ...], int, int, int]

TICK: Event = ("tick", (), -1, 0, -1)


def message(name: str, fields: tuple[Any, ...], neighbour: int, number: int) -> Event:
    """A neighbour's message."""
    return name, fields, neighbour, number, -1


def local(name: str, fields: tuple[Any, ...] = (), state_epoch: int = -1) -> Event:
    """An answer of a task, a word from outside, or what a parent hands to a subsidiary machine."""
    return name, fields, -1, 0, state_epoch
