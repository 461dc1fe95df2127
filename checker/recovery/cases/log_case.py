"""Test cases out of logs: what actors have consumed, in an order that respects causality, and what came of it.

Theory of operation. A stretch of a log is a consistent cut, and the events that follow up to another one. The records
of the first cut are what the actors begin with. Of each event that follows, the case has what came to a machine (a
message by its number, a policy's decision, the end of a call, a client's word, a timer), and what its step left: its
new state, the data that it has changed, its messages and calls, and the steps that it drives. What follows by itself is
left out: the state epoch, and the numbers that the messages of the step have anyway. So two steps that are told alike
have left the same record, as long as those before them have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, convert, field

from leasehold.checker.explain.machines import KnownMachine, KnownMachines
from leasehold.checker.history.fold import MachineOf
from leasehold.checker.history.happened_before import capacities_of
from leasehold.checker.history.merge import merged
from leasehold.checker.history.moments import Frontier, Moments
from leasehold.impl.actor.describe import EventDescriber
from leasehold.impl.actor.table import BELOW, RowCodec
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.core.core import Program
from leasehold.impl.events.event import (
    AnyEvent,
    FoundEvent,
    MachineRecord,
    MachineStep,
    MigratedEvent,
    RecoveredEvent,
    RefusedEvent,
    StepEvent,
)
from leasehold.spec import System


class UnplayableLog(Exception):
    """A log, or this stretch of it, cannot be played again. The message says why, and what to do."""


class StartRecord(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The record that a machine begins with, as events have it; but a file may leave out data that it has not."""

    state: str
    epoch: int
    data: dict[str, Any] = {}
    sent: dict[str, int] = {}
    received: dict[str, int] = {}
    since: dict[str, int] = {}


