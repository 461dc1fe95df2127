"""The properties of a specification, evaluated on real actors while they run.

Theory of operation. The records of a lease's machines, as the actors have committed them, are a global state of the
model, without the messages in transit. After every commit of a transition of the lease, the properties of states and of
steps are evaluated on the state before and after, as in the explorer. For an actor that is down, its last records
count. A unit that serves another lease counts as one that was never used.

Two kinds are left out: properties of messages in transit, and step properties where one commit holds several steps with
different causes.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.ground import cells_read, function, step_function
from leasehold.checker.explore.step import Action
from leasehold.faults.model import Budget
from leasehold.faults.model.lowering import DOWN, UP
from leasehold.faults.simulation.simulation import Simulation
from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.table import MachineInstance
from leasehold.impl.notices import Kind, Notice
from leasehold.impl.store.store import RecordKey
from leasehold.spec.language.model import Drive, System
from leasehold.spec.language.render.python_source import Frame, source

CRASH = Budget(crash=1)


class DurableMachines(dict[RecordKey, dict[str, Any]]):
    """The durable parts of the machines of an actor, by key."""


class MonitoredProperties:
    """The properties that can be evaluated on the states and steps of a running system."""

    def __init__(self, system: System, budget: Budget = CRASH) -> None:
        self.system = system
        self.world = reference_of(system, budget)
        self.layout = self.world.layout
        frame = Frame(self.layout, system.values(), before="o")
        lanes = {lane.cell for lane in self.layout.lanes}
        self.states: dict[str, Callable[..., Any]] = {}
        self.steps: dict[str, Callable[..., Any]] = {}
        self.left_out: list[str] = []
        tasks = [task for role in system.roles.values() for task in role.tasks.values()]
        self.driven = {task.event for task in tasks if isinstance(task, Drive)}
        for p in system.properties.values():
            if p.kind not in ("always", "step"):
                continue
            words = source(p.claim, frame)
            if p.when is not None:
                words = f"(not {source(p.when, frame)} or {words})"
            cells = cells_read(words, "os")
            if cells is None or cells & lanes:
                self.left_out.append(p.name)
            elif p.kind == "always":
                self.states[p.name] = function(words)
            else:
                self.steps[p.name] = step_function(words)


class PropertyMonitor:
    """Evaluates the properties of one lease in a simulation.

    Attributes:
        broken: when each property that does not hold was broken first.
        asked: how many states and steps were evaluated.
        cells: the values of cells that faults have added to the model, where no record tells them: an actor that has
            halted, a partition.
    """

    def __init__(self, simulation: Simulation, properties: MonitoredProperties, lease: str) -> None:
        self.sim, self.properties, self.lease = simulation, properties, lease
        self.broken: dict[str, str] = {}
        self.asked = 0
        self.cells: dict[int, Any] = {}
        self._state = list(properties.world.initial_states()[0])
        self._moved: list[Notice] = []
        self._after: list[Any] | None = None
        self._passed_on = False
        simulation.subscribers.append(self._hear)

    def begin(self) -> None:
        """The run begins now, in its first state; what actors have committed as they started is no step of it."""
        self._moved, self._after, self.broken = [], None, {}
        self._state = self._look("")
        for name, holds in self.properties.states.items():
            if not holds(self._state, (), -1):
                self.broken[name] = "in the first state"

    def _hear(self, notice: Notice) -> None:
        actor = self.sim.actors.get(notice.actor)
        if notice.kind is Kind.COMMIT and actor is not None and not actor.running:
            self.settle()
            found = self._look(notice.actor, self._stored)  # by a commit of which nobody has told
            if found != self._state:
                self._ask(self._state, found, None)
        elif notice.kind is Kind.COMMITTED:
            self.settle()
            self._after = self._look(notice.actor)  # now, as the actor may stop before it tells of its steps
        elif notice.kind is Kind.RECOVERED:  # what a commit has left of which the actor had to think that it failed
            self.settle()
            self._after = self._look(notice.actor)
            self.settle()
        elif notice.kind is Kind.TRANSITION and self.sim.concerns(notice, self.lease):
            self._moved.append(notice)

    @property
    def state(self) -> list[Any]:
        """The records of the lease's machines as they were committed, who is up, and the time."""
        self.settle()
        return self._look("")

    def settle(self) -> None:
        """Evaluates the last commit, if that was not done yet."""
        if self._after is None:
            return
        moved, after, before = self._moved, self._after, self._state
        self._moved, self._after = [], None
        if not moved and after == before:
            return
        roles = self.sim.program.roles
        below = [roles[n.machine.partition("[")[0]].subsidiary for n in moved]  # what is driven has its driver's step
        own = [n for at, n in enumerate(moved) if n.lease == self.lease and not (at and below[at])]
        driven = all(event_of(notice) in self.properties.driven for notice in moved[1:])
        passed_on, self._passed_on = self._passed_on, False  # a unit to another lease, which is no step of this one
        one = moved and driven and not passed_on and (own == moved[:1] or (not own and len(moved) == 1))
        action = self._action(moved[0], event_of(moved[0])) if one else None
        self._ask(before, after, action)

    def tick(self) -> None:
        """Time has passed by one tick."""
        self.passed("clock")

    def ignored(self, notice: Notice, again: bool) -> None:
        """A machine was given what moves it nowhere: a step, after which all is as it was.

        Args:
            notice: that tells of it.
            again: it has consumed that before, which a machine that is not there yet does not know.
        """
        self.settle()
        action = self._action(notice, notice.name)._replace(transition=None)
        if again or notice.data["kind"] == "duplicate":
            action = action._replace(kind="duplicate")
        self._ask(self._state, self._state, action)

    def passed(self, kind: str) -> None:
        """A step of no machine: time has passed, or a fault has come or gone."""
        self.settle()
        after = self._look("")
        self._ask(self._state, after, Action(kind, None, 0, ""))

    def _ask(self, before: list[Any], after: list[Any], action: Action | None) -> None:
        self._state = after
        self.asked += 1
        broken = [name for name, holds in self.properties.states.items() if not holds(after, (), -1)]
        if action is not None:
            broken += [name for name, holds in self.properties.steps.items() if not holds(before, after, action)]
        what = "a commit of several steps" if action is None else f"{action.role or 'time'} {action.event}".strip()
        clock = self.properties.layout.clock
        now = self.sim.time.now if clock is None else after[clock]  # a commit may be settled in a later tick
        for name in broken:
            self.broken.setdefault(name, f"at tick {now}, after {what}")

    def _action(self, notice: Notice, event: str) -> Action:
        role, _, rest = notice.machine.partition("[")
        kind = "deliver" if event in self.properties.system.messages else "tick" if event == "tick" else "local"
        transition = next(
            (t for t in self.properties.system.roles[role].transitions() if t.name == notice.name), None
        )  # fmt: skip
        return Action(kind, role, int(rest.rstrip("]") or 0), event, transition=transition)

    def _stored(self, lease: str, machine: str) -> MachineInstance | None:
        """A machine as its actor's store has it."""
        name = self.sim.players[machine]
        actor, records = self.sim.actors[name], self.sim.disks[name].records
        key = self.sim.key(lease, machine)
        return actor.rows.read(key, records[key], actor.table.below_of(lease)) if key in records else None

    def _look(
        self, committed: str, held_of: Callable[[str, str], MachineInstance | None] | None = None
    ) -> list[Any]:  # fmt: skip
        """The global state, in which one actor has committed what it has in memory, or elsewhere."""
        held_of = held_of or self.sim.held
        layout, found = self.properties.layout, list(self._state)
        for role, instance, _ in layout.machines():
            core = self.sim.program.roles[role.name]
            machine = core.machine(instance)
            if self.sim.players[machine] != committed:
                continue
            held = held_of(self.lease, machine)
            record = held.record if held is not None else core.first(instance)
            at = layout.at(role.name, instance, None)
            if core.of_actor and held is not None and held.serves != self.lease:
                record = core.first(instance)
                self._passed_on |= found[at] != record[0]
            found[at : at + 1 + len(role.data)] = core.cells(record)
        for actor in layout.actors:
            role_name, number = actor.machines[0]
            player = self.sim.players[self.sim.program.roles[role_name].machine(number)]
            running = self.sim.actors.get(player)  # who has no store takes no step either
            found[self.properties.world.up[actor.name]] = UP if running is not None and running.running else DOWN
        if layout.clock is not None:
            found[layout.clock] = self.sim.time.now
        for cell, value in self.cells.items():
            found[cell] = value
        return found


