"""Cuts the runs of a system: from the events of its actors to the global states of each run, one after the other.

Theory of operation. Events come in an order that respects causality (checker/history/merge.py). A step is one cut, with
the steps of subsidiary machines that it drives; so a commit of several steps is several cuts, each of which the
specification has as a state. Between the cuts stand others that no event tells of by itself:

    clock      time has passed, at once up to the time of what comes next
    crash      an actor has stopped: right behind its last event before it recovered, as nobody knows when it was
    recover    it runs again: right before its first event after it recovered, or after two ticks, as it has begun to
               start by then, and need not have heard what time it is
    lost       an actor that was down comes back without a record, or a part of it, as a later step shows
    passed     a machine that belongs to the actor has gone on to serve another run; in this one it counts as unused,
               which is no step of this run
    late       a message is taken that its sender has moved on from, so it was on its way still (lanes.py)

A step says the record that it has left, and the numbers of its messages; so the global state of the run follows from
its steps alone (`RunSteps`). Which cuts stand between them is decided by the order of all events (`ConsistentCuts`). A
run begins with the first states of its machines. One of which events are missing at the beginning cannot be judged,
and is named. A run that is in an end stands still until it takes a step again: then it is told first what has happened
to its actors meanwhile. So it need not be in memory (`recall`): it is rebuilt from its cuts, as the table has them, and
their events. A record that was found at a start makes no cut, but says that there is a machine, and what it is: such
events are taken again beside the cuts.

A step tells the record after it, and where its machine stood before. Between two events of a machine its record changes
nowhere but where the actor recovers from its store; so it is as the last event has left it, or it was lost there. A
step tells that in three ways: it begins in another state, a field that its transition does not write has another value
afterwards, or a number is smaller than before. A record that begins anew has first values. Of a field that the step
itself writes, and of a machine that never steps again, nothing shows in a step. But an actor that recovers tells the
digest of each record that it has: so it is known that one was lost, though not what of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

from leasehold.checker.explore.layout import State
from leasehold.checker.explore.step import Action
from leasehold.checker.history.fault import CONTRADICTION, UNDECIDED, CutFault, other_constants, recovered_words
from leasehold.checker.history.fold import EventFold, FoldedMachine, MachineOf, lease_of
from leasehold.checker.history.merge import CausalMerge, Sent, capacities_of
from leasehold.checker.verify.lanes import Lanes, RunMessages, Unjudged
from leasehold.checker.verify.system import CutsOfSystem
from leasehold.faults.model.lowering import DOWN, UP
from leasehold.impl.actor.table import BELOW
from leasehold.impl.core.values import ValueFault, from_plain
from leasehold.impl.events.event import (
    AnyEvent,
    ForgottenEvent,
    FoundEvent,
    MachineStep,
    MigratedEvent,
    RecoveredEvent,
    StepEvent,
    record_digest,
)
from leasehold.spec.language.types import show

AHEAD = 10_000  # events of an actor in which what it has lost is looked for; what shows later is lost later
GOES_BACK = "its clock goes back"
STARTING_TICKS = 2  # in which an actor that has recovered hears the time
REPLACING = ("passed", "late")  # kinds of cuts


class Cut(NamedTuple):
    """A cut of a run.

    Attributes:
        run: the lease.
        number: of the run.
        state, action: the global state, and the step that led to it; None for the first one.
        actor, position: the event that it comes from; position 0: from none.
        step: the step of that event, where it is one of this run.
    """

    run: str
    number: int
    state: State
    action: Action | None
    actor: str
    position: int
    step: MachineStep | None = None

    @property
    def replaces(self) -> bool:
        """Returns whether the state becomes another one by no step of the run, so that no claim compares both."""
        return self.action is not None and self.action.kind in REPLACING


class StoredCut(NamedTuple):
    """A row of the table of cuts, with the event that it comes from, where that says what changed."""

    now: int | None
    cause: str
    event: str
    actor: str
    position: int
    origin: AnyEvent | None


@dataclass(slots=True)
class RunState:
    """A run as it is.

    Attributes:
        name, number: of the run.
        state: the cells of its global state.
        players: by actor of the layout, the actor that plays it.
        lanes: by cell, those that have carried a message.
        epochs: by machine, the last state epoch.
        machines: as their last events have left them, also those of actors that serve this run.
        judged: it can be judged.
        over: it is in an end that the system allows.
        forgotten: how many of its machines are forgotten.
    """

    name: str
    number: int
    state: list[Any]
    players: dict[str, str] = field(default_factory=dict)
    lanes: Lanes = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=dict)
    machines: EventFold[FoldedMachine] = field(default_factory=partial(EventFold, FoldedMachine))
    judged: bool = True
    over: bool = False
    forgotten: int = 0

    def serving(self) -> list[MachineOf]:
        """The machines of actors that serve this run."""
        return sorted(key for key in self.machines.machines if key.lease == BELOW)

    def cut(self, action: Action | None, actor: str = "", position: int = 0, step: MachineStep | None = None) -> Cut:
        return Cut(self.name, self.number, tuple(self.state), action, actor, position, step)


class ConsistentCuts:
    """Makes cuts of events as they come.

    Args:
        known: the system.
        actors: those that are followed.
        recall: returns a run that is not in memory, and what was sent in it; None: it has not begun.
        whole: all events come before any is judged. Then a record that was lost is lost when its actor comes back, as
            its next step shows it; else right before that step.

    Attributes:
        faults: of the events, in the order in which they were found.
        told, now: by actor, the time that it has told last; the latest of any, until a clock that was ahead goes back.
        begun: how many runs there are.
        runs: those in memory.
        forgot: whether there are others, which have to be recalled.
        down, recovered: the position of the event with which an actor that is down recovers, or has recovered last; 0:
            of none that is known.
        starting: by actor that has recovered and told nothing since, the position of that event, and its time.
        own: by actor and machine of the actor: the state that its last event has left it in, and the run it serves.
        judged, touched, changed: until somebody takes them away, the events that were judged, in their order; by name,
            the runs that events were about; those of `own` that have changed.
    """

    def __init__(
        self,
        known: CutsOfSystem,
        actors: Iterable[str],
        recall: Callable[[str], tuple[RunState, Sent] | None] = lambda run: None,
        whole: bool = False,
    ) -> None:
        self.known, self.layout, self.whole = known, known.layout, whole
        actors = list(actors)
        self.merge = CausalMerge(actors, self._sent_in, capacities_of(known.system))
        self.faults = self.merge.faults
        self.steps = RunSteps(known, self._fault)
        self.now, self.begun = 0, 0
        self.told: dict[str, int] = {}
        self.runs: dict[str, RunState] = {}
        self.forgot = False
        self.asleep: set[str] = set()  # runs that go on, and are not in memory
        self.down: dict[str, int] = {}
        self.recovered: dict[str, int] = {}
        self.starting: dict[str, tuple[int, int]] = {}
        self.own: dict[tuple[str, str], tuple[str, str]] = {}
        self.judged: list[AnyEvent] = []
        self.touched: dict[str, RunState] = {}
        self.changed: set[tuple[str, str]] = set()
        self.stopping = set(actors)  # actors of which it is not known yet whether they have stopped
        self._fed = set(actors)  # those of which another event may come first than at the last look
        self.broken_specs: set[tuple[str, str]] = set()
        self._recall = recall

    def add(self, actor: str, events: Iterable[AnyEvent]) -> list[AnyEvent]:
        """More events of an actor, in the order of its chain; returns those that are judged (`CausalMerge.add`)."""
        self._fed.add(actor)
        return self.merge.add(actor, events)

    def close(self, but: Iterable[str] = ()) -> None:
        """Nothing more comes of any actor, but of these."""
        self.merge.close(*{*self.merge.actors}.difference(but))

    def end(self, but: Iterable[str] = ()) -> Iterator[Cut | ForgottenEvent]:
        """The cuts that are left where nothing more comes of any actor, but of these; time passes, too."""
        self.close(but)
        yield from self.ready()
        yield from self.pass_time()

    def forget(self) -> list[int]:
        """Drops from memory those runs of `touched` that stand still, or are not judged; returns their numbers.

        One of them is recalled when it goes on.
        """
        still = [run for run in self.touched.values() if run.over or not run.judged]
        for run in still:
            self.runs.pop(run.name, None)
            self.merge.sent.pop(run.name, None)
            self.forgot = True
        self.touched.clear()
        return [run.number for run in still]

    def ready(self) -> Iterator[Cut | ForgottenEvent]:
        """The cuts whose causes are there; between them, machines that were forgotten."""
        yield from self._stops()
        for event in self.merge.ready():
            yield from self._cuts(event)
            self.judged.append(event)
            self.stopping.add(event.actor)
            self._fed.add(event.actor)
            yield from self._stops()

    def _cuts(self, event: AnyEvent) -> Iterator[Cut | ForgottenEvent]:
        digest = self.known.program.digest
        if event.spec != digest:
            if (event.actor, event.spec) not in self.broken_specs:
                self.broken_specs.add((event.actor, event.spec))
                reason = f"it was written under another specification, {event.spec[:12]} and not {digest[:12]}"
                self._fault(event, "", reason)
            return
        yield from self._starts(event)
        self._corrects(event)
        yield from self._passes_time(event.now)
        match event:
            case RecoveredEvent():
                if self.whole:
                    yield from self._lost_ahead(event.actor)
                if not self.known.program.agrees(event.agreement):
                    reason = "its actor has other constants than the system that is asked"
                    self._fault(event, "", reason + other_constants(event, self.known.system))
                if event.unrecorded:
                    self._fault(event, "", f"{event.unrecorded} commits before it have no events", UNDECIDED)
                elif event.records:
                    for run in self._going():
                        for reason in recovered_otherwise(run, event):
                            self._fault(event, run.name, reason)
            case StepEvent():
                yield from self._step(event)
            case FoundEvent():
                yield from self._found(event)
            case ForgottenEvent() if event.lease != BELOW:
                of = self._run(event.lease) if event.lease in self.asleep else self.runs.get(event.lease)
                if of is not None:  # it has no record to come back with
                    of.machines.take(event)
                    of.forgotten += 1
                    self.touched[of.name] = of
                yield event
            case MigratedEvent():
                reason = "records were mapped to another specification; what was before is not judged"
                self._fault(event, "", reason, UNDECIDED)

    def _fault(self, event: AnyEvent, run: str, reason: str, kind: str = CONTRADICTION) -> None:
        self.merge.fault(CutFault(event.actor, event.position, run, reason, kind))

    # Actors that stop, and time

    def _stops(self) -> Iterator[Cut]:
        """The actors of which it shows now that they have stopped behind their last event."""
        looked, self._fed = sorted(self._fed & self.stopping), set()
        for actor in looked:
            following = next(self.merge.coming(actor, 1), None)
            if following is None:
                continue
            self.stopping.discard(actor)
            if isinstance(following, RecoveredEvent) and following.epoch > 1 and actor not in self.down:
                self.down[actor] = following.position
                self.starting.pop(actor, None)
                yield from self._went(actor, following.position, DOWN)

    def _starts(self, event: AnyEvent) -> Iterator[Cut]:
        """Yields the cuts that follow from what an event says of whether its actor runs."""
        actor = event.actor
        if isinstance(event, RecoveredEvent):
            if self.down.pop(actor, None) is not None:
                self.starting[actor] = event.position, max(self.now, event.now)
        elif actor in self.down or actor in self.starting:
            self.down.pop(actor, None)
            yield from self._passes_time(event.now)
            yield from self._started(actor)

    def _started(self, actor: str) -> Iterator[Cut]:
        self.recovered[actor], _ = self.starting.pop(actor, (0, 0))
        yield from self._went(actor, self.recovered[actor], UP)

    def _corrects(self, event: AnyEvent) -> None:
        """An actor whose clock goes back was ahead: what it told is no time of any run from here on."""
        before, self.told[event.actor] = self.told.get(event.actor, event.now), event.now
        if event.now < before - STARTING_TICKS:
            self._fault(event, "", f"{GOES_BACK} from tick {before} to {event.now}: it was ahead until here")
        if event.now < before:
            self.now = min(self.now, max(self.told.values()))

    def _passes_time(self, now: int) -> Iterator[Cut]:
        """It is so late; runs are told when something happens in them."""
        for actor, (_, since) in sorted(self.starting.items()):
            if now > since + STARTING_TICKS:
                self.now = max(self.now, since + STARTING_TICKS)
                yield from self._started(actor)
        self.now = max(self.now, now)

    def stop(self, actor: str) -> Iterator[Cut]:
        """It is known that an actor has stopped behind its last event, which was judged."""
        if actor not in self.down:
            self.stopping.discard(actor)
            self.down[actor] = 0
            self.starting.pop(actor, None)
            yield from self._went(actor, 0, DOWN)

    def start(self, actor: str) -> Iterator[Cut]:
        """It is known that an actor runs, though it has written no event since it stopped."""
        if self.down.get(actor) == 0:
            del self.down[actor]
            yield from self._started(actor)

    def _going(self) -> Iterator[RunState]:
        """The runs that go on, in the order in which they began."""
        for name in sorted(self.asleep):
            self._run(name)
        going = [run for run in self.runs.values() if run.judged and not run.over]
        return iter(sorted(going, key=attrgetter("number")))

    def _went(self, actor: str, position: int, to: Any) -> Iterator[Cut]:
        """An actor has stopped, or runs again, in all of its runs."""
        for run in self._going():
            yield from self._turns(run, actor, position, to)

    # Records that were lost

    def _lost_ahead(self, actor: str) -> Iterator[Cut]:
        """Yields the cuts of what an actor that comes back has lost, as its next steps show."""
        seen = set()
        for event in self.merge.coming(actor, AHEAD):
            if not isinstance(event, StepEvent):
                continue
            for step in first_steps(event):
                if (step.lease, step.machine) not in seen:
                    seen.add((step.lease, step.machine))
                    yield from self._lost(event, step, ahead=True)

    def _lost(self, event: StepEvent, step: MachineStep, ahead: bool = False) -> Iterator[Cut]:
        """Yields the cuts of a loss that a step shows in a run that goes on; `ahead`: it is not the step's turn yet."""
        key = event.actor, step.machine
        name = self.own.get(key, ("", ""))[1] if step.lease == BELOW else step.lease
        run = self._run(name) if name in self.asleep else self.runs.get(name)
        if run is None or run.over or not run.judged:
            return
        machine = run.machines.machines.get(MachineOf(event.actor, step.lease, step.machine))
        if machine is None and step.lease == BELOW:
            return
        lost = lost_record(self.known, run, step)
        if lost is None:
            return
        for reason in (*lost.words, *(() if ahead else lost.numbers)):
            self._fault(event, name, f"{step.machine} {reason}")
        # Where it has not recovered since, the step itself is wrong.
        if lost.cells and self._recovered_last(event.actor) > (0 if machine is None else machine.position):
            yield from self._time(run)
            self.steps.loses(run, event, step.machine)
            if step.lease == BELOW:
                self.own[key] = step.source, name
                self.changed.add(key)
            self.touched[name] = run
            yield run.cut(Action("lost", None, 0, step.machine), event.actor, event.position)

    def _recovered_last(self, actor: str) -> int:
        """The position of the event with which an actor has recovered last."""
        return self.starting[actor][0] if actor in self.starting else self.recovered.get(actor, 0)

    def _turns(self, run: RunState, actor: str, position: int, to: Any) -> Iterator[Cut]:
        up = [self.known.up[of] for of in self.steps.played(run, actor)]
        if any(run.state[at] != to for at in up):
            yield from self._time(run)
            for at in up:
                run.state[at] = to
            yield run.cut(Action("crash" if to == DOWN else "recover", None, 0, ""), actor, position)

    def _catch_up(self, run: RunState) -> Iterator[Cut]:
        """Yields the cuts of what has happened to the actors of a run while it stood still."""
        for actor in sorted(set(run.players.values())):
            if actor in self.down or actor in self.starting:
                position = self.down[actor] if actor in self.down else self.starting[actor][0]
                yield from self._turns(run, actor, position, DOWN)
            else:
                yield from self._turns(run, actor, self.recovered.get(actor, 0), UP)
        for actor, _, machine in run.serving():
            if self.own[actor, machine][1] != run.name:
                yield from self._leaves(run, actor, machine, 0)

    def _time(self, run: RunState) -> Iterator[Cut]:
        """Time passes in a run, up to now."""
        clock = self.layout.clock
        if clock is not None and run.state[clock] != self.now:
            run.state[clock] = self.now
            yield run.cut(Action("clock", None, 0, ""))

    def pass_time(self, now: int = 0) -> Iterator[Cut]:
        """Time passes in all runs that go on, up to the last event of all, and to a moment that is known.

        Not in a run of which an event waits: that may be of before, and what it does would come too late.
        """
        yield from self._passes_time(now)
        waiting = self.merge.waiting_runs()
        for run in self._going():
            if run.name not in waiting:
                yield from self._time(run)

    # Runs

    def _run(self, name: str) -> RunState | None:
        """A run that has begun."""
        run = self.runs.get(name)
        if run is None and self.forgot and (recalled := self._recall(name)) is not None:
            run, sent = recalled
            self.runs[name] = run
            self.asleep.discard(name)
            self.merge.sent[name] = sent
        if run is not None:
            self.touched[name] = run
        return run

    def _sent_in(self, name: str) -> Sent:
        """Returns what was sent in a run, which is recalled where the merge knows nothing of it."""
        if name not in self.runs:
            self._run(name)
        return self.merge.sent.get(name, {})

    def _begin(self, name: str) -> RunState:
        self.begun += 1
        run = self.runs[name] = self.touched[name] = self.steps.first(name, self.begun, self.now)
        return run

    def _step(self, event: StepEvent) -> Iterator[Cut]:
        step = event.step
        name = lease_of(step)
        run = self._run(name) if name else None
        for one in first_steps(event):
            yield from self._lost(event, one)
        self._follows(event, run)
        for one in step.walk():
            if one.lease == BELOW:
                yield from self._passes(event, one, name)
        if not name:
            return  # a machine of the actor that serves no run
        if run is None:
            run = self._begin(name)
            yield run.cut(None, event.actor, event.position)
        if name in self.merge.causeless:  # what it has led to would be judged without its cause
            run.judged = False
        if not run.judged:
            return
        try:
            yield from self._catch_up(run)
            yield from self._time(run)
            yield from self.steps.cuts(run, event)
            run.over = self.known.over(run.state)
            yield from self._catch_up(run)  # a player that is told of here may be down
        except Unjudged as why:
            run.judged = False
            self._fault(event, name, str(why), why.kind)

    def _follows(self, event: StepEvent, run: RunState | None) -> None:
        """A machine steps from the state in which its last event has left it, or its record was lost."""
        left: dict[tuple[str, str], str] = {}  # within the event
        for step in event.steps():
            key = (event.actor, step.machine)
            if key not in left and step.lease == BELOW and key in self.own:
                left[key] = self.own[key][0]
            elif key not in left and step.lease != BELOW and run is not None and run.judged:
                left[key] = self.steps.stands(run, event.actor, step) or step.source
            before, left[key] = left.get(key, step.source), step.record.state
            if before != step.source:
                reason = (
                    f"{step.machine} takes {step.event} in {step.source}, and its last event has left it in {before}"
                )
                self._fault(event, lease_of(step), reason)

    def _passes(self, event: StepEvent, step: MachineStep, to: str) -> Iterator[Cut]:
        """A machine that belongs to the actor leaves the run that it has served for another."""
        key = (event.actor, step.machine)
        served = self.own.get(key, ("", ""))[1]
        self._owns(key, step.record.state, to)
        if not served or served == to:
            return
        before = self._run(served) if served in self.asleep else self.runs.get(served)
        if before is None or not before.judged or before.over:
            return
        yield from self._leaves(before, *key, event.position)

    def _leaves(self, run: RunState, actor: str, machine: str, position: int) -> Iterator[Cut]:
        yield from self._time(run)
        self.steps.passes(run, actor, machine)
        yield run.cut(Action("passed", None, 0, machine), actor, position)

    def _owns(self, key: tuple[str, str], state: str, serves: str) -> None:
        self.own[key] = state, serves
        self.changed.add(key)

    def _found(self, event: FoundEvent) -> Iterator[Cut]:
        name = lease_of(event)
        if event.lease == BELOW:
            self._owns((event.actor, event.machine), event.record.state, name)
        if not name:
            return
        run = self._run(name)
        if run is None:
            run = self._begin(name)
            yield run.cut(None, event.actor, event.position)
        if not run.judged:
            return
        try:
            self.steps.find(run, event)
        except Unjudged as why:
            run.judged = False
            self._fault(event, name, str(why), why.kind)


