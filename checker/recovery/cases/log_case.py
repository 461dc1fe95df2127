"""A stretch of a log as a test case: cut out of the log, and played by real actors in simulation.

Theory of operation. A stretch of a log is a consistent cut, and the events that follow up to another one. The records
of the first cut are what the actors begin with. Of each event that follows, the case has what came to a machine (a
message by its number, a policy's decision, the end of a call, a client's word, a timer), and what its step left: its
new state, the data that it has changed, its messages and calls, and the steps that it drives. What follows by itself is
left out: the state epoch, and the numbers that the messages of the step have anyway. So two steps that are told alike
have left the same record, as long as those before them have.

When it is played, the actors begin with the case's records, and say what these say. Clocks show what the log says. Each
step is forced (player.py): the message of its number is delivered, or the machine is given what it consumed. What the
actor commits then must be told alike. What an actor does by itself, as at its restart, is compared when its turn comes.

What nobody can see in a log is not played: messages that were lost or came twice without a step, and stops between two
events other than right before a restart. So the outcome says whether the same inputs lead to the same steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as part
from functools import partial
from typing import Any

from msgspec import Struct, convert, field
from msgspec.structs import asdict

from leasehold.checker.explain.machines import KnownMachine, KnownMachines
from leasehold.checker.history.fold import MachineOf
from leasehold.checker.history.merge import capacities_of, merged
from leasehold.checker.history.moments import Frontier, Moments
from leasehold.checker.recovery.cases.player import Player, ReplayDiverged, lane_of
from leasehold.faults.simulation.network import Packet
from leasehold.faults.simulation.simulation import ControlledActor, ControlledStepper, Simulation
from leasehold.impl.actor.chronicle import EventDescriber, RowCodec
from leasehold.impl.actor.ready import Complete, Consume, Decide, Ready, SealEvents, SendMessage
from leasehold.impl.actor.session import SESSIONS
from leasehold.impl.actor.table import BELOW, MEMBERSHIP, MachineInstance
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.core.core import Core, Program
from leasehold.impl.core.values import ValueFault, named_fields
from leasehold.impl.core.work import TICK, Record, SendWork, local
from leasehold.impl.events.event import (
    AnyEvent,
    FoundEvent,
    MachineRecord,
    MachineStep,
    MigratedEvent,
    RecoveredEvent,
    RefusedEvent,
    StepEvent,
    read,
)
from leasehold.impl.events.records import record_of
from leasehold.impl.handlers.handler import Done
from leasehold.impl.policy.policy import Decision
from leasehold.impl.store.store import RecordKey
from leasehold.impl.words import over, parted
from leasehold.spec import System

TOLD = ("at", "now", "cause")  # what is said of a step, and not compared: where it stands, and who has caused it


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


class MessageInTransit(Struct, frozen=True, omit_defaults=True):
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
    channel: str = ""


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
    in_transit: list[MessageInTransit] = []
    steps: list[dict[str, Any]]

    def __post_init__(self) -> None:
        convert(self.steps, list[_Step])


class StepTeller:
    """Tells steps by what they change.

    Args:
        program: that takes them.
        records: the last record of each machine that is known.
    """

    def __init__(self, program: Program, records: Mapping[MachineOf, MachineRecord]) -> None:
        self.program, self.records = program, dict(records)
        self._describer = EventDescriber(self.program, RowCodec(self.program).codecs)

    def first(self, machine: str) -> MachineRecord:
        """The record of a machine that nothing has happened to."""
        core, number = self.program.machines[machine]
        return self._describer.record(core, core.first(number))

    def event(self, event: StepEvent | RefusedEvent) -> dict[str, Any]:
        """An event as a case has it, without its time."""
        if isinstance(event, StepEvent):
            return {"lease": event.step.lease, **self._step(event.actor, event.step)}
        row = {"lease": event.lease, "machine": event.machine, "event": event.event, "cause": event.cause}
        return _said({**row, "fields": event.fields, "refused": event.reason})

    def heard(self, event: RefusedEvent) -> bool:
        """Returns whether it was refused as the machine heard it, and not before: then its event has no fields."""
        known = self.program.machines.get(event.machine)
        fields = None if known is None else known[0].events.get(event.event)
        return fields is not None and len(event.fields) == len(fields)

    def _step(self, actor: str, step: MachineStep) -> dict[str, Any]:
        key = MachineOf(actor, step.lease, step.machine)
        before, after = self.records.get(key) or self.first(step.machine), step.record
        self.records[key] = after
        sent = {**before.sent, **{message.name: message.number for message in step.sends}}
        received = before.received
        if step.received is not None:
            received = {**received, step.received.name: step.received.number}
        return _said(
            {
                "machine": step.machine,
                "event": step.event,
                "cause": step.cause,
                "fields": step.fields,
                "received": None if step.received is None else _plain(step.received),
                "serves": step.serves,
                "from": step.source,
                "to": after.state,
                "transition": step.transition,
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
        )


def _lane(step: Mapping[str, Any]) -> tuple[str, str, str]:
    """The lease of a step that has received a message, the sender, and the receiver with the channel (`over`)."""
    received = step["received"]
    return step["lease"], received["machine"], over(step["machine"], received.get("channel", ""))


def _said(values: dict[str, Any]) -> dict[str, Any]:
    """Returns what is not empty; what a step sets may be so."""
    return {name: value for name, value in values.items() if value not in (None, "", [], {}, ())}


def _plain(value: Any) -> dict[str, Any]:
    return _said({name: getattr(value, name) for name in value.__struct_fields__})


def log_case(
    system: System,
    name: str,
    settings: Mapping[str, Any],
    chains: Mapping[str, Sequence[AnyEvent]],
    begin: Frontier | None = None,
    end: Frontier | None = None,
    leases: Sequence[str] = (),
) -> LogCase:
    """The case of a stretch of a log.

    Args:
        system: that the actors play.
        name: how it is named.
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
    sent: dict[tuple[str, str, str, int], MessageInTransit] = {}  # by lane and number
    for event in _in_order(moments.before(begin), system):
        known.take(event)
        for step in event.steps():
            for one in step.sends:
                sent[step.lease, step.machine, one.name, one.number] = MessageInTransit(
                    event.actor, step.lease, step.machine, one.to, one.number, one.message, one.fields
                )
    teller = StepTeller(program, {key: of.record for key, of in known.machines.items()})
    concerned = {key: of for key, of in sorted(known.machines.items()) if _concerns(key, of.serves, leases)}
    steps: list[dict[str, Any]] = []
    shared: dict[MachineOf, str] = {}  # the machines of actors that have served other leases meanwhile, and which
    players = {(key.machine, key.actor) for key in concerned}
    clocks = {actor: of.now for actor, of in known.actors.items()}
    for event in _in_order(moments.before(end or moments.all()), system):
        if event.position <= begin[event.actor]:
            continue
        _check(event, program, teller)
        clocks.setdefault(event.actor, event.now)
        entry = _told(event, teller, leases)
        _check_shared(event, shared, entry is not None)
        if entry is not None:
            steps.append({"at": f"{event.actor}:{event.position}", "now": event.now, **entry})
            players |= {(step.machine, event.actor) for step in event.steps()}
    received = ((*_lane(step), step["received"]["number"]) for step in steps if "received" in step)
    heard = {(key.lease, key.machine): of.record.received for key, of in known.machines.items()}
    waiting = (
        (lease, machine, to, number)
        for (lease, machine, to, number), message in sent.items()
        if program.messages[message.message].ordered
        and (not leases or lease in leases)
        and number > heard.get((lease, parted(to)[0]), {}).get(over(machine, parted(to)[1]), 0)
    )
    in_transit = [sent[key] for key in dict.fromkeys((*received, *waiting)) if key in sent]
    return LogCase(
        system=name,
        settings=dict(settings),
        players=_players(program, players),
        clocks=clocks,
        start=[_start(key, of) for key, of in concerned.items() if of.forgotten is None],
        in_transit=in_transit,
        steps=steps,
    )


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
            entry = teller.event(event)
            key = MachineOf(event.actor, step.lease, step.machine)
            return entry if _concerns(key, step.serves, leases) else None
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


