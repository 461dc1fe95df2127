"""The events of a simulation's actors: read as they are committed, and compared with what the actors have done.

Theory of operation. One reader verifies the chain of each actor, and tells what is new in it to whoever evaluates it
(monitor.py), and to the check that no step is missing in a chain, and none added: the simulation logs every step where
the actor's loop takes it (faults/simulation/steps.py). Each commit is compared with the steps since the last one: the
events that are new in the store are those steps, in their order, with the same records, messages and calls; they
verify, and the store's head is the last of them. What an actor was committing when it ended is there as a whole, or not
at all. The last event about each machine has its record as the store has it.

A step counts when it has changed a record and was not undone: a message that moves nothing begins no machine, and one
that is refused makes its sender no neighbour.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

from leasehold.checker.history.fold import EventFold, FoldedMachine
from leasehold.faults.simulation.simulation import Simulation
from leasehold.faults.simulation.steps import LoggedStep, LoggedTurn
from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.chronicle import HEAD
from leasehold.impl.core.core import Core, Program
from leasehold.impl.core.values import to_plain
from leasehold.impl.core.work import Record
from leasehold.impl.events.chain import ChainError, ChainVerifier, Head
from leasehold.impl.events.event import (
    AnyEvent,
    ForgottenEvent,
    MachineRecord,
    MachineStep,
    RecoveredEvent,
)
from leasehold.impl.notices import Kind, Notice
from leasehold.impl.store.store import RecordKey

Plain = Any
S = TypeVar("S", bound=Simulation)
CommitListener: TypeAlias = Callable[[str, list[AnyEvent], bool], None]


class CommittedEvents(Generic[S]):
    """Reads the events of a simulation's actors as they commit them, so in their true order, and verifies them.

    It has to be made before the actors start, and before whoever hears of the events.

    Attributes:
        sim: the simulation.
        listeners: hear an actor and its new events. `in_doubt`: its last incarnation has committed them, of which
            nobody knew.
        verifiers: by actor of which something was read.
        wrong: what is not as it should be, in words.
    """

    def __init__(self, simulation: S) -> None:
        self.sim = simulation
        self.listeners: list[CommitListener] = []
        self.wrong: list[str] = []
        self.verifiers: dict[str, ChainVerifier] = {}
        self._stopped: set[str] = set()  # actors of which nobody knows whether their last commit was made
        simulation.subscribers.append(self._hear)
        simulation.ends.append(self._stopped.add)

    def say(self, actor: str, reason: str) -> None:
        self.wrong.append(f"{actor}: {reason}"[:500])

    def _hear(self, notice: Notice) -> None:
        if notice.kind is Kind.STOPPED:
            self._stopped.add(notice.actor)
        elif notice.kind in (Kind.COMMIT, Kind.RECOVERED):
            self.settle(notice.actor)
        elif notice.kind is Kind.COMMITTED:
            self._tell(notice.actor, in_doubt=False)

    def settle(self, actor: str) -> None:
        """An actor begins with what its store has: its last steps were committed, or have never been."""
        if actor in self._stopped:
            self._stopped.discard(actor)
            self._tell(actor, in_doubt=True)

    def _tell(self, actor: str, in_doubt: bool) -> None:
        events = self._read(actor)
        for listener in self.listeners:
            listener(actor, events, in_doubt)

    def _read(self, name: str) -> list[AnyEvent]:
        """The events that are new in a store, verified."""
        disk = self.sim.disks[name]
        if (verifier := self.verifiers.get(name)) is None:
            verifier = self.verifiers[name] = ChainVerifier(self.sim.trust, name)
        events = list[AnyEvent]()
        last = next(reversed(disk.events), 0)
        if last < verifier.last:
            self.say(name, f"its events end at {last}, and had come to {verifier.last}")
        try:
            events += [verifier.take(disk.events[at], at) for at in range(verifier.last + 1, last + 1)]
            verifier.end(Head.of(disk.metadata.get(HEAD)))
        except (ChainError, KeyError) as error:
            self.say(name, f"its events do not verify: {error}")
        return events


class EventMonitor:
    """Compares the events in the stores of a simulation with the steps of its actors.

    It has to be made before the actors start.

    Attributes:
        compared: how many steps were compared.
    """

    def __init__(self, commits: CommittedEvents[Any]) -> None:
        self.sim, self.commits, self._say = commits.sim, commits, commits.say
        self.compared = 0
        self._told = EventFold(FoldedMachine)
        self._waiting: dict[str, LoggedTurn] = {}  # by actor, steps that are not committed yet
        commits.listeners.append(self._take)
        self.sim.turns.append(self._stepped)
        self.sim.subscribers.append(self._hear)

    @property
    def wrong(self) -> list[str]:
        """The faults of the events, in words."""
        return self.commits.wrong

    def _stepped(self, actor: str, turn: LoggedTurn) -> None:
        self.commits.settle(actor)
        self._waiting.setdefault(actor, []).extend(turn)

    def _hear(self, notice: Notice) -> None:
        if notice.kind is Kind.RECOVERED:
            self._compare_records(notice.actor)

    def _take(self, actor: str, events: list[AnyEvent], in_doubt: bool) -> None:
        steps = self._waiting.pop(actor, [])
        if events or not in_doubt:
            self._compare(actor, events, steps, in_doubt)

    def _compare(self, name: str, events: list[AnyEvent], logged: LoggedTurn, in_doubt: bool = False) -> None:
        program, actor = self.sim.program, self.sim.actors[name]
        actual = [_flat(step, event.now) for event in events for step in event.steps()]
        wanted = [_logged(program, step) for step in self._that_count(actor, logged, in_doubt)]
        self.compared += len(wanted)
        for one, other in zip(actual, wanted, strict=False):
            if one != other:
                self._say(name, f"an event has {_difference(one, other)}")
                break
        else:
            for missing in wanted[len(actual) :][:1]:
                self._say(name, f"no event has the step {_shown(missing)}")
            for added in actual[len(wanted) :][:1]:
                self._say(name, f"an event has a step that was not taken: {_shown(added)}")
        for event in events:
            self._told.take(event)
            if isinstance(event, ForgottenEvent) and RecordKey(event.lease, event.machine) in actor.table.instances:
                self._say(name, f"an event says that {event.machine} of {event.lease} is forgotten")
            if isinstance(event, RecoveredEvent) and event.unrecorded:
                self._say(name, f"{event.unrecorded} commits have no events")

    def _that_count(self, actor: Actor, turn: Iterable[LoggedStep], in_doubt: bool) -> Iterator[LoggedStep]:
        """The steps that have changed a record, and those that they drive, in order."""
        steps = [*turn]
        for at, step in enumerate(steps):
            changed = step.event is not None and step.after is not step.before
            taken = step.outcome is not None and step.outcome.taken
            if changed and (taken or self._is_kept(actor, step, steps[at + 1 :], in_doubt)):
                yield step
            yield from self._that_count(actor, step.driven, in_doubt)

    def _is_kept(self, actor: Actor, step: LoggedStep, later: Iterable[LoggedStep], in_doubt: bool) -> bool:
        """Returns whether a message that moved nothing counts as received: a machine not there yet keeps nothing."""
        assert step.event is not None
        if (after := next((one for one in later if one.key == step.key), None)) is not None:
            return after.before[: step.core.below_at] == step.after[: step.core.below_at]
        record: Record | None
        if in_doubt:  # the actor in memory is another one
            row = self.sim.disks[actor.identity.name].records.get(step.key)
            below = actor.table.below_of(step.key.lease)
            record = None if row is None else actor.rows.read(step.key, row, below).record
        else:
            instance = actor.table.instances.get(step.key)
            record = None if instance is None else instance.record
        return record is not None and record[step.core.received_at][step.event[2]] >= step.event[3]

    def _compare_records(self, name: str) -> None:
        """The last events have the records as an actor finds them when it recovers."""
        if name not in self.commits.verifiers:
            return
        actor, records = self.sim.actors[name], self.sim.disks[name].records
        recorded = {RecordKey(of.lease, of.machine): machine.record for of, machine in self._told.of(name).items()}
        for key in sorted(recorded.keys() | records.keys()):
            row, known = records.get(key), recorded.get(key)
            if row is None:
                self._say(name, f"its events have {key.machine} of {key.lease}, and its store has none")
                continue
            instance = actor.rows.read(key, row, actor.table.below_of(key.lease))
            there = _record(self.sim.program, instance.core, instance.record)
            if known is not None and _plain_record(known) != there:
                self._say(name, f"its events have {key.machine} of {key.lease} otherwise than its store")
            elif known is None and instance.record[instance.core.state_epoch_at]:
                self._say(name, f"no event has {key.machine} of {key.lease}, which has moved")


# Both sides in the same words: what an event says, and what the log has


def _flat(step: MachineStep, now: int) -> dict[str, Plain]:
    received = step.received
    return {
        "now": now,
        "key": (step.lease, step.machine),
        "serves": step.serves or step.lease,
        "event": step.event,
        "fields": step.fields,
        "from": None if received is None else (received.name, received.number),
        "transition": step.transition,
        "source": step.source,
        "record": _plain_record(step.record),
        "sends": sorted((s.name, s.number, s.message, json.dumps(s.fields, sort_keys=True)) for s in step.sends),
        "calls": [call.task for call in step.starts],
    }


def _logged(program: Program, step: LoggedStep) -> dict[str, Plain]:
    assert step.event is not None
    core, (name, values, neighbour, number, _) = step.core, step.event
    own, kinds = step.before[1] if core.indexed else 0, core.events.get(name, ())
    if neighbour >= 0:
        kinds = program.messages[name].fields
    sends = []
    for to, message, fields in step.sends:
        plain = {n: to_plain(kind, v) for (n, kind), v in zip(program.messages[message].fields, fields, strict=True)}
        text = json.dumps(plain, sort_keys=True)
        sends.append((program.lane(core, own, to), step.after[core.sent_at][to], message, text))
    return {
        "now": step.now,
        "key": tuple(step.key),
        "serves": step.lease,
        "event": name,
        "fields": {n: to_plain(kind, v) for (n, kind), v in zip(kinds, values, strict=True)},
        "from": None if neighbour < 0 else (program.lane(core, own, neighbour), number),
        "transition": "" if step.outcome is None else step.outcome.transition,
        "source": step.before[0],
        "record": _record(program, core, step.after),
        "sends": sorted(sends),
        "calls": step.calls,
    }


def _record(program: Program, core: Core, record: Record) -> dict[str, Plain]:
    """A record as a log has it; JSON knows no tuples."""
    own = record[1] if core.indexed else 0
    numbers: dict[str, dict[str, int]] = {"sent": {}, "received": {}}
    if not core.subsidiary:
        for which, at in (("sent", core.sent_at), ("received", core.received_at)):
            cells = record[at].items() if isinstance(record[at], dict) else enumerate(record[at])
            numbers[which] = {program.lane(core, own, n): value for n, value in cells if value}
    data = {f.name: to_plain(f.type, record[at]) for at, f in enumerate(core.fields, core.data_at)}
    since = dict(zip(core.since, record[core.state_epoch_at + 1 :], strict=False))
    return {
        "state": record[0],
        "epoch": record[core.state_epoch_at],
        "data": json.loads(json.dumps(data)),
        **numbers,
        "since": {task: began for task, began in since.items() if began},
    }


def _plain_record(record: MachineRecord) -> dict[str, Plain]:
    return {
        "state": record.state,
        "epoch": record.epoch,
        "data": record.data,
        "sent": record.sent,
        "received": record.received,
        "since": record.since,
    }


def _difference(actual: Mapping[str, Plain], wanted: Mapping[str, Plain]) -> str:
    name = next(name for name, value in wanted.items() if actual[name] != value)
    return f"{name} {actual[name]!r} and the actor {wanted[name]!r}, in the step {_shown(wanted)}"


def _shown(step: Mapping[str, Plain]) -> str:
    lease, machine = step["key"]
    return f"{step['event']} at {machine} of {lease} in {step['source']}, at tick {step['now']}"
