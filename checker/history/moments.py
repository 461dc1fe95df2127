"""Moments of a history: which events of each actor belong to a consistent cut.

Theory of operation. A cut is consistent if it has the causes of all its events (merge.py), so it is one
position for each actor. The cut of a time has all events up to that time, and their causes, where a clock that is ahead
has them later; the cut of an event is its causal past, itself included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from leasehold.checker.history.merge import HappenedBefore
from leasehold.impl.events.event import AnyEvent

Frontier = dict[str, int]  # by actor, the position of its last event


class NoSuchMoment(Exception):
    """A moment is none that these events have; the message says why."""


class Moments:
    """The consistent cuts of a history.

    Args:
        chains: by actor, its events.
        capacities: by message, the capacity of its channel, where it has one.
    """

    def __init__(
        self, chains: Mapping[str, Sequence[AnyEvent]], capacities: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        self.chains = chains
        self._order = HappenedBefore((event for events in chains.values() for event in events), capacities)

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
        frontier = {actor: events[0].position - 1 if events else 0 for actor, events in self.chains.items()}
        waiting = dict(wanted)
        while waiting:
            actor, position = waiting.popitem()
            events, done = self.chains[actor], frontier[actor]
            if position <= done:
                continue
            frontier[actor] = position
            first = events[0].position
            for event in events[done + 1 - first : position + 1 - first]:
                for cause, at in self._order.causes(event):
                    if at > frontier[cause]:
                        waiting[cause] = max(at, waiting.get(cause, 0))
        return frontier

    def before(self, cut: Frontier) -> dict[str, Sequence[AnyEvent]]:
        """The events of a cut."""
        return {
            actor: events[: max(0, cut[actor] + 1 - events[0].position)] if events else events
            for actor, events in self.chains.items()
        }