# From state to state


class Missing(Unjudged):
    """Events at the beginning of a run are missing."""

    kind = UNDECIDED

    def __init__(self, machine: str) -> None:
        super().__init__(f"{machine} has moved before the events begin, so this run is not judged")


class RunSteps:
    """Takes runs from state to state.

    Args:
        known: the system.
        fault: hears of what is wrong with an event of a run: the event, the run, and words.
    """

    def __init__(self, known: CutsOfSystem, fault: Callable[[AnyEvent, str, str], None]) -> None:
        self.known, self.layout, self._fault = known, known.layout, fault
        self.messages = RunMessages(known)

    def first(self, name: str, number: int, now: int) -> RunState:
        """A run that begins."""
        run = RunState(name, number, list(self.known.first))
        if self.layout.clock is not None:
            run.state[self.layout.clock] = now
        return run

    def rebuild(self, name: str, number: int, cuts: Iterable[StoredCut]) -> tuple[RunState, list[Cut]]:
        """A run from its cuts, in their order."""
        run: RunState | None = None
        rebuilt: list[Cut] = []
        for row in cuts:
            if run is None:
                run = self.first(name, number, row.now or 0)
                rebuilt.append(run.cut(None, row.actor, row.position))
                continue
            rebuilt.append(self._rebuilt(run, row))
        assert run is not None
        return run, rebuilt

    def _rebuilt(self, run: RunState, row: StoredCut) -> Cut:
        match row.cause:
            case "clock":
                assert self.layout.clock is not None
                run.state[self.layout.clock] = row.now
            case "crash" | "recover":
                for of in self.played(run, row.actor):
                    run.state[self.known.up[of]] = DOWN if row.cause == "crash" else UP
            case "passed":
                self.passes(run, row.actor, row.event)
            case "lost":
                assert isinstance(row.origin, StepEvent)
                self.loses(run, row.origin, row.event)
            case "late":
                assert isinstance(row.origin, StepEvent)
                self.messages.late(run.lanes, run.state, row.origin.step)
            case _:
                assert isinstance(row.origin, StepEvent)
                step = row.origin.step
                self.take(run, row.origin)
                run.over = self.known.over(run.state)
                return run.cut(self.action(step), row.actor, row.position, step)
        return run.cut(Action(row.cause, None, 0, row.event), row.actor, row.position)

    def played(self, run: RunState, actor: str) -> list[str]:
        """Returns what an actor plays in a run, as actors of the layout."""
        return [of for of, player in run.players.items() if player == actor]

    def passes(self, run: RunState, actor: str, machine: str) -> None:
        """A machine of an actor serves the run no more, and counts as unused."""
        run.machines.machines.pop(MachineOf(actor, BELOW, machine), None)
        if (place := self.known.machine(machine)) is not None:
            role, number = place
            at, size = self.layout.at(role, number, None), self.layout.stride[role]
            run.state[at : at + size] = self.known.first[at : at + size]

    def loses(self, run: RunState, event: StepEvent, machine: str) -> None:
        """A machine's record becomes what a later step shows that it was."""
        step = next(one for one in first_steps(event) if one.machine == machine)
        lost = lost_record(self.known, run, step)
        for cell, value in lost.cells.items() if lost is not None else ():
            run.state[cell] = value

    def stands(self, run: RunState, actor: str, step: MachineStep) -> str | None:
        """Returns the state in which a machine stands before a step; None: nothing is known of it."""
        place = self.known.machine(step.machine)
        if place is None or MachineOf(actor, step.lease, step.machine) not in run.machines.machines:
            return None
        state: str = run.state[self.layout.at(*place, None)]
        return state

    def take(self, run: RunState, event: StepEvent) -> None:
        """A run after a step, with all that it drives.

        Raises:
            Unjudged: it cannot be judged.
        """
        run.machines.take(event)
        for step in event.steps():
            self._take(run, event, step)

    def cuts(self, run: RunState, event: StepEvent) -> Iterator[Cut]:
        """Yields the cut of a step; before it that of what it takes, where its sender has moved on from that.

        Raises:
            Unjudged: it cannot be judged.
        """
        step, place = event.step, (event.actor, event.position)
        if self.messages.late(run.lanes, run.state, step):
            yield run.cut(Action("late", None, 0, step.machine), *place)
        self.take(run, event)
        yield run.cut(self.action(step), *place, step)

    def find(self, run: RunState, event: FoundEvent) -> None:
        """A record of a run that no step of it has left.

        Raises:
            Unjudged: it cannot be judged.
        """
        if event.lease != BELOW:
            run.machines.take(event)
        if event.record.epoch > run.epochs.get(event.machine, 0):
            raise Missing(event.machine)

    def tell_again(self, run: RunState, event: FoundEvent | ForgottenEvent) -> None:
        """Takes what an event says of a machine into a run that was rebuilt from its cuts.

        Where the machine has stepped since, it says nothing any more.
        """
        machine = run.machines.machines.get(MachineOf(event.actor, event.lease, event.machine))
        if machine is not None and event.position <= machine.position:
            return
        if isinstance(event, FoundEvent):
            self.find(run, event)
        else:
            run.machines.take(event)

    def _take(self, run: RunState, event: StepEvent, step: MachineStep) -> None:
        place = self.known.machine(step.machine)
        if place is None:
            raise Unjudged(f"the system {self.known.system.name} has no machine {step.machine}")
        role, number = place
        at = self.layout.at(role, number, None)
        before = run.epochs.get(step.machine, 0)
        moved = step.source != self.known.first[at] or step.record.epoch > 1
        if not before and step.lease != BELOW and moved:
            raise Missing(step.machine)
        run.epochs[step.machine] = max(step.record.epoch, 1)
        run.state[at] = step.record.state
        for name, d in self.known.system.roles[role].data.items():
            try:
                run.state[self.layout.at(role, number, name)] = from_plain(d.type, step.record.data[name])
            except (ValueFault, KeyError) as why:
                raise Unjudged(f"{step.machine}.{name} has a value that it cannot have: {why}") from None
        self._plays(run, place, event.actor)
        sender = None if step.received is None else self.known.machine(step.received.machine)
        if sender is not None and step.received is not None and self.layout.of[sender].name not in run.players:
            self._plays(run, sender, step.received.actor)
        for reason in self.messages.take(run.lanes, run.state, step, place):
            self._fault(event, run.name, reason)

    def _plays(self, run: RunState, place: tuple[str, int], actor: str) -> None:
        """An actor plays a machine, and runs; that it has stopped is a cut of its own."""
        if actor:
            of = self.layout.of[place].name
            run.players[of] = actor
            run.state[self.known.up[of]] = UP

    def action(self, step: MachineStep) -> Action:
        """A step as the explorer has it."""
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


