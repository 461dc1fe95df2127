"""Replays a script with real actors: each step at the machine that takes it, and the crash at its point.

Theory of operation. During a replay nothing happens by itself: the network holds packets, the answers of policies,
handlers and subsidiary machines are held back, and actors are notified of no tick. So a step of the script is a step of
the actors: a packet is delivered, an event is given to a machine in the epoch of its state, a timer fires.

The crash uses notices (paper, section 4.4), which the actor emits before it acts. At `#before-commit` and
`#after-commit` the notice of the commit ends the process. At `#after-TASKS` the work that is not among the tasks is
suppressed; when nothing is left to do, the process ends without having acknowledged anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from leasehold.checker.recovery.cases.script import Machine, Script, ScriptStep
from leasehold.faults.points import ACKNOWLEDGE, AFTER, BEFORE, RECOVERING
from leasehold.faults.simulation.network import Packet
from leasehold.faults.simulation.simulation import ControlledActor, Simulation
from leasehold.impl.actor.ready import Consume
from leasehold.impl.core.values import ValueFault, named_fields
from leasehold.impl.core.work import TICK, local
from leasehold.impl.notices import Consumed, Kind, Notice, SimulatedCrash
from leasehold.spec.language import types as t
from leasehold.spec.language.model import System


class ReplayDiverged(Exception):
    """The real actors did not do what the model did: a fault of either, or of the replay."""


@dataclass(frozen=True, slots=True)
class ReplayTarget:
    """The lease that a script is replayed for.

    Attributes:
        lease: its name.
        begins: the role whose machine begins it, by a local event.
        shift: by how much numbers of units are greater in the simulation than in the script.
    """

    lease: str
    begins: str
    shift: int = 1


class Replayer:
    """Replays a script in a simulation."""

    def __init__(self, simulation: Simulation, system: System, script: Script, role: ReplayTarget) -> None:
        self.sim, self.system, self.script, self.role = simulation, system, script, role
        self.sent: list[Packet] = []  # every packet that was seen under way

    # Names

    def _machine(self, machine: Machine) -> str:
        role, instance = machine
        core = self.sim.program.roles[role]
        return core.machine(instance + self.role.shift if core.subsidiary else instance)

    def _fields(self, shape: Any, values: tuple[Any, ...]) -> tuple[Any, ...]:
        found: list[Any] = []
        for (_, kind), value in zip(shape, values, strict=True):
            units = isinstance(kind, t.Set) and isinstance(kind.of, t.Instance)
            if isinstance(kind, t.Opaque):
                found.append({"script": value})  # other than what a record has at first
            else:
                found.append(frozenset(n + self.role.shift for n in value) if units else value)
        return tuple(found)

    # Steps

    def step(self, step: ScriptStep, n: int, without_crash: bool = False) -> None:
        """Replays a step.

        Raises:
            ReplayDiverged: the actors came to other states than the model.
        """
        self._see()
        down = False
        match step.kind:
            case "clock":
                self.sim.tick()
            case "lose":
                packet = self._find(step, self.sim.network.in_transit)
                if packet is not None:
                    self.sim.network.lose(packet)
            case "crash":
                down = True
                if without_crash:
                    self._undisturbed(step)
                    return
                self._crash(step)
            case "stillborn":
                down = True
                if not without_crash:
                    self._stillborn(step)
            case "recover":
                assert step.machine is not None
                name = self.sim.player[step.machine[0]]
                if name not in self.sim.actors:
                    self.sim.start(name)
            case _:
                self._do(step)
        self.sim.loop.quiesce()
        if not without_crash:
            self._compare(step, n, down)

    def _see(self) -> None:
        for packet in self.sim.network.in_transit:
            if packet not in self.sent[-20:]:
                self.sent.append(packet)

    def _compare(self, step: ScriptStep, n: int, down: bool) -> None:
        """Whether the machines that run are where the model has them."""
        for (role, instance), state in zip(self.script.machines, step.control, strict=True):
            name = self._machine((role, instance))
            if self.sim.player[role] not in self.sim.actors:
                continue
            held = self.sim.held(self.role.lease, name)
            found = held.state if held is not None else self.sim.program.roles[role].states[0]
            if found != state:
                raise ReplayDiverged(
                    f"step {n + 1} ({step.kind} {step.event or step.point}): {name} is {found}, not {state}"
                )

    def _do(self, step: ScriptStep, answered: bool = True) -> None:
        """Lets a machine consume what it consumed in the model."""
        assert step.machine is not None
        kind = step.kind if step.kind != "crash" else step.event.partition(" ")[0]
        event = step.event if step.kind != "crash" else step.event.partition(" ")[2]
        actor = self.sim.actors[self.sim.player[step.machine[0]]]
        if kind in ("deliver", "duplicate"):
            packet = self._find(step, self.sim.network.in_transit) or self._find(step, self.sent[::-1])
            if packet is None:
                raise ReplayDiverged(f"no {event} of {step.sender} is under way to {step.machine}")
            self.sim.loop.call(partial(self.sim.network.deliver, packet, answered))
            return
        name = self._machine(step.machine)
        held = self.sim.held(self.role.lease, name)
        if held is None and step.machine[0] == self.role.begins:
            core = actor.program.roles[step.machine[0]]
            fields = dict(zip((n for n, _ in core.events[event]), step.fields, strict=True))
            peers = {role: self.sim.player[role] for role, _ in core.neighbours}
            self._put(actor, partial(actor.begin, self.role.lease, name, event, fields, peers))
            return
        if held is None:
            raise ReplayDiverged(f"there is no {name} to take {event}")
        what = (
            TICK
            if kind == "tick"
            else local(event, self._fields(held.core.events[event], step.fields), held.state_epoch)
        )
        self._put(actor, lambda: actor.put(Consume(held.key, what)))

    def _put(self, actor: ControlledActor, put: Callable[[], Any]) -> None:
        future = self.sim.loop.call(put)
        if future.done() and not future.cancelled() and future.exception() is not None:
            future.exception()

    def _find(self, step: ScriptStep, packets: list[Packet]) -> Packet | None:
        assert step.machine is not None and step.sender is not None
        event = step.event.partition(" ")[2] if step.kind == "crash" else step.event
        return next(
            (p for p in packets if self._is(p, step.sender, step.machine, event, step.fields)), None
        )  # fmt: skip

    def _is(
        self, packet: Packet, sender: Machine | None, receiver: Machine, event: str, fields: tuple[Any, ...]
    ) -> bool:
        said = packet.envelope
        if (said["lease"], said["message"]) != (self.role.lease, event):
            return False
        if said["receiving_machine"] != self._machine(receiver):
            return False
        if sender is not None and said["sending_machine"] != self._machine(sender):
            return False
        shape = self.sim.program.messages[event].fields
        try:
            found = named_fields(shape, said["fields"])
        except ValueFault:
            return False
        wanted = self._fields(shape, fields)
        return all(
            isinstance(kind, t.Opaque) or a == b for (_, kind), a, b in zip(shape, found, wanted, strict=True)
        )  # fmt: skip

    # The crash

    def _undisturbed(self, step: ScriptStep) -> None:
        """What the step would have been without the crash; what was not committed comes again, or never was."""
        if step.event and not step.point.partition("@")[0].endswith(f"#{BEFORE}"):
            self._do(step)
            self.sim.loop.quiesce()

    def _crash(self, step: ScriptStep) -> None:
        assert step.machine is not None
        name = self.sim.player[step.machine[0]]
        where = step.point.partition("@")[0].partition("#")[2]
        newest = max((p.number for p in self.sent), default=0)
        if step.event:
            self._stop_within(step, self.sim.actors[name], where)
        if name in self.sim.actors:
            self.sim.crash(name)
        if where.startswith(RECOVERING):
            self._stillborn(step)
        self._see()
        for packet in tuple(self.sim.network.in_transit):
            if packet.source.endswith(f":{name}") and not any(
                self._is(packet, None, receiver, event, fields) for receiver, event, fields in step.in_transit
            ):
                if where == BEFORE and packet.number > newest:
                    raise ReplayDiverged(
                        f"{name} has sent {packet.envelope['message']} before the commit that it follows from"
                    )
                self.sim.network.lose(packet)

    def _stop_within(self, step: ScriptStep, actor: ControlledActor, where: str) -> None:
        """The actor takes the step, as far as the point."""
        if where == BEFORE:
            self._subscribe(actor, Kind.COMMIT, SimulatedCrash())
        elif where == AFTER:
            self._subscribe(actor, Kind.COMMITTED, SimulatedCrash())
        elif where != ACKNOWLEDGE:
            actor.notices.subscribe(partial(self._only, step))
        self._do(step, answered=where == BEFORE)  # nobody is told yet that it was taken
        self.sim.loop.quiesce()

    def _subscribe(self, actor: ControlledActor, kind: Kind, error: BaseException) -> None:
        def stop(notice: Notice) -> None:
            if notice.kind is kind:
                raise error

        actor.notices.subscribe(stop)

    def _only(self, step: ScriptStep, notice: Notice) -> None:
        """Of the work of the point's machine, only what was done happens; and nothing of others."""
        if notice.kind not in (Kind.SEND, Kind.CALL):
            return
        role, _, _ = step.point.partition("@")[0].removeprefix("crash:").partition("/")
        tasks = self.system.roles[role].tasks
        done = {name.removeprefix("some-") for name in step.done}
        own = notice.machine.partition("[")[0] == role
        does = {getattr(tasks[n], "message", None) or getattr(tasks[n], "target", "") for n in done}
        if not own or notice.name not in does:
            raise Consumed

    def _stillborn(self, step: ScriptStep) -> None:
        """The actor restarts, does as much of its recovery as the point says, and ends."""
        assert step.machine is not None
        name = self.sim.player[step.machine[0]]
        self.sim.subscribers.append(watch := partial(self._only, step))
        try:
            self.sim.start(name)
        finally:
            self.sim.subscribers.remove(watch)
        self.sim.crash(name)
