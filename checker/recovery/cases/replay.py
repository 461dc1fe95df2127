"""Replays a script with real actors: each step at the machine that takes it, and the crash at its point.

Theory of operation. A step of the script is a step of the actors, which is forced on them (player.py).

The crash uses notices (paper, section 4.4), which the actor emits before it acts. At `#before-commit` and
`#after-commit` the notice of the commit ends the process. At `#after-TASKS` the work that is not among the tasks is
suppressed; when nothing is left to do, the process ends without having acknowledged anything.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

from leasehold.checker.recovery.cases.player import Player, ReplayDiverged
from leasehold.checker.recovery.cases.steps import Machine, Script, ScriptStep
from leasehold.faults.model.points import ACKNOWLEDGE, AFTER, BEFORE, RECOVERING, point_parts
from leasehold.faults.simulation.network import SCHEME, Packet
from leasehold.faults.simulation.simulation import ControlledActor, Simulation
from leasehold.impl.actor.ready import Consume
from leasehold.impl.actor.session import ChannelFull, has_room
from leasehold.impl.core.core import Named
from leasehold.impl.core.sparse import as_run
from leasehold.impl.core.values import ValueFault, named_fields, to_plain
from leasehold.impl.core.work import TICK, local
from leasehold.impl.notices import Consumed, Kind, Notice, SimulatedCrash
from leasehold.spec.language import types as t
from leasehold.spec.language.model import System

# What no actor takes, as its machine is made later than the model has it.
NOT_THERE = "is not there yet, as nothing has begun or driven it"
UNHEARD = "has not heard of"
# What no actor takes, as a message keeps its place in a channel until its sender hears that it has arrived.
AWAITS_ROOM = "waits for room to send"
# What no actor takes, as it commits both at once.
DRIVEN_AT_ONCE = "commits the steps of what it drives with its own"
SAYS_AGAIN = ("retry", "recover", "crash", "stillborn", "duplicate")  # kinds of steps: what a state says is said again
# What no actor says: the model keeps ranks of numbers, and takes a machine that has sent nothing for one all of whose
# messages were received.
NEVER_SENT = "has sent nothing to it yet, and says it again in the script"
# What no actor receives any more.
OF_BEFORE = "was sent before its actor has restarted, and its receiver has heard of that"
# What no actor receives, as who has sent it is down, and nothing of a session leaves its store until it is back.
IN_A_STORE = "which is down, and its session says it when it is back"


class Unplayable(Exception):
    """A script has a step that no actor takes: of a machine that is not there yet, or that another's run begins."""


