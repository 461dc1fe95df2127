"""Happened-before (Lamport 1978): the events that come before another one, whatever the actors' clocks say.

Theory of operation. Three rules order the events of actors:

    chain      an event comes after the one before it in its actor's chain
    message    a step that has received a message comes after the step that has sent it
    room       a step that sends into a channel with a capacity comes after the receipt that made room for it

Messages have numbers, so the second and third rules are read off the numbers that an event needs (`taken`,
`room_needed`) and those that it shows to be reached (`records`). A merge counts them as events come (merge.py);
`HappenedBefore` knows a whole history, and names the events.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias, TypeVar

from leasehold.impl.events.event import AnyEvent, FoundEvent, MachineRecord, MachineStep
from leasehold.spec.language.model import System

Lane: TypeAlias = tuple[str, str, str]  # lease, sender, receiver
Place: TypeAlias = tuple[str, int]  # an actor, and the position of its event

T = TypeVar("T")


def capacities_of(system: System) -> Mapping[str, int]:
    """Returns, by message, the capacity of its channel, where it has one."""
    capacities = ((name, system.channel_of(name).capacity) for name in system.messages)
    return {name: capacity for name, capacity in capacities if capacity}


def taken(step: MachineStep) -> tuple[Lane, int] | None:
    """Returns the lane and the number of the message that a step has received; None: it has received none."""
    of = step.received
    return None if of is None else ((step.lease, of.machine, step.machine), of.number)


def room_needed(event: AnyEvent, capacities: Mapping[str, int]) -> Iterator[tuple[Lane, int]]:
    """Yields lane and number of each message that must have been received, so that there was room for what is sent."""
    for step in event.steps() if capacities else ():
        for sent in step.sends:
            yield (step.lease, step.machine, sent.to), sent.number - capacities.get(sent.message, sent.number)


def records(event: AnyEvent) -> Iterator[tuple[str, str, MachineRecord]]:
    """Yields lease, machine and record of all that an event tells."""
    if isinstance(event, FoundEvent):
        yield event.lease, event.machine, event.record
    yield from ((step.lease, step.machine, step.record) for step in event.steps())


def causal_past(last: T, causes: Callable[[T], Iterable[T]]) -> set[T]:
    """Returns all that has led to something, itself included."""
    past, waiting = set[T](), [last]
    while waiting:
        one = waiting.pop()
        if one not in past:
            past.add(one)
            waiting += causes(one)
    return past


@dataclass
class _Reached:
    """The events that were the first to show a number of a lane, in the order of numbers."""

    numbers: list[int] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)

    def note(self, number: int, place: Place) -> None:
        if not self.numbers or number > self.numbers[-1]:
            self.numbers.append(number)
            self.places.append(place)


class HappenedBefore:
    """The causes of the events of a history, by messages and by room; those in its own chain are its positions.

    Args:
        events: all, those of an actor in the order of its chain.
        capacities: by message, the capacity of its channel, where it has one.
    """

    def __init__(self, events: Iterable[AnyEvent], capacities: Mapping[str, int] = MappingProxyType({})) -> None:
        self.capacities = capacities
        self._sent: dict[Lane, _Reached] = defaultdict(_Reached)
        self._received: dict[Lane, _Reached] = defaultdict(_Reached)
        for event in events:
            for lease, machine, record in records(event):
                for to, number in record.sent.items():
                    self._sent[lease, machine, to].note(number, (event.actor, event.position))
                for sender, number in record.received.items() if capacities else ():
                    self._received[lease, sender, machine].note(number, (event.actor, event.position))

    def sent(self, step: MachineStep) -> Place | None:
        """Returns the event by which what a step has received was sent; None: the history has none."""
        if (message := taken(step)) is None:
            return None
        lane, number = message
        of = self._sent[lane]
        at = bisect_left(of.numbers, number)
        return of.places[at] if at < len(of.places) else None

    def causes(self, event: AnyEvent) -> Iterator[Place]:
        """Yields the events of which an event has received messages, and that made room for what it sends."""
        for step in event.steps():
            if (place := self.sent(step)) is not None:
                yield place
        for lane, number in room_needed(event, self.capacities):
            of = self._received[lane]
            if at := bisect_right(of.numbers, number):
                yield of.places[at - 1]
