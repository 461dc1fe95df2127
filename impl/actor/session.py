"""Sessions: what a machine has sent over `fifo` channels, kept in order until its receivers have committed it.

Theory of operation. A mailbox keeps no sent message: the record says it again. Over a `fifo` every message counts, also
one that the record says no more, so each is kept with the record from the commit of its step on, and its receiver's
answer, which follows a commit of its own, removes it. One message of a session is under way at a time, so they come in
order over any network; a copy of one is known by its number. A channel with a capacity takes no step that would send
beyond it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from leasehold.impl.actor.environment import ActorError
from leasehold.impl.actor.table import MachineInstance
from leasehold.impl.core.core import MessageShape, Program
from leasehold.impl.core.values import named_fields, to_plain
from leasehold.impl.core.work import Event, SendWork, Work

SESSIONS = "sessions"  # metadata of a machine: by neighbour, as text, its messages that are not acknowledged


class ChannelFull(ActorError):
    """A step would send into a full channel: it is not possible now."""


class QueuedMessage(NamedTuple):
    """A message of a session.

    Attributes:
        number: its sequence number.
        message: what is sent.
        fields: by name, as plain data.
    """

    number: int
    message: str
    fields: dict[str, Any]

    def values(self, program: Program) -> tuple[Any, ...]:
        """Its fields as a machine has them."""
        return named_fields(program.messages[self.message].fields, self.fields)


def queued(instance: MachineInstance, neighbour: int) -> list[QueuedMessage]:
    """The messages to a neighbour that are not acknowledged, the oldest first."""
    return [QueuedMessage(*kept) for kept in instance.metadata.get(SESSIONS, {}).get(str(neighbour), ())]


def neighbours(instance: MachineInstance) -> Iterator[int]:
    """The neighbours that have not acknowledged everything."""
    return map(int, instance.metadata.get(SESSIONS, {}))


def add(instance: MachineInstance, send: SendWork, shape: MessageShape, number: int, fields: tuple[Any, ...]) -> None:
    """A step sends a message."""
    plain = {name: to_plain(kind, value) for (name, kind), value in zip(shape.fields, fields, strict=True)}
    waiting = instance.metadata.setdefault(SESSIONS, {}).setdefault(str(send.neighbour), [])
    waiting.append([number, send.message, plain])


def acknowledge(instance: MachineInstance, neighbour: int, number: int) -> bool:
    """Removes what a neighbour has received, up to a number; whether there was anything."""
    sessions = instance.metadata.get(SESSIONS, {})
    waiting = sessions.get(str(neighbour), [])
    left = [kept for kept in waiting if kept[0] > number]
    if len(left) == len(waiting):
        return False
    sessions[str(neighbour)] = left
    if not left:
        del sessions[str(neighbour)]
    if not sessions:
        del instance.metadata[SESSIONS]
    return True


def has_room(program: Program, instance: MachineInstance, event: Event, now: int) -> bool:
    """Returns whether a machine may take an event as far as the room in its channels goes."""
    try:
        check_room(program, instance, instance.core.step(instance.record, event, now)[1].work)
    except ChannelFull:
        return False
    return True


def check_room(program: Program, instance: MachineInstance, work: Iterable[Work]) -> None:
    """Checks whether the messages of a step have room.

    Raises:
        ChannelFull: one has not.
    """
    for piece in (w for w in work if isinstance(w, SendWork)):
        most = program.messages[piece.message].capacity
        if most and len(queued(instance, piece.neighbour)) >= most:
            raise ChannelFull(f"{instance.key.machine} of {instance.key.lease} waits for room to send {piece.message}")