class Replayer(Player):
    """Replays a script in a simulation, for one lease (or run)."""

    def __init__(self, simulation: Simulation, system: System, script: Script, lease: str) -> None:
        super().__init__(simulation)
        self.system, self.script, self.lease = system, script, lease
        self._at = 0  # the step that is replayed
        self.excuses = False  # what the model has and actors have not by design is a reason, and no finding
        self._unsaid: set[tuple[Machine, Machine]] = set()  # who has said nothing to whom as it said all again

    # Names

    def machine(self, machine: Machine) -> str:
        """The name of a machine of the script in the simulation."""
        role, instance = machine
        return self.program.roles[role].machine(instance)

    def player(self, machine: Machine) -> str:
        """The actor that plays a machine of the script."""
        return self.sim.players[self.machine(machine)]

    def fields(self, shape: Named, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """The fields of an event of the script in the simulation."""
        return tuple([as_run(kind, value) for (_, kind), value in zip(shape, values, strict=True)])

    # Steps

    def step(self, step: ScriptStep, n: int, without_crash: bool = False) -> None:
        """Replays a step.

        Raises:
            ReplayDiverged: the actors came to other states than the model.
        """
        self._at = n
        self._note_unsaid(step)
        match step.kind:
            case "clock":
                self.sim.tick()
            case "lose":
                packet = self._find(step, self.sim.network.in_transit)
                if packet is not None:
                    self.sim.network.lose(packet)
            case "crash" if without_crash:
                self._undisturbed(step)
                return
            case "crash":
                self._crash(step)
            case "stillborn":
                if not without_crash:
                    self._stillborn(step)
            case "recover":
                name = self.player(step.acting)
                if name not in self.sim.actors:
                    self.sim.start(name)
            case "halt":
                self.sim.crash(self.player(step.acting))
            case "partition" | "heal" | "retry":
                pass  # while it holds, the network delivers what the script says, and has what was sent before
            case _:
                self._do(step)
        self.sim.loop.quiesce()
        self._note_unsaid(step)
        if not without_crash:
            self._compare(step, n)

    def _note_unsaid(self, step: ScriptStep) -> None:
        """Notes who has said nothing to whom where the model has it say all again, as when its actor comes back."""
        if self.excuses and step.kind in SAYS_AGAIN and step.machine is not None:
            own = [m for m in self.script.machines if self.player(m) == self.player(step.acting)]
            pairs = product(own, self.script.machines)
            self._unsaid |= {(one, to) for one, to in pairs if self._has_said_nothing(one, to)}

    def _compare(self, step: ScriptStep, n: int) -> None:
        """Checks whether the machines that run are where the model has them."""
        for (role, number), state in zip(self.script.machines, step.control, strict=True):
            name = self.machine((role, number))
            if self.sim.players[name] not in self.sim.actors:
                continue
            instance = self.sim.held(self.lease, name)
            actual = instance.state if instance is not None else self.program.roles[role].first_state(number)
            if actual != state:
                self.excuse(step)
                raise ReplayDiverged(
                    f"step {n + 1} ({step.kind} {step.event or step.point}): {name} is {actual}, not {state}"
                )

    def excuse(self, step: ScriptStep) -> None:
        """Called where the records are not those of the model after a step.

        Raises:
            Unplayable: they cannot be, as actors make machines later, and drive them sooner, than the model does.
        """
        if not self.excuses or step.machine is None or step.kind not in ("crash", "stillborn", "recover"):
            return
        drivers = {role.parent for role in self.system.roles.values() if role.parent is not None}
        for machine, player in self.sim.players.items():
            if player != self.player(step.acting) or machine.partition("[")[0] not in drivers:
                continue
            if self.sim.key(self.lease, machine) not in self.sim.disks[player].records:
                raise Unplayable(f"{machine} {NOT_THERE}, and recovery drives machines for it in the script")
        driver = point_parts(step.point).role
        if step.event and step.where not in (BEFORE, ACKNOWLEDGE) and driver in drivers:
            raise Unplayable(f"{driver} {DRIVEN_AT_ONCE}, and the actor stops between the two in the script")

    def _do(self, step: ScriptStep, answered: bool = True) -> None:
        """Lets a machine consume what it consumed in the model."""
        kind, event = step.consumed
        if kind in ("deliver", "duplicate"):
            self._deliver(step, kind, answered)
            return
        name = self.machine(step.acting)
        if self.sim.held(self.lease, name) is None and self._has_moved(step.acting):
            raise ReplayDiverged(f"there is no {name} to take {event}")
        self.consume(name, event, step.fields)

    def _deliver(self, step: ScriptStep, kind: str, answered: bool) -> None:
        """Delivers the message that a step has received, if it can be."""
        assert step.sender is not None
        event, sender, name = step.consumed[1], self.machine(step.sender), self.machine(step.acting)
        unsaid = kind == "duplicate" and (step.sender, step.acting) in self._unsaid
        packet, ordered = self._sought(step, kind, unsaid), self.program.messages[event].ordered
        while packet is None and self.excuses and ordered and self.acknowledged():
            packet = self._sought(step, kind, unsaid)
        if packet is None and ordered and self.sim.players[sender] not in self.sim.actors:
            raise Unplayable(f"{event} is in the store of {sender}, {IN_A_STORE}")
        if packet is None and unsaid:
            raise Unplayable(f"{sender} {NEVER_SENT}: {event} to {name}")
        if packet is None:
            raise ReplayDiverged(f"no {event} of {step.sender} is under way to {step.machine}")
        if self.excuses and self.is_of_before(packet):
            raise Unplayable(f"{event} of {sender} {OF_BEFORE}")
        self.sim.deliver(packet, answered)
        if self.excuses and step.kind == "deliver":
            self._make_room(step, packet)

    def _sought(self, step: ScriptStep, kind: str, unsaid: bool) -> Packet | None:
        """The message that a step delivers: a new one, or one that was received; both may be alike."""
        ways = [self.sim.network.in_transit, self.sim.network.sent[::-1]]
        if self.excuses and (unsaid or self.sim.held(self.lease, self.machine(step.acting)) is not None):
            ways = [[p for p in way if self.is_new(p) == (kind == "deliver")] for way in ways]
        return self._find(step, ways[0]) or self._find(step, [*ways[0], *ways[1]])

    def _make_room(self, step: ScriptStep, packet: Packet) -> None:
        """Makes room for what follows from a message, by letting what the machine has sent before be acknowledged.

        Raises:
            Unplayable: there is no room although sessions go on.
        """
        name = self.machine(step.acting)
        for _ in range(2):
            instance = self.sim.held(self.lease, name)
            if instance is None or not self.is_new(packet):
                return
            if has_room(self.program, instance, self.event(packet), self.sim.time.now):
                return
            if self.acknowledged():
                self.sim.deliver(packet)
        raise Unplayable(f"{name} {AWAITS_ROOM} what follows from {step.event}")

    def _has_said_nothing(self, sender: Machine, receiver: Machine) -> bool:
        """Returns whether a machine has sent nothing to another one; it has a record where it has sent something."""
        name, to = self.machine(sender), self.machine(receiver)
        instance = self.sim.held(self.lease, name)
        if instance is None:
            return self.sim.key(self.lease, name) not in self.sim.disks[self.sim.players[name]].records
        core, number = self.program.machines[name]
        if core.subsidiary:
            return True
        cells = instance.record[core.sent_at]
        by_position = cells.items() if isinstance(cells, dict) else enumerate(cells)
        return not any(n for at, n in by_position if self.program.neighbour(core, number, at) == to)

    def _has_moved(self, machine: Machine) -> bool:
        """Returns whether the model has moved a machine from its first state before the step that is replayed."""
        if self._at == 0 or machine not in self.script.machines:
            return False
        at, first = self.script.machines.index(machine), self.program.roles[machine[0]].first_state(machine[1])
        return any(step.control[at] != first for step in self.script.steps[: self._at])

    def consume(self, machine: str, event: str, values: tuple[Any, ...]) -> None:
        """Gives a machine a local event, or a tick; the first event of a machine begins it.

        Raises:
            ReplayDiverged: there is no such machine, or it cannot be begun.
            Unplayable: there is none yet, and only the origin of the run may begin one.
        """
        actor = self.sim.actors[self.sim.players[machine]]
        core, number = self.program.machines[machine]
        instance = self.sim.held(self.lease, machine)
        begun = core.subsidiary or self.program.standing or event == "tick"  # otherwise than by an event
        if instance is None and (begun or event not in core.table[core.first_state(number)]):
            if not self.excuses or (self.program.standing and not core.subsidiary):
                raise ReplayDiverged(f"there is no {machine} to take {event}")
            raise Unplayable(f"{machine} {NOT_THERE}, and takes {event} in the script")
        shape = core.events.get(event, ())
        if instance is None and not self.may_begin(machine):
            raise Unplayable(f"{machine} {UNHEARD} {self.lease} yet, and takes {event} in the script")
        if instance is None:
            plain = {name: to_plain(kind, value) for (name, kind), value in zip(shape, values, strict=True)}
            self._put(actor, partial(actor.begin, self.lease, machine, event, plain, self.sim.players))
            return
        given = TICK if event == "tick" else local(event, self.fields(shape, values), self.began(instance, event))
        self._put(actor, partial(actor.queue.put, Consume(instance.key, given)))

    def may_begin(self, machine: str) -> bool:
        """Returns whether the player of a machine that is not there yet may begin it: the run is its own."""
        return self.sim.players[machine] == self.lease.rpartition(":")[0]

    def _put(self, actor: ControlledActor, request: Callable[[], Any]) -> None:
        error = self.put(request)
        if isinstance(error, ChannelFull) and self.excuses and self._has_been_disturbed():
            raise Unplayable(str(error))
        if error is not None and actor.running:
            raise ReplayDiverged(f"an actor does not take what the model does: {error}")

    def _has_been_disturbed(self) -> bool:
        """Returns whether a message may have left its channel in the model before its sender could hear of that."""
        return any(
            step.kind in ("crash", "stillborn", "halt", "lose", "partition") for step in self.script.steps[: self._at]
        )

    def _find(self, step: ScriptStep, packets: list[Packet]) -> Packet | None:
        candidates = [p for p in packets if self._is(p, step.sender, step.acting, step.consumed[1], step.fields)]
        if step.behind is not None and candidates:
            numbers = sorted({packet.envelope["number"] for packet in candidates}, reverse=True)
            wanted = numbers[step.behind :][:1]
            candidates = [packet for packet in candidates if packet.envelope["number"] in wanted]
        if self.excuses:  # who has heard of a newer incarnation refuses an older one, and the older one hears no answer
            candidates.sort(key=lambda packet: -packet.incarnation)
        return candidates[0] if candidates else None

    def _is(
        self, packet: Packet, sender: Machine | None, receiver: Machine, event: str, fields: tuple[Any, ...]
    ) -> bool:
        envelope = packet.envelope
        if (envelope["lease"], envelope["message"]) != (self.lease, event):
            return False
        if envelope["receiving_machine"] != self.machine(receiver):
            return False
        if sender is not None and envelope["sending_machine"] != self.machine(sender):
            return False
        shape = self.program.messages[event].fields
        try:
            actual = named_fields(shape, envelope["fields"])
        except ValueFault:
            return False
        wanted = self.fields(shape, fields)
        return all(_unread(kind) or a == b for (_, kind), a, b in zip(shape, actual, wanted, strict=True))

    # The crash

    def _undisturbed(self, step: ScriptStep) -> None:
        """Takes the step as it would be without the crash; what was not committed comes again, or never was."""
        if step.event and step.where != BEFORE:
            self._do(step)

    def _crash(self, step: ScriptStep) -> None:
        name, where = self.player(step.acting), step.where
        newest = max((packet.number for packet in self.sim.network.sent), default=0)
        if step.event:
            self._stop_within(step, self.sim.actors[name])
        stopped = {name, *map(self.player, step.along)}
        for one in sorted(stopped & self.sim.actors.keys()):
            self.sim.crash(one)
        if where.startswith(RECOVERING):
            self._stillborn(step)
        for packet in tuple(self.sim.network.in_transit):
            if packet.source.removeprefix(SCHEME) in stopped and not any(
                self._is(packet, None, receiver, event, fields) for receiver, event, fields in step.in_transit
            ):
                if where == BEFORE and packet.number > newest:
                    raise ReplayDiverged(
                        f"{name} has sent {packet.envelope['message']} before the commit that it follows from"
                    )
                self.sim.network.lose(packet)

    def _stop_within(self, step: ScriptStep, actor: ControlledActor) -> None:
        """The actor takes the step, as far as the point."""
        last = {BEFORE: Kind.COMMIT, AFTER: Kind.COMMITTED}.get(step.where)

        def stop(notice: Notice) -> None:
            if notice.kind is last:
                raise SimulatedCrash

        if last is not None:
            actor.notices.subscribe(stop)
        elif step.where != ACKNOWLEDGE:
            actor.notices.subscribe(partial(self._only, step))
        self._do(step, answered=step.where == BEFORE)  # nobody is told yet that it was taken

    def _only(self, step: ScriptStep, notice: Notice) -> None:
        """Lets only those sends and calls happen that the point's machine has done, and none of other machines."""
        if notice.kind not in (Kind.SEND, Kind.CALL):
            return
        role = point_parts(step.point).role
        tasks = self.system.roles[role].tasks
        done = {name.removeprefix("some-") for name in step.done}
        own = notice.machine.partition("[")[0] == role
        does = {getattr(tasks[n], "message", None) or getattr(tasks[n], "target", "") for n in done}
        if not own or notice.name not in does:
            raise Consumed

    def _stillborn(self, step: ScriptStep) -> None:
        """The actor restarts, does as much of its recovery as the point says, and ends."""
        name = self.player(step.acting)
        self.sim.subscribers.append(watch := partial(self._only, step))
        try:
            self.sim.start(name)
        finally:
            self.sim.subscribers.remove(watch)
        self.sim.crash(name)


def _unread(kind: t.Type) -> bool:
    """Returns whether no machine reads a value of a type, so that it may be another one than in the model."""
    return isinstance(kind, t.Opaque) or (isinstance(kind, t.Map) and isinstance(kind.of, t.Opaque))
