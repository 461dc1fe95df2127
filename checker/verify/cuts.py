"""The cuts of runs, from the events of the actors that play them.

Theory of operation. Events come in an order that respects causality (causal.py). A step is one cut, with the steps of
subsidiary machines that it drives; so a commit of several steps is several cuts, each of which the specification has
as a state. Between the cuts stand others that no event tells of by itself:

    clock      time has passed, at once up to the time of what comes next
    crash      an actor has stopped: right behind its last event before it recovered, as nobody knows when it was
    recover    it runs again; what its store has lost of a record by then shows in a later step of the machine (kept.py)
    passed     a machine that belongs to the actor has gone on to serve another run; in this one it counts as unused,
               which is no step of this run

A run begins with the first states of its machines. One of which events are missing at the beginning cannot be judged,
and is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.layout import Lane, State
from leasehold.checker.explore.step import Action
from leasehold.checker.verify.causal import CausalMerge, CutFault, with_driven
from leasehold.checker.verify.kept import KeptRecords, LostRecord
from leasehold.checker.verify.lanes import ReplayedLane
from leasehold.faults import Budget
from leasehold.faults.lowering import DOWN, UP
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.core.values import ValueFault, from_plain
from leasehold.impl.events.event import (
    AnyEvent,
    ForgottenEvent,
    FoundEvent,
    MachineRecord,
    MachineStep,
    MigratedEvent,
    RecoveredEvent,
    StepEvent,
)
from leasehold.spec.language.model import System, Transition

OF_ACTOR = "-"  # in place of the lease, for a machine that belongs to the actor
CRASH = Budget(crash=1)
AHEAD = 10_000  # events of an actor within which a loss is dated back to its recovery; later ones to the step


class Cut(NamedTuple):
    """A cut of a run.

    Attributes:
        run: the lease.
        state, action: the global state, and the step that led to it; None for the first one.
        actor, position: the event that it comes from; position 0: from none.
        step: the step of that event, where it is one of this run.
    """

    run: str
    state: State
    action: Action | None
    actor: str
    position: int
    step: MachineStep | None = None


class CutsOfSystem:
    """What is known of a system before any event.

    Attributes:
        system, program: the system, and as it was compiled.
        layout: of its states.
        up: by actor of the layout, the cell that says whether it runs.
    """

    def __init__(self, system: System) -> None:
        self.system, self.program = system, compile_system(system)
        self.world = reference_of(system, CRASH)
        self.layout = self.world.layout
        self.up: Mapping[str, int] = self.world.up
        self.first = list(self.world.initial_states()[0])
        for role, number, _ in self.layout.machines():
            core = self.program.roles[role.name]
            record, at = core.first(number), self.layout.at(role.name, number, None)
            self.first[at] = record[0]
            self.first[at + 1 : at + 1 + len(role.data)] = record[core.data_at : core.data_at + len(role.data)]
        self.transitions: dict[tuple[str, str], Transition] = {
            (role.name, t.name): t for role in system.roles.values() for t in role.transitions()
        }

    def machine(self, name: str) -> tuple[str, int] | None:
        """Role and number of a machine; None: the system has none of this name."""
        if name not in self.program.machines:
            return None
        core, number = self.program.machines[name]
        return core.role, number


@dataclass
class _Run:
    name: str
    state: list[Any]
    players: dict[str, str] = field(default_factory=dict)  # by actor of the layout, the actor that plays it
    lanes: dict[int, ReplayedLane] = field(default_factory=dict)  # by cell
    epochs: dict[str, int] = field(default_factory=dict)  # by machine, the last state epoch
    judged: bool = True


class ConsistentCuts:
    """Makes cuts of events as they come.

    Args:
        known: the system.
        actors: those that are followed.

    Attributes:
        faults: what is wrong with the events, in their order.
    """

    def __init__(self, known: CutsOfSystem, actors: Iterable[str]) -> None:
        self.known, self.layout = known, known.layout
        self.merge = CausalMerge(actors)
        self.now = 0
        self._runs: dict[str, _Run] = {}
        self._kept = KeptRecords(known.system, known.program)
        self._told_lost: set[tuple[str, int, str]] = set()  # actor, position and machine of steps that show a loss
        self._serves: dict[tuple[str, str], str] = {}  # by actor and machine of the actor, the run that it serves
        self._down: set[str] = set()
        self._faults: list[CutFault] = []
        self._stopping = set(actors)  # actors of which it is not known yet whether they have stopped
        self._broken_specs: set[tuple[str, str]] = set()

    @property
    def faults(self) -> list[CutFault]:
        return [*self.merge.faults, *self._faults]

    @property
    def runs(self) -> list[str]:
        """The runs that are judged."""
        return [run.name for run in self._runs.values() if run.judged]

    def add(self, actor: str, events: Iterable[AnyEvent]) -> None:
        """More events of an actor, in the order of its chain."""
        self.merge.add(actor, events)

    def close(self) -> None:
        """Nothing more comes of any actor."""
        for actor in self.merge.actors:
            self.merge.close(actor)

    def ready(self) -> Iterator[Cut]:
        """The cuts whose causes are there."""
        yield from self._stops()
        for event in self.merge.ready():
            yield from self._cuts(event)
            self._stopping.add(event.actor)
            yield from self._stops()

    def _cuts(self, event: AnyEvent) -> Iterator[Cut]:
        if event.spec != self.known.program.digest and (event.actor, event.spec) not in self._broken_specs:
            self._broken_specs.add((event.actor, event.spec))
            words = f"it was written under another specification, {event.spec[:12]} and not {self._digest}"
            self._fault(event, "", words)
        if event.spec != self.known.program.digest:
            return
        self.now = max(self.now, event.now)
        match event:
            case RecoveredEvent():
                self._down.discard(event.actor)
                if not f"{event.agreement}.".startswith(f"{self.known.program.agreement}."):  # ticks may follow
                    self._fault(event, "", "its actor has other constants than the system that is asked")
                yield from self._went(event, UP)
                if event.unrecorded:
                    self._fault(event, "", f"{event.unrecorded} commits before it have no events")
            case StepEvent():
                yield from self._step(event)
            case FoundEvent():
                yield from self._found(event)
            case ForgottenEvent():
                self._kept.forget(event.actor, event.lease, event.machine)
            case MigratedEvent():
                self._fault(event, "", "records were mapped to another specification; what was before is not judged")

    @property
    def _digest(self) -> str:
        return self.known.program.digest[:12]

    def _fault(self, event: AnyEvent, run: str, reason: str) -> None:
        self._faults.append(CutFault(event.actor, event.position, run, reason))

    # Actors that stop, and time

    def _stops(self) -> Iterator[Cut]:
        """The actors of which it shows now that they have stopped behind their last event."""
        for actor in sorted(self._stopping):
            following = self.merge.next_of(actor)
            if following is None:
                continue
            self._stopping.discard(actor)
            if isinstance(following, RecoveredEvent) and following.epoch > 1 and actor not in self._down:
                self._down.add(actor)
                yield from self._went(following, DOWN)

    def _went(self, event: RecoveredEvent, to: Any) -> Iterator[Cut]:
        """An actor has stopped, or runs again with the records that it has kept, in all of its runs."""
        lost = self._lost_ahead(event.actor) if to == UP else []
        for run in self._runs.values():
            mine = [(machine, record) for name, machine, record in lost if name == run.name and run.judged]
            went = [of for of, player in run.players.items() if player == event.actor]
            if not mine and all(run.state[self.known.up[of]] == to for of in went):
                continue
            yield from self._time(run)
            for of in went:
                run.state[self.known.up[of]] = to
            for machine, record in mine:
                self._lose(run, machine, record)
            yield self._cut(run, Action("crash" if to == DOWN else "recover", None, 0, ""), event)

    def _lost_ahead(self, actor: str) -> list[tuple[str, str, LostRecord]]:
        """Of an actor that recovers, the runs and machines whose records a later step shows to be lost by then."""
        found, seen = [], set()
        for event in self.merge.waiting(actor, AHEAD):
            for one in with_driven(event.step) if isinstance(event, StepEvent) else ():
                if (one.lease, one.machine) in seen:
                    continue
                seen.add((one.lease, one.machine))
                if (record := self._kept.lost(actor, one)) is not None:
                    run = self._serves.get((actor, one.machine), "") if one.lease == OF_ACTOR else one.lease
                    found.append((run, one.machine, record))
                    self._told_lost.add((actor, event.position, one.machine))
        return found

    def _lose(self, run: _Run, machine: str, record: LostRecord) -> None:
        """The record of a machine becomes what its actor has found."""
        if (place := self.known.machine(machine)) is None:
            return
        role, number = place
        run.state[self.layout.at(role, number, None)] = record.state
        for name, value in record.data.items():
            if (d := self.known.system.roles[role].data.get(name)) is not None:
                with suppress(ValueFault):  # the step that shows it is refused for that
                    run.state[self.layout.at(role, number, name)] = from_plain(d.type, value)

    def _time(self, run: _Run) -> Iterator[Cut]:
        """Time passes in a run, up to now."""
        clock = self.layout.clock
        if clock is not None and run.state[clock] < self.now:
            run.state[clock] = self.now
            yield self._cut(run, Action("clock", None, 0, ""), None)

    def pass_time(self) -> Iterator[Cut]:
        """Time passes in all runs, up to the last event of all: at the end of what is to be judged."""
        for run in self._runs.values():
            yield from self._time(run)

    def _cut(
        self, run: _Run, action: Action | None, event: AnyEvent | None, step: MachineStep | None = None
    ) -> Cut:  # fmt: skip
        actor, position = ("", 0) if event is None else (event.actor, event.position)
        return Cut(run.name, tuple(run.state), action, actor, position, step)

    # Runs

    def _run_of(self, name: str, event: AnyEvent) -> Iterator[Cut]:
        """Begins a run, if it has not begun yet."""
        if name in self._runs:
            return
        run = self._runs[name] = _Run(name, list(self.known.first))
        if self.layout.clock is not None:
            run.state[self.layout.clock] = self.now
        run.lanes = {lane.cell: ReplayedLane(lane.channel) for lane in self.layout.lanes}
        yield self._cut(run, None, event)

    def _plays(self, run: _Run, machine: str, actor: str) -> None:
        found = self.known.machine(machine)
        if found is not None and actor:
            of = self.layout.of[found].name
            run.players[of] = actor
            run.state[self.known.up[of]] = DOWN if actor in self._down else UP

    def _step(self, event: StepEvent) -> Iterator[Cut]:
        step = event.step
        steps = list(with_driven(step))
        name = step.serves if step.lease == OF_ACTOR else step.lease
        for one in steps:
            yield from self._follows(event, one)
            if one.lease == OF_ACTOR:
                yield from self._passes(event, one, name)
        if not name:
            return  # a machine of the actor that serves no run
        yield from self._run_of(name, event)
        run = self._runs[name]
        if not run.judged:
            return
        try:
            yield from self._time(run)
            for one in steps:
                self._take(run, event, one)
            yield self._cut(run, self._action(step), event, step)
        except _Unjudged as why:
            run.judged = False
            self._fault(event, name, str(why))

    def _follows(self, event: StepEvent, step: MachineStep) -> Iterator[Cut]:
        """A machine steps from the record that its last event has left, or that was lost."""
        lost = self._kept.lost(event.actor, step)
        self._kept.note(event.actor, step.lease, step.machine, step.record)
        if lost is None:
            return
        name = step.serves if step.lease == OF_ACTOR else step.lease
        for words in lost.words:
            self._fault(event, name, f"{step.machine} {words}")
        if step.lease == OF_ACTOR:
            name = self._serves.get((event.actor, step.machine), "")
        run = self._runs.get(name)
        if run is None or not run.judged or (event.actor, event.position, step.machine) in self._told_lost:
            return
        yield from self._time(run)
        self._lose(run, step.machine, lost)
        yield self._cut(run, Action("recover", None, 0, ""), event)

    def _passes(self, event: StepEvent, step: MachineStep, to: str) -> Iterator[Cut]:
        """A machine that belongs to the actor leaves the run that it has served for another."""
        key = (event.actor, step.machine)
        before = self._runs.get(self._serves.get(key, ""))
        self._serves[key] = to
        if before is None or before.name == to or not before.judged:
            return
        place = self.known.machine(step.machine)
        if place is None:
            return
        role, number = place
        at = self.layout.at(role, number, None)
        size = self.layout.stride[role]
        yield from self._time(before)
        before.state[at : at + size] = self.known.first[at : at + size]
        yield self._cut(before, Action("passed", None, 0, ""), event)

    def _found(self, event: FoundEvent) -> Iterator[Cut]:
        name = event.serves if event.lease == OF_ACTOR else event.lease
        self._kept.note(event.actor, event.lease, event.machine, event.record)
        if event.lease == OF_ACTOR:
            self._serves[event.actor, event.machine] = name
        if not name:
            return
        yield from self._run_of(name, event)
        run = self._runs[name]
        if run.judged and event.record.epoch > run.epochs.get(event.machine, 0):
            run.judged = False
            self._fault(event, name, f"{event.machine} has moved before the events begin, so this run is not judged")

    # Steps

    def _take(self, run: _Run, event: StepEvent, step: MachineStep) -> None:
        """The state after a step of one machine."""
        place = self.known.machine(step.machine)
        if place is None:
            raise _Unjudged(f"the system {self.known.system.name} has no machine {step.machine}")
        role, number = place
        of = self.known.system.roles[role]
        at = self.layout.at(role, number, None)
        before = run.epochs.get(step.machine, 0)
        if not before and step.lease != OF_ACTOR and step.source != self.known.first[at]:
            raise _Unjudged(f"{step.machine} has moved before the events begin, so this run is not judged")
        run.epochs[step.machine] = max(step.record.epoch, 1)
        run.state[at] = step.record.state
        for name, d in of.data.items():
            try:
                run.state[self.layout.at(role, number, name)] = from_plain(d.type, step.record.data[name])
            except (ValueFault, KeyError) as why:
                raise _Unjudged(f"{step.machine}.{name} has a value that it cannot have: {why}") from None
        self._plays(run, step.machine, event.actor)
        self._messages(run, event, step, role, number)

    def _messages(self, run: _Run, event: StepEvent, step: MachineStep, role: str, number: int) -> None:
        touched: dict[int, ReplayedLane] = {}
        if step.received is not None:
            self._plays_known(run, step.received.machine, step.received.actor)
            if (lane := self._lane(step.received.machine, (role, number), step.event)) is not None:
                replayed = touched[lane.cell] = run.lanes[lane.cell]
                if step.received.number <= replayed.received:
                    words = f"{step.machine} takes {step.event} with number {step.received.number}"
                    self._fault(event, run.name, f"{words}, and has received {replayed.received} before")
                replayed.receive(step.received.number)
        for sent in step.sends:
            to = self.known.machine(sent.to)
            lane = None if to is None else self._lane(step.machine, to, sent.message)
            if lane is None:
                raise _Unjudged(f"{step.machine} sends {sent.message} to {sent.to}, and no channel leads there")
            kinds = self.known.system.messages[sent.message].fields
            try:
                fields = tuple(from_plain(f.type, sent.fields[f.name]) for f in kinds)
            except (ValueFault, KeyError) as why:
                raise _Unjudged(f"the message {sent.message} has a field that it cannot have: {why}") from None
            touched[lane.cell] = run.lanes[lane.cell]
            run.lanes[lane.cell].send(sent.number, sent.message, fields)
        self._numbers(run, step.record, role, number, touched)
        for cell, replayed in touched.items():
            run.state[cell] = replayed.content()

    def _numbers(
        self, run: _Run, record: MachineRecord, role: str, number: int, touched: dict[int, ReplayedLane]
    ) -> None:
        """Numbers that a record has and that no message of its events had."""
        for lane in self.layout.lanes:
            replayed = run.lanes[lane.cell]
            sender, receiver = self.layout.ends(lane)
            if tuple(sender) == (role, number):
                newest = record.sent.get(self._name(receiver), 0)
                if newest > replayed.newest:
                    replayed.found(newest=newest)
                    touched[lane.cell] = replayed
            elif tuple(receiver) == (role, number):
                received = record.received.get(self._name(sender), 0)
                if received > replayed.received:
                    replayed.found(received=received)
                    touched[lane.cell] = replayed

    def _name(self, machine: Any) -> str:
        return self.known.program.roles[machine.role].machine(machine.instance)

    def _plays_known(self, run: _Run, machine: str, actor: str) -> None:
        place = self.known.machine(machine)
        if place is not None and self.layout.of[place].name not in run.players:
            self._plays(run, machine, actor)

    def _lane(self, sender: str, receiver: tuple[str, int], message: str) -> Lane | None:
        place = self.known.machine(sender)
        if place is None or message not in self.known.system.messages:
            return None
        channel = self.known.system.channel_of(message).name
        wanted = (channel, place[1], receiver[1])
        return next((e for e in self.layout.lanes if (e.channel.name, e.sender, e.receiver) == wanted), None)

    def _action(self, step: MachineStep) -> Action:
        place = self.known.machine(step.machine)
        assert place is not None
        role, number = place
        sender = -1
        if step.received is not None:
            kind, of = "deliver", self.known.machine(step.received.machine)
            sender = -1 if of is None else of[1]
        else:
            kind = "tick" if step.event == "tick" else "local"
        transition = self.known.transitions.get((role, step.transition))
        return Action(kind, role, number, step.event, sender=sender, transition=transition)


class _Unjudged(Exception):
    """A run cannot be judged from here on; the message says why."""
