"""Plays the test case of a log with real actors in simulation, and compares each step with the log.

Theory of operation. The actors begin with the case's records, and say what these say. Clocks show what the log says.
Each step of the case is forced (player.py): the message of its number is delivered, or the machine is given what it
consumed. What the actor commits then must be told alike (log_case.py). What an actor does by itself, as at its restart,
is compared when its turn comes.

What nobody can see in a log is not played: messages that were lost or came twice without a step, and stops between two
events other than right before a restart. So the outcome says whether the same inputs lead to the same steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from msgspec.structs import asdict

from leasehold.checker.history.fold import MachineOf
from leasehold.checker.recovery.cases.log_case import LogCase, StepTeller, UnplayableLog
from leasehold.checker.recovery.cases.player import Player
from leasehold.faults.simulation.network import Packet
from leasehold.faults.simulation.simulation import ControlledActor, ControlledStepper, Simulation
from leasehold.impl.actor.environment import ActorError
from leasehold.impl.actor.ready import Complete, Consume, Decide, Ready, SealEvents, SendMessage
from leasehold.impl.actor.session import SESSIONS
from leasehold.impl.actor.table import BELOW, MEMBERSHIP, MachineInstance, RowCodec
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.core.core import Core
from leasehold.impl.core.values import ValueFault, named_fields
from leasehold.impl.core.work import TICK, Record, SendWork, local
from leasehold.impl.events.event import MachineRecord, RefusedEvent, StepEvent, read
from leasehold.impl.events.records import record_of
from leasehold.impl.handlers.handler import Done
from leasehold.impl.policy.policy import Decision
from leasehold.impl.store.store import RecordKey
from leasehold.spec import System

TOLD = ("at", "now", "cause")  # what is said of a step, and not compared: where it stands, and who has caused it


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
    difference: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    why: str = ""
    events: dict[str, list[bytes]] = field(default_factory=dict)

    @property
    def differs(self) -> bool:
        return bool(self.at)


class _Impossible(Exception):
    """The actors cannot take a step; the message says why."""


class _StepperGoingOn(ControlledStepper):
    """Begins in the midst of a run, in which no actor has restarted: what a state says is under way, and no more."""

    def recover(self, ready: Ready, instance: MachineInstance) -> None:
        super().start_again(ready, instance)  # it is asked for, as the log has it

    def start_again(self, ready: Ready, instance: MachineInstance) -> None:
        work = instance.core.work[instance.state](instance.record)
        self.start(ready, instance, tuple(piece for piece in work if isinstance(piece, SendWork)), again=True)
        self.sender.resume_sessions(ready, instance)


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
        self.teller = StepTeller(self.program)
        self._received = {
            (s["lease"], s["received"]["machine"], s["machine"], s["received"]["number"])
            for s in case.steps
            if "received" in s
        }
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
        found: dict[str, list[list[Any]]] = {}
        for one in sorted(self.case.in_transit, key=lambda one: one.number):
            if MachineOf(one.actor, one.lease, one.machine) == key and self.program.messages[one.message].ordered:
                at = self.position(one.machine, one.to)
                found.setdefault(str(at), []).append([one.number, one.message, one.fields])
        return found

    def _send(self) -> None:
        """Sends the messages that were in transit and that no state says any more, from the actors that sent them."""
        for one in self.case.in_transit:
            held, at = self.sim.held(one.lease, one.machine), self.position(one.machine, one.to)
            if self.program.messages[one.message].ordered or held is None or at is None:
                continue
            if self._packet_of(one.lease, one.machine, one.to, one.number):
                continue
            if held.record[held.core.sent_at][at] != one.number:
                raise UnplayableLog(
                    f"{one.message} ({one.number}) of {one.machine} in {one.lease} was on its way where "
                    "this begins, and a later message too; begin earlier (--from)"
                )
            fields = named_fields(self.program.messages[one.message].fields, one.fields)
            piece = SendWork("", one.message, at, partial(_as_it_was, fields))
            effects = self.sim.actors[one.actor].effects
            self.sim.loop.call(partial(effects.start, [SendMessage(held.key, piece, one.number, fields)]))

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
            except _Impossible as why:
                played.why = str(why)
            self._look(actor)
            if not self._done[actor] and actor in self.sim.actors:
                self.sim.loop.call(partial(self.sim.actors[actor].put, SealEvents("asked")))  # with what was refused
                self._look(actor)
            if self._done[actor] or not self.acknowledged():
                break
        if self._done[actor]:
            found = self._done[actor].popleft()
            played.difference = {
                name: (step.get(name), found.get(name))
                for name in dict.fromkeys([*step, *found])
                if name not in TOLD and step.get(name) != found.get(name)
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
            raise _Impossible(f"{actor} does not run")
        while packet := next(filter(self._begins_nothing, self.sim.network.in_transit), None):
            self.sim.deliver(packet)
            self._look(actor)
        if "received" in step:
            self.sim.deliver(self._packet(step, step["received"]))
        else:
            self._consume(actor, step)

    def _begins_nothing(self, packet: Packet) -> bool:
        """Returns whether a message of a session is taken, and no event tells so, as it does not begin its machine.

        The next one comes then, and there is room.
        """
        said = packet.envelope
        name, lease, sender = said["receiving_machine"], said["lease"], said["sending_machine"]
        if not self.is_ordered(packet) or (lease, sender, name, said["number"]) in self._received:
            return False
        player = self.sim.player[name]
        if player not in self.sim.actors or self.sim.held(lease, name) or self.position(name, sender) is None:
            return False
        core, number = self.program.machines[name]
        return not core.begins_with(number, self.event(packet), self.sim.clocks[player].now())

    def _packet(self, step: Mapping[str, Any], received: Mapping[str, Any]) -> Packet:
        """The message that a step has received."""
        found = self._packet_of(step["lease"], received["machine"], step["machine"], received["number"])
        if found is None:
            raise _Impossible(f"{received['machine']} has not sent its message {received['number']}, {step['event']}")
        return found

    def _packet_of(self, *wanted: str | int) -> Packet | None:
        """The message of a lease, by its sender, receiver and number.

        Of several copies it is one of the oldest incarnation that the receiver does not refuse: so it has heard of no
        newer one than it had where the log was written.
        """
        found = []
        for packet in (*self.sim.network.in_transit, *reversed(self.sim.network.sent)):
            said = packet.envelope
            if (said["lease"], said["sending_machine"], said["receiving_machine"], said["number"]) == wanted:
                found.append(packet)
        taken = [packet for packet in found if not self.is_of_before(packet)]
        return min(taken or found, key=lambda packet: packet.incarnation, default=None)

    def _consume(self, name: str, step: Mapping[str, Any]) -> None:
        """Gives a machine what it consumed; the first event of a machine that is not there begins it."""
        actor, event, lease, machine = self.sim.actors[name], step["event"], step["lease"], step["machine"]
        key = RecordKey(lease, machine)
        core, _ = self.program.machines[machine]
        held, fields, put = actor.table.instances.get(key), step.get("fields", {}), partial(
            self._put, name, refused="refused" in step
        )  # fmt: skip
        if held is None and "refused" in step and step.get("cause") == "policy":
            put(partial(actor.put, Decide(Decision(lease, machine, event, fields))))
        elif event != "tick" and step.get("cause") == "parent" and held is not None:
            self._drive_again(actor, step)
        elif held is None and lease == BELOW:
            put(partial(actor.tell, lease, machine, event, fields))
        elif held is None:
            if core.subsidiary or event == "tick":
                raise _Impossible(f"there is no {machine} of {lease} to take {event}")
            put(partial(actor.begin, lease, machine, event, fields, self.sim.player))
        elif event == "tick":
            put(partial(actor.put, Consume(key, TICK)))
        else:
            epoch = self.began(held, event)
            match step.get("cause"):  # what is from outside is held to its contract, as it was then
                case "client":
                    put(partial(actor.tell, lease, machine, event, fields))
                case "policy":
                    put(partial(actor.put, Decide(Decision(lease, machine, event, fields, epoch))))
                case "handler":
                    done = Done("refused" not in step)
                    put(partial(actor.put, Complete(key, event, epoch, done, self._values(core, event, fields))))
                case _:
                    put(partial(actor.put, Consume(key, local(event, self._values(core, event, fields), epoch))))

    def _values(self, core: Core, event: str, fields: Mapping[str, Any]) -> tuple[Any, ...]:
        """The fields of a local event."""
        shape = core.events.get(event)
        if shape is None:
            raise _Impossible(f"{core.role} has no event {event}")
        try:
            return named_fields(shape, fields)
        except ValueFault as fault:
            raise _Impossible(f"{event}: {fault}") from None

    def _drive_again(self, actor: ControlledActor, step: Mapping[str, Any]) -> None:
        """Has the machines recover that drive one, as an operator may."""
        lease = step.get("serves") or step["lease"]
        for key, held in tuple(actor.table.instances.items()):
            if key.lease == lease and any(below.role == step["machine"].partition("[")[0] for below in held.core.below):
                self.sim.loop.call(partial(actor.recover, *key))

    def _put(self, name: str, put: Callable[[], Any], refused: bool) -> None:
        """Hands an actor a request."""
        future = self.sim.loop.call(put)
        error = future.exception() if future.done() and not future.cancelled() else None
        if isinstance(error, ActorError) and not refused:
            raise _Impossible(f"{name} does not take it: {error}")


def _as_it_was(fields: tuple[Any, ...], record: Record) -> tuple[Any, ...]:
    """The fields of a message that is not made of the record any more."""
    return fields