def event_of(notice: Notice) -> str:
    """The event of a transition."""
    return notice.name.partition("#")[2].partition(".")[0]


class DurabilityMonitor:
    """A monitor of whether an actor that restarts, or opens its store anew, finds what it had committed.

    Recovery may step at once what a lease drives, so its store is asked before it commits anything. A machine that has
    taken no step until the actor has recovered must have its record in memory, too. Of a commit that was begun and not
    acknowledged all is there, or nothing. What the actor keeps about itself (peers' incarnations, wishes, units, leases
    that are forgotten) is after every commit in its store as it is in memory: a restart loses what is in memory alone.

    Attributes:
        lost: what it does not find, in words.
    """

    def __init__(self, simulation: Simulation) -> None:
        self.sim = simulation
        self.lost: list[str] = []
        self._last: dict[str, DurableMachines] = {}  # as they were committed last
        self._begun: dict[str, DurableMachines] = {}  # as they would be by the commit that was begun
        self._recovering: dict[Actor, DurableMachines] = {}  # by incarnation: one may die in recovery
        simulation.subscribers.append(self._hear)

    def _hear(self, notice: Notice) -> None:
        actor = self.sim.actors.get(notice.actor)
        if actor is None:
            return
        if notice.kind is Kind.COMMIT and actor.running:
            self._begun[notice.actor] = _machines(actor)
        elif notice.kind is Kind.COMMITTED:
            self._compare_metadata(notice.actor, actor)
            if actor.running:
                self._last[notice.actor] = self._begun.pop(notice.actor)
        elif notice.kind is Kind.COMMIT:
            self._compare(notice.actor, actor)
        elif notice.kind is Kind.TRANSITION:
            self._recovering.get(actor, DurableMachines()).pop(RecordKey(notice.lease, notice.machine), None)
        elif notice.kind is Kind.RECOVERED:
            self._compare(notice.actor, actor)
            for key, before in self._recovering.pop(actor).items():
                held = actor.table.instances.get(key)
                if held is not None and (words := _differ(before, _durable(held))):
                    self.lost.append(f"{notice.actor} begins with another {key.machine} of {key.lease}: {words}"[:400])
            self._last[notice.actor] = _machines(actor)
            self._compare_metadata(notice.actor, actor)

    def _compare_metadata(self, name: str, actor: Actor) -> None:
        """Nothing waits for a commit at this moment, so memory and store have the same."""
        memory, stored = actor.table.metadata, self.sim.disks[name].metadata
        for word in sorted(memory.keys() | stored.keys()):
            if memory.get(word) != stored.get(word):
                if word not in stored:
                    there = "in memory alone"
                elif word not in memory:
                    there = "in its store alone"
                else:
                    there = "otherwise in memory than in its store"
                self.lost.append(f"{name} has what it keeps as `{word[:80]}` {there}")

    def _compare(self, name: str, actor: Actor) -> None:
        """An actor recovers; its store is asked once."""
        if actor in self._recovering:
            return
        last, begun, rows = (
            self._last.pop(name, DurableMachines()),
            self._begun.pop(name, None),
            self.sim.disks[name].records,
        )
        found = self._recovering[actor] = DurableMachines()
        sides: dict[bool, RecordKey] = {}  # whether it is as the commit that was begun would have it
        for key in {*last, *(begun or ())}:
            before, after = last.get(key), last.get(key) if begun is None else begun.get(key)
            row = rows.get(key)
            now = None if row is None else _durable(actor.rows.read(key, row, actor.table.below_of(key.lease)))
            if now in (before, after):
                if before != after:
                    sides[now == after] = key
                if now is not None:
                    found[key] = now
            elif now is None:
                self.lost.append(f"{name} has no {key.machine} of {key.lease} any more, which it had committed")
            else:
                words = _differ(before or after or {}, now)
                self.lost.append(f"{name} has another {key.machine} of {key.lease}: {words}"[:400])
        if len(sides) > 1:
            self.lost.append(f"{name} has a part of a commit: {_shown(sides[True])}, and not {_shown(sides[False])}")


def _machines(actor: Actor) -> DurableMachines:
    return DurableMachines({key: _durable(held) for key, held in actor.table.instances.items()})


def _differ(before: dict[str, Any], now: dict[str, Any]) -> str:
    """Returns what is not as it was, in words."""
    pairs = ((n, now.get(n), v) for n, v in before.items() if now.get(n) != v)
    return "; ".join(f"{n} is {_shown(is_)}, not {_shown(was)}" for n, is_, was in pairs)


def _durable(held: MachineInstance) -> dict[str, Any]:
    """A copy of what is kept of a machine, by name; sessions change in place."""
    record = zip(held.core.names[: held.core.below_at], held.record, strict=False)
    metadata = {f"metadata {name}": deepcopy(value) for name, value in held.metadata.items()}
    return {**dict(record), "peers": tuple(held.addressed), **metadata}


def _shown(value: Any) -> str:
    return "none" if value is None else repr(value)
