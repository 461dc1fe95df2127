"""The steps of a script for real actors, written from steps of the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from leasehold.checker.explore import channels
from leasehold.checker.explore.layout import State
from leasehold.checker.explore.reference import Reference
from leasehold.checker.explore.step import Action
from leasehold.faults.model import CrashPoint
from leasehold.faults.model.lowering import UP
from leasehold.faults.model.points import BEFORE, point_parts
from leasehold.spec.language.lower import ModelActor
from leasehold.spec.language.types import Value

Machine = tuple[str, int]


@dataclass(frozen=True, slots=True)
class ScriptStep:
    """One step of a script.

    Attributes:
        kind: of the model's action; or `stillborn`: a restart that is stopped before it has done anything.
        machine: which machine steps; of `crash` and `recover`, one of the actor's. None: time passes.
        event, fields: what it consumes, if it does; of a crash, what it was consuming.
        sender: of a message.
        point: of a crash, its name in the catalogue.
        done: of a crash, the tasks whose work was done.
        control: where all machines are after it, in the system's order.
        in_transit: the messages under way after a crash, of the actors that crashed: receiver, name, fields.
        along: of a crash, a machine of each other actor that stops at the same moment.
        cells: the cells of the model's state that the step gives another value, of those that faults have added.
        behind: of a mailbox, how many messages like the one that it receives or loses are newer; None: not told.
    """

    kind: str
    machine: Machine | None
    event: str
    fields: tuple[Value, ...]
    sender: Machine | None
    point: str
    done: tuple[str, ...]
    control: tuple[str, ...]
    in_transit: tuple[tuple[Machine, str, tuple[Value, ...]], ...] = ()
    along: tuple[Machine, ...] = ()
    cells: tuple[tuple[int, Value], ...] = ()
    behind: int | None = None

    @property
    def acting(self) -> Machine:
        """The machine that steps, where one does."""
        assert self.machine is not None
        return self.machine

    @property
    def consumed(self) -> tuple[str, str]:
        """The kind and the name of the event that is consumed; of a crash, the one that was."""
        kind, _, event = self.event.partition(" ") if self.kind == "crash" else (self.kind, "", self.event)
        return kind, event

    @property
    def where(self) -> str:
        """The place in its work at which an actor stops, as in the name of the point."""
        return point_parts(self.point).where


@dataclass(frozen=True, slots=True)
class Script:
    """The script of a case.

    Attributes:
        cell: the control states of the product when the actor stops.
        point: where in its work it stops.
        mode: which of the system's modes holds when it restarts.
        steps: from the first state to the restart.
        at: the position of the crash among them.
        machines: those whose places each step tells.
    """

    cell: tuple[str, ...]
    point: str
    mode: str
    steps: tuple[ScriptStep, ...]
    at: int
    machines: tuple[Machine, ...]

    @property
    def name(self) -> str:
        """`crash:broker/ticketed#after-tell@alive@active/ticketed/active`."""
        return f"{self.point}@{self.mode}@{'/'.join(self.cell)}"


class StepWriter:
    """Writes steps of a model, each from the states before and after it."""

    def __init__(self, world: Reference, points: Iterable[CrashPoint]) -> None:
        self.world = world
        self.tasks: Mapping[str, tuple[str, ...]] = {point.name: point.done for point in points}

    def between(self, before: State, after: State) -> ScriptStep:
        """The step between two states; one that is no crash, if there is such.

        Raises:
            LookupError: there is none.
        """
        crash: Action | None = None
        for action, state in self.world.successors(before):
            if state == after and action.kind != "crash":
                return self.taken(before, action, after)
            if state == after:
                crash = crash or action
        if crash is not None and crash.role is not None:
            return self.stop(before, crash, after, crash.point, self.world.layout.of[crash.role, crash.instance])
        raise LookupError("there is no such step")

    def taken(self, before: State, action: Action, after: State) -> ScriptStep:
        """A step that is no crash."""
        machine = None if action.role is None else (action.role, action.instance)
        sender = None if action.lane is None else (action.lane.channel.sender, action.lane.sender)
        new = range(self.world.layout.base, self.world.layout.size)
        cells = tuple((cell, after[cell]) for cell in new if before[cell] != after[cell])
        return ScriptStep(
            action.kind,
            machine,
            action.event,
            action.fields,
            sender,
            "",
            (),
            self.control(after),
            cells=cells,
            behind=_behind(before, action),
        )

    def stop(self, before: State, crash: Action, after: State, point: str, actor: ModelActor) -> ScriptStep:
        """The crash, at the point that the case names."""
        bare, role, _, where, group = point_parts(point)
        machine: Machine = (crash.role or role, crash.instance)  # that takes the step, and may drive the point's own
        taken: Action | None = crash if crash.transition is not None else None
        if where == BEFORE:
            machine = next((m for m in actor.machines if m[0] == role), actor.machines[0])
            taken = self._next(before, machine)
        elif crash.lane is not None:
            taken = crash
        if taken is None:
            event, fields, sender, kind = "", (), None, ""
        else:
            event, fields = taken.event, taken.fields
            sender = None if taken.lane is None else (taken.lane.channel.sender, taken.lane.sender)
            kind = "deliver" if sender else "tick" if event == "tick" else "local"
        among = self._stopping(actor, group, before)
        machines = {machine for one in among for machine in one.machines}
        lanes = [lane for lane in self.world.layout.lanes if (lane.channel.sender, lane.sender) in machines]
        in_transit = tuple(
            ((lane.channel.receiver, lane.receiver), name, fields_)
            for lane in lanes
            for _, name, fields_ in channels.entries(lane.channel.kind, after[lane.cell])
        )
        return ScriptStep(
            "crash",
            machine,
            f"{kind} {event}" if event else "",
            fields,
            sender,
            point,
            self.tasks.get(bare, ()),
            self.control(after),
            in_transit,
            tuple(one.machines[0] for one in among if one is not actor),
            behind=None if taken is None else _behind(before, taken),
        )

    def _stopping(self, actor: ModelActor, group: str, before: State) -> tuple[ModelActor, ...]:
        """The actors that a crash stops: those of a node, or all that are up."""
        crashes = (crash for crash in self.world.relation.crashes if crash.name == group)
        crash = next(crashes, None)
        if crash is None:
            return (actor,)
        return tuple(one for one in crash.actors if one is actor or before[self.world.up[one.name]] is UP)

    def _next(self, state: State, machine: Machine) -> Action | None:
        """A step that a machine could take next."""
        for action, _ in self.world.successors(state):
            takes = action.kind in ("local", "deliver", "tick") and action.transition is not None
            if takes and (action.role, action.instance) == machine and not action.fault:
                return action
        return None

    def control(self, state: State) -> tuple[str, ...]:
        """Returns where all machines are, in the system's order."""
        layout = self.world.layout
        return tuple(state[layout.at(role.name, i, None)] for role, i, _ in layout.machines())


def _behind(before: State, action: Action) -> int | None:
    """Returns how many messages of a mailbox are like the one that a step takes, and newer."""
    lane = action.lane
    if lane is None or lane.channel.kind != "mailbox" or action.position < 0:
        return None
    entries = channels.entries(lane.channel.kind, before[lane.cell])
    if not entries[action.position][0]:
        return 0  # the one that was received last
    return sum(entry[1:] == entries[action.position][1:] for entry in entries[action.position + 1 :])
