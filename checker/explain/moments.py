"""Moments of a history: which events of each actor belong to a consistent cut.

Theory of operation. An event is caused by the one before it in its chain, and a step that has received a message by the
step that has sent it (Lamport's happened-before); a step that sends into a channel with a capacity also by the receipt
that made room. A cut is consistent if it has the causes of all its events, so it is one position for each actor. The
cut of a time has all events up to that time, and their causes, where a clock that is ahead has them later; the cut of
an event is its causal past, itself included.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from leasehold.checker.verify.causal import with_driven
from leasehold.impl.events.event import AnyEvent, FoundEvent, MachineRecord, StepEvent

Lane = tuple[str, str, str]  # lease, sender, receiver
Frontier = dict[str, int]  # by actor, the position of its last event


class NoSuchMoment(Exception):
    """A moment is none that these events have; the message says why."""


@dataclass
class _Numbered:
    """The steps that have sent, or received, messages of one machine to another, in the order of their numbers."""

    numbers: list[int]
    events: list[tuple[str, int]]

    def note(self, number: int, actor: str, position: int) -> None:
        if not self.numbers or number > self.numbers[-1]:
            self.numbers.append(number)
            self.events.append((actor, position))


class Moments:
    """The consistent cuts of a history.

    Args:
        chains: by actor, its events.
        capacities: by message, the capacity of its channel, where it has one.
    """

    def __init__(
        self, chains: Mapping[str, Sequence[AnyEvent]], capacities: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        self.chains, self.capacities = chains, capacities
        self._sends: dict[Lane, _Numbered] = defaultdict(lambda: _Numbered([], []))
        self._receipts: dict[Lane, _Numbered] = defaultdict(lambda: _Numbered([], []))
        for actor, events in chains.items():
            for event in events:
                for lease, machine, record in _records(event):
                    self._note(actor, event.position, lease, machine, record)

    def _note(self, actor: str, position: int, lease: str, machine: str, record: MachineRecord) -> None:
        for to, number in record.sent.items():
            self._sends[lease, machine, to].note(number, actor, position)
        for sender, number in record.received.items() if self.capacities else ():
            self._receipts[lease, sender, machine].note(number, actor, position)

    def all(self) -> Frontier:
        """All events."""
        return {actor: events[-1].position if events else 0 for actor, events in self.chains.items()}

    def of_tick(self, tick: int) -> Frontier:
        """The events up to a virtual time, and their causes."""
        return self._until(lambda event: event.now <= tick)

    def of_time(self, time: float) -> Frontier:
        """The events up to a real time, in seconds since 1970, and their causes."""
        return self._until(lambda event: event.time <= time)

    def of_event(self, actor: str, position: int) -> Frontier:
        """The causal past of an event.

        Raises:
            NoSuchMoment: the actor has no such event here.
        """
        events = self.chains[actor]
        if not events or not events[0].position <= position <= events[-1].position:
            have = f"events {events[0].position} to {events[-1].position}" if events else "no events"
            raise NoSuchMoment(f"{actor} has no event {position} here: it has {have}")
        return self._closed({actor: position})

    def _until(self, early: Callable[[AnyEvent], bool]) -> Frontier:
        last = {
            actor: max((event.position for event in events if early(event)), default=0)
            for actor, events in self.chains.items()
        }
        return self._closed(last)

    def _closed(self, wanted: Frontier) -> Frontier:
        """A cut that has these events, and their causes."""
        found = {actor: events[0].position - 1 if events else 0 for actor, events in self.chains.items()}
        waiting = dict(wanted)
        while waiting:
            actor, position = waiting.popitem()
            events, done = self.chains[actor], found[actor]
            if position <= done:
                continue
            found[actor] = position
            first = events[0].position
            for event in events[done + 1 - first : position + 1 - first]:
                for cause, at in self._causes(event):
                    if at > found[cause]:
                        waiting[cause] = max(at, waiting.get(cause, 0))
        return found

    def _causes(self, event: AnyEvent) -> Iterator[tuple[str, int]]:
        """The steps of which an event has received messages, and that made room for what it sends, if they are here."""
        for step in with_driven(event.step) if isinstance(event, StepEvent) else ():
            if step.received is not None:
                sends = self._sends[step.lease, step.received.machine, step.machine]
                if (n := bisect_left(sends.numbers, step.received.number)) < len(sends.numbers):
                    yield sends.events[n]
            for said in step.sends:
                receipts = self._receipts[step.lease, step.machine, said.to]
                if n := bisect_right(receipts.numbers, said.number - self.capacities.get(said.message, said.number)):
                    yield receipts.events[n - 1]

    def before(self, cut: Frontier) -> dict[str, Sequence[AnyEvent]]:
        """The events of a cut."""
        return {
            actor: events[: max(0, cut[actor] + 1 - events[0].position)] if events else events
            for actor, events in self.chains.items()
        }


def _records(event: AnyEvent) -> Iterator[tuple[str, str, MachineRecord]]:
    """The records that an event tells of, with their lease and machine."""
    match event:
        case StepEvent():
            for step in with_driven(event.step):
                yield step.lease, step.machine, step.record
        case FoundEvent():
            yield event.lease, event.machine, event.record
