"""The readings of a property, on the cuts that the events of real actors make: do they agree on each?

Three read the same text: the *definition* walks over an expression's tree (spec/language/render/evaluate.py); the
*explorer* has it as a Python function of a state, or of a step; *SQL* asks tables. Cuts are those of `verify`, of runs
with faults and with seeded bugs, so that properties hold on some cuts and are violated on others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from leasehold.checker.explore import channels
from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.layout import Layout, State
from leasehold.checker.explore.step import Action
from leasehold.checker.verify.cuts import ConsistentCuts, Cut
from leasehold.checker.verify.evaluator import ClaimsOfRuns, RunEvaluator
from leasehold.checker.verify.queries import Queries, end_claim
from leasehold.checker.verify.system import CRASH, CutsOfSystem
from leasehold.faults.model.lowering import UP
from leasehold.impl.events.event import AnyEvent
from leasehold.spec.language.for_each import each
from leasehold.spec.language.lower import Machine
from leasehold.spec.language.model import OF_FAIR_RUNS, Property
from leasehold.spec.language.render.evaluate import Context, InTransit, evaluate
from tests.checker.verify.databases import Database
from tests.checker.verify.twin import Run

Decided = set[tuple[int, int]]  # run and cut
STATES = ("always", "sometimes")


class StateReader:
    """A state of the layout, as the definition reads it."""

    def __init__(self, layout: Layout, up: dict[str, int], state: State) -> None:
        self.layout, self.up, self.cells = layout, up, state

    @property
    def now(self) -> int:
        assert self.layout.clock is not None
        found: int = self.cells[self.layout.clock]
        return found

    def data(self, role: str, instance: int, name: str) -> Any:
        return self.cells[self.layout.at(role, instance, name)]

    def state(self, role: str, instance: int) -> str:
        return str(self.cells[self.layout.at(role, instance, None)])

    def pending(self, name: str) -> Iterator[InTransit]:
        for lane in self.layout.lanes:
            content, ranked = self.cells[lane.cell], lane.channel.kind == "mailbox"
            for place, (number, kind, values) in enumerate(channels.entries(lane.channel.kind, content), 1):
                if name in (kind, lane.channel.name):
                    names = [f.name for f in self.layout.system.messages[kind].fields]
                    latest = ranked and number == content[0]
                    known = place if lane.channel.kind == "fifo" else number
                    ends = lane.sender, lane.receiver
                    yield InTransit(kind, dict(zip(names, values, strict=True)), known, latest, *ends, ranked)

    def heard(self, name: str, role: str = "", instance: int = 0) -> bool:
        lanes = [lane for lane in self.layout.lanes if lane.channel.name == name]
        if role:
            lanes = [lane for lane in lanes if Machine(role, instance) in self.layout.ends(lane)]
        if self.layout.system.channels[name].kind == "mailbox":
            return all(self.cells[lane.cell][0] <= 0 for lane in lanes)
        return not any(self.cells[lane.cell] for lane in lanes)

    def running(self, role: str, instance: int) -> bool:
        return bool(self.cells[self.up[self.layout.of[role, instance].name]] == UP)

    def reachable(self, *_: object) -> bool:
        return True  # no event tells of a partition

    def byzantine(self, role: str) -> bool:
        return False


@dataclass
class RecordedRun:
    """A run as the tables number it: `cuts` has number, state before the step, state, and the step."""

    cuts: list[tuple[int, State | None, State, Action | None]] = field(default_factory=list)
    over: bool = False

    @property
    def states(self) -> Run:
        return [(state, action) for _, _, state, action in self.cuts]


def recorded(
    known: CutsOfSystem, histories: Iterable[tuple[dict[str, list[AnyEvent]], bool]], databases: Iterable[Database]
) -> list[RecordedRun]:
    """The runs of histories, each with whether it is complete, in their order; databases have them too."""
    found: list[RecordedRun] = []
    into = list(databases)
    for history, complete in histories:
        made = ConsistentCuts(known, history, whole=True)
        made.begun = len(found)
        for actor, events in history.items():
            made.add(actor, events)
        made.close()
        for cuts in (made.ready(), made.pass_time()):
            for cut in cuts:
                if isinstance(cut, Cut):
                    _record(found, cut, into)
        for run in made.runs.values():
            if run.judged and (complete or run.over):
                found[run.number - 1].over = True
                for db in into:
                    db.recorder.end(run.number)
    for db in into:
        db.write()
    return found


def _record(found: list[RecordedRun], cut: Cut, into: Iterable[Database]) -> None:
    if cut.action is None:
        found.append(RecordedRun([(0, None, cut.state, None)]))
        for db in into:
            assert db.recorder.begin(f"{cut.number}", cut.state) == len(found) == cut.number
        return
    cuts = found[cut.number - 1].cuts
    number, _, before, _ = cuts[-1]
    if cut.replaces:
        number, before = number + 1, cut.state
        for db in into:
            db.recorder.replace(cut.number, cut.state)
    cuts.append((number + 1, before, cut.state, cut.action))
    for db in into:
        assert db.recorder.step(cut.number, cut.state, cut.action) == number + 1


class Readings:
    """The readings of a system's properties.

    Args:
        known: the system.

    Attributes:
        properties: for each value of their variables.
    """

    def __init__(self, known: CutsOfSystem) -> None:
        self.known, self.world = known, reference_of(known.system, CRASH)
        every = {**known.system.properties, **end_claim(known.system)}
        self.properties = [one for p in every.values() for one in each(p)]

    def explorer(self, p: Property, runs: list[RecordedRun]) -> Decided:
        """The cuts that decide a property, by the functions of the explorer."""
        claims, found = ClaimsOfRuns(self.world, {p.name: p}), set()
        for r, run in enumerate(runs, 1):
            evaluator = RunEvaluator(claims)
            found |= {(r, one.cut) for state, action in run.states for one in evaluator.see(state, action)}
            found |= {(r, one.cut) for one in evaluator.end() if run.over}
        return found

    def definition(self, p: Property, runs: list[RecordedRun]) -> Decided | None:
        """Likewise, by the definition; None: it is a claim about what comes, which is no expression of one step."""
        if p.kind in OF_FAIR_RUNS or p.kind == "always_possible":
            return None
        constants, layout, up = self.known.system.values(), self.world.layout, dict(self.known.up)
        found = set()
        for r, run in enumerate(runs, 1):
            for n, before, state, action in run.cuts:
                if p.kind == "step" and action is None:
                    continue
                took = None
                if action is not None and action.role is not None:
                    took = action.role, action.instance, action.event
                old = None if before is None else StateReader(layout, up, before)
                context = Context(
                    StateReader(layout, up, state),
                    constants,
                    before=old,
                    took=took,
                    variables=p.binding,
                    ignored=action is not None and action.transition is None,
                )
                holds = (p.when is not None and not evaluate(p.when, context)) or evaluate(p.claim, context)
                if bool(holds) == (p.kind == "sometimes"):
                    found.add((r, n))
        return found


@dataclass
class Agreement:
    """How often readings were compared, and where they differ.

    Attributes:
        cuts: of all runs.
        verdicts: of a property on a cut, how often `held` and `violated`; of `sometimes`, shown or not.
        both: properties that some cuts violate and others do not.
        differ: in words.
    """

    cuts: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    both: set[str] = field(default_factory=set)
    differ: list[str] = field(default_factory=list)


def compared(
    known: CutsOfSystem,
    histories: Iterable[tuple[dict[str, list[AnyEvent]], bool]],
    databases: dict[str, Database],
    definition: bool = True,
) -> Agreement:
    """Compares all readings of all properties on the cuts of histories.

    Args:
        known: the system.
        histories: with whether each is complete.
        databases: that are empty, by name.
        definition: whether the definition is asked, too, which takes longest.
    """
    runs = recorded(known, histories, databases.values())
    readings, found = Readings(known), Agreement(sum(len(run.cuts) for run in runs))
    queries = {name: Queries(db.tables) for name, db in databases.items()}
    for p in readings.properties:
        name = p.name + "".join(f" {n}={v}" for n, v in p.binding.items())
        if any(p.name in q.not_asked for q in queries.values()):
            continue
        expected = readings.explorer(p, runs)
        others: dict[str, Decided | None] = {
            kind: {(run, cut) for run, cut in db.ask(queries[kind].queries[name].since(-1))}
            for kind, db in databases.items()
        }
        others["definition"] = readings.definition(p, runs) if definition else None
        for kind, cuts in others.items():
            if cuts is not None and cuts != expected:
                ours, theirs = sorted(expected - cuts)[:3], sorted(cuts - expected)[:3]
                found.differ.append(f"{name}: the explorer alone has {ours}, and {kind} alone {theirs}")
        found.verdicts += Counter({"violated": len(expected), "held": found.cuts - len(expected)})
        if 0 < len(expected) < found.cuts and p.kind != "sometimes":
            found.both.add(p.name)
    return found
