"""Explains a lease from the events of its actors: its story, its state at each of them, and what it waits for.

Theory of operation. The events of a consistent cut (moments.py) are merged into an order that respects causality
(checker/history/merge.py). Each of them adds to the story of the lease (story.py), and to what is known of its machines
(machines.py), of which the last state is viewed (views.py). So what is said of an earlier moment depends on no later
event.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from leasehold.checker.explain.explained_machines import ExplainedMachines
from leasehold.checker.explain.machines import KnownMachines
from leasehold.checker.explain.story import StoryEntry, entries
from leasehold.checker.explain.views import EventViews
from leasehold.checker.history.fault import CutFault
from leasehold.checker.history.merge import capacities_of, merged
from leasehold.checker.history.moments import Frontier, Moments, NoSuchMoment
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.events.event import AnyEvent, RecoveredEvent
from leasehold.impl.words import did_you_mean
from leasehold.spec import System

_POSITION = re.compile(r"(.+):([0-9]{1,18})")


class UnknownLease(Exception):
    """No event tells of a lease.

    Attributes:
        known: the leases of which events tell.
    """

    def __init__(self, reason: str, known: Sequence[str]) -> None:
        super().__init__(reason)
        self.known = known


@dataclass(frozen=True)
class ExplainedLease:
    """The account that events give of a lease at a moment.

    Attributes:
        lease: which.
        now: the tick of the moment: that which was asked for, or the latest that any event of the cut tells.
        story: what happened to the lease, in an order that respects causality.
        machines: its machines that are no subsidiaries, as `EventViews` has them.
        abouts: of each actor: `name`; `position`, `tick` and `time` of its last event; the position of the `first` one
            that is here; `tick_seconds`, the length of its ticks; and `now`.
        faults: what is wrong with the order of events.
        events: those up to the moment, by actor; empty where actors tell of now.
    """

    lease: str
    now: int
    story: tuple[StoryEntry, ...]
    machines: list[dict[str, Any]]
    abouts: list[dict[str, Any]]
    faults: list[CutFault]
    events: Mapping[str, Sequence[AnyEvent]]


def history_of(
    cut: Mapping[str, Sequence[AnyEvent]], lease: str, capacities: Mapping[str, int] = MappingProxyType({})
) -> tuple[KnownMachines, tuple[StoryEntry, ...], list[CutFault]]:
    """Returns the machines of all leases, the story of one, and what is wrong with the order of the events.

    Args:
        cut: by actor, its events.
        lease: whose story.
        capacities: of channels, by message.
    """
    known, story, merge = KnownMachines(), list[StoryEntry](), merged(cut, capacities)
    for event in merge.ready():
        story += entries(event, lease, known.plays(event.actor, lease))
        known.take(event)
    return known, tuple(story), merge.faults


def frontier_of(moments: Moments, text: str | None) -> tuple[Frontier, int | None]:
    """The cut that a person names, and its tick where that is named.

    Args:
        moments: of the history.
        text: a tick, a time as ISO 8601 has it, or ACTOR:POSITION; None: all events.

    Raises:
        NoSuchMoment: it is none of these.
    """
    if text is None:
        return moments.all(), None
    if text.isdecimal():
        return moments.of_tick(int(text)), int(text)
    named = _POSITION.fullmatch(text)
    if named is not None and named[1] in moments.chains:
        return moments.of_event(named[1], int(named[2])), None
    try:
        return moments.of_time(datetime.fromisoformat(text).astimezone().timestamp()), None
    except ValueError:
        actors = ", ".join(moments.chains)
        near = did_you_mean(named[1], moments.chains) if named else ""
        raise NoSuchMoment(
            f"{text[:60]!r} is no moment{near}; give a tick such as 120, a time such as 2031-01-31T12:00Z, or "
            f"ACTOR:POSITION, the position of an event of {actors}"
        ) from None


def has_begun(chains: Mapping[str, Sequence[AnyEvent]], text: str | None) -> bool:
    """Returns whether a moment that a person names is in a stretch of a history, or behind it.

    Args:
        chains: by actor, its events in the stretch.
        text: as `frontier_of` takes them.
    """
    named = None if text is None else _POSITION.fullmatch(text)
    if named is not None and named[1] in chains:
        return chains[named[1]][0].position <= int(named[2])
    begun = {
        actor: next((e.position for e in events if isinstance(e, RecoveredEvent)), None)
        for actor, events in chains.items()
    }
    try:
        cut, _ = frontier_of(Moments(chains), text)
    except NoSuchMoment:
        return False
    return any(position is not None and cut[actor] >= position for actor, position in begun.items())


class Explainer:
    """Explains the leases, or runs, of a system.

    Args:
        system: that the actors play.

    Raises:
        NotRunnable: no actor can play it.
    """

    def __init__(self, system: System) -> None:
        self.machines = ExplainedMachines(system, compile_system(system))
        self.capacities = capacities_of(system)

    def explain(self, chains: Mapping[str, Sequence[AnyEvent]], lease: str, at: str | None = None) -> ExplainedLease:
        """Explains a lease.

        Args:
            chains: by actor, its events.
            lease: or run.
            at: the moment (`frontier_of`).

        Raises:
            UnknownLease: no event up to then tells of it.
            NoSuchMoment: there is no such moment.
            OtherSystem: the events are not of this system.
        """
        moments = Moments(chains, self.capacities)
        cut, tick = frontier_of(moments, at)
        try:
            return self.explain_cut(moments.before(cut), lease, tick)
        except UnknownLease:
            for event in sorted((e for events in chains.values() for e in events), key=lambda e: (e.now, e.time)):
                if at is not None and next(entries(event, lease, plays=False), None) is not None:
                    when = datetime.fromtimestamp(event.time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
                    where = f"event {event.position} of {event.actor}, at tick {event.now} ({when})"
                    reason = f"nothing is known of {lease} at {at}: it begins later, with {where}"
                    raise UnknownLease(reason, []) from None
            raise

    def explain_cut(self, cut: Mapping[str, Sequence[AnyEvent]], lease: str, now: int | None = None) -> ExplainedLease:
        """Explains a lease from the events of a consistent cut.

        Args:
            cut: by actor, its events.
            lease: or run.
            now: the tick of the cut; None: the latest that its events tell.

        Raises:
            UnknownLease: none of them tells of it.
            OtherSystem: they are not of this system.
        """
        known, story, faults = history_of(cut, lease, self.capacities)
        if now is None:
            now = max((actor.now for actor in known.actors.values()), default=0)
        machines = EventViews(self.machines, known, now).lease(lease)
        if not machines:
            raise UnknownLease(f"no event tells of {lease[:80]!r}", [*known.leases()])
        return ExplainedLease(lease, now, story, machines, abouts_of(known, now), faults, cut)


def abouts_of(known: KnownMachines, now: int | None = None) -> list[dict[str, Any]]:
    """Returns what events tell of actors at a tick, or each at its own, as `ExplainedLease.abouts` has it."""
    return [
        {
            "name": name,
            "now": actor.now if now is None else now,
            "tick_seconds": _tick_seconds(actor.agreement),
            "position": actor.position,
            "tick": actor.now,
            "time": actor.time,
            "first": actor.first,
        }
        for name, actor in sorted(known.actors.items())
    ]


def _tick_seconds(agreement: str) -> float:
    """The length of a tick, with which an actor's agreement ends; where its actor has no real clock: a second."""
    *_, last = agreement.split(".", 2)
    try:
        return float(last) if agreement.count(".") > 1 else 1.0
    except ValueError:
        return 1.0
