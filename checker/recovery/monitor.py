"""The properties of a specification, evaluated on real actors while they run.

Theory of operation. The events that actors commit make cuts of a run, as `verify` has them (verify/cuts.py), and
each cut is evaluated as it comes (verify/evaluator.py). No order has to be found: what is committed first comes first.
A simulation knows besides, when it happens, what no event tells or what events tell later:

    clock            true time
    crash, recover   an actor stops, or runs again
    lost             what an actor has in its store, when it recovers, is not what its events have left
    partition, ...   a fault comes or goes, with the cells that it has in the model (`passed`)
    ignored          a machine was given what moves it nowhere and changes no number

A unit that serves another lease counts as one that was never used. Messages are on their way until they are received,
whatever the network does to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from leasehold.checker.explore.result import Path
from leasehold.checker.explore.step import Action
from leasehold.checker.history.fold import MachineOf, lease_of
from leasehold.checker.recovery.events import CommittedEvents
from leasehold.checker.recovery.properties import Records, RunProperties, named
from leasehold.checker.verify.cuts import Cut, RunSteps
from leasehold.checker.verify.evaluator import RunEvaluator
from leasehold.checker.verify.lanes import Unjudged
from leasehold.checker.verify.result import drawn_path
from leasehold.faults.model.lowering import DOWN, UP
from leasehold.faults.simulation.simulation import Simulation
from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.table import BELOW, MachineInstance
from leasehold.impl.events.event import AnyEvent, ForgottenEvent, RecoveredEvent, StepEvent
from leasehold.impl.notices import Kind, Notice
from leasehold.impl.store.store import RecordKey
from leasehold.spec.language import types as t


class PropertyMonitor:
    """Evaluates the properties of one lease (or run) in a simulation.

    Args:
        commits: the events of the simulation; its actors have not started.
        properties: of the system.
        lease: which.
        bounded: nothing is judged any more once the run has left the bounds within which the system was explored.
        known: the record states of the explored graph, which those of the run must be; None: they are not compared.

    Attributes:
        broken: when each property that does not hold was broken first.
        asked: how many cuts were evaluated.
        cells: the values of cells that faults have added to the model, where no record tells them: an actor that has
            halted, a partition.
        evaluator: of the cuts.
        strange: record states that the graph does not have, in words.
        outside: the run has left the bounds.
        told: of the properties that are broken, those that were broken first by a step of which an event tells.
        cuts: since the run began.
    """

    def __init__(
        self,
        commits: CommittedEvents[Any],
        properties: RunProperties,
        lease: str,
        *,
        bounded: bool = False,
        known: frozenset[Records] | None = None,
    ) -> None:
        self.commits, self.sim, self.properties, self.lease = commits, commits.sim, properties, lease
        self.bounded, self.known = bounded, known
        self.asked = 0
        self.cells: dict[int, Any] = {}
        self.strange: list[str] = []
        self.outside = False
        layout, cuts = properties.layout, properties.cuts(self.sim.program)
        self._steps = RunSteps(cuts, lambda event, run, reason: commits.say(event.actor, reason))
        self._run = self._steps.first(lease, 1, 0)
        self._run.players |= {a.name: self.sim.players[self._machine(*a.machines[0])] for a in layout.actors}
        self._stopped: set[str] = set()  # actors that have no store
        self._ended: set[str] = set()  # actors that crashed, and do not run again yet
        self._begin()
        commits.listeners.append(self._take)
        self.sim.subscribers.append(self._hear)
        self.sim.ends.append(self._ended.add)

    def _begin(self) -> None:
        self.broken: dict[str, str] = {}
        self.told: set[str] = set()
        self.cuts: list[Cut] = []
        self.evaluator = RunEvaluator(self.properties.claims)

    def begin(self) -> None:
        """The run begins now, in its first state; what actors have committed as they started is no step of it."""
        self._begin()
        self._see_first()

    def _machine(self, role: str, number: int) -> str:
        name: str = self.sim.program.roles[role].machine(number)
        return name

    # What actors commit

    def _take(self, actor: str, events: list[AnyEvent], in_doubt: bool) -> None:
        for event in events:
            if isinstance(event, RecoveredEvent):
                self._runs_again(actor)
            elif isinstance(event, StepEvent):
                if lease_of(event.step) == self.lease:
                    self._step(event, in_doubt)
                else:
                    self._leaves(event)
            elif isinstance(event, ForgottenEvent) and event.lease == self.lease:
                self._run.machines.take(event)

    def _step(self, event: StepEvent, in_doubt: bool) -> None:
        if in_doubt:  # the commit came before its actor's end
            self._catch_up(but=event.actor)
        else:
            self._catch_up()
            self._runs_again(event.actor)
        try:
            for cut in self._steps.cuts(self._run, event):
                self._see(cut, told=True)
        except Unjudged as why:
            self.commits.say(event.actor, str(why))

    def _leaves(self, event: StepEvent) -> None:
        """A machine that belongs to an actor, and has served this run, goes on to another one."""
        for step in event.steps():
            if step.lease == BELOW and MachineOf(event.actor, BELOW, step.machine) in self._run.machines.machines:
                self._catch_up()
                self._steps.passes(self._run, event.actor, step.machine)
                self._see(self._run.cut(Action("passed", None, 0, step.machine), event.actor), told=True)

    # What the simulation knows

    def _hear(self, notice: Notice) -> None:
        actor = self.sim.actors.get(notice.actor)
        if notice.kind is Kind.STOPPED:
            self._stopped.add(notice.actor)
        elif notice.kind is Kind.RECOVERED:
            self._stopped.discard(notice.actor)
            self._restored(notice.actor)
            self._runs_again(notice.actor)
        elif notice.kind is Kind.COMMIT and actor is not None and not actor.running:
            self._restored(notice.actor)

    def _restored(self, name: str) -> None:
        """An actor recovers: its machines are as its store has them."""
        actor, records, run = self.sim.actors[name], self.sim.disks[name].records, self._run
        lost: dict[int, Any] = {}
        for key in [*run.machines.of(name)]:
            place = self._steps.known.machine(key.machine)
            row = records.get(RecordKey(key.lease, key.machine))
            if place is None or (key.lease != BELOW and key.lease != self.lease):
                continue
            core = self.sim.program.roles[place[0]]
            instance = (
                None if row is None else actor.rows.read(RecordKey(*key[1:]), row, actor.table.below_of(key.lease))
            )
            cells = core.cells(core.first(place[1]) if instance is None else instance.record)
            at = self.properties.layout.at(*place, None)
            now = run.state[at : at + len(cells)]
            if [*cells] != now:
                lost |= dict(enumerate(cells, at))
        if lost:
            self._catch_up()
            self._put(lost)
            self._see(run.cut(Action("lost", None, 0, ""), name))

    def _facts(self, but: str = "") -> dict[str, dict[int, Any]]:
        """The cells that the simulation knows to be other than the run has them, by kind of a step of no machine.

        Those that say that an actor has crashed are left out for the actor `but`.
        """
        state, clock = self._run.state, self.properties.layout.clock
        facts: dict[str, dict[int, Any]] = {"clock": {}, "crash": {}, "recover": {}}
        if clock is not None and state[clock] != self.sim.time.now:
            facts["clock"][clock] = self.sim.time.now
        for of, player in self._run.players.items():
            at, actor = self.properties.world.up[of], self.sim.actors.get(player)
            # Who has no store takes no step either.
            if actor is None or player in self._stopped or player in self._ended:
                if state[at] == UP and player != but:
                    facts["crash"][at] = DOWN
            elif actor.running and state[at] == DOWN:
                facts["recover"][at] = UP
        return facts

    def _catch_up(self, but: str = "") -> None:
        """Tells of the first state, and of what has happened since the last cut, but for the crash of an actor."""
        if self.evaluator.cut < 0:
            self._see_first()
        for kind, cells in self._facts(but).items():
            if cells:
                self._put(cells)
                self._see(self._run.cut(Action(kind, None, 0, "")))

    def _see_first(self) -> None:
        for cells in self._facts().values():
            self._put(cells)
        self._see(self._run.cut(None))

    def _put(self, cells: Mapping[int, Any]) -> None:
        for at, value in cells.items():
            self._run.state[at] = value

    def _runs_again(self, actor: str) -> None:
        if self.evaluator.cut >= 0 and actor in self._ended:
            self._catch_up()
        self._ended.discard(actor)
        up = [self.properties.world.up[of] for of in self._steps.played(self._run, actor)]
        if self.evaluator.cut >= 0 and any(self._run.state[at] == DOWN for at in up):
            self._put(dict.fromkeys(up, UP))
            self._see(self._run.cut(Action("recover", None, 0, ""), actor), told=True)

    def tick(self) -> None:
        """Time has passed by one tick."""
        self.passed("clock")

    def passed(self, kind: str) -> None:
        """A step of no machine: time has passed, or a fault has come or gone."""
        if self.evaluator.cut < 0:
            return  # the run has not begun
        for cells in (*self._facts().values(), self.cells):
            self._put(cells)
        self._see(self._run.cut(Action(kind, None, 0, "")))

    def ignored(self, notice: Notice, again: bool) -> None:
        """A machine was given what moves it nowhere: a step, after which all is as it was.

        Args:
            notice: that tells of it.
            again: it has consumed that before, which a machine that is not there yet does not know.
        """
        role, number = self._steps.known.machine(notice.machine) or ("", 0)
        kind = "local" if notice.name not in self.properties.system.messages else "deliver"
        kind = "tick" if notice.name == "tick" else kind
        if again or notice.data["kind"] == "duplicate":
            kind = "duplicate"
        self._see(self._run.cut(Action(kind, role, number, notice.name), notice.actor))

    # Cuts

    def path(self) -> Path:
        """The path of the run up to now, once it has begun; of the time between two other steps one step tells."""
        wanted: list[Cut] = []
        for cut in self.cuts:
            if wanted and _is_clock(cut) and _is_clock(wanted[-1]):
                wanted.pop()
            wanted.append(cut)
        return drawn_path(self.properties.layout, wanted)

    def _see(self, cut: Cut, told: bool = False) -> None:
        """Evaluates the properties at a cut; `told`: an event tells of the step that leads to it."""
        state, action, properties = cut.state, cut.action, self.properties
        self.cuts.append(cut)
        if self.bounded:
            self.outside = self.outside or not properties.world.within_bounds(self._without_messages(state))
            if self.outside:
                return
        self.asked += 1
        label = _what(action)
        if decided := self.evaluator.see(state, action):
            clock = properties.layout.clock
            now = self.sim.time.now if clock is None else state[clock]
            when = "in the first state" if action is None else f"at tick {now}, after {label}"
            for name in sorted(named(decided) - self.broken.keys()):
                self.broken[name] = when
                self.told |= {name} if told else set()
        if self.known is not None and (records := properties.projection(state)) not in self.known:
            self.strange.append(f"after {label}: {self._described(records)}")

    def _without_messages(self, state: tuple[Any, ...]) -> tuple[Any, ...]:
        cells, first = list(state), self._steps.known.first
        for lane in self.properties.layout.lanes:
            cells[lane.cell] = first[lane.cell]
        return tuple(cells)

    @property
    def state(self) -> list[Any]:
        """The records of the lease's machines as they were committed, who is up, and the time."""
        state = list(self._without_messages(tuple(self._run.state)))
        for cells in (*self._facts().values(), self.cells):
            for at, value in cells.items():
                state[at] = value
        return state

    @property
    def waiting(self) -> set[str]:
        """The properties that are broken if nothing comes any more, by name."""
        return self.properties.of_records(named(self.evaluator.end()))

    # Words

    def _described(self, records: Records) -> str:
        return ", ".join(f"{name} {_value(value)}" for name, value in zip(self._names(), records, strict=False))[:400]

    def difference(self, actual: Records, wanted: Records) -> str:
        """Returns the cells in which two record states differ, in words."""
        names = (*self._names(), "the time")
        pairs = (pair for pair in zip(names, actual, wanted, strict=False) if pair[1] != pair[2])
        return ", ".join(f"{name} is {_value(value)}, not {_value(other)}" for name, value, other in pairs)[:400]

    def _names(self) -> Iterator[str]:
        """Yields what each cell of a record state is, but for the clock's."""
        for role, i, _ in self.properties.layout.machines():
            machine = self._machine(role.name, i)
            yield machine
            yield from (f"{machine}.{d.name}" for d in role.data.values() if not isinstance(d.type, t.Opaque))


