"""Who sees everything: the true global states of a simulation's runs, in the order in which they came.

Theory of operation. A simulation is one loop, so what its actors commit has an order, which no event tells. Each turn
is heard before it is committed, and applied when it is: to the states of the runs as the explorer has them, with the
messages on their way. When an actor has ended, its store says whether the last turn was committed; when it starts
again, what became of its records: what is not as it was left shows in the step `recover`. No event is read for this.

The properties are evaluated on these runs as simulations do (checker/verify/evaluator.py): what that finds is what
happened, and what a reader of events ought to report.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.layout import Lane, State
from leasehold.checker.explore.step import Action
from leasehold.checker.verify.evaluator import ClaimsOfRuns, RunEvaluator
from leasehold.checker.verify.lanes import ReplayedLane
from leasehold.checker.verify.queries import end_claim
from leasehold.checker.verify.system import CRASH, CutsOfSystem
from leasehold.faults.model.lowering import DOWN, UP
from leasehold.faults.simulation.simulation import Simulation
from leasehold.faults.simulation.steps import LoggedStep, LoggedTurn
from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.table import BELOW
from leasehold.impl.core.core import Core
from leasehold.impl.core.work import Record
from leasehold.impl.notices import Kind, Notice
from leasehold.impl.store.store import RecordKey
from tests.checker.verify.twin import Run


@dataclass
class _ObservedRun:
    state: list[Any]
    cuts: Run = field(default_factory=list)
    lanes: dict[int, ReplayedLane] = field(default_factory=dict)


class Observer:
    """Observes a simulation. It has to be made before the actors start.

    Args:
        simulation: which.
        known: its system.

    Attributes:
        runs: the states of each run, with the steps that led to them.
    """

    def __init__(self, simulation: Simulation, known: CutsOfSystem) -> None:
        self.sim, self.known, self.layout = simulation, known, known.layout
        self._runs: dict[str, _ObservedRun] = {}
        self._records: dict[RecordKey, tuple[str, Core, Record]] = {}  # with the run that it serves
        self._waiting: dict[str, LoggedTurn] = {}
        self._ended: set[str] = set()
        self._rows: dict[str, dict[RecordKey, bytes]] = {}  # by actor, as they were after the last commit
        self._actors: dict[str, Actor] = {}  # the last incarnation that was heard
        simulation.turns.append(self._stepped)
        simulation.subscribers.append(self._hear)
        simulation.ends.append(self._gone)

    @property
    def runs(self) -> dict[str, Run]:
        for run in self._runs.values():
            self._time(run)
        return {name: run.cuts for name, run in self._runs.items()}

    # What happens

    def _stepped(self, actor: str, turn: LoggedTurn) -> None:
        self._actors[actor] = self.sim.actors[actor]
        self._back(actor)
        self._waiting.setdefault(actor, []).extend(turn)

    def _hear(self, notice: Notice) -> None:
        if notice.kind is Kind.COMMITTED:
            self._back(notice.actor)
            self._apply(self._waiting.pop(notice.actor, []))
            self._look(notice.actor)
        elif notice.kind in (Kind.COMMIT, Kind.RECOVERED):
            self._back(notice.actor)
        elif notice.kind is Kind.STOPPED:
            self._gone(notice.actor)

    def _gone(self, actor: str) -> None:
        if actor in self._ended:
            return
        self._ended.add(actor)
        steps = self._waiting.pop(actor, [])
        if dict(self.sim.disks[actor].records) != self._rows.get(actor, {}):
            self._apply(steps)  # the commit was made, and nobody has told of it
        self._went(actor, DOWN)

    def _back(self, actor: str) -> None:
        """An actor that had ended is there again: with what its store has."""
        if actor not in self._ended:
            return
        self._ended.discard(actor)
        self._went(actor, UP, self._stored(actor))
        self._look(actor)

    def _look(self, actor: str) -> None:
        self._rows[actor] = dict(self.sim.disks[actor].records)

    def _stored(self, actor: str) -> dict[RecordKey, Record]:
        there = self._actors.get(actor)
        if there is None:
            return {}
        rows, records = there.rows, self.sim.disks[actor].records
        found = {}
        for key, row in records.items():
            held = rows.read(key, row, there.table.below_of(key.lease))
            if held is not None:
                found[key] = _durable(held.core, held.record)
        return found

    # Runs

    def _run(self, name: str) -> _ObservedRun:
        run = self._runs.get(name)
        if run is None:
            run = self._runs[name] = _ObservedRun(list(self.known.first))
            run.lanes = {lane.cell: ReplayedLane(lane.channel) for lane in self.layout.lanes}
            if self.layout.clock is not None:
                run.state[self.layout.clock] = self.sim.time.now
            for actor, at in self.known.up.items():
                run.state[at] = DOWN if self._player(actor) in self._ended else UP
            run.cuts.append((tuple(run.state), None))
        return run

    def _player(self, of: str) -> str:
        role, number = next(actor for actor in self.layout.actors if actor.name == of).machines[0]
        return self.sim.players[self._name(role, number)]

    def _name(self, role: str, number: int) -> str:
        return self.sim.program.roles[role].machine(number)

    def _time(self, run: _ObservedRun) -> None:
        clock = self.layout.clock
        if clock is not None and run.state[clock] < self.sim.time.now:
            run.state[clock] = self.sim.time.now
            run.cuts.append((tuple(run.state), Action("clock", None, 0, "")))

    def _went(self, actor: str, to: Any, stored: Mapping[RecordKey, Record] | None = None) -> None:
        """An actor has stopped, or runs again with the records of its store."""
        changed: dict[RecordKey, tuple[str, Core, Record]] = {}
        for key, (serves, core, record) in self._records.items():
            if stored is not None and self.sim.players[key.machine] == actor:
                now = stored.get(key, core.first(self.sim.program.machines[key.machine][1])[: core.below_at])
                if now != record:
                    changed[key] = serves, core, now
        self._records |= changed
        for name, run in self._runs.items():
            before = list(run.state)
            for key, (serves, core, record) in changed.items():
                if serves == name:
                    self._put(run, key.machine, core, record)
            for of, at in self.known.up.items():
                if self._player(of) == actor:
                    run.state[at] = to
            if run.state != before:
                after, run.state = run.state, before
                self._time(run)
                if self.layout.clock is not None:
                    after[self.layout.clock] = self.sim.time.now
                run.state = after
                run.cuts.append((tuple(after), Action("crash" if to == DOWN else "recover", None, 0, "")))

    def _put(self, run: _ObservedRun, machine: str, core: Core, record: Record) -> None:
        place = self.known.machine(machine)
        if place is None:
            return
        at = self.layout.at(*place, None)
        run.state[at : at + 1 + len(core.fields)] = core.cells(record)

    # Steps

    def _apply(self, steps: Iterable[LoggedStep]) -> None:
        for step in steps:
            self._step(step)

    def _step(self, step: LoggedStep) -> None:
        every = [step, *_below(step)]
        if step.event is None or all(one.before == one.after for one in every):
            return
        name = step.lease
        for one in every:
            if one.key.lease == BELOW:
                self._passes(one, name)
        if not name:
            return
        run = self._run(name)
        self._time(run)
        for one in every:
            self._records[one.key] = name, one.core, _durable(one.core, one.after)
            self._put(run, one.key.machine, one.core, one.after)
        for one in every:
            self._messages(run, one)
        run.cuts.append((tuple(run.state), self._action(step)))

    def _passes(self, step: LoggedStep, to: str) -> None:
        """A machine of the actor leaves the run that it has served: there it counts as unused."""
        before, core, _ = self._records.get(step.key, ("", step.core, ()))
        if not before or before == to:
            return
        run = self._runs[before]
        self._time(run)
        number = self.sim.program.machines[step.key.machine][1]
        self._put(run, step.key.machine, core, core.first(number))
        run.cuts.append((tuple(run.state), None))  # no step of this run: no property of steps compares

    def _messages(self, run: _ObservedRun, step: LoggedStep) -> None:
        place = self.known.machine(step.key.machine)
        if place is None or step.event is None:
            return
        core, touched = step.core, set()
        event, _, neighbour, number, _ = step.event
        if neighbour >= 0:
            peer = self.known.machine(self.sim.program.neighbour(core, place[1], neighbour))
            lane = None if peer is None else self._lane(peer, place, event)
            if lane is not None:
                run.lanes[lane.cell].receive(number)
                touched.add(lane.cell)
        left = {n: step.after[core.sent_at][n] for n, _, _ in step.sends}
        for n, message, fields in reversed(step.sends):
            peer = self.known.machine(self.sim.program.neighbour(core, place[1], n))
            lane = None if peer is None else self._lane(place, peer, message)
            if lane is not None:
                run.lanes[lane.cell].send(left[n], message, fields)
                touched.add(lane.cell)
            left[n] -= 1
        for cell in touched:
            run.state[cell] = run.lanes[cell].content()

    def _lane(self, sender: tuple[str, int], receiver: tuple[str, int], message: str) -> Lane | None:
        return self.known.layout.lane(self.known.system.channel_of(message).name, sender[1], receiver[1])

    def _action(self, step: LoggedStep) -> Action | None:
        place = self.known.machine(step.key.machine)
        if place is None or step.event is None:
            return None
        event, _, neighbour, _, _ = step.event
        kind, sender = "tick" if event == "tick" else "local", -1
        if neighbour >= 0:
            peer = self.known.machine(self.sim.program.neighbour(step.core, place[1], neighbour))
            kind, sender = "deliver", -1 if peer is None else peer[1]
        name = "" if step.outcome is None else step.outcome.transition
        return Action(kind, *place, event, sender=sender, transition=self.known.transitions.get((place[0], name)))


def _below(step: LoggedStep) -> list[LoggedStep]:
    return [one for driven in step.driven for one in (driven, *_below(driven))]


def _durable(core: Core, record: Record) -> Record:
    """A record without the machines that it can see."""
    return record[: core.below_at]


class Judge:
    """Which properties runs break, as the explorer's Python evaluates them.

    Args:
        known: the system.
    """

    def __init__(self, known: CutsOfSystem) -> None:
        self.known = known
        system = known.system
        self.claims = ClaimsOfRuns(reference_of(system, CRASH), {**system.properties, **end_claim(system)})

    def broken(self, run: Run, complete: bool = False) -> set[str]:
        """The names of the properties that a run breaks; `complete`: nothing comes after its last state."""
        evaluator = RunEvaluator(self.claims)
        found = [one for state, action in run for one in evaluator.see(state, action)]
        if complete or self.over(run[-1][0]):
            found += evaluator.end()
        return {one.name for one in found if one.claim.of.kind != "sometimes"}

    def over(self, state: State) -> bool:
        """Returns whether a run is in an end that the system allows."""
        return self.known.over(list(state))
