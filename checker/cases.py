"""The cases of a finished exploration, each with what follows it (checker/crash.py says what a case is)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from leasehold.checker.explore import Exploration
from leasehold.checker.explore.compiled import looking
from leasehold.checker.explore.fault_layout import DOWN, Actor
from leasehold.checker.explore.faulty import FaultySystem
from leasehold.checker.explore.labels import after as faults_left
from leasehold.checker.explore.layout import State
from leasehold.checker.explore.result import Path, Step
from leasehold.checker.stabilise import Ways
from leasehold.checker.worst import AT_ONCE, NO_RETURN, NOT_ASKED, Worst, or_worse, worst_of
from leasehold.faults import CrashPoint
from leasehold.faults.points import BEFORE, RECOVERING, point_name
from leasehold.spec.language.model import System

ANY = "any"  # the mode of a system that tells none apart
Case = tuple[tuple[str, ...], str, str]  # cell, point, mode


def _join(found: dict[str, Worst], other: Mapping[str, Worst]) -> bool:
    """Adds to the worst of each mode what else may follow; whether that changes anything."""
    changed = False
    for mode, worst in other.items():
        had = found.get(mode)
        if had is worst:
            continue
        more = worst if had is None else or_worse(had, worst)
        if more != had:
            found[mode], changed = more, True
    return changed


class CaseFinder:
    """The cases of a finished exploration.

    Without `ways` it was not asked whether the system comes back, and no case has a worst convergence.
    """

    def __init__(self, found: Exploration, ways: Ways | None, points: tuple[CrashPoint, ...]) -> None:
        world = found.paths.world
        assert isinstance(world, FaultySystem)
        self.states: list[State] = found.paths.states
        self.asked = ways is not None
        self.ways = ways or Ways(self.states, bytearray(len(self.states)), found.graph, found.paths)
        self.world, self.paths = world, found.paths
        self.graph = found.graph
        self.system = found.system
        self.product = [world.layout.at(r, i, None) for r, i in product_of(found.system)]
        self.look = looking(machine.cell for machine in world.machines)
        self.crashed = list(zip(found.graph.crashed, found.graph.crash_points, strict=True))
        self.points = list(found.graph.points)
        self.by_effect: dict[str, list[str]] = {}
        self.restarting: dict[str, list[str]] = {}  # the points of recovery with the effect of `#recovering`
        for point in points:
            for effect in point.effects:
                self.by_effect.setdefault(effect, []).append(point.name)
        for point in points:
            if point.name.endswith(f"#{RECOVERING}"):
                alike = [name for effect in point.effects for name in self.by_effect[effect]]
                self.restarting[point.name] = [name for name in alike if f"#{RECOVERING}" in name]
        self.modes = {name: world.world(e) for name, e in self.system.faults.modes.items()}
        self.actors = {actor.name: actor for actor in world.layout.actors}
        self._modes: dict[int, tuple[str, ...]] = {}
        self.worst = {actor.name: self._restarts(actor) for actor in world.layout.actors}

    def cases(self) -> dict[Case, Worst]:
        """Every case with its worst convergence."""
        # Many states have one cell and one crash between them: what follows is joined first, and named once.
        alike: dict[tuple[Any, ...], tuple[int, dict[str, Worst]]] = {}
        for state, at, actor in self._crashes():
            after = self.worst[actor.name].get(state)
            if after:
                key = self.look(self.states[state]), at, actor.name
                _, joined = alike.setdefault(key, (state, {}))
                _join(joined, after)
        found: dict[Case, Worst] = {}
        for (_, at, name), (state, joined) in alike.items():
            cell = self._cell(state)
            for point in self._names(state, at, self.actors[name]):
                for mode, worst in joined.items():
                    case = (cell, point, mode)
                    found[case] = or_worse(found[case], worst) if case in found else worst
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
            return list(dict.fromkeys(p for n in self._at(state, actor, RECOVERING) for p in self.restarting[n]))
        bare, at, group = self.points[number][0].partition("@")
        names = self.by_effect.get(bare, [bare])
        if bare.endswith(f"#{BEFORE}"):
            names = [*names, *(p for n in self._at(state, actor, BEFORE) for p in self.by_effect[n])]
        return list(dict.fromkeys(f"{n}{at}{group}" for n in names))

    def _at(self, state: int, actor: Actor, where: str) -> Iterator[str]:
        for role, i in actor.machines:
            yield point_name(role, self.states[state][self.world.layout.at(role, i, None)], where)

    def _mode(self, state: int) -> tuple[str, ...]:
        known = self._modes.get(state)
        if known is None:
            s = self.states[state]
            known = tuple(name for name, holds in self.modes.items() if holds(s, (), -1)) or (ANY,)
            self._modes[state] = known
        return known

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
                    after = self._after(target)
                    _join(found[n], dict.fromkeys(self._mode(n), after))
            todo.append(n)
        while todo:
            n = todo.pop()
            for source in back.get(n, ()):
                if _join(found[source], found[n]):
                    todo.append(source)
        return found

    def _after(self, state: int) -> Worst:
        """The worst convergence from a state."""
        if not self.asked:
            return NOT_ASKED
        if not self.ways.astray[state]:
            return AT_ONCE
        if self.ways.stays[state]:
            return NO_RETURN
        return worst_of(self.ways.steps.get(state), self.ways.exchanges.get(state))

    # One case, as a path

    def path(self, case: Case) -> Path:
        """A shortest path into a case from which its worst way back is left, the restart, and that way.

        Where a fair run does not come back, it is followed once round.
        """
        cell, point, mode = case
        starts = [
            (state, at, actor) for state, at, actor in self._crashes()
            if mode in self.worst[actor.name].get(state, {}) and self._cell(state) == cell
            and point in self._names(state, at, actor)
        ]  # fmt: skip
        if not starts:
            raise LookupError("there is no such case")
        most = max(self.worst[actor.name][state][mode].size for state, _, actor in starts)
        starts = [s for s in starts if self.worst[s[2].name][s[0]][mode].size == most]
        numbers, stop, actor = self._into(starts)
        crash_at = len(numbers) - 2
        numbers += self._until_restart(numbers[-1], actor, mode, most)
        way, loop = self.ways.way(numbers[-1]), None
        if most == NO_RETURN.size:
            way, loop = self.ways.run(numbers[-1])
        found: Path = self.paths.along([*numbers, *way], None if loop is None else len(numbers) + loop)
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
                elif mode in self._mode(n) and self._after(target).size == most:
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