def _check_shared(event: AnyEvent, shared: dict[MachineOf, str], played: bool) -> None:
    """Checks whether a machine of an actor is as the leases that are played have left it.

    Raises:
        UnplayableLog: another lease had it meanwhile.
    """
    for step in event.steps():
        key = MachineOf(event.actor, step.lease, step.machine)
        if key.lease == BELOW and not played:
            shared[key] = step.serves
        elif key in shared:
            raise UnplayableLog(
                f"event {event.position} of {event.actor}: {step.machine} has served {shared[key] or 'no lease'} "
                "meanwhile; take that lease too (--lease), or all"
            )


def _start(key: MachineOf, of: KnownMachine) -> Start:
    record = convert(of.record, StartRecord, from_attributes=True)
    return Start(**key._asdict(), serves=of.serves, peers=of.peers, since_tick=of.since, record=record)


def _players(program: Program, pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Returns, by machine, the actor that plays it: that of the log, in place of the one that the system declares.

    Raises:
        UnplayableLog: several do.
    """
    hosts, names = program.hosts, dict[str, set[str]]()
    for machine, actor in pairs:
        if machine in hosts:
            names.setdefault(hosts[machine], set()).add(actor)
    for host, actors in names.items():
        if len(actors) > 1:
            several = ", ".join(sorted(actors))
            raise UnplayableLog(f"{several} play {host} in different leases; name one of their leases (--lease)")
    return {machine: next(iter(names.get(host, [host]))) for machine, host in program.players.items()}


@dataclass
class PlayedLog:
    """The result of playing a log with real actors.

    Attributes:
        steps: how many steps there are.
        same: how many of them, from the first on, the actors have taken as the log says.
        at, tick: of the first difference, the event of the log and its tick; empty where there is none.
        difference: what differs: by key, what the log says and what the actors do.
        why: why the actors cannot take the step; empty where they have taken another.
        events: by actor, its chain: the bytes of each event.
    """

    steps: int
    same: int = 0
    at: str = ""
    tick: int = 0
    difference: dict[str, tuple[Any, Any]] = part(default_factory=dict)
    why: str = ""
    events: dict[str, list[bytes]] = part(default_factory=dict)

    @property
    def differs(self) -> bool:
        return bool(self.at)


class _StepperGoingOn(ControlledStepper):
    """Begins in the midst of a run, in which no actor has restarted: what a state says is under way, and no more."""

    def recover(self, ready: Ready, instance: MachineInstance) -> None:
        super().start_again(ready, instance)  # it is asked for, as the log has it

    def start_again(self, ready: Ready, instance: MachineInstance) -> None:
        work = instance.core.work[instance.state](instance.record)
        self.start(ready, instance, tuple(piece for piece in work if isinstance(piece, SendWork)), again=True)
        self.resume_sessions(ready, instance)


class _ActorGoingOn(ControlledActor):
    stepper_type = _StepperGoingOn


class LogPlayer(Player):
    """Plays one case.

    Args:
        system: with the constants of the case.
        case: which.

    Raises:
        UnplayableLog: the case does not fit the system.
        NotRunnable: no actor can play it.
    """

    def __init__(self, system: System, case: LogCase) -> None:
        self.case, program = case, compile_system(system)
        named = [one.machine for one in case.start] + [one.machine for one in case.in_transit]
        for machine in (*case.players, *named, *(step["machine"] for step in case.steps if "machine" in step)):
            if program.machines.get(machine) is None:
                raise UnplayableLog(f"{program.system} has no machine {machine[:60]}")
        players = {**program.players, **case.players}
        players |= {machine: program.player_of(machine, players) for machine in program.machines}
        self._begun = False
        super().__init__(Simulation(program, actor=self._actor, players=players))
        acting = (*(one.actor for one in case.start), *(step["at"].rpartition(":")[0] for step in case.steps))
        for actor in acting:
            if actor not in self.sim.roles:
                raise UnplayableLog(f"{actor[:60] or 'nobody'} plays no machine of {program.system} in this case")
        self.teller = StepTeller(self.program, {})
        self._received = {(*_lane(s), s["received"]["number"]) for s in case.steps if "received" in s}
        self._read = dict.fromkeys(self.sim.roles, 0)  # by actor, the last event that was looked at
        self._done: dict[str, deque[dict[str, Any]]] = {name: deque() for name in self.sim.roles}

    def play(self) -> PlayedLog:
        """Plays it up to the first difference."""
        played = PlayedLog(len(self.case.steps))
        try:
            self._begin()
            for step in self.case.steps:
                if not self._plays(step, played):
                    break
                played.same += 1
            played.events = self.sim.events()
        finally:
            self.sim.close()
        return played

    def _actor(self, *given: Any) -> ControlledActor:
        return (ControlledActor if self._begun else _ActorGoingOn)(*given)

    # The records of the beginning

    def _begin(self) -> None:
        rows = RowCodec(self.program)
        for one in self.case.start:
            key, record = MachineOf(one.actor, one.lease, one.machine), MachineRecord(**asdict(one.record))
            self.teller.records[key] = record
            core, number = self.program.machines[key.machine]
            if self.program.standing and record == self.teller.first(key.machine):
                continue  # its actor makes it
            try:
                tuple_ = record_of(self.program, core, number, record, core.unseen)
            except ValueFault as fault:
                raise UnplayableLog(f"{key.machine} of {key.lease} cannot begin with its record: {fault}") from None
            if core.dynamic_neighbours:
                raise UnplayableLog(
                    f"{core.role} talks with any number of machines, whose actors no record tells: play the log from "
                    "its beginning"
                )
            peers = [one.peers.get(name, "") for name in self.program.neighbours(core, number)]
            metadata: dict[str, Any] = {} if one.since_tick is None else {"since": one.since_tick}
            if core.of_actor and one.serves:
                metadata["lease"] = one.serves
            if not core.subsidiary and (members := self.sim.membership(key.lease)) is not None:
                metadata[MEMBERSHIP] = members
            if sessions := self._sessions(key):
                metadata[SESSIONS] = sessions
            instance = MachineInstance(RecordKey(key.lease, key.machine), core, tuple_, peers, metadata)
            self.sim.disks[key.actor].records[instance.key] = rows.write(instance)
        for name, clock in self.sim.clocks.items():
            clock.show(self.case.clocks.get(name, 0))
        self.sim.hold()
        self.sim.start_all()
        self.sim.hold()
        self._send()
        for name in self.sim.roles:
            self._look(name)
        self._begun = True

    def _sessions(self, key: MachineOf) -> dict[str, list[list[Any]]]:
        """Returns, by neighbour, a machine's `fifo` messages that nobody has received, as its actor keeps them."""
        sessions: dict[str, list[list[Any]]] = {}
        for one in sorted(self.case.in_transit, key=lambda one: one.number):
            if MachineOf(one.actor, one.lease, one.machine) == key and self.program.messages[one.message].ordered:
                at = self.position(one.machine, one.to, one.message)
                sessions.setdefault(str(at), []).append([one.number, one.message, one.fields])
        return sessions

    def _send(self) -> None:
        """Sends the messages that were in transit and that no state says any more, from the actors that sent them."""
        for one in self.case.in_transit:
            instance, at = self.sim.held(one.lease, one.machine), self.position(one.machine, one.to, one.message)
            if self.program.messages[one.message].ordered or instance is None or at is None:
                continue
            to = over(one.to, self.program.messages[one.message].channel)
            if self._packet_of(one.lease, one.machine, to, one.number):
                continue
            if instance.record[instance.core.sent_at][at] != one.number:
                raise UnplayableLog(
                    f"{one.message} ({one.number}) of {one.machine} in {one.lease} was on its way where "
                    "this begins, and a later message too; begin earlier (--from)"
                )
            fields = named_fields(self.program.messages[one.message].fields, one.fields)
            piece = SendWork("", one.message, at, partial(_as_it_was, fields))
            effects = self.sim.actors[one.actor].effects
            self.sim.loop.call(partial(effects.start, [SendMessage(instance.key, piece, one.number, fields)]))

    # Steps

    def _plays(self, step: Mapping[str, Any], played: PlayedLog) -> bool:
        """Plays one step; returns whether it is the same."""
        actor = step["at"].rpartition(":")[0]
        self.sim.clocks[actor].show(step["now"])
        if "restart" in step:
            if actor in self.sim.actors:
                self.sim.crash(actor)
            self.sim.start(actor)
            self._look(actor)
            return True
        while not self._done[actor]:
            played.why = ""
            try:
                self._force(actor, step)
            except ReplayDiverged as why:
                played.why = str(why)
            self._look(actor)
            if not self._done[actor] and actor in self.sim.actors:  # what was refused is written with the seal
                self.sim.loop.call(partial(self.sim.actors[actor].queue.put, SealEvents("asked")))
                self._look(actor)
            if self._done[actor] or not self.acknowledged():
                break
        if self._done[actor]:
            actual = self._done[actor].popleft()
            played.difference = {
                name: (step.get(name), actual.get(name))
                for name in dict.fromkeys([*step, *actual])
                if name not in TOLD and step.get(name) != actual.get(name)
            }
        elif not played.why:
            played.why = "no record of the actor has changed"
        if played.why or played.difference:
            played.at, played.tick = step["at"], step["now"]
        return not played.at

    def _look(self, actor: str) -> None:
        """Reads the events that an actor has committed since the last time."""
        disk = self.sim.disks[actor]
        for at in sorted(at for at in disk.events if at > self._read[actor]):
            event = read(disk.events[at])
            self._read[actor] = at
            if isinstance(event, StepEvent | RefusedEvent):
                self._done[actor].append(self.teller.event(event))

    def _force(self, actor: str, step: Mapping[str, Any]) -> None:
        if actor not in self.sim.actors:
            raise ReplayDiverged(f"{actor} does not run")
        while packet := next(filter(self._begins_nothing, self.sim.network.in_transit), None):
            self.sim.deliver(packet)
            self._look(actor)
        if (received := step.get("received")) is None:
            self._consume(actor, step)
            return
        sender, number = received["machine"], received["number"]
        packet = self._packet_of(*_lane(step), number)
        if packet is None:
            raise ReplayDiverged(f"{sender} has not sent its message {number}, {step['event']}")
        self.sim.deliver(packet)

    def _begins_nothing(self, packet: Packet) -> bool:
        """Returns whether a message of a session is taken, and no event tells so, as it does not begin its machine.

        The next one comes then, and there is room.
        """
        envelope = packet.envelope
        name, lease, sender = envelope["receiving_machine"], envelope["lease"], envelope["sending_machine"]
        if not self.is_ordered(packet) or (*lane_of(self.program, packet), envelope["number"]) in self._received:
            return False
        player = self.sim.players[name]
        known = self.position(name, sender, envelope["message"]) is not None
        if player not in self.sim.actors or self.sim.held(lease, name) or not known:
            return False
        core, number = self.program.machines[name]
        return not core.begins_with(number, self.event(packet), self.sim.clocks[player].now())

    def _packet_of(self, *wanted: str | int) -> Packet | None:
        """The message of a lane and number.

        Of several copies it is one of the oldest incarnation that the receiver does not refuse: so it has heard of no
        newer one than it had where the log was written.
        """
        packets = []
        for packet in (*self.sim.network.in_transit, *reversed(self.sim.network.sent)):
            if (*lane_of(self.program, packet), packet.envelope["number"]) == wanted:
                packets.append(packet)
        taken = [packet for packet in packets if not self.is_of_before(packet)]
        return min(taken or packets, key=lambda packet: packet.incarnation, default=None)

    def _consume(self, name: str, step: Mapping[str, Any]) -> None:
        """Gives a machine what it consumed; the first event of a machine that is not there begins it."""
        actor, event, lease, machine = self.sim.actors[name], step["event"], step["lease"], step["machine"]
        key, fields, cause = RecordKey(lease, machine), step.get("fields", {}), step.get("cause")
        core, instance = self.program.machines[machine][0], actor.table.instances.get(key)
        if instance is not None and cause == "parent" and event != "tick":
            self._drive_again(actor, step)
            return
        request: Callable[[], Any] = partial(actor.tell, lease, machine, event, fields)
        epoch = -1 if instance is None else self.began(instance, event)
        if cause == "policy" and (instance is not None or "refused" in step):
            request = partial(actor.queue.put, Decide(Decision(lease, machine, event, fields, epoch)))
        elif instance is None and lease != BELOW:
            if core.subsidiary or event == "tick":
                raise ReplayDiverged(f"there is no {machine} of {lease} to take {event}")
            request = partial(actor.begin, lease, machine, event, fields, self.sim.players)
        elif instance is not None and event == "tick":
            request = partial(actor.queue.put, Consume(key, TICK))
        elif instance is not None and cause == "handler":
            done = Done("refused" not in step)
            request = partial(actor.queue.put, Complete(key, event, epoch, done, self._values(core, event, fields)))
        elif instance is not None and cause != "client":
            request = partial(actor.queue.put, Consume(key, local(event, self._values(core, event, fields), epoch)))
        if (error := self.put(request)) is not None and "refused" not in step:
            raise ReplayDiverged(f"{name} does not take it: {error}")

    def _values(self, core: Core, event: str, fields: Mapping[str, Any]) -> tuple[Any, ...]:
        """The fields of a local event."""
        shape = core.events.get(event)
        if shape is None:
            raise ReplayDiverged(f"{core.role} has no event {event}")
        try:
            return named_fields(shape, fields)
        except ValueFault as fault:
            raise ReplayDiverged(f"{event}: {fault}") from None

    def _drive_again(self, actor: ControlledActor, step: Mapping[str, Any]) -> None:
        """Has the machines recover that drive one, as an operator may."""
        lease = step.get("serves") or step["lease"]
        for key, instance in tuple(actor.table.instances.items()):
            if key.lease == lease and any(
                below.role == step["machine"].partition("[")[0] for below in instance.core.below
            ):
                self.sim.loop.call(partial(actor.recover, *key))


def _as_it_was(fields: tuple[Any, ...], record: Record) -> tuple[Any, ...]:
    """The fields of a message that is not made of the record any more."""
    return fields
