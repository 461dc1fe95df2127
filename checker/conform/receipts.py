"""Messages in logs: each one that is received was sent with its number and fields, by whom it says, to whom it came.

A message that is sent again has the fields that its machine's record has then, under the same number. So what may come
under a number are all fields that the sender's records have had since, and a receipt is decided when all logs are read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from leasehold.checker.conform.comparison import MachineLane, Message, StepComparison
from leasehold.checker.conform.compiled import CompiledMachines
from leasehold.checker.conform.decoded import StepDecoder
from leasehold.checker.conform.findings import JudgedLog
from leasehold.checker.conform.known import KnownSystem
from leasehold.faults.simulation.steps import LoggedStep
from leasehold.impl.actor.table import BELOW
from leasehold.impl.core.work import Record
from leasehold.impl.events.event import AnyEvent, MachineStep, StepEvent
from leasehold.impl.store.store import RecordKey


class LogComparison(StepComparison):
    """Compares the steps of logs with those of the reference.

    Attributes:
        actor: whose step is compared.
        found: what is wrong with it.
    """

    tells_unmoved = False

    def __init__(self, known: KnownSystem) -> None:
        super().__init__(known.program, known.world, known.asks_unknown)
        self.actor = ""
        self.found: list[str] = []
        self._of_actor: dict[tuple[str, RecordKey], Record] = {}

    def known(self, key: RecordKey) -> Record | None:
        return self._of_actor.get((self.actor, key)) if key.lease == BELOW else self.records.get(key)

    def take(self, key: RecordKey, record: Record) -> None:
        if key.lease == BELOW:
            self._of_actor[self.actor, key] = record
        else:
            self.records[key] = record

    def forget(self, key: RecordKey) -> None:
        """A machine is there no more."""
        self._of_actor.pop((self.actor, key), None)
        self.records.pop(key, None)

    def is_up(self, machine: str) -> bool:
        return True

    def say(self, now: int, lease: str, machine: str, words: str) -> None:
        self.found.append(words)

    def may_be(self, lane: MachineLane, number: int, message: Message) -> bool:
        return True  # `Receipts` says that


class Receipts:
    """The messages of logs.

    Args:
        decoder: reads fields.
        comparison: knows what was sent.
        actors: those whose logs are given.
        say: hears what is wrong.

    Attributes:
        base: by lane, the number up to which nobody knows what was sent.
    """

    def __init__(
        self, decoder: StepDecoder, comparison: LogComparison, actors: Collection[str], say: Callable[..., None]
    ) -> None:  # fmt: skip
        self.decoder, self.comparison, self.program = decoder, comparison, decoder.program
        self.actors, self.say = actors, say
        self.base: dict[MachineLane, int] = {}
        self._sender: dict[tuple[MachineLane, int], tuple[str, str]] = {}  # the actors that send, and are to receive
        self._of_others: list[tuple[AnyEvent, MachineStep, MachineLane]] = []  # received from actors without a log
        self._doubtful: list[tuple[AnyEvent, MachineStep, MachineLane, int, Message]] = []

    def received(self, event: StepEvent, step: MachineStep, logged: LoggedStep, judged: JudgedLog) -> None:
        """Whether the message of a step was sent, by whom it says."""
        of = step.received
        if of is None or logged.event is None:
            return
        lane = step.lease, of.machine, step.machine
        if self.program.messages[step.event].ordered:
            last = logged.before[logged.core.received_at][logged.event[2]]
            if of.number != last + 1:
                words = f"{step.machine} receives message {of.number} of {of.machine} after {last}"
                self.say("message", event, f"{words}, though the channel keeps order", step)
        known = self._sender.get((lane, of.number))
        if known is None and of.actor not in self.actors:
            self._of_others.append((event, step, lane))
        elif known is not None:
            self._check_ends(event, step, known)
        if of.actor in self.actors and of.number > self.base.get(lane, 0):
            judged.messages += 1
            message = logged.event[0], logged.event[1]
            if message not in self.comparison.said(lane, of.number):
                self._doubtful.append((event, step, lane, of.number, message))

    def _check_ends(self, event: AnyEvent, step: MachineStep, known: tuple[str, str]) -> None:
        of, (sender, to) = step.received, known
        if of is None:
            return
        words = f"message {of.number} of {of.machine}"
        if sender != of.actor:
            self.say("message", event, f"{words} comes from {of.actor or 'nobody'}, and {sender} has sent it", step)
        if to not in ("", event.actor) and not self.program.standing:
            self.say("message", event, f"{words} was sent to {to}, and {event.actor} has received it", step)

    def sent(
        self, event: StepEvent, steps: list[MachineStep], machines: CompiledMachines, unknown: set[tuple[str, str]]
    ) -> None:  # fmt: skip
        """What a step has sent, and what would be sent again after it.

        Args:
            event: of the step.
            steps: it, and those that it drives.
            machines: of the actor, after it.
            unknown: the machines of which the first records are not known.
        """
        for one in steps:
            for sent in one.sends:
                lane = one.lease, one.machine, sent.to
                values = self.decoder.values(sent.message, self.program.messages[sent.message].fields, sent.fields)
                self._sender[lane, sent.number] = event.actor, sent.actor
                self.comparison.sent.setdefault(lane, {})[sent.number] = [(sent.message, values)]
            if (one.lease, one.machine) in unknown:
                for peer, number in one.record.sent.items():
                    lane = one.lease, one.machine, peer
                    if number not in self.comparison.sent.get(lane, {}):
                        self.base[lane] = max(number, self.base.get(lane, 0))
        for instance, piece in machines.says(steps[0].serves or steps[0].lease):
            peer = self.program.neighbour(instance.core, instance.number, piece.neighbour)
            number = instance.record[instance.core.sent_at][piece.neighbour]
            said: list[Any] = self.comparison.said((*instance.key, peer), number)
            message = piece.message, piece.fields(instance.record)
            if said and message not in said:
                said.append(message)

    def end(self) -> None:
        """Nothing more comes: messages that were in doubt were sent as they were received, or were not."""
        for event, step, lane, number, message in self._doubtful:
            said = self.comparison.said(lane, number)
            if message in said:
                continue
            words = f"{step.machine} has received as message {number} of {lane[1]} {message!r}"
            sent = " or ".join(map(repr, said)) if said else "none of this number"
            self.say("message", event, f"{words}, and {lane[1]} has sent {sent}", step)
        for event, step, lane in self._of_others:
            if step.received is not None and (known := self._sender.get((lane, step.received.number))) is not None:
                self._check_ends(event, step, known)
        self._doubtful.clear()
        self._of_others.clear()
