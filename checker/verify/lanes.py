"""The messages on their way from one machine to another, replayed from the numbers that were sent and received.

Theory of operation. A step has sent its messages when it is committed, and a message is on its way until it, or a later
one, was received. Whether the network has lost or doubled it in between is in no event, and makes no difference to
what its sender has to say again. The contents are those of checker/explore/channels.py, with its rules: numbers
become ranks, and of what a sender has moved on from the last message of each kind may still arrive. A network may
bring an earlier one nevertheless, as nothing holds it up: its sender need not have sent the later ones yet when it
was taken, but by the actors' clocks it had. So it is on its way again right before the step that takes it (`late`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, TypeAlias

from leasehold.checker.explore import channels
from leasehold.checker.explore.layout import Lane
from leasehold.checker.history.fault import CONTRADICTION
from leasehold.checker.verify.system import CutsOfSystem
from leasehold.impl.core.values import ValueFault, from_plain
from leasehold.impl.events.event import MachineStep
from leasehold.spec.language.model import Channel


class Unjudged(Exception):
    """A run cannot be judged from here on; the message says why, and `kind` is that of the fault."""

    kind = CONTRADICTION


@dataclass
class ReplayedLane:
    """A channel between two machines.

    Attributes:
        newest, received: the numbers that were sent and received last.
        waiting: number, kind and fields of what is on its way, in the order of numbers.
        passed: likewise, of what the sender has moved on from, up to what was received.
    """

    channel: Channel
    newest: int = 0
    received: int = 0
    waiting: list[channels.Entry] = field(default_factory=list)
    passed: list[channels.Entry] = field(default_factory=list)

    def send(self, number: int, kind: str, fields: tuple[Any, ...]) -> None:
        """A message was sent."""
        if self.channel.kind == "mailbox":
            older = channels.moved_on(self.waiting, kind)
            self.waiting = [entry for entry in self.waiting if entry not in older]
            self.passed += older
        self.newest = max(self.newest, number)
        if number > self.received:
            self.waiting.append((number, kind, fields))

    def late(self, number: int) -> bool:
        """Has a message that is to be taken on its way still; returns whether its sender has moved on from it."""
        late = [entry for entry in self.passed if entry[0] == number]
        self.waiting = sorted(self.waiting + late, key=itemgetter(0))
        self.passed = [entry for entry in self.passed if entry not in late]
        return bool(late)

    def receive(self, number: int) -> None:
        """A message was received; a mailbox drops those before it."""
        if self.channel.kind == "mailbox":
            self.waiting, self.passed = ([e for e in of if e[0] > number] for of in (self.waiting, self.passed))
            self.received = max(self.received, number)
        elif self.channel.kind != "set":
            self.waiting = [entry for entry in self.waiting if entry[0] != number]

    def found(self, newest: int | None = None, received: int | None = None) -> None:
        """A record has numbers that no step has led to."""
        self.newest = self.newest if newest is None else max(newest, self.newest)
        if received is not None and received > self.received:
            self.receive(received)

    def content(self) -> channels.Content:
        """The content as the explorer has it."""
        match self.channel.kind:
            case "mailbox":
                above = ((number - self.received, kind, fields) for number, kind, fields in self.waiting)
                return channels.ranked(max(self.newest - self.received, 0), tuple(above))
            case "set":
                return frozenset((1, kind, fields) for _, kind, fields in self.waiting)
            case "fifo":
                return tuple((1, kind, fields) for _, kind, fields in self.waiting)
        return tuple(sorted(((1, kind, fields) for _, kind, fields in self.waiting), key=repr))


Lanes: TypeAlias = dict[int, ReplayedLane]  # by cell of the state of a run, those that have carried a message


class RunMessages:
    """Takes the messages of runs from step to step.

    Args:
        known: the system.
    """

    def __init__(self, known: CutsOfSystem) -> None:
        self.known = known

    def late(self, lanes: Lanes, state: list[Any], step: MachineStep) -> bool:
        """Has what a step takes on its way, where its sender has moved on from it; returns whether it has."""
        lane = self._received_on(step)
        replayed = None if lane is None else lanes.get(lane.cell)
        if lane is None or replayed is None or step.received is None or not replayed.late(step.received.number):
            return False
        state[lane.cell] = replayed.content()
        return True

    def take(self, lanes: Lanes, state: list[Any], step: MachineStep, place: tuple[str, int]) -> Iterator[str]:
        """Takes the messages that a step has received and sent into a state; yields in words what is wrong with it.

        Args:
            lanes: of the run.
            state: of the run.
            step: which.
            place: role and number of its machine.

        Raises:
            Unjudged: it cannot be judged.
        """
        touched: Lanes = {}
        received, lane = step.received, self._received_on(step)
        if received is not None and lane is not None:
            replayed = touched[lane.cell] = self._replayed(lanes, lane)
            if received.number <= replayed.received:
                receipt = f"{step.machine} takes {step.event} with number {received.number}"
                yield f"{receipt}, and has received {replayed.received} before"
            replayed.receive(received.number)
        for sent in step.sends:
            to = self.known.machine(sent.to)
            lane = None if to is None else self._lane(step.machine, to, sent.message)
            if lane is None:
                raise Unjudged(f"{step.machine} sends {sent.message} to {sent.to}, and no channel leads there")
            kinds = self.known.system.messages[sent.message].fields
            try:
                fields = tuple(from_plain(f.type, sent.fields[f.name]) for f in kinds)
            except (ValueFault, KeyError) as why:
                raise Unjudged(f"the message {sent.message} has a field that it cannot have: {why}") from None
            replayed = touched[lane.cell] = self._replayed(lanes, lane)
            replayed.send(sent.number, sent.message, fields)
        for lane, name, sends in self.known.lanes_of[place]:  # numbers that no message of the run's events had
            number = (step.record.sent if sends else step.record.received).get(name, 0)
            if not number:
                continue
            replayed = self._replayed(lanes, lane)
            if number > (replayed.newest if sends else replayed.received):
                replayed.found(**{"newest" if sends else "received": number})
                touched[lane.cell] = replayed
        for cell, replayed in touched.items():
            state[cell] = replayed.content()

    def _replayed(self, lanes: Lanes, lane: Lane) -> ReplayedLane:
        replayed = lanes.get(lane.cell)
        if replayed is None:
            replayed = lanes[lane.cell] = ReplayedLane(lane.channel)
        return replayed

    def _received_on(self, step: MachineStep) -> Lane | None:
        """The lane over which a step has received something."""
        to = self.known.machine(step.machine)
        return None if to is None or step.received is None else self._lane(step.received.machine, to, step.event)

    def _lane(self, sender: str, receiver: tuple[str, int], message: str) -> Lane | None:
        place = self.known.machine(sender)
        if place is None or message not in self.known.system.messages:
            return None
        return self.known.layout.lane(self.known.system.channel_of(message).name, place[1], receiver[1])
