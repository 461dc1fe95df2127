"""The cases of a finished exploration, each with the worst convergence after it (analysis.py defines a case)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from leasehold.checker.crash.convergence import RecoverySteps
from leasehold.checker.explore import Exploration
from leasehold.checker.explore.graph.edges import Graph
from leasehold.checker.explore.graph.scc import component_layers, components_among
from leasehold.checker.explore.graph.ways import NONE, gather, groups, select, worst_after
from leasehold.checker.explore.labels import after as faults_left
from leasehold.checker.explore.paths import Paths
from leasehold.checker.explore.reference import Reference
from leasehold.checker.explore.resources import side_by_side
from leasehold.checker.explore.result import Path, Step
from leasehold.faults.model import CrashPoint
from leasehold.faults.model.lowering import DOWN
from leasehold.faults.model.points import BEFORE, RECOVERING, point_name
from leasehold.spec.language.lower import ModelActor
from leasehold.spec.language.model import System, machine_name

ANY = "any"  # the mode of a system that tells none apart
Case = tuple[tuple[str, ...], str, str]  # cell, point, mode


@dataclass(frozen=True, slots=True)
class WorstCase:
    """The worst convergence of a case.

    Attributes:
        steps: the most steps to a legal state; None where not every run returns, and where some way is longer than
            could be measured (`RecoverySteps.steps`).
        exchanges: the most messages that are received on the way; None likewise.
        returns: whether every fair run comes back; None where that was not asked, or the runs that do not, leave the
            bounds of the search.
    """

    steps: int | None
    exchanges: int | None
    returns: bool | None = True

    @property
    def size(self) -> int:
        """A number for comparison: never to return is more than to have no number, and that is more than any number."""
        if self.returns is None:
            return 0
        return 1 << 61 if not self.returns else 1 << 60 if self.steps is None else self.steps


AT_ONCE = WorstCase(0, 0)
NO_RETURN = WorstCase(None, None, returns=False)
NOT_ASKED = WorstCase(None, None, returns=None)


@cache  # there are few, and each is met very often
def worst_of(steps: int | None, exchanges: int | None) -> WorstCase:
    """The one such value."""
    return WorstCase(steps, exchanges)


@cache
def or_worse(one: WorstCase, other: WorstCase) -> WorstCase:
    """The worse of two in each respect."""
    for whole in (NOT_ASKED, NO_RETURN):
        if whole in (one, other):
            return whole
    both = ((one.steps, other.steps), (one.exchanges, other.exchanges))
    return worst_of(*(None if a is None or b is None else max(a, b) for a, b in both))


# Worst convergences as numbers of which the larger is the worse: how many steps (messages), or these.
_NONE, _NO_NUMBER, _NEVER, _NOT_ASKED = NONE, 1 << 28, 1 << 29, 1 << 30


class CaseFinder:
    """The cases of a finished exploration.

    Without `ways` it was not asked whether the system comes back, and no case has a worst convergence.

    Attributes:
        worst: by actor, for each state its position among those in which it is down (-1: it is up), and for each
            position the most steps and the most messages that follow when it restarts, for each mode in turn; -1 where
            it never restarts in that mode.
    """

    def __init__(self, exploration: Exploration, ways: RecoverySteps | None, points: tuple[CrashPoint, ...]) -> None:
        world: Reference = exploration.paths.world
        assert world.faulty
        self.paths: Paths = exploration.paths
        self.states = self.paths.states
        self.graph: Graph = exploration.graph
        size = len(self.states)
        self.ways = ways or RecoverySteps(np.zeros(size, dtype=bool), self.graph.without_faults(), self.paths)
        self.world, self.system = world, exploration.system
        self.product = [world.layout.at(r, i, None) for r, i in product_of(exploration.system)]
        self.points = list(self.graph.points)
        self.by_effect: dict[str, list[str]] = {}
        self.restarting: dict[str, list[str]] = {}  # the points of recovery with the effect of `#recovering`
        for point in points:
            for effect in point.effects:
                self.by_effect.setdefault(effect, []).append(point.name)
        for point in points:
            if point.name.endswith(f"#{RECOVERING}"):
                alike = [name for effect in point.effects for name in self.by_effect[effect]]
                self.restarting[point.name] = [name for name in alike if f"#{RECOVERING}" in name]
        holding = {name: self.paths.where(e) for name, e in self.system.faults.modes.items()}
        none = ~np.logical_or.reduce([np.zeros(size, dtype=bool), *holding.values()])
        self.modes: dict[str, Any] = {**holding, ANY: none}  # by name: in which states each holds
        self.actors = {actor.name: actor for actor in world.layout.actors}
        self.after = self._after(ways)
        self.down = {a.name: self.paths.holding(world.up[a.name], DOWN) for a in world.layout.actors}
        work: list[Callable[[], Any]] = [self._stop, *(partial(self._restarts, actor) for actor in world.layout.actors)]
        _, *worst = side_by_side(lambda part: part(), work)
        self.worst = dict(zip(self.actors, worst, strict=True))
        self._totals = self._total()

    def cases(self) -> dict[Case, WorstCase]:
        """Every case with its worst convergence."""
        cases: dict[Case, WorstCase] = {}
        for group, state in enumerate(self._example):
            cell = self._cell(state)
            for point in self._points_of(group):
                for mode, worst in self._joined(group):
                    case = (cell, point, mode)
                    cases[case] = or_worse(cases[case], worst) if case in cases else worst
        return cases

    def _stop(self) -> None:
        """Joins what is alike: many states have the same control states, and one crash between them."""
        graph = self.graph
        point_of = np.array([row.point for row in graph.kinds], dtype=np.int32)
        _, targets, rows = select(graph.first, graph.targets, graph.rows, point_of >= 0)
        states, at = [targets], [point_of[rows]]
        del targets, rows
        for number, actor in enumerate(self.world.layout.actors):
            down = self.down[actor.name].nonzero()[0].astype(np.int32)
            states.append(down)
            at.append(np.full(len(down), len(self.points) + number, dtype=np.int32))
        self.stopped, self.stopped_at = np.concatenate(states), np.concatenate(at)
        look, _ = self.paths.combinations([machine.cell for machine in self.world.machines])
        kinds = len(self.points) + len(self.world.layout.actors)
        examples, self.group = groups(self.stopped, self.stopped_at, kinds, look)
        self._example = [int(n) for n in self.stopped[examples]]
        self._example_at = [int(n) for n in self.stopped_at[examples]]
        layout = self.world.layout
        who = [layout.actors.index(layout.of[role, i]) for _, role, i in self.points]
        self._who = np.array([*who, *range(len(layout.actors))], dtype=np.int16)

    def _total(self) -> Any:
        """Returns the worst that follows a restart, by group: steps and messages, for each mode in turn."""
        total = np.full((len(self._example), 2 * len(self.modes)), _NONE, dtype=np.int32)
        who = self._who[self.stopped_at]
        for number, (place, worst) in enumerate(self.worst.values()):
            gather(np.where(who == number, place[self.stopped], np.int32(-1)), self.group, worst, total)
        return total

    def _joined(self, group: int) -> Iterator[tuple[str, WorstCase]]:
        """The modes in which an actor that has stopped so may restart, and the worst that follows."""
        yield from self._by_mode(self._totals[group])

    def _by_mode(self, numbers: Any) -> Iterator[tuple[str, WorstCase]]:
        for mode, (steps, exchanges) in zip(self.modes, numbers.reshape(-1, 2).tolist(), strict=True):
            if steps != _NONE:
                yield mode, _worst(steps, exchanges)

    def _points_of(self, group: int) -> list[str]:
        at = self._example_at[group]
        return self.names(self._example[group], at if at < len(self.points) else None, self._actor_at(at))

    def _actor_at(self, at: int) -> ModelActor:
        layout = self.world.layout
        if at >= len(self.points):
            return layout.actors[at - len(self.points)]
        _, role, instance = self.points[at]
        return layout.of[role, instance]

    def crashes(self, groups: Iterable[int]) -> Iterator[tuple[int, int | None, ModelActor]]:
        """States after a crash, the number of its point (None: before recovery has done anything), and who stopped."""
        keys = self.stopped.astype(np.int64) * (len(self.points) + len(self.actors)) + self.stopped_at
        _, first = np.unique(keys, return_index=True)  # several edges may lead to one crash
        once = np.zeros(len(keys), dtype=bool)
        once[first] = True
        for n in (np.isin(self.group, list(groups)) & once).nonzero()[0]:
            yield self._crash(int(n))

    def nearest(self) -> dict[Case, tuple[int, int | None, ModelActor]]:
        """Returns for each case a crash on a shortest path: the state after it, its point's number, and who stopped."""
        depths = self.paths.labels.state_depths()[self.stopped]
        best: dict[Case, tuple[int, int]] = {}  # depth, and which of the crashes
        for column, mode in enumerate(self.modes):
            possible = np.zeros(len(self.group), dtype=bool)
            for number, (place, worst) in enumerate(self.worst.values()):
                mine = self._who[self.stopped_at] == number
                possible[mine] = worst[place[self.stopped[mine]], 2 * column] != _NONE
            crashes = possible.nonzero()[0]
            crashes = crashes[np.lexsort((crashes, depths[crashes], self.group[crashes]))]
            groups, first = np.unique(self.group[crashes], return_index=True)
            for group, n in zip(groups.tolist(), crashes[first].tolist(), strict=True):
                for point in self._points_of(group):
                    case, crash = (self._cell(int(self.stopped[n])), point, mode), (int(depths[n]), n)
                    best[case] = min(best.get(case, crash), crash)
        return {case: self._crash(n) for case, (_, n) in best.items()}

    def _crash(self, n: int) -> tuple[int, int | None, ModelActor]:
        at = int(self.stopped_at[n])
        return int(self.stopped[n]), at if at < len(self.points) else None, self._actor_at(at)

    def worst_in(self, state: int, actor: ModelActor) -> dict[str, WorstCase]:
        """Returns the modes in which an actor that is down may restart, each with the worst that follows."""
        place, worst = self.worst[actor.name]
        return dict(self._by_mode(worst[place[state]])) if place[state] >= 0 else {}

    def _cell(self, state: int) -> tuple[str, ...]:
        s = self.states[state]
        return tuple([s[c] for c in self.product])

    def names(self, state: int, number: int | None, actor: ModelActor) -> list[str]:
        """The points of the catalogue that a crash stands for."""
        if number is None:
            return list(dict.fromkeys(p for n in self._at(state, actor, RECOVERING) for p in self.restarting[n]))
        bare, at, group = self.points[number][0].partition("@")
        names = self.by_effect.get(bare, [bare])
        if bare.endswith(f"#{BEFORE}"):
            names = [*names, *(p for n in self._at(state, actor, BEFORE) for p in self.by_effect[n])]
        return list(dict.fromkeys(f"{n}{at}{group}" for n in names))

    def _at(self, state: int, actor: ModelActor, where: str) -> Iterator[str]:
        for role, i in actor.machines:
            yield point_name(role, self.states[state][self.world.layout.at(role, i, None)], where)

    def _restarts(self, actor: ModelActor) -> tuple[Any, Any]:
        """Returns each state's position among those with an actor down, and for these the worst that follows a restart.

        Between the crash and the restart the others take their steps, and no other fault comes.
        """
        graph, down = self.ways.graph, self.down[actor.name]
        states_down = down.nonzero()[0].astype(np.int32)
        place = np.full(len(down), -1, dtype=np.int32)
        place[states_down] = np.arange(len(states_down), dtype=np.int32)
        layers = component_layers(down, components_among(down, graph), graph)
        worst = worst_after(graph.first, graph.targets, place, layers, list(self.modes.values()), self.after)
        return place, worst

    def _after(self, ways: RecoverySteps | None) -> Any:
        """Returns the worst convergence from each state: steps and messages."""
        size = len(self.states)
        if ways is None:
            return np.full((size, 2), _NOT_ASKED, dtype=np.int32)
        after = np.stack([ways.steps, ways.exchanges], axis=1)
        after[after < 0] = _NO_NUMBER
        after[~ways.astray] = 0
        after[ways.stays] = _NEVER
        if not ways.stays.any():
            after[ways.cut_off] = _NOT_ASKED
        return after

    # One case, as a path

    def path(self, case: Case) -> Path:
        """A shortest path into a case from which its worst way back is left, the restart, and that way.

        Where a fair run does not come back, it is followed once round.
        """
        numbers, loop, crash_at, stop, actor = self._worst_run(case)
        path: Path = self.paths.along(numbers, loop, *self.ways.graph.fair_names(self.ways.asked))
        steps, point = list(path.steps), case[1]
        if stop is None:  # the actor was down, and stops once more before its recovery has done anything
            own = {machine_name(self.system.roles[role], i) for role, i in actor.machines}
            crashes = [i for i, step in enumerate(steps[: crash_at + 1]) if step.kind == "crash"]
            crash_at = next((i for i in reversed(crashes) if steps[i].machine in own), crashes[-1])
            stop, point = steps[crash_at], f"{steps[crash_at].event}, then {point}"
        steps[crash_at] = replace(stop, event=point)
        return replace(path, steps=tuple(steps))

    def endless(self, case: Case) -> tuple[int, ...]:
        """The numbers of the states that the run of a case which does not come back does not leave."""
        numbers, loop, *_ = self._worst_run(case)
        return () if loop is None else tuple(dict.fromkeys(numbers[loop:]))

    def _worst_run(self, case: Case) -> tuple[list[int], int | None, int, Step | None, ModelActor]:
        """The states on a case's path, the index that it returns to, that of its crash, and the crash (`_into`)."""
        cell, point, mode = case
        groups = (
            group
            for group, state in enumerate(self._example)
            if self._cell(state) == cell and point in self._points_of(group)
        )
        starts = [start for start in self.crashes(groups) if mode in self.worst_in(start[0], start[2])]
        if not starts:
            raise LookupError("there is no such case")
        sizes = [self.worst_in(state, actor)[mode].size for state, _, actor in starts]
        most = max(sizes)
        starts = [start for start, size in zip(starts, sizes, strict=True) if size == most]
        numbers, stop, actor = self._into(starts)
        crash_at = len(numbers) - 2
        numbers += self.until_restart(numbers[-1], actor, mode, most)
        way, loop = self.ways.way(numbers[-1]), None
        if most == NO_RETURN.size:
            way, loop = self.ways.run(numbers[-1])
        return [*numbers, *way], None if loop is None else len(numbers) + loop, crash_at, stop, actor

    def _into(self, starts: list[tuple[int, int | None, ModelActor]]) -> tuple[list[int], Step | None, ModelActor]:
        """The states on a shortest way to one of these crashes, and the crash; None where the actor is down already."""
        labels = self.paths.labels
        best: tuple[list[int], Step | None, ModelActor] | None = None
        wanted: dict[int, list[tuple[int, ModelActor]]] = {}
        for state, at, actor in starts:
            if at is not None:
                wanted.setdefault(state, []).append((at, actor))
            elif best is None or labels.depths[labels.of[state][0]] + 1 < len(best[0]):
                best = self.paths.chain(state), None, actor
        graph = self.graph
        into = (np.isin(graph.targets, list(wanted)) & graph.column("fault")).nonzero()[0] if wanted else []
        ways = [(graph.source(e), int(graph.targets[e])) for e in into]
        for source, target in sorted(ways, key=lambda way: labels.depths[labels.of[way[0]][0]]):
            before, after = self.states[source], self.states[target]
            if best is not None and labels.depths[labels.of[source][0]] + 2 >= len(best[0]):
                break
            for action, led_to in self.world.successors(before):
                for at, actor in wanted[target] if led_to == after else ():
                    if (action.point, action.role, action.instance) != self.points[at]:
                        continue
                    rich = (n for n in labels.of[source] if faults_left(labels.lefts[n], action.cost) is not None)
                    label = next(rich, None)
                    if label is not None and (best is None or labels.depths[label] + 2 < len(best[0])):
                        step = self.paths.describe(before, action, after)
                        best = [*labels.chain(label), target], step, actor
        assert best is not None
        return best

    def until_restart(self, state: int, actor: ModelActor, mode: str, most: int | None = None) -> list[int]:
        """A shortest way from a crash to a restart in a mode: the states after the first.

        With `most`, the way back from there has this size.
        """
        graph, down, holds = self.ways.graph, self.down[actor.name], self.modes[mode]
        came = {state: -1}
        for n in (todo := [state]):
            for target in graph.targets[graph.first[n] : graph.first[n + 1]].tolist():
                if target in came:
                    continue
                if down[target]:
                    came[target] = n
                    todo.append(target)
                elif holds[n] and (most is None or _worst(*self.after[target].tolist()).size == most):
                    way = [target, n]
                    while came[way[-1]] >= 0:
                        way.append(came[way[-1]])
                    return way[-2::-1]
        raise LookupError("there is no such case")


def product_of(system: System) -> Iterator[tuple[str, int]]:
    """The machines of the product."""
    for name in system.product:
        for i in range(system.roles[name].count):
            yield name, i


def _worst(steps: int, exchanges: int) -> WorstCase:
    """The worst convergence that the numbers stand for."""
    if steps >= _NEVER:
        return NO_RETURN if steps == _NEVER else NOT_ASKED
    return worst_of(*(None if n == _NO_NUMBER else int(n) for n in (steps, exchanges)))
