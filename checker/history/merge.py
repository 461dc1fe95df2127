"""Happened-before (Lamport 1978), and a merge of the event chains of several actors into one order that keeps it.

Theory of operation. Three rules order the events of actors, whatever their clocks say:

    chain      an event comes after the one before it in its actor's chain
    message    a step that has received a message comes after the step that has sent it
    room       a step that sends into a channel with a capacity comes after the receipt that made room for it

Messages have numbers, so the second and third rules are read off the numbers that an event needs (`taken`,
`room_needed`) and those that it shows to be reached (`records`). `HappenedBefore` knows a whole history, and names the
events; `CausalMerge` counts the numbers as events come, and passes an event on after those that happened before it. Any
such order is one in which the actors could have been seen; each of its prefixes is a consistent cut. Among the events
that are ready the one with the smallest (virtual time, real time) comes next, as time is judged, too.

A chain may be open: more of it may come. Then no event is passed on that is later than what is known of that chain,
until somebody says how far it is complete (`quiet`). When all chains are closed and none is ready, a message was
received that nobody has sent: that is reported with its place, and the merge goes on behind it. Where the events of its
sender do not begin with its chain, it may have been sent before: then its run cannot be judged.

The first event of each chain is in a heap, and so is how far each chain is known that has none, so an event costs no
more with a thousand actors than with three, unless many wait for others. An entry of a heap counts while its chain is
as it says.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import islice
from types import MappingProxyType
from typing import TypeAlias

from leasehold.checker.history.fault import CONTRADICTION, UNDECIDED, CutFault
from leasehold.impl.events.chain import Tampering
from leasehold.impl.events.event import AnyEvent, FoundEvent, MachineRecord, MachineStep, StepEvent
from leasehold.impl.words import over, parted
from leasehold.spec.language.model import System

# Lease, sender, and receiver with the channel between them, if that has numbers of its own (`over`).
Lane: TypeAlias = tuple[str, str, str]
Place: TypeAlias = tuple[str, int]  # an actor, and the position of its event
Sent = dict[tuple[str, str], int]  # by sender and receiver as in a lane, the greatest number that was sent
Awaited = dict[Lane, deque[int]]  # the numbers of messages that events which wait have received


def capacities_of(system: System) -> Mapping[str, int]:
    """Returns, by message, the capacity of its channel, where it has one."""
    capacities = ((name, system.channel_of(name).capacity) for name in system.messages)
    return {name: capacity for name, capacity in capacities if capacity}


def taken(step: MachineStep) -> tuple[Lane, int] | None:
    """Returns the lane and the number of the message that a step has received; None: it has received none."""
    of = step.received
    return None if of is None else ((step.lease, of.machine, over(step.machine, of.channel)), of.number)


def room_needed(event: AnyEvent, capacities: Mapping[str, int]) -> Iterator[tuple[Lane, int]]:
    """Yields lane and number of each message that must have been received, so that there was room for what is sent."""
    for step in event.steps() if capacities else ():
        for sent in step.sends:
            yield (step.lease, step.machine, sent.name), sent.number - capacities.get(sent.message, sent.number)


def records(event: AnyEvent) -> Iterator[tuple[str, str, MachineRecord]]:
    """Yields lease, machine and record of all that an event tells."""
    if isinstance(event, FoundEvent):
        yield event.lease, event.machine, event.record
    yield from ((step.lease, step.machine, step.record) for step in event.steps())


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
                for name, number in record.received.items() if capacities else ():
                    sender, channel = parted(name)
                    self._received[lease, sender, over(machine, channel)].note(number, (event.actor, event.position))

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

    def past(self, own: Sequence[Place], events: Mapping[Place, AnyEvent]) -> set[Place]:
        """Returns all that has led to the last one of some events, itself included.

        Args:
            own: the events. In its actor's chain, one of them comes after the others alone.
            events: those of the history.
        """
        past, waiting = set[Place](), [own[-1]]
        while waiting:
            place = waiting.pop()
            if place not in past:
                past.add(place)
                before = [at for at in own if at[0] == place[0] and at < place]
                waiting += [max(before)] if before else []
                waiting += self.causes(events[place]) if place in events else ()
        return past


@dataclass
class _Stream:
    place: int  # among the actors
    events: deque[AnyEvent] = field(default_factory=deque)
    first: int = 0  # position of the first event that has come; above 1, others may have been before it
    last: int = 0  # and of the last
    closed: bool = False
    known: tuple[int | None, float] = (-1, 0.0)  # up to when it is complete, though no event waits
    latest: tuple[int, float] = (-1, 0.0)  # of the last event that was passed on

    @property
    def is_bare(self) -> bool:
        """Returns whether no event waits, and more may come."""
        return not self.events and not self.closed


class CausalMerge:
    """Merges chains.

    Args:
        actors: those that are followed, by name.
        recall: returns the numbers that were sent in a run that is not in memory.
        capacities: by message, the capacity of its channel, where it has one.

    Attributes:
        actors: those that are followed.
        sent: what was sent, by run in memory.
        faults: what was wrong so far.
        causeless: runs of which events are missing that nobody claims to have.
    """

    def __init__(
        self,
        actors: Iterable[str],
        recall: Callable[[str], Sent] = lambda run: {},
        capacities: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._streams = {name: _Stream(place) for place, name in enumerate(dict.fromkeys(actors))}
        self._open = {*self._streams}  # those of which more may come
        self.actors = [*self._streams]
        self._heads: list[tuple[tuple[int, float], int, int]] = []  # moment, place and position of each first event
        # How far chains are known that have no event: by both times, or by real time alone, with the place.
        self._bare: list[tuple[tuple[int, float], int]] = []
        self._bare_in_time: list[tuple[float, int]] = []
        self._outdated = True  # whether these two are to be made anew
        self._capacities = capacities
        self._awaited: Awaited = {}
        self.sent: dict[str, Sent] = {}
        self._recall = recall
        self.faults: list[CutFault] = []
        self.causeless: set[str] = set()
        self._to_come: dict[tuple[str, str, str], list[int]] | None = None  # what waits is sent

    def add(self, actor: str, events: Iterable[AnyEvent]) -> list[AnyEvent]:
        """More events of an actor, in the order of its chain; returns those that are judged.

        One that comes twice, or late, and one of another actor are faults, and are not judged.
        """
        stream, taken = self._streams[actor], []
        for event in events:
            if event.actor != actor:
                self.fault(CutFault(actor, event.position, "", f"it is an event of {event.actor}"))
                continue
            if stream.last and event.position != stream.last + 1:
                reason = f"events {stream.last + 1} to {event.position - 1} are missing"
                if event.position <= stream.last:
                    reason = f"it comes after event {stream.last}"
                kind = Tampering.GAP if event.position > stream.last else Tampering.REPEATED
                self.fault(CutFault(actor, event.position, "", reason, kind.name.lower()))
            if event.position > stream.last:
                stream.first = stream.first or event.position
                stream.last = event.position
                stream.events.append(event)
                if len(stream.events) == 1:
                    self._head(stream)
                self._expect(event)
                taken.append(event)
        return taken

    def fault(self, fault: CutFault) -> None:
        """Something is wrong with the events."""
        self.faults.append(fault)
        if fault.run and fault.kind == UNDECIDED:
            self.causeless.add(fault.run)

    def _received(self, event: AnyEvent) -> Iterator[tuple[Lane, int]]:
        """Yields lane and number of what an event has received over channels with a capacity."""
        for step in event.steps() if self._capacities else ():
            if step.event in self._capacities and (message := taken(step)) is not None:
                yield message

    def _expect(self, event: AnyEvent) -> None:
        """An event waits: what it has received is to come."""
        for lane, number in self._received(event):
            self._awaited.setdefault(lane, deque()).append(number)

    def _expect_no_more(self, event: AnyEvent) -> None:
        """An event, the first of its actor, waits no more."""
        for lane, _ in self._received(event):
            self._awaited[lane].popleft()
            if not self._awaited[lane]:
                del self._awaited[lane]

    def resume(
        self, actor: str, first: int, last: int, waiting: Iterable[AnyEvent], passed: AnyEvent | None = None
    ) -> None:
        """Goes on where another merge was.

        Args:
            actor: whose events they are.
            first: the position of the first event that has come.
            last: the position of the last.
            waiting: those that wait.
            passed: the last one that was passed on; None: none was.
        """
        self._open.add(actor)
        stream = self._streams[actor] = _Stream(self._streams[actor].place, deque(waiting), first, last)
        if passed is not None:
            stream.latest = _moment(passed)
        self._outdated = True
        if stream.events:
            self._head(stream)
        for event in stream.events:
            self._expect(event)

    def waiting(self, actor: str) -> int:
        """Returns how many events of an actor wait for others."""
        return len(self._streams[actor].events)

    def quiet(self, actor: str, now: int | None, time: float) -> None:
        """Nothing more comes of an actor that is of before a moment; where only its real time is known, of that."""
        self._streams[actor].known = (now, time)
        self._outdated = True

    def drop(self, actor: str) -> None:
        """The events of an actor that wait are not judged."""
        events = self._streams[actor].events
        while events:
            self._expect_no_more(events.popleft())
        self._outdated = True

    def waiting_runs(self) -> set[str]:
        """The runs of which events wait for others."""
        steps = (e.step for stream in self._streams.values() for e in stream.events if isinstance(e, StepEvent))
        return {step.serves or step.lease for step in steps}

    def oldest(self) -> float | None:
        """The real time of the oldest event that waits; None: none does."""
        return min((stream.events[0].time for stream in self._streams.values() if stream.events), default=None)

    def known_now(self) -> int:
        """The virtual time up to which all that has happened was passed on, where it is known; else -1."""
        if any(stream.events for stream in self._streams.values()):
            return -1
        return min(
            (-1 if stream.known[0] is None else stream.known[0] for stream in self._streams.values()), default=-1
        )

    def complete_until(self) -> float:
        """The real time up to which all actors are known, in seconds since 1970; 0: not known."""
        going = [stream for stream in self._streams.values() if not stream.closed]
        return min((s.events[-1].time if s.events else s.known[1] for s in going), default=0.0)

    def close(self, *actors: str) -> None:
        """Nothing more comes of some actors."""
        for actor in actors:
            self._streams[actor].closed = True
        self._open.difference_update(actors)

    def coming(self, actor: str, most: int) -> Iterator[AnyEvent]:
        """The next events of an actor that are known."""
        stream = self._streams.get(actor)
        return iter(()) if stream is None else islice(stream.events, most)

    def ready(self) -> Iterator[AnyEvent]:
        """The events whose causes are there, in the order in which they are judged."""
        while (event := self._next()) is not None:
            stream = self._streams[event.actor]
            stream.events.popleft()
            stream.latest = _moment(event)
            if stream.events:
                self._head(stream)
            elif not stream.closed:
                self._bares(stream)
            self._expect_no_more(event)
            self._note(event)
            yield event

    def _next(self) -> AnyEvent | None:
        closed, full, passed = not self._open, None, []
        try:
            while (event := self._first()) is not None:
                if self._missing(event) is None:
                    if not self._lacks_room(event):
                        return event if self._complete(_moment(event)) else None
                    full = full or event
                elif closed and not self._comes(event):
                    return self._passed_over(event)
                passed.append(heappop(self._heads))
            if full and all(s.closed or s.events for s in self._streams.values()):
                return full
            if not passed or not closed:
                return None
            return self._passed_over(self._at(passed[0][1]).events[0])  # they wait for each other
        finally:
            for head in passed:
                heappush(self._heads, head)

    def _at(self, place: int) -> _Stream:
        return self._streams[self.actors[place]]

    def _head(self, stream: _Stream) -> None:
        """A chain has another first event."""
        event = stream.events[0]
        heappush(self._heads, (_moment(event), stream.place, event.position))

    def _first(self) -> AnyEvent | None:
        """The earliest first event of those in the heap; of equals, that of the first actor."""
        while self._heads:
            _, place, position = self._heads[0]
            events = self._at(place).events
            if events and events[0].position == position:
                return events[0]
            heappop(self._heads)
        return None

    def _bares(self, stream: _Stream) -> None:
        """A chain has no event any more."""
        now, time = stream.known
        if now is None:
            heappush(self._bare_in_time, (time, stream.place))
        else:
            heappush(self._bare, ((now, time), stream.place))

    def _lacks_room(self, event: AnyEvent) -> bool:
        """Returns whether an event that waits tells of a receipt without which a step would have had no room."""
        needed = room_needed(event, self._capacities) if self._awaited else ()
        return any((awaited := self._awaited.get(lane)) and awaited[0] <= number for lane, number in needed)

    def _complete(self, moment: tuple[int, float]) -> bool:
        """Returns whether all that is earlier has come."""
        if self._outdated:
            bare = [stream for stream in self._streams.values() if stream.is_bare]
            self._bare = [
                ((now, stream.known[1]), stream.place) for stream in bare if (now := stream.known[0]) is not None
            ]
            self._bare_in_time = [(stream.known[1], stream.place) for stream in bare if stream.known[0] is None]
            heapify(self._bare)
            heapify(self._bare_in_time)
            self._outdated = False
        while self._bare and not self._at(self._bare[0][1]).is_bare:
            heappop(self._bare)
        while self._bare_in_time and not self._at(self._bare_in_time[0][1]).is_bare:
            heappop(self._bare_in_time)
        known = not self._bare or self._bare[0][0] >= moment
        return known and (not self._bare_in_time or self._bare_in_time[0][0] >= moment[1])

    def _passed_over(self, event: AnyEvent) -> AnyEvent:
        """An event whose cause does not come: it is reported, and counts as if its cause were there."""
        step, number = self._missing(event) or (None, 0)
        assert step is not None and step.received is not None
        of = step.received
        reason = f"{step.machine} has received {step.event} with number {number} of {of.machine}, and "
        sender, kind = self._streams.get(of.actor), CONTRADICTION
        if sender is None:
            reason, kind = reason + f"the events of {of.actor or 'its actor'} are not here", UNDECIDED
        elif step.lease in self.causeless:
            reason, kind = reason + "events of its run are not here", UNDECIDED
        elif sender.first > 1 and not self._sent_in(step.lease).get((of.machine, over(step.machine, of.channel))):
            reason, kind = reason + f"the events of {of.actor} begin with {sender.first} here", UNDECIDED
        else:
            reason += f"no event says that {of.actor} has sent it"
            if not sender.events and sender.latest < _moment(event):
                reason, kind = reason + ", whose events end before", UNDECIDED
        self.fault(CutFault(event.actor, event.position, step.lease, reason, kind))
        self._count(self._sent_in(step.lease), (of.machine, over(step.machine, of.channel)), number)
        return event if self._missing(event) is None else self._passed_over(event)

    def _comes(self, event: AnyEvent) -> bool:
        """Returns whether what an event waits for is sent by one that waits itself, which then lacks its cause."""
        step, number = self._missing(event) or (None, 0)
        assert step is not None and step.received is not None
        if self._to_come is None:  # nothing more comes, so once is enough
            self._to_come = {}
            for other in (e for stream in self._streams.values() for e in stream.events):
                for key, numbers in _numbers_sent(other):
                    self._to_come.setdefault(key, []).extend(numbers)
        lane = step.lease, step.received.machine, over(step.machine, step.received.channel)
        known = self._to_come.get(lane, [])
        return any(sent <= number for sent in known) and any(sent >= number for sent in known)

    def _missing(self, event: AnyEvent) -> tuple[MachineStep, int] | None:
        """The step of an event whose message nobody is known to have sent, and the message's number."""
        own: dict[Lane, int] = {}  # an actor may play both ends
        for step in event.steps():
            if (message := taken(step)) is not None:
                lane, number = message
                if max(self._sent_in(step.lease).get(lane[1:], 0), own.get(lane, 0)) < number:
                    return step, number
            own |= {(step.lease, step.machine, to): n for to, n in step.record.sent.items()}
        return None

    def _note(self, event: AnyEvent) -> None:
        """Notes what an event says of numbers that were sent."""
        for lease, machine, record in records(event):
            if record.sent:
                sent = self._sent_in(lease)
                for to, number in record.sent.items():
                    self._count(sent, (machine, to), number)

    def _sent_in(self, run: str) -> Sent:
        sent = self.sent.get(run)
        if sent is None:
            sent = self.sent[run] = self._recall(run)
        return sent

    @staticmethod
    def _count(sent: Sent, key: tuple[str, str], number: int) -> None:
        sent[key] = max(number, sent.get(key, 0))


def merged(
    chains: Mapping[str, Iterable[AnyEvent]], capacities: Mapping[str, int] = MappingProxyType({})
) -> CausalMerge:
    """Returns a merge of whole chains, by actor: nothing more comes of them."""
    merge = CausalMerge(chains, capacities=capacities)
    for actor, events in chains.items():
        merge.add(actor, events)
    merge.close(*chains)
    return merge


def _numbers_sent(event: AnyEvent) -> Iterator[tuple[Lane, tuple[int, ...]]]:
    """Yields, by lane, the numbers that an event is known to send, or least and greatest."""
    for step in event.steps():
        yield from (((step.lease, step.machine, sent.name), (sent.number,)) for sent in step.sends)
    if isinstance(event, FoundEvent):
        yield from (((event.lease, event.machine, to), (1, number)) for to, number in event.record.sent.items())


def _moment(event: AnyEvent) -> tuple[int, float]:
    return event.now, event.time