def _is_clock(cut: Cut) -> bool:
    return cut.action is not None and cut.action.kind == "clock"


def _what(action: Action | None) -> str:
    """A step in words."""
    if action is None:
        return "nothing"
    return f"{action.role} {action.event}" if action.role else "time" if action.kind == "clock" else action.kind


def _value(value: Any) -> str:
    return "{" + ", ".join(map(str, sorted(value))) + "}" if isinstance(value, frozenset) else str(value)


class DurableMachines(dict[RecordKey, dict[str, Any]]):
    """The durable parts of the machines of an actor, by key."""


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
                instance = actor.table.instances.get(key)
                if instance is not None and (difference := _differ(before, _durable(instance))):
                    self.lost.append(
                        f"{notice.actor} begins with another {key.machine} of {key.lease}: {difference}"[:400]
                    )
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
        machines = self._recovering[actor] = DurableMachines()
        sides: dict[bool, RecordKey] = {}  # whether it is as the commit that was begun would have it
        for key in {*last, *(begun or ())}:
            before, after = last.get(key), last.get(key) if begun is None else begun.get(key)
            row = rows.get(key)
            now = None if row is None else _durable(actor.rows.read(key, row, actor.table.below_of(key.lease)))
            if now in (before, after):
                if before != after:
                    sides[now == after] = key
                if now is not None:
                    machines[key] = now
            elif now is None:
                self.lost.append(f"{name} has no {key.machine} of {key.lease} any more, which it had committed")
            else:
                difference = _differ(before or after or {}, now)
                self.lost.append(f"{name} has another {key.machine} of {key.lease}: {difference}"[:400])
        if len(sides) > 1:
            self.lost.append(f"{name} has a part of a commit: {_shown(sides[True])}, and not {_shown(sides[False])}")


def _machines(actor: Actor) -> DurableMachines:
    return DurableMachines({key: _durable(instance) for key, instance in actor.table.instances.items()})


def _differ(before: dict[str, Any], now: dict[str, Any]) -> str:
    """Returns what is not as it was, in words."""
    pairs = ((n, now.get(n), v) for n, v in before.items() if now.get(n) != v)
    return "; ".join(f"{n} is {_shown(is_)}, not {_shown(was)}" for n, is_, was in pairs)


def _durable(instance: MachineInstance) -> dict[str, Any]:
    """A copy of what is kept of a machine, by name; sessions change in place. An empty value is kept as none."""
    record = zip(instance.core.names[: instance.core.below_at], instance.record, strict=False)
    metadata = {f"metadata {name}": deepcopy(value) for name, value in instance.metadata.items() if value != ""}
    return {**dict(record), "peers": tuple(instance.addressed), **metadata}


def _shown(value: Any) -> str:
    return "none" if value is None else repr(value)
