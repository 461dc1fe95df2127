"""The cuts of runs, from the events of the actors that play them.

Theory of operation. Events come in an order that respects causality (checker/history/merge.py). A step is one cut, with
the steps of subsidiary machines that it drives; so a commit of several steps is several cuts, each of which the
specification has as a state. Between the cuts stand others that no event tells of by itself:

    clock      time has passed, at once up to the time of what comes next
    crash      an actor has stopped: right behind its last event before it recovered, as nobody knows when it was
    recover    it runs again: right before its first event after it recovered, or after two ticks, as it has begun to
               start by then, and need not have heard what time it is
    lost       an actor that was down comes back without a record, or a part of it, as a later step shows (lost.py)
    passed     a machine that belongs to the actor has gone on to serve another run; in this one it counts as unused,
               which is no step of this run
    late       a message is taken that its sender has moved on from, so it was on its way still (lanes.py)

A run begins with the first states of its machines. One of which events are missing at the beginning cannot be judged,
and is named. A run that is in an end stands still until it takes a step again: then it is told first what has happened
to its actors meanwhile. So it need not be in memory (`recall`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any

from leasehold.checker.explore.step import Action
from leasehold.checker.history.fault import CONTRADICTION, UNDECIDED, CutFault, other_constants
from leasehold.checker.history.fold import MachineOf, lease_of
from leasehold.checker.history.happened_before import capacities_of
from leasehold.checker.history.merge import CausalMerge, Sent
from leasehold.checker.verify.lost import first_steps, lost_record, recovered_otherwise
from leasehold.checker.verify.run_state import Cut, RunState
from leasehold.checker.verify.run_steps import RunSteps, Unjudged
from leasehold.checker.verify.system import CutsOfSystem
from leasehold.faults.model.lowering import DOWN, UP
from leasehold.impl.actor.table import BELOW
from leasehold.impl.events.event import (
    AnyEvent,
    ForgottenEvent,
    FoundEvent,
    MachineStep,
    MigratedEvent,
    RecoveredEvent,
    StepEvent,
)

AHEAD = 10_000  # events of an actor in which what it has lost is looked for; what shows later is lost later
GOES_BACK = "its clock goes back"
STARTING_TICKS = 2  # in which an actor that has recovered hears the time


class ConsistentCuts:
    """Makes cuts of events as they come.

    Args:
        known: the system.
        actors: those that are followed.
        recall: returns a run that is not in memory, and what was sent in it; None: it has not begun.
        whole: all events come before any is judged. Then a record that was lost is lost when its actor comes back, as
            its next step shows it; else right before that step.

    Attributes:
        told, now: by actor, the time that it has told last; the latest of any, until a clock that was ahead goes back.
        begun: how many runs there are.
        runs: those in memory.
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
        self.steps = RunSteps(known, self._fault)
        self.now, self.begun = 0, 0
        self.told: dict[str, int] = {}
        self.runs: dict[str, RunState] = {}
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

    @property
    def faults(self) -> list[CutFault]:
        """The faults of the events, in the order in which they were found."""
        return self.merge.faults

    def add(self, actor: str, events: Iterable[AnyEvent]) -> list[AnyEvent]:
        """More events of an actor, in the order of its chain; returns those that are judged (`CausalMerge.add`)."""
        self._fed.add(actor)
        return self.merge.add(actor, events)

    def close(self, but: Iterable[str] = ()) -> None:
        """Nothing more comes of any actor, but of these."""
        for actor in {*self.merge.actors}.difference(but):
            self.merge.close(actor)

    def forget(self, run: RunState) -> None:
        """A run is not kept in memory; it is recalled when it goes on."""
        self.runs.pop(run.name, None)
        self.merge.forget(run.name)

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
            following = self.merge.next_of(actor)
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
        if run is None and (recalled := self._recall(name)) is not None:
            run, sent = recalled
            self.runs[name] = run
            self.asleep.discard(name)
            self.merge.recall(name, sent)
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
