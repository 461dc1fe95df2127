"""Counterexamples of the model under faults, replayed by real actors: what the model breaks must break in the run.

Theory of operation. A counterexample to `always` or `step` is a path to where it is false: the run has to break the
same properties along it. One to `leads_to` or to the absence of deadlocks ends where nothing is possible any more, or
in a loop: there, the run must have come to rest too, or to the records from which the loop set out, while the property
waits. A run that breaks anything else than the path of the model does fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from leasehold.checker.explore import Limits, explore
from leasehold.checker.explore.layout import State
from leasehold.checker.explore.properties import DEADLOCK
from leasehold.checker.explore.step import Action
from leasehold.checker.recovery.cases.path_case import ModelRun, PathCase
from leasehold.checker.recovery.cases.replay import NOT_THERE, Unplayable
from leasehold.checker.recovery.cases.steps import Script, ScriptStep, StepWriter
from leasehold.checker.recovery.cases.walk import AS_IN_THE_MODEL, WalkRun
from leasehold.checker.recovery.properties import Records, RunProperties, named
from leasehold.checker.verify.evaluator import RunEvaluator
from leasehold.faults.model import Budget, crash_points
from leasehold.faults.model.lowering import WHOLE
from leasehold.faults.simulation.network import SCHEME
from leasehold.impl.notices import Kind, Notice
from leasehold.spec.language.model import OF_FAIR_RUNS, System

TRIED = tuple(Budget(**{kind: 1}) for kind in ("power_cut", "halt", "lose", "duplicate", "reorder", "partition"))
MOST_STATES = 100_000  # of a search for counterexamples
# Of a message, what no actor does.
LOST_FOR_GOOD = "is lost for good in the model, and actors send it until it is received"
UNTRACED = frozenset({"late", "stale"})  # kinds of what is ignored that no step of the model is
ENDLESS = (*OF_FAIR_RUNS, "deadlock")  # kinds of properties that the end of a run breaks


@dataclass(frozen=True, slots=True)
class Counterexample(Script):
    """The script of a counterexample; its point is `broken:PROPERTY`, its mode the faults.

    Attributes:
        budget: the faults.
        expected: the properties that its path breaks in the model.
        loop: the step that an endless run returns to; None: it ends.
        endless: the property is broken by what never comes.
        records: the record states of the model, from the first on.
    """

    budget: Budget = Budget()  # noqa: RUF009
    expected: frozenset[str] = frozenset()
    loop: int | None = None
    endless: bool = False
    records: tuple[Records, ...] = ()


def counterexamples(system: System, holding: frozenset[str], budgets: Sequence[Budget] = TRIED) -> Iterator[Script]:
    """Yields a counterexample to each property that holds without faults, under each of the budgets that break it."""
    for budget in budgets:
        exploration = explore(system, Limits(states=MOST_STATES), budget=budget)
        if not exploration.complete:
            continue
        properties = RunProperties(system, budget)
        for result in exploration.properties:
            known = properties.of_records({*properties.claims.names, DEADLOCK} - properties.claims.within)
            if result.verdict == "violated" and result.path is not None and result.name in holding & known:
                run = PathCase.of(system, result.name, result.path, budget).follow(properties)
                yield counterexample_of(run, result.name, budget, result.kind in ENDLESS)


def counterexample_of(run: ModelRun, name: str, budget: Budget, endless: bool) -> Counterexample:
    """The script of a path of the model that breaks a property.

    Args:
        run: the path.
        name: of the property.
        budget: the faults.
        endless: the property is broken by what never comes, or comes too late.
    """
    properties, world, state = run.properties, run.properties.world, run.first
    writer = StepWriter(world, crash_points(world.system))
    steps: list[ScriptStep] = []
    records = [properties.projection(state)]
    evaluator = RunEvaluator(properties.claims)
    decided = evaluator.see(state, None)
    for action, after in run.steps:
        steps.append(_written(writer, state, action, after))
        records.append(properties.projection(after))
        for shown, how in cuts_of(properties, state, action, after):
            decided += evaluator.see(shown, how)
        state = after
    expected = properties.of_records(named(decided))
    endless = endless and name not in named(decided)  # its time is over, and the run may go on
    if endless:
        expected |= properties.of_records(named(evaluator.end()))
        stuck = next(world.successors(state, (0,) * len(world.limited)), None) is None
        if stuck and properties.ends is not None and properties.end(state) is None:
            expected.add(DEADLOCK)
    machines = tuple((role.name, i) for role, i in world.system.machines())
    cell = tuple(state[at] for _, at in world.product())
    loop = run.loop if run.loop is not None and run.loop < len(run.steps) else None
    return Counterexample(
        cell,
        f"broken:{name}",
        str(budget),
        tuple(steps),
        len(steps) - 1,
        machines,
        budget,
        frozenset(expected),
        loop,
        endless,
        tuple(records),
    )


def cuts_of(properties: RunProperties, before: State, action: Action, state: State) -> list[tuple[State, Action]]:
    """A step as the cuts of a run: one within which an actor stops is two, as it commits before it stops."""
    stop = Action("crash", None, 0, "")
    if action.kind != "crash":
        return [(state, action)]
    if action.event == action.point:  # it was at rest
        return [(state, stop)]
    kept = list(state)
    for cell in properties.world.up.values():
        kept[cell] = before[cell]
    kind = "deliver" if action.lane is not None else "tick" if action.event == "tick" else "local"
    return [(tuple(kept), action._replace(kind=kind)), (state, stop)]


def _written(writer: StepWriter, state: State, action: Action, after: State) -> ScriptStep:
    if action.kind == "crash" and action.role is not None:
        return writer.stop(state, action, after, action.point, writer.world.layout.of[action.role, action.instance])
    return writer.taken(state, action, after)


class CounterexampleRun(WalkRun):
    """A run of one counterexample."""

    script: Counterexample

    def prepare(self) -> None:
        self._stayed: list[Notice] = []  # what was consumed and has moved nothing, in the step that is played
        self._refused = False  # a message was, in the step that is played
        self._unheard = ""  # what a machine ignores in the model, and no actor accepts
        self.sim.subscribers.append(self._hear)

    def _hear(self, notice: Notice) -> None:
        if notice.kind is Kind.IGNORED and notice.lease == self.lease and notice.data["kind"] not in UNTRACED:
            self._stayed.append(notice)
        self._refused |= notice.kind is Kind.REFUSED

    @property
    def seen(self) -> set[str]:
        """The properties of records that the run has broken."""
        return self.monitor.properties.of_records({*self.monitor.broken, *self._seen})

    def stages(self) -> None:
        self._seen: set[str] = set()
        self._watched = 0
        self._at_loop: Records | None = None
        self._pass_loop()
        self.to_the_restart()
        if not self.script.endless:
            return
        for at, step in enumerate(self.script.steps):
            if step.kind != "lose":
                continue
            alike = (later for later in self.script.steps[at + 1 :] if later.event == step.event)
            for_good = not any(later.kind in ("retry", "deliver", "duplicate") for later in alike)
            # Who is down for good receives nothing; any other receiver does, in the end.
            if self.sim.program.messages[step.event].answer or (for_good and self.script.mode.startswith("lose")):
                raise Unplayable(f"{step.event} {LOST_FOR_GOOD}")
        if self.script.loop is None:
            self._stay()
        elif self.monitor.properties.projection(self.monitor.state) != self._at_loop:
            self.say("counterexample", f"the run does not come back to where its loop begins: {self.where(self.lease)}")
        self._seen |= self.monitor.waiting

    def watch(self, step: ScriptStep) -> None:
        stayed, self._stayed = self._stayed, []
        refused, self._refused = self._refused, False
        if refused and step.machine is not None:
            name = self.replayer.machine(step.machine)
            if self.sim.held(self.lease, name) is None:
                self._unheard = f"{name} {NOT_THERE}, and ignores {step.event} in the script"
        for notice in stayed:
            self.monitor.ignored(notice, step.kind == "duplicate")
        super().watch(step)
        if step.kind in ("lose", "retry"):
            self.monitor.passed(step.kind)
        self._watched += 1
        actual, wanted = self.monitor.properties.projection(self.monitor.state), self.script.records[self._watched]
        if actual != wanted:
            self.replayer.excuse(step)
            differ = self.monitor.difference(actual, wanted)
            self.say("counterexample", f"after step {self._watched} the records are not those of the model: {differ}")
        self._pass_loop()

    def _pass_loop(self) -> None:
        """The run may be where its loop begins, which may be its first state."""
        if self._watched == self.script.loop:
            self._at_loop = self.monitor.properties.projection(self.monitor.state)

    def _stay(self) -> None:
        """Checks that nothing has to happen in the run where nothing has to happen in the model."""
        self.sim.release(packets=False)
        self._cut()
        before = self.monitor.properties.projection(self.monitor.state)
        if self._retransmitted() or (surely := [*self.choices.events(surely=True)]):
            now = self.monitor.properties.projection(self.monitor.state)
            reason = "the records have changed" if now != before else f"{len(surely)} events have to come"
            reason = f"in the model nothing has to happen any more, and here {reason}: {self.where(self.lease)}"
            self.say("counterexample", reason)
            return
        properties = self.monitor.properties
        stuck = next(self.choices.events(), None) is None
        if stuck and properties.ends is not None and properties.end(self.monitor.state) is None:
            self._seen.add(DEADLOCK)

    def _cut(self) -> None:
        """The links that the script's partition cuts, if it has not healed."""
        world = self.monitor.properties.world
        for variable in world.relation.variables:
            value = self.monitor.cells.get(world.layout.added.get((variable.name, ""), -1), WHOLE)
            for pair in variable.separates.get(value, ()):
                one, other = (SCHEME + self._player(name) for name in pair)
                self.sim.network.cut |= {(one, other), (other, one)}

    def _player(self, actor: str) -> str:
        role, number = next(a for a in self.monitor.properties.layout.actors if a.name == actor).machines[0]
        return self.replayer.player((role, number))

    def judge(self) -> None:
        if self.outcome.skipped:
            return
        seen = self.seen
        if seen == self.script.expected:
            self.outcome.end = AS_IN_THE_MODEL
            return
        if self._unheard and self.replayer.excuses and seen < self.script.expected:
            self.outcome.skipped = self._unheard
            return
        parts = (
            f"{kind} {', '.join(sorted(names)) or 'nothing'}"
            for kind, names in (("the model breaks", self.script.expected), ("the run", seen))
        )
        self.say("counterexample", ", ".join(parts))
