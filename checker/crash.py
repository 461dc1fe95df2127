"""What crashes do to a system: every case, what becomes of it, and the weakest faults that break a property.

Theory of operation (paper, section 5.1). The paper's recovery checker took a list of states, crashed an actor in each
at a chosen point, and restarted it in two modes: while the term of the lease lasts, and after its end. Here the
explored graph is the list. A *case* is a cell of the product, a crash point and a mode: the control states of the
product when the actor stops, where in its work it stops, and which of the system's `modes` hold when it restarts.
Between the two the others go on. Of each case the worst convergence is known: from the restart on, the most steps and
the most messages until the system is in a state that it could be in without faults.

A crash between two steps is the point `#before-commit` of every machine of the actor; a crash again before recovery has
done anything changes nothing, and is the point `#recovering`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from leasehold.checker.explore import Exploration, Limits, Progress, explore
from leasehold.checker.explore.fault_layout import DOWN, Actor
from leasehold.checker.explore.faulty import FaultySystem
from leasehold.checker.explore.labels import after as faults_left
from leasehold.checker.explore.layout import State
from leasehold.checker.explore.properties import DEADLOCK
from leasehold.checker.explore.result import Path, PropertyResult, Step
from leasehold.checker.stabilise import Convergence, Ways, convergence
from leasehold.faults import Budget, CrashPoint, crash_points
from leasehold.faults.mutants import Deviation
from leasehold.faults.points import BEFORE, RECOVERING, point_name
from leasehold.spec.language.model import System

ANY = "any"  # the mode of a system that tells none apart
Case = tuple[tuple[str, ...], str, str]  # cell, point, mode
Watch = Callable[[Progress], None] | None


@dataclass(frozen=True, slots=True)
class Worst:
    """The worst convergence of a case; None where there is no such number."""

    steps: int | None
    exchanges: int | None

    def or_worse(self, other: Worst) -> Worst:
        return Worst(_worse(self.steps, other.steps), _worse(self.exchanges, other.exchanges))


@dataclass(frozen=True, slots=True)
class CellVerdict:
    """What is known of one cell of the product.

    Attributes:
        control: the control state of each machine of the product.
        legal: some state of it is reachable without faults.
        points: the crash points that were tried in it.
        cases: by mode, how many cases.
        worst: over its cases.
    """

    control: tuple[str, ...]
    legal: bool
    points: tuple[str, ...]
    cases: Mapping[str, int]
    worst: Worst


@dataclass(frozen=True)
class CrashReport:
    """Everything that exploring a system under a budget of faults has shown.

    Attributes:
        budget: the faults. legal: the exploration without faults; faulty: the one with them. convergence: None where
        it was not asked: an actor halts for good or may do anything, or the search was cut short. points: all crash
        points of the specification; tried: the names of those that were explored, and
            `point@group` for crashes of several actors.
        modes: the modes' names.
        cases: the worst convergence of each case.
        cells: the same by cell.
        weakest: for each property that faults break, the weakest budget that does; without those of which the search
            for it was cut short.
        under_weakest: what is then found of it.
        seconds: all of it.
    """

    system: System
    budget: Budget
    legal: Exploration
    faulty: Exploration
    convergence: Convergence | None
    points: tuple[CrashPoint, ...]
    tried: frozenset[str]
    modes: tuple[str, ...]
    cases: Mapping[Case, Worst]
    cells: tuple[CellVerdict, ...]
    weakest: Mapping[str, Budget]
    under_weakest: Mapping[str, PropertyResult]
    seconds: float
    finder: CaseFinder | None = field(default=None, repr=False, compare=False)

    @property
    def complete(self) -> bool:
        return self.legal.complete and self.faulty.complete

    @property
    def broken(self) -> tuple[str, ...]:
        """The properties that hold without faults and do not with them."""
        fine = {p.name for p in self.legal.properties if p.verdict != "violated"}
        return tuple(p.name for p in self.faulty.properties if p.verdict == "violated" and p.name in fine)

    @property
    def holds(self) -> bool:
        return not self.broken and (self.convergence is None or self.convergence.converges)

    def path(self, case: Case) -> Path:
        """A shortest path into a case from which its worst way back is left, the restart, and that way."""
        assert self.finder is not None
        return self.finder.path(case)


def crash(
    system: System, budget: Budget, progress: Watch = None, limits: Limits | None = None,
    legal: Exploration | None = None, deviation: Deviation | None = None,
) -> CrashReport:  # fmt: skip
    """Explores a system without faults, unless that is given, and with them, and decides what becomes of it.

    With a deviation, machines make that mistake where there are faults; what is legal is what it is without.
    """
    started = time.perf_counter()
    legal = legal or explore(system, limits, progress)
    faulty = explore(system, limits, progress, budget=budget, deviation=deviation)
    asked = legal.complete and faulty.complete and budget.passes
    after = convergence(legal, faulty) if asked else None
    modes = tuple(system.faults.modes) or (ANY,)
    points = crash_points(system)
    finder = CaseFinder(faulty, after.ways, points) if after is not None and after.ways is not None else None
    cases = finder.cases() if finder is not None else {}
    report = CrashReport(
        system, budget, legal, faulty, after, points, frozenset(point for _, point, _ in cases), modes, cases,
        tuple(_cells(legal, faulty, cases, modes)), {}, {}, 0.0, finder,
    )  # fmt: skip
    weakest = list(_weakest(system, budget, report.broken, progress, faulty, deviation)) if faulty.complete else []
    return replace(
        report, weakest={p.name: b for p, b in weakest}, under_weakest={p.name: p for p, _ in weakest},
        seconds=time.perf_counter() - started,
    )  # fmt: skip


def _worse(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else max(one, other)


def _cells(
    legal: Exploration, faulty: Exploration, cases: Mapping[Case, Worst], modes: tuple[str, ...]
) -> Iterator[CellVerdict]:
    fine = {c.control for c in legal.cells}
    by_cell: dict[tuple[str, ...], list[tuple[str, str, Worst]]] = {}
    for (control, point, mode), worst in cases.items():
        by_cell.setdefault(control, []).append((point, mode, worst))
    for cell in faulty.cells:
        mine = by_cell.get(cell.control, [])
        total = Worst(0, 0)
        for _, _, worst in mine:
            total = total.or_worse(worst)
        counts = {mode: sum(1 for _, m, _ in mine if m == mode) for mode in modes}
        yield CellVerdict(cell.control, cell.control in fine, tuple(sorted({p for p, _, _ in mine})), counts, total)


def _weakest(
    system: System, budget: Budget, broken: tuple[str, ...], progress: Watch, whole: Exploration,
    deviation: Deviation | None,
) -> Iterator[tuple[PropertyResult, Budget]]:  # fmt: skip
    """For each property the first budget, from the weakest on, under which it fails, and how."""
    left = set(broken)
    for less in budget.weaker() if left else ():
        ends = system.ends if DEADLOCK in left else None
        asked = replace(system, properties={n: p for n, p in system.properties.items() if n in left}, ends=ends)
        found = explore(asked, None, progress, budget=less, deviation=deviation)
        if not found.complete:
            return
        failed = [p for p in found.properties if p.verdict == "violated" and p.name in left]
        yield from ((p, less) for p in failed)
        left -= {p.name for p in failed}
        if not left:
            return
    yield from ((p, budget) for p in whole.properties if p.name in left)


class CaseFinder:
    """The cases of a finished exploration."""

    def __init__(self, found: Exploration, ways: Ways, points: tuple[CrashPoint, ...]) -> None:
        world = found.paths.world
        assert isinstance(world, FaultySystem)
        self.world, self.ways, self.paths = world, ways, found.paths
        self.states: list[State] = found.paths.states
        self.graph = found.graph
        self.system = found.system
        self.product = [world.layout.at(r, i, None) for r, i in _product(found.system)]
        self.crashed = list(zip(found.graph.crashed, found.graph.crash_points, strict=True))
        self.points = list(found.graph.points)
        self.by_effect: dict[str, list[str]] = {}
        for point in points:
            for effect in point.effects:
                self.by_effect.setdefault(effect, []).append(point.name)
        self.modes = {name: world.world(e) for name, e in self.system.faults.modes.items()}
        self.worst = {actor.name: self._restarts(actor) for actor in world.layout.actors}

    def cases(self) -> dict[Case, Worst]:
        """Every case with its worst convergence."""
        found: dict[Case, Worst] = {}
        for state, at, actor in self._crashes():
            cell, points = self._cell(state), self._names(state, at, actor)
            for mode, worst in self.worst[actor.name].get(state, {}).items():
                for point in points:
                    case = (cell, point, mode)
                    found[case] = found[case].or_worse(worst) if case in found else worst
        return found

    def _cell(self, state: int) -> tuple[str, ...]:
        s = self.states[state]
        return tuple([s[c] for c in self.product])

    def _crashes(self) -> Iterator[tuple[int, int | None, Actor]]:
        """States after a crash, the number of its point (None: before recovery has done anything), and who stopped."""
        layout = self.world.layout
        for state, at in dict.fromkeys(self.crashed):
            _, role, instance = self.points[at]
            yield state, at, layout.of[role, instance]
        for actor in layout.actors:
            for state in self.worst[actor.name]:
                yield state, None, actor

    def _names(self, state: int, number: int | None, actor: Actor) -> list[str]:
        """The points of the catalogue that a crash stands for."""
        if number is None:
            return list(self._at(state, actor, RECOVERING))
        bare, at, group = self.points[number][0].partition("@")
        names = self.by_effect.get(bare, [bare])
        if bare.endswith(f"#{BEFORE}"):
            names = [*names, *(p for n in self._at(state, actor, BEFORE) for p in self.by_effect[n])]
        return list(dict.fromkeys(f"{n}{at}{group}" for n in names))

    def _at(self, state: int, actor: Actor, where: str) -> Iterator[str]:
        for role, i in actor.machines:
            yield point_name(role, self.states[state][self.world.layout.at(role, i, None)], where)

    def _mode(self, state: int) -> tuple[str, ...]:
        return tuple(name for name, holds in self.modes.items() if holds(self.states[state], (), -1)) or (ANY,)

    def _restarts(self, actor: Actor) -> dict[int, dict[str, Worst]]:
        """For each state in which an actor is down: in which modes it may restart, and the worst that follows.

        Between the crash and the restart the others take their steps, and no other fault comes.
        """
        graph, first = self.ways.graph, self.ways.first
        down = [n for n, s in enumerate(self.states) if s[actor.up] is DOWN]
        found: dict[int, dict[str, Worst]] = {n: {} for n in down}
        back: dict[int, list[int]] = {}
        todo = []
        for n in down:
            for e in range(first[n], first[n + 1]):
                target = graph.targets[e]
                if self.states[target][actor.up] is DOWN:
                    back.setdefault(target, []).append(n)
                else:
                    for mode in self._mode(n):
                        found[n][mode] = self._after(target)
            todo.append(n)
        while todo:
            n = todo.pop()
            for source in back.get(n, ()):
                mine, changed = found[source], False
                for mode, worst in found[n].items():
                    more = mine[mode].or_worse(worst) if mode in mine else worst
                    if mine.get(mode) != more:
                        mine[mode], changed = more, True
                if changed:
                    todo.append(source)
        return found

    def _after(self, state: int) -> Worst:
        """The worst convergence from a state."""
        if not self.ways.astray[state]:
            return Worst(0, 0)
        return Worst(self.ways.steps.get(state), self.ways.exchanges.get(state))

    # One case, as a path

    def path(self, case: Case) -> Path:
        """A shortest path into a case from which its worst way back is left, the restart, and that way."""
        cell, point, mode = case
        starts = [
            (state, at, actor) for state, at, actor in self._crashes()
            if mode in self.worst[actor.name].get(state, {}) and self._cell(state) == cell
            and point in self._names(state, at, actor)
        ]  # fmt: skip
        if not starts:
            raise LookupError("there is no such case")
        most = max(_size(self.worst[actor.name][state][mode]) for state, _, actor in starts)
        starts = [s for s in starts if _size(self.worst[s[2].name][s[0]][mode]) == most]
        numbers, stop, actor = self._into(starts)
        crash_at = len(numbers) - 2
        numbers += self._until_restart(numbers[-1], actor, mode, most)
        found: Path = self.paths.along([*numbers, *self.ways.way(numbers[-1])])
        if stop is None:
            return found
        steps = list(found.steps)
        steps[crash_at] = replace(stop, event=point)
        return replace(found, steps=tuple(steps))

    def _into(self, starts: list[tuple[int, int | None, Actor]]) -> tuple[list[int], Step | None, Actor]:
        """The states on a shortest way to one of these crashes, and the crash; None where the actor is down already."""
        labels = self.paths.labels
        best: tuple[list[int], Step | None, Actor] | None = None
        wanted: dict[int, list[tuple[int, Actor]]] = {}
        for state, at, actor in starts:
            if at is not None:
                wanted.setdefault(state, []).append((at, actor))
            elif best is None or labels.depths[labels.of[state][0]] + 1 < len(best[0]):
                best = self.paths.chain(state), None, actor
        sources, targets = self.graph.sources, self.graph.targets
        into = [e for e, target in enumerate(targets) if target in wanted and self.graph.fault[e]] if wanted else []
        for e in sorted(into, key=lambda e: labels.depths[labels.of[sources[e]][0]]):
            before, after = self.states[sources[e]], self.states[targets[e]]
            if best is not None and labels.depths[labels.of[sources[e]][0]] + 2 >= len(best[0]):
                break
            for action, led_to in self.world.successors(before):
                for at, actor in wanted[targets[e]] if led_to == after else ():
                    if (action.point, action.role, action.instance) != self.points[at]:
                        continue
                    rich = (n for n in labels.of[sources[e]] if faults_left(labels.lefts[n], action.cost) is not None)
                    label = next(rich, None)
                    if label is not None and (best is None or labels.depths[label] + 2 < len(best[0])):
                        step = self.paths.describe(before, action, after)
                        best = [*labels.chain(label), targets[e]], step, actor
        assert best is not None
        return best

    def _until_restart(self, state: int, actor: Actor, mode: str, most: int) -> list[int]:
        """A shortest way from a crash to a restart in a mode, with so long a way back: the states after the first."""
        graph, first = self.ways.graph, self.ways.first
        came = {state: -1}
        for n in (todo := [state]):
            for e in range(first[n], first[n + 1]):
                target = graph.targets[e]
                if target in came:
                    continue
                if self.states[target][actor.up] is DOWN:
                    came[target] = n
                    todo.append(target)
                elif mode in self._mode(n) and _size(self._after(target)) == most:
                    way = [target, n]
                    while came[way[-1]] >= 0:
                        way.append(came[way[-1]])
                    return way[-2::-1]
        raise LookupError("there is no such case")


def _size(worst: Worst) -> int:
    """For comparison; what has no number is more than any."""
    return 1 << 60 if worst.steps is None else worst.steps


def _product(system: System) -> Iterator[tuple[str, int]]:
    for name in system.product:
        for i in range(system.roles[name].count):
            yield name, i