class Start(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A machine that is there when a case begins.

    Attributes:
        actor, lease, machine: which.
        serves: the lease that it serves, if it belongs to the actor.
        peers: by neighbour, the actor that plays it.
        since_tick: when it came to its state; None: that was before the events.
        record: its own.
    """

    actor: str
    lease: str
    machine: str
    serves: str = ""
    peers: dict[str, str] = {}
    since_tick: int | None = None
    record: StartRecord


class InTransit(Struct, frozen=True, omit_defaults=True):
    """A message that a machine has sent before a case begins, and that is received in it."""

    actor: str
    lease: str
    machine: str
    to: str
    number: int
    message: str
    fields: dict[str, Any] = {}


class _Received(Struct):
    machine: str
    number: int


class _Step(Struct):
    """The parts of a step by which it is played; what comes of it is only compared."""

    at: str
    now: int
    lease: str = ""
    machine: str = ""
    event: str = ""
    cause: str = ""
    serves: str = ""
    fields: dict[str, Any] = {}
    received: _Received | None = None


class LogCase(Struct, tag="log", tag_field="case", frozen=True, kw_only=True, omit_defaults=True):
    """A test case out of a log.

    Attributes:
        system: its name or folder.
        settings: its constants.
        players: by machine that is no subsidiary, the actor that plays it.
        clocks: the tick that each actor's clock shows at first.
        start: the machines that the actors begin with.
        in_transit: the messages that were sent before, and are received in the stretch.
        steps: what happens, and what comes of it.
    """

    system: str
    settings: dict[str, Any] = {}
    players: dict[str, str] = field(name="actors")
    clocks: dict[str, int] = {}
    start: list[Start] = []
    in_transit: list[InTransit] = []
    steps: list[dict[str, Any]]

    def __post_init__(self) -> None:
        convert(self.steps, list[_Step])


class StepTeller:
    """Tells steps by what they change.

    Attributes:
        records: the last record of each machine that is known.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.records: dict[MachineOf, MachineRecord] = {}
        self._describer = EventDescriber(self.program, RowCodec(self.program).codecs)

    def first(self, machine: str) -> MachineRecord:
        """The record of a machine that nothing has happened to."""
        core, number = self.program.machines[machine]
        return self._describer.record(core, core.first(number))

    def event(self, event: StepEvent | RefusedEvent) -> dict[str, Any]:
        """An event as a case has it, without its time."""
        if isinstance(event, StepEvent):
            return {"lease": event.step.lease, **self._step(event.actor, event.step)}
        words = {"lease": event.lease, "machine": event.machine, "event": event.event, "cause": event.cause}
        return _said({**words, "fields": event.fields, "refused": event.reason})

    def heard(self, event: RefusedEvent) -> bool:
        """Returns whether it was refused as the machine heard it, and not before: then its event has no fields."""
        known = self.program.machines.get(event.machine)
        fields = None if known is None else known[0].events.get(event.event)
        return fields is not None and len(event.fields) == len(fields)

    def _step(self, actor: str, step: MachineStep) -> dict[str, Any]:
        key = MachineOf(actor, step.lease, step.machine)
        before, after = self.records.get(key) or self.first(step.machine), step.record
        self.records[key] = after
        sent = {**before.sent, **{message.to: message.number for message in step.sends}}
        received = before.received
        if step.received is not None:
            received = {**received, step.received.machine: step.received.number}
        return _said(
            {
                "machine": step.machine, "event": step.event, "cause": step.cause, "fields": step.fields,
                "received": None if step.received is None else _plain(step.received),
                "serves": step.serves, "from": step.source, "to": after.state, "transition": step.transition,
                "reason": step.reason,
                "set": {name: value for name, value in after.data.items() if before.data.get(name) != value},
                "epoch": after.epoch if after.epoch != before.epoch + bool(step.transition) else None,
                "sent": after.sent if after.sent != sent else None,
                "heard": after.received if after.received != received else None,
                "since": after.since if after.since != before.since else None,
                "sends": [_plain(message) for message in step.sends],
                "starts": [call.target for call in step.starts],
                "driven": [{"lease": one.lease, **self._step(actor, one)} for one in step.driven],
            }
        )  # fmt: skip


def _said(words: dict[str, Any]) -> dict[str, Any]:
    """Returns what is not empty; what a step sets may be so."""
    return {name: value for name, value in words.items() if value not in (None, "", [], {}, ())}


def _plain(value: Any) -> dict[str, Any]:
    return _said({name: getattr(value, name) for name in value.__struct_fields__})


def log_case(
    system: System, words: str, settings: Mapping[str, Any], chains: Mapping[str, Sequence[AnyEvent]],
    begin: Frontier | None = None, end: Frontier | None = None, leases: Sequence[str] = (),
) -> LogCase:  # fmt: skip
    """The case of a stretch of a log.

    Args:
        system: that the actors play.
        words: how it is named.
        settings: its constants.
        chains: by actor, its events.
        begin: the cut after which it begins; None: as early as events tell.
        end: the cut with which it ends; None: all.
        leases: those that it is about; empty: all.

    Raises:
        UnplayableLog: it cannot be played.
    """
    program = compile_system(system)
    moments = Moments(chains, capacities_of(system))
    begin = begin or {actor: _before(events) for actor, events in chains.items()}
    known = KnownMachines()
    sent: dict[tuple[str, str, str, int], InTransit] = {}  # by lease, sender, receiver and number
    for event in _in_order(moments.before(begin), system):
        known.take(event)
        for step in event.steps():
            for one in step.sends:
                sent[step.lease, step.machine, one.to, one.number] = InTransit(
                    event.actor, step.lease, step.machine, one.to, one.number, one.message, one.fields
                )
    teller = StepTeller(program)
    start = [_start(key, of) for key, of in sorted(known.machines.items()) if _concerns(key, of.serves, leases)
             and of.forgotten is None]  # fmt: skip
    for key, of in known.machines.items():
        teller.records[key] = of.record
    steps: list[dict[str, Any]] = []
    shared: dict[MachineOf, str] = {}  # the machines of actors that have served other leases meanwhile, and which
    players: dict[str, set[str]] = {}
    clocks = {actor: of.now for actor, of in known.actors.items()}
    for key, of in known.machines.items():
        if _concerns(key, of.serves, leases):
            players.setdefault(key.machine, set()).add(key.actor)
    for event in _in_order(moments.before(end or moments.all()), system):
        if event.position <= begin[event.actor]:
            continue
        _check(event, program, teller)
        clocks.setdefault(event.actor, event.now)
        told = _told(event, teller, leases)
        _check_shared(event, shared, told is not None)
        if told is not None:
            steps.append({"at": f"{event.actor}:{event.position}", "now": event.now, **told})
            for step in event.steps():
                players.setdefault(step.machine, set()).add(event.actor)
    received = ((s["lease"], s["received"]["machine"], s["machine"], s["received"]["number"]) for s in steps
                if "received" in s)  # fmt: skip
    heard = {(key.lease, key.machine): of.record.received for key, of in known.machines.items()}
    waiting = (
        (lease, machine, to, number) for (lease, machine, to, number), said in sent.items()
        if program.messages[said.message].ordered and (not leases or lease in leases)
        and number > heard.get((lease, to), {}).get(machine, 0)
    )  # fmt: skip
    in_transit = [sent[key] for key in dict.fromkeys((*received, *waiting)) if key in sent]
    return LogCase(
        system=words, settings=dict(settings), players=_players(program, players), clocks=clocks, start=start,
        in_transit=in_transit, steps=steps,
    )  # fmt: skip


def _before(events: Sequence[AnyEvent]) -> int:
    """The position up to which a chain only says what there was when it began."""
    last = events[0].position - 1 if events else 0
    for event in events:
        if isinstance(event, StepEvent | RefusedEvent):
            break
        last = event.position
    return last


def _in_order(cut: Mapping[str, Sequence[AnyEvent]], system: System) -> Iterator[AnyEvent]:
    merge = merged(cut, capacities_of(system))
    yield from merge.ready()
    if merge.faults:
        raise UnplayableLog(f"{merge.faults[0]}; a log is played again with the events of all actors")


def _concerns(key: MachineOf, serves: str, leases: Sequence[str]) -> bool:
    return not leases or key.lease in leases or (key.lease == BELOW and serves in leases)


def _told(event: AnyEvent, teller: StepTeller, leases: Sequence[str]) -> dict[str, Any] | None:
    """An event as a case has it; None: it is not about what the case is about."""
    match event:
        case StepEvent(step=step):
            told = teller.event(event)
            key = MachineOf(event.actor, step.lease, step.machine)
            return told if _concerns(key, step.serves, leases) else None
        case RefusedEvent():
            key = MachineOf(event.actor, event.lease, event.machine)
            return teller.event(event) if _concerns(key, "", leases) and teller.heard(event) else None
        case RecoveredEvent():
            return {"restart": event.epoch}
    return None


def _check(event: AnyEvent, program: Program, teller: StepTeller) -> None:
    """Checks whether an event can be played.

    Raises:
        UnplayableLog: it cannot.
    """
    where = f"event {event.position} of {event.actor}"
    if event.spec != program.digest:
        raise UnplayableLog(
            f"{where} is of another specification, {event.spec[:12]}, than {program.system}, which is "
            f"{program.digest[:12]}; name the system of the actors (--system), or another stretch"
        )
    if isinstance(event, MigratedEvent | FoundEvent) or (isinstance(event, RecoveredEvent) and event.unrecorded):
        raise UnplayableLog(f"{where} has records that no event has led to; begin behind it (--from)")
    if isinstance(event, RecoveredEvent) and not program.agrees(event.agreement):
        raise UnplayableLog(f"{where}: its actor has other constants than these (--system, --set)")
    for step in event.steps():
        if program.machines.get(step.machine) is None:
            raise UnplayableLog(f"{where}: the system {program.system} has no machine {step.machine!r}")
        if not step.event:
            raise UnplayableLog(f"{where}: it does not say what {step.machine} has consumed")
        key = MachineOf(event.actor, step.lease, step.machine)
        if key not in teller.records and teller.first(step.machine).state != step.source:
            raise UnplayableLog(
                f"{where}: {step.machine} of {step.lease} was in {step.source}, and no event before tells of it; "
                "begin behind it (--from), or with another lease (--lease)"
            )


def _check_shared(event: AnyEvent, shared: dict[MachineOf, str], told: bool) -> None:
    """Checks whether a machine of an actor is as the leases that are played have left it.

    Raises:
        UnplayableLog: another lease had it meanwhile.
    """
    for step in event.steps():
        key = MachineOf(event.actor, step.lease, step.machine)
        if key.lease == BELOW and not told:
            shared[key] = step.serves
        elif key in shared:
            raise UnplayableLog(
                f"event {event.position} of {event.actor}: {step.machine} has served {shared[key] or 'no lease'} "
                "meanwhile; take that lease too (--lease), or all"
            )


def _start(key: MachineOf, of: KnownMachine) -> Start:
    record = convert(of.record, StartRecord, from_attributes=True)
    return Start(**key._asdict(), serves=of.serves, peers=of.peers, since_tick=of.since, record=record)


def _players(program: Program, found: Mapping[str, set[str]]) -> dict[str, str]:
    """Returns, by machine, the actor that plays it: that of the log, in place of the one that the system declares.

    Raises:
        UnplayableLog: several do.
    """
    names: dict[str, set[str]] = {}
    for machine, host in program.hosts.items():
        names.setdefault(host, set()).update(found.get(machine, ()))
    for host, actors in names.items():
        if len(actors) > 1:
            several = ", ".join(sorted(actors))
            raise UnplayableLog(f"{several} play {host} in different leases; name one of their leases (--lease)")
    return {machine: next(iter(names[host]), host) for machine, host in program.players.items()}
