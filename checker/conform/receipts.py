"""Messages in logs: each one that is received was sent with its number and fields, by whom it says, to whom it came.

A message that is sent again has the fields that its machine's record has then, under the same number. So what may come
under a number are all fields that the sender's records have had since, and a receipt is decided when all logs are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from leasehold.checker.conform.comparison import MachineLane, Message, StepComparison
from leasehold.checker.conform.compiled import CompiledMachines
from leasehold.checker.conform.decoded import StepDecoder
from leasehold.checker.conform.findings import JudgedLog
from leasehold.checker.conform.known import KnownSystem
from leasehold.checker.explore.ground import GroundMachine, Move
from leasehold.faults.simulation.steps import LoggedStep
from leasehold.impl.actor.table import BELOW
from leasehold.impl.core.work import Record, message
from leasehold.impl.events.event import AnyEvent, MachineStep, StepEvent
from leasehold.impl.store.store import RecordKey
from leasehold.impl.words import over


class LogComparison(StepComparison):
    """Compares the steps of logs with those of the reference.

    Attributes:
        actor: whose step is compared.
        by_parent: whether a recovered machine that the step's is subsidiary to has given it the event anew.
        found: what is wrong with it.
    """

    tells_unmoved = False

    def __init__(self, known: KnownSystem) -> None:
        super().__init__(known.program, known.world, known.asks_unknown)
        self.actor = ""
        self.by_parent = False
        self.found: list[str] = []
        self._of_actor: dict[tuple[str, RecordKey], Record] = {}

    def known(self, key: RecordKey) -> Record | None:
        return self._of_actor.get((self.actor, key)) if key.lease == BELOW else self.records.get(key)

    def take(self, key: RecordKey, record: Record) -> None:
        if key.lease == BELOW:
            self._of_actor[self.actor, key] = record
        else:
            self.records[key] = record

    def forget(self, actor: str, key: RecordKey) -> None:
        """A machine of an actor is there no more."""
        self._of_actor.pop((actor, key), None)
        self.records.pop(key, None)

    def is_up(self, machine: str) -> bool:
        return True

    def say(self, now: int, lease: str, machine: str, reason: str) -> None:
        self.found.append(reason)

    def may_be(self, lane: MachineLane, number: int, message: Message) -> bool:
        return True  # `Receipts` says that

    def offered(self, step: LoggedStep, machine: GroundMachine, state: Sequence[Any]) -> Move | None:
        return (self.driven_again if self.by_parent else super().offered)(step, machine, state)


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
    ) -> None:
        self.decoder, self.comparison, self.program = decoder, comparison, decoder.program
        self.actors, self.say = actors, say
        self.base: dict[MachineLane, int] = {}
        self._pruned: dict[str, set[tuple[str, str]]] = {}  # by actor, the machines of which events are left
        self._sender: dict[tuple[MachineLane, int], tuple[str, str]] = {}  # the actors that send, and are to receive
        self._players: dict[MachineLane, str] = {}  # by lease, machine and its neighbour, the actor that plays that
        self._of_others: list[tuple[AnyEvent, MachineStep, MachineLane]] = []  # received from actors without a log
        self._doubtful: list[tuple[AnyEvent, MachineStep, MachineLane, int, Message]] = []

    def _check_players(self, event: StepEvent, step: MachineStep) -> None:
        """Checks whether the neighbours of a machine of a run have the same actors as before; these do not change."""
        of = step.received
        named = [(of.machine, of.actor)] if of is not None else []
        for peer, actor in (*named, *((sent.to, sent.actor) for sent in step.sends if sent.actor)):
            known = self._players.setdefault((step.lease, step.machine, peer), actor)
            if known != actor:
                self.say("message", event, f"{peer} is played by {actor or 'nobody'}, and was by {known} before", step)

    def received(self, event: StepEvent, step: MachineStep, logged: LoggedStep, judged: JudgedLog) -> None:
        """Checks whether the message of a step was sent, by whom it says."""
        of = step.received
        if not self.program.standing:
            self._check_players(event, step)
        if of is None or logged.event is None:
            return
        lane = step.lease, of.machine, over(step.machine, of.channel)
        if self.program.messages[step.event].ordered:
            last = logged.before[logged.core.received_at][logged.event[2]]
            if of.number != last + 1 and (last or not self._began_behind(logged, lane, of.number)):
                receipt = f"{step.machine} receives message {of.number} of {of.machine} after {last}"
                self.say("message", event, f"{receipt}, though the channel keeps order", step)
        known = self._sender.get((lane, of.number))
        if known is None and of.actor not in self.actors:
            self._of_others.append((event, step, lane))
        elif known is not None:
            self._check_ends(event, step, known)
        if self.is_known(step):
            judged.messages += 1
            received = logged.event[0], logged.event[1]
            if received not in self.comparison.said(lane, of.number):
                self._doubtful.append((event, step, lane, of.number, received))

    def _began_behind(self, logged: LoggedStep, lane: MachineLane, number: int) -> bool:
        """Returns whether all that came over a channel before a message can have left no event.

        A machine that is not there takes a message that does not move it, and is not there afterwards either. When it
        came nobody knows, so it counts with the time of the beginning, and with that of the step.
        """
        core, (_, machine) = logged.core, self.program.machines[logged.key.machine]
        if self.program.standing or logged.event is None:
            return False
        at = logged.event[2]

        def moves(sent: Message, n: int) -> bool:
            event = message(sent[0], sent[1], at, n)
            return all(core.begins_with(machine, event, now) for now in (0, logged.now))

        before = {n: self.comparison.said(lane, n) for n in range(max(1, self.base.get(lane, 0) + 1), number)}
        return not any(messages and all(moves(one, n) for one in messages) for n, messages in before.items())

    def pruned(self, actor: str, events: Iterable[AnyEvent]) -> None:
        """The oldest events of an actor were dropped, and with them what these had sent."""
        left = self._pruned.setdefault(actor, set())
        for event in events:
            for one in event.steps():
                if (one.lease, one.machine) not in left:
                    left.add((one.lease, one.machine))
                    here = Counter(sent.name for sent in one.sends)
                    for to, number in one.record.sent.items():
                        self.base[one.lease, one.machine, to] = number - here[to]

    def is_known(self, step: MachineStep) -> bool:
        """Returns whether the events that are given tell what was sent under the number of a step's message."""
        of = step.received
        if of is None or of.actor not in self.actors:
            return False
        left = self._pruned.get(of.actor)
        if left is not None and (step.lease, of.machine) not in left:
            return False
        return of.number > self.base.get((step.lease, of.machine, over(step.machine, of.channel)), 0)

    def _check_ends(self, event: AnyEvent, step: MachineStep, known: tuple[str, str]) -> None:
        of, (sender, to) = step.received, known
        if of is None:
            return
        label = f"message {of.number} of {of.machine}"
        if sender != of.actor:
            self.say("message", event, f"{label} comes from {of.actor or 'nobody'}, and {sender} has sent it", step)
        if to not in ("", event.actor) and not self.program.standing:
            self.say("message", event, f"{label} was sent to {to}, and {event.actor} has received it", step)

    def sent(self, event: StepEvent, steps: list[MachineStep], machines: CompiledMachines) -> None:
        """Notes what a step has sent, and what would be sent again after it.

        Args:
            event: of the step.
            steps: it, and those that it drives.
            machines: of the actor, after it.
        """
        for one in steps:
            for sent in one.sends:
                lane = one.lease, one.machine, sent.name
                values = self.decoder.values(sent.message, self.program.messages[sent.message].fields, sent.fields)
                self._sender[lane, sent.number] = event.actor, sent.actor
                self.comparison.sent.setdefault(lane, {})[sent.number] = [(sent.message, values)]
        for instance, piece in machines.says(steps[0].serves or steps[0].lease):
            to = self.program.lane(instance.core, instance.number, piece.neighbour)
            number = instance.record[instance.core.sent_at][piece.neighbour]
            messages: list[Any] = self.comparison.said((*instance.key, to), number)
            again = piece.message, piece.fields(instance.record)
            if messages and again not in messages:
                messages.append(again)

    def end(self) -> None:
        """Nothing more comes: messages that were in doubt were sent as they were received, or were not."""
        for event, step, lane, number, received in self._doubtful:
            messages = self.comparison.said(lane, number)
            if received in messages:
                continue
            receipt = (
                f"{step.machine} has received as message {number} of {lane[1]} {self.comparison.written(received)}"
            )
            sent = " or ".join(map(self.comparison.written, messages)) if messages else "none of this number"
            self.say("message", event, f"{receipt}, and {lane[1]} has sent {sent}", step)
        for event, step, lane in self._of_others:
            if step.received is not None and (known := self._sender.get((lane, step.received.number))) is not None:
                self._check_ends(event, step, known)
        self._doubtful.clear()
        self._of_others.clear()
