"""Cases as scripts for real actors: a shortest path into a case, the crash, the steps of the others, and the restart.

Theory of operation (paper, section 5.1). The explored graph is the list of what to try. A case of `leasehold crash` is
a cell of the product, a crash point and a mode. Its script is the explorer's shortest path to a state of that cell in
which the actor can stop at that point; then the shortest path, without the actor, to a state in which the mode holds
and it restarts. Each step has the states of all machines after it, so that a replay can tell whether the real actors
follow the model.

`#before-commit` is met at rest in the model, as a step that was not committed has left nothing. Real actors are
stopped in the midst of a step that could come next, just before its commit. Points at which only calls of policies and
handlers differ are met at rest too, after a step into the state; real actors are stopped in the midst of that step.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from leasehold.checker.crash.analysis import CrashReport
from leasehold.checker.crash.cases import Case, CaseFinder
from leasehold.checker.explore.graph.arrays import backward
from leasehold.checker.explore.labels import after as faults_left
from leasehold.checker.explore.layout import State, with_cell
from leasehold.checker.explore.reference import Reference
from leasehold.checker.explore.step import Action
from leasehold.checker.recovery.cases.steps import Machine, Script, ScriptStep, StepWriter
from leasehold.faults.model.lowering import DOWN, UP
from leasehold.faults.model.points import ACKNOWLEDGE, BEFORE, RECOVERING, point_parts
from leasehold.spec.language.lower import ModelActor, work_of
from leasehold.spec.language.model import Transition


class CellEntry(NamedTuple):
    """A step without faults: the number of the state before it, its action, and the number of the state after it."""

    before: int
    action: Action
    after: int


class ScriptGenerator:
    """The scripts of all cases of a finished exploration with one crash."""

    def __init__(self, report: CrashReport) -> None:
        assert report.finder is not None
        self.finder: CaseFinder = report.finder
        self.world: Reference = self.finder.world
        self.states = self.finder.states
        self.writer = StepWriter(self.world, report.points)
        self.tasks = self.writer.tasks
        self.labels = self.finder.paths.labels
        graph = self.finder.graph
        down = np.logical_or.reduce(list(self.finder.down.values()))
        self._into = backward(graph.first, graph.targets, graph.column("fault") & down[graph.targets])
        self._ways: dict[tuple[int, str, str], list[int]] = {}
        self._steps: dict[tuple[int, int], ScriptStep] = {}
        self._entries: dict[tuple[tuple[str, ...], Machine, str], tuple[list[CellEntry], Iterator[CellEntry]]] = {}
        self._machines = tuple((role.name, i) for role, i in self.finder.system.machines())

    def every(self) -> Iterator[Script]:
        """A script for each case, in the order of cells, points and modes."""
        for case, crash in sorted(self.finder.nearest().items(), key=itemgetter(0)):
            yield self._script(case, *crash)

    # Steps into a state

    @cached_property
    def _arrivals(self) -> tuple[Any, Any, Any, list[tuple[Any, ...]]]:
        """The states before steps without faults, by the control states after these, and the nearest first.

        Returns the states in this order; where those of each combination of control states begin; the rank of each
        state by its distance; and what the combinations are.
        """
        graph, size = self.finder.graph, len(self.states)
        look, combinations = self.finder.paths.combinations([machine.cell for machine in self.world.machines])
        up = np.logical_and.reduce([self.finder.paths.holding(at, UP) for at in self.world.up.values()])
        nearest = np.argsort(self.labels.state_depths(), kind="stable")
        rank = np.empty(size, dtype=np.int64)
        rank[nearest] = np.arange(size)
        kept = graph.beginning(up) & ~graph.column("fault")
        keys = np.unique(look[graph.targets[kept]].astype(np.int64) * size + rank[graph.sources[kept]])
        first = np.searchsorted(keys, np.arange(len(combinations) + 1, dtype=np.int64) * size)
        return nearest[keys % size], first, rank, combinations

    def _entries_of(self, cell: tuple[str, ...], machine: Machine, name: str) -> Iterator[CellEntry]:
        """The steps without faults after which a machine is in a state, in a cell; those on shorter paths first."""
        key = cell, machine, name
        if key not in self._entries:
            self._entries[key] = [], self._find_entries(*key)
        known, more = self._entries[key]
        yield from known
        for entry in more:
            known.append(entry)
            yield entry

    def _find_entries(self, cell: tuple[str, ...], machine: Machine, name: str) -> Iterator[CellEntry]:
        befores, first, rank, combinations = self._arrivals
        places = [m.cell for m in self.world.machines]
        product, own = [places.index(at) for at in self.finder.product], self.world.layout.at(*machine, None)
        parts = [
            befores[first[n] : first[n + 1]]
            for n, control in enumerate(combinations)
            if control[places.index(own)] == name and tuple([control[i] for i in product]) == cell
        ]
        before = np.unique(np.concatenate(parts)) if parts else np.zeros(0, dtype=np.int64)
        for n in before[np.argsort(rank[before])].tolist():
            if all(self.labels.lefts[label] != self.world.budgeted for label in self.labels.of[n]):
                continue
            state = self.states[n]
            for action, after in self.world.successors(state):
                if action.fault or action.transition is None or action.role is None or after[own] != name:
                    continue
                if machine != (action.role, action.instance) and state[own] == name:
                    continue  # it neither takes the step nor is driven
                number = self._successor(n, after)
                if number is not None and self.finder._cell(number) == cell:
                    yield CellEntry(n, action, number)

    def _successor(self, n: int, after: State) -> int | None:
        """The number of a state that is a step away; None: it is not explored, as bounds leave it out."""
        graph = self.finder.graph
        targets = dict.fromkeys(graph.targets[graph.first[n] : graph.first[n + 1]].tolist())
        return next((target for target in targets if self.states[target] == after), None)

    def _entry(self, case: Case) -> tuple[int, Action, int] | None:
        """The step into a state in the midst of which an actor stops where the model has it at rest; and the crash."""
        cell, point, mode = case
        bare, role, name, where, _ = point_parts(point)
        done = self.tasks.get(bare, ())
        if where.startswith((BEFORE, RECOVERING)):
            return None
        for machine in ((r, i) for r, i in self.world.layout.of if r == role):
            actor = self.world.layout.of[machine]
            for n, action, entered in self._entries_of(cell, machine, name):
                own, after = (action.role, action.instance) == machine, self.states[entered]
                if not self._begins(after, machine, action.transition if own else None, done):
                    continue
                if where == ACKNOWLEDGE and action.lane is None:
                    continue
                down = self._successor(entered, with_cell(after, self.world.up[actor.name], DOWN))
                if down is not None and mode in self.finder.worst_in(down, actor):
                    return n, action, down
        return None

    def _begins(self, after: State, machine: Machine, transition: Transition | None, done: tuple[str, ...]) -> bool:
        """Returns whether the work that follows a step has all of these tasks; with no transition, the state's own."""
        compiled, role = self.world.by_name[machine], self.finder.system.roles[machine[0]]
        own = role.states[after[compiled.cell]].tasks
        work = own if transition is None else work_of(role, transition)
        for task in done:
            name = task.removeprefix("some-")
            if name not in work:
                return False
            condition = role.tasks[name].when
            if condition is not None and not compiled.function(condition)(after, (), -1):
                return False
        return True

    def _script(self, case: Case, state: int, at: int | None, actor: ModelActor) -> Script:
        cell, point, mode = case
        if at is None:  # the actor is down, and its recovery does not get far
            chain = self.finder.paths.chain(state)
            steps = [self._taken(a, b) for a, b in pairwise(chain)]
            control = self.writer.control(self.states[state])
            steps.append(ScriptStep("stillborn", actor.machines[0], "", (), None, point, (), control))
        else:
            chain, crash = self._crash(state, at)
            entry = None if crash.transition is not None or crash.lane is not None else self._entry(case)
            if entry is not None:
                n, crash, state = entry
                chain = self.finder.paths.chain(n)
            steps = [self._taken(a, b) for a, b in pairwise(chain)]
            steps.append(self.writer.stop(self.states[chain[-1]], crash, self.states[state], point, actor))
        at_step = len(steps) - 1
        key = state, actor.name, mode
        if key not in self._ways:
            self._ways[key] = [state, *self.finder.until_restart(state, actor, mode)]
        way = self._ways[key]
        steps += [self._taken(a, b) for a, b in pairwise(way)]
        return Script(cell, point, mode, tuple(steps), at_step, self._machines)

    def _crash(self, state: int, at: int) -> tuple[list[int], Action]:
        """The states on a shortest way to the state before a crash, and the crash."""
        best: tuple[int, list[int], Action] | None = None
        labels = self.labels
        first, sources = self._into
        for source in sources[first[state] : first[state + 1]].tolist():
            for action, led_to in self.world.successors(self.states[source]):
                if action.kind != "crash" or led_to != self.states[state]:
                    continue
                if (action.point, action.role, action.instance) != self.finder.points[at]:
                    continue
                rich = (n for n in labels.of[source] if faults_left(labels.lefts[n], action.cost) is not None)
                label = next(rich, None)
                if label is not None and (best is None or labels.depths[label] < best[0]):
                    best = labels.depths[label], labels.chain(label), action
        assert best is not None
        return best[1], best[2]

    # Steps

    def _taken(self, source: int, target: int) -> ScriptStep:
        """A step between two states: many cases have it."""
        if (source, target) not in self._steps:
            self._steps[source, target] = self.writer.between(self.states[source], self.states[target])
        return self._steps[source, target]
