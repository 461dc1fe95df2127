"""The messages on their way from one machine to another, replayed from the numbers that were sent and received.

Theory of operation. A step has sent its messages when it is committed, and a message is on its way until it, or a later
one, was received. Whether the network has lost or doubled it in between is in no event, and makes no difference to
what its sender has to say again. The contents are those of checker/explore/channels.py, with its rules: numbers
become ranks, and of what a sender has moved on from the last message of each kind may still arrive. A network may
bring an earlier one nevertheless, as nothing holds it up: its sender need not have sent the later ones yet when it
was taken, but by the actors' clocks it had. So it is on its way again right before the step that takes it (`late`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from leasehold.checker.explore import channels
from leasehold.spec.language.model import Channel


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
