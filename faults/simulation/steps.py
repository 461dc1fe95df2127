"""A log of what an actor's loop does with its machines: each event, what became of the record, and the work begun.

A step is written down where the loop takes it (`Stepper.step`), with the steps of subsidiary machines that it drives,
so the log has what no record and no notice tells: the fields of events, and what was left undone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from leasehold.impl.actor.ready import Ready, SendMessage, StartCall
from leasehold.impl.actor.stepper import Stepper
from leasehold.impl.actor.table import MachineInstance
from leasehold.impl.core.core import Core
from leasehold.impl.core.work import DriveWork, Event, Outcome, Record, SendWork, Work
from leasehold.impl.store.store import RecordKey


@dataclass(slots=True, eq=False)
class LoggedStep:
    """One event at one machine.

    Attributes:
        key: the machine.
        lease: the lease; of a subsidiary machine, the one that it serves.
        core: its role.
        event: what came; None: the machine was recovered, and its work begins again.
        now: the time of the turn.
        before, after: the record.
        outcome: of the event.
        sends: the messages that the turn sends, by neighbour; those too that are kept for a session or an unknown peer.
        calls: the calls that it begins, by the name of their task.
        driven: the steps of subsidiary machines within it.
    """

    key: RecordKey
    lease: str
    core: Core
    event: Event | None
    now: int
    before: Record
    after: Record
    outcome: Outcome | None = None
    sends: list[tuple[int, str, tuple[Any, ...]]] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    driven: list[LoggedStep] = field(default_factory=list)


LoggedTurn: TypeAlias = list[LoggedStep]  # in the order in which they began


class LoggedStepper(Stepper):
    """A stepper that tells what it does.

    Attributes:
        hear: hears the steps that follow from one request, when all are taken; None: nobody listens.
    """

    hear: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._open: list[LoggedStep] = []
        self._turn: LoggedTurn = []
        self._drives = False

    def step(self, ready: Ready, instance: MachineInstance, event: Event, outside: bool = False) -> Outcome:
        if self.hear is None:
            return super().step(ready, instance, event, outside)
        with _Logged(self, ready, instance, event) as entry:
            entry.outcome = super().step(ready, instance, event, outside)
        return entry.outcome

    def start_again(self, ready: Ready, instance: MachineInstance) -> None:
        if self.hear is None:
            super().start_again(ready, instance)
            return
        with _Logged(self, ready, instance, None):
            super().start_again(ready, instance)

    def _set(self, ready: Ready, instance: MachineInstance, record: Record) -> None:
        super()._set(ready, instance, record)
        if self._open:
            self._open[-1].after = record

    def start(
        self, ready: Ready, instance: MachineInstance, work: tuple[Work, ...], again: bool, anew: bool = False
    ) -> None:
        before = len(ready.effects)
        super().start(ready, instance, work, again, anew)
        if not self._open:
            return
        step, messages = self._open[-1], self.program.messages
        for effect in ready.effects[before:]:
            if isinstance(effect, SendMessage) and effect.key == instance.key:
                step.sends.append((effect.send.neighbour, effect.send.message, effect.fields))
            elif isinstance(effect, StartCall) and effect.key == instance.key:
                step.calls.append(effect.call.task)
        for piece in work:
            if not isinstance(piece, SendWork) or (again and messages[piece.message].ordered):  # its session keeps it
                continue
            if messages[piece.message].ordered or not instance.peers[piece.neighbour]:
                step.sends.append((piece.neighbour, piece.message, piece.fields(instance.record)))

    def _drive(self, ready: Ready, instance: MachineInstance, piece: DriveWork, record: Record) -> None:
        self._drives = True
        super()._drive(ready, instance, piece, record)
        self._drives = False  # also where nothing has happened


class _Logged:
    """Around one step: it is written down, unless it could not be taken."""

    def __init__(self, stepper: LoggedStepper, ready: Ready, instance: MachineInstance, event: Event | None) -> None:
        self.stepper, self.instance = stepper, instance
        record = instance.record
        self.entry = LoggedStep(instance.key, instance.serves, instance.core, event, ready.now, record, record)
        self.among = stepper._open[-1].driven if stepper._drives and stepper._open else stepper._turn

    def __enter__(self) -> LoggedStep:
        self.stepper._drives = False
        self.among.append(self.entry)
        self.stepper._open.append(self.entry)
        return self.entry

    def __exit__(self, kind: Any, *_: Any) -> None:
        stepper = self.stepper
        stepper._open.pop()
        if kind is not None:
            self.among.remove(self.entry)  # compared by identity
        if not stepper._open:
            turn, stepper._turn = stepper._turn, []
            if turn:
                stepper.hear(turn)