# Records that were lost


@dataclass(frozen=True, slots=True)
class LostRecord:
    """A record that is not as its last event has left it.

    Attributes:
        cells: of the run's state, those that had other values before the step.
        words: what differs in them.
        numbers: what differs besides, of which the state of a run has nothing.
    """

    cells: dict[int, Any]
    words: tuple[str, ...]
    numbers: tuple[str, ...]


def first_steps(event: StepEvent) -> Iterator[MachineStep]:
    """Yields the first step of each machine in an event."""
    yield from {step.machine: step for step in reversed([*event.steps()])}.values()


def lost_record(known: CutsOfSystem, run: RunState, step: MachineStep) -> LostRecord | None:
    """Returns what was lost of a machine's record since its last event in a run; None: nothing that its step shows."""
    place = known.machine(step.machine)
    if place is None or step.machine not in run.epochs:
        return None
    role, number = place
    core, data = known.program.roles[role], known.system.roles[role].data
    at, reasons = known.layout.at(role, number, None), list[str]()
    moved = step.source != run.state[at]
    if moved:
        reasons.append(f"takes {step.event} in {step.source}, and its last event has left it in {run.state[at]}")
    anew = moved and step.source == core.first_state(number) and step.record.epoch <= 1
    writes, cells = known.writes.get((role, step.transition), frozenset()), {at: step.source}
    for name, d in data.items():
        cell = known.layout.at(role, number, name)
        if anew:
            cells[cell] = known.first[cell]
        elif name not in writes and name in step.record.data:
            with suppress(ValueFault):  # the step itself is refused for that
                cells[cell] = from_plain(d.type, step.record.data[name])
        if not moved and cells.get(cell, run.state[cell]) != run.state[cell]:
            has = show(d.type, cells[cell])[:60]
            reasons.append(f"takes {step.event}, which does not write {name}; it is {has} now, and was left otherwise")
    numbers = [*_numbers(known, run, step, place)]
    if max(step.record.epoch, 1) < run.epochs[step.machine]:
        numbers.append(f"takes {step.event} with state epoch {step.record.epoch}, after {run.epochs[step.machine]}")
    changed = {cell: value for cell, value in cells.items() if value != run.state[cell]}
    return LostRecord(changed, tuple(reasons), tuple(numbers)) if reasons or numbers else None


def _numbers(known: CutsOfSystem, run: RunState, step: MachineStep, place: tuple[str, int]) -> Iterator[str]:
    """Numbers of messages that are smaller than they were."""
    for lane, name, sends in known.lanes_of[place]:
        replayed = run.lanes.get(lane.cell)
        if replayed is None:
            continue
        had = replayed.newest if sends else replayed.received
        has = (step.record.sent if sends else step.record.received).get(name, 0)
        if has < had and (sends or step.received is None or step.received.name != name):
            side = "sent to" if sends else "received from"
            yield f"takes {step.event}, and the last number {side} {name} is {has}; it was {had} before"


def recovered_otherwise(run: RunState, event: RecoveredEvent) -> Iterator[str]:
    """The machines of a run that an actor recovers with another record than their last events have left, in words."""
    machines = {**event.records.get(BELOW, {}), **event.records.get(run.name, {})}
    for key, machine in sorted(run.machines.of(event.actor).items(), key=lambda item: item[0].machine):
        if (has := machines.get(key.machine, "")) != record_digest(machine.record):
            yield recovered_words(key.machine, has)
