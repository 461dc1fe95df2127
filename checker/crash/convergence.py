"""Self-stabilisation: whether every fair run returns to a legal state once faults stop, and how fast.

Theory of operation (paper, section 3; Arora and Gouda's closure and convergence). A state is *legal* when it is
reachable without any fault; a *recovery state* is reachable only with faults. Once faults stop, a run takes steps of
the system and recoveries alone. Legal states are closed under the system's steps by what they are: a step from a
reachable state leads to one. Convergence is a question about the recovery states and the fault-free steps between
them: it fails if a fair run can stay there for ever, that is, if a strongly connected part of them has a fair run, or
if in one of them nothing has to happen. But where nothing has to happen any more and the system's `ends` allow that, a
run has come to its end: a lease may have ended in a way in which it does not end without faults, such as a request
that was lost and then taken back. A run that leaves the bounds of the search is not followed: where all runs that stay
end there, convergence is not decided.

The worst case is the longest way through the recovery states. Where they have cycles (a policy may try again in no
time, as often as it likes), fair runs leave them, but only in the end; so a run is measured that goes to no state
twice. It is found exactly: cycles are few and small, and within one all ways are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from leasehold.checker.explore.graph import liveness
from leasehold.checker.explore.graph.edges import Graph
from leasehold.checker.explore.graph.fairness import Fairness, demands
from leasehold.checker.explore.graph.scc import component_layers, components_among, fair_components, leading
from leasehold.checker.explore.graph.ways import LongestWays
from leasehold.checker.explore.paths import Paths
from leasehold.checker.explore.resources import side_by_side
from leasehold.checker.explore.result import Exploration, Path

MOST_WAYS = 200_000  # that are tried round one component


@dataclass(frozen=True, slots=True)
class Convergence:
    """The behaviour of a system once faults stop.

    Attributes:
        legal_states: states (of those reached under faults) that are reachable without any fault.
        recovery_states: the others.
        other_ends: of the recovery states, those in which nothing has to happen any more and an allowed end holds.
        converges: every fair run from a recovery state comes to a legal state, or to such an end; None: it is not
            decided, as the runs that do not, leave the bounds of the search.
        worst_steps: the most steps that takes, of runs that go to no state twice; None where the system does not
            converge, that is not decided, or there are more than MOST_WAYS ways, which are not all tried.
        worst_exchanges: the most messages that are received on the way; None likewise.
        path: where it fails, a run that never returns; else one that takes the most steps.
        ways: the worst way from each recovery state.
        endless: where it fails, the numbers of the states that the run does not leave.
    """

    legal_states: int
    recovery_states: int
    other_ends: int
    converges: bool | None
    worst_steps: int | None
    worst_exchanges: int | None
    path: Path | None
    ways: RecoverySteps | None = field(default=None, repr=False, compare=False)
    endless: tuple[int, ...] = field(default=(), compare=False)


def convergence(legal: Exploration, faulty: Exploration, *, throughout: bool = False) -> Convergence:
    """Decides convergence from the finished explorations of one system without and with faults.

    Args:
        legal: the one without.
        faulty: the one with them, and the fairness under which it is decided.
        throughout: decide it of every recovery state, also where one is found from which a run never returns.

    Raises:
        ValueError: one of them is not complete, or the second was made without a budget of faults.
    """
    world = faulty.paths.world
    if not world.faulty or faulty.graph is None:
        raise ValueError("the second exploration has no faults")
    if not (legal.complete and faulty.complete):
        raise ValueError("both explorations must be complete")
    paths: Paths = faulty.paths
    astray = np.ones(faulty.distinct, dtype=bool)
    up = np.logical_and.reduce([paths.holding(cell, value) for cell, value in world.quiet]).nonzero()[0]
    work: list[Callable[[], Any]] = [
        lambda: paths.among(up, legal.paths, world.layout.base),
        faulty.graph.without_faults,
    ]
    fine, graph = side_by_side(lambda part: part(), work)
    astray[up] = ~fine
    ended = np.zeros(faulty.distinct, dtype=bool)
    for end in legal.system.ends or ():
        ended |= paths.where(end.holds)
    return RecoverySteps(astray, graph, paths, faulty.fairness).decide(ended, throughout)


class RecoverySteps:
    """The fault-free steps from the recovery states.

    Attributes:
        graph: these steps.
        astray: which states are recovery states.
        stays: those from which a fair run can stay among them for ever.
        cut_off: those from which one could, if no step led out of the bounds of the search.
        steps: for each recovery state, the most steps to a legal one; -1 for the legal states, for those that `stays`
            and `cut_off` tell, and where it was not found among MOST_WAYS.
        exchanges: likewise, the most messages that are received.
    """

    def __init__(self, astray: Any, graph: Graph, paths: Paths, fairness: Fairness = Fairness.SPEC) -> None:
        self.astray, self.paths = astray, paths
        self.asked = demands(paths.world.system, graph.names, fairness)
        self.stays, self.cut_off = (np.zeros(len(astray), dtype=bool) for _ in range(2))
        self.graph = graph
        received = np.array([row.received for row in self.graph.kinds], dtype=bool)
        self._longest = LongestWays(self.graph.first, self.graph.targets, self.graph.rows, received)
        self.steps, self.exchanges = self._longest.longest[:, 0], self._longest.longest[:, 1]
        self.through: dict[int, list[int]] = {}  # of states in a component: the states on the longest way through it
        self.whole = True
        self.endless: tuple[int, ...] = ()  # the states that the run which never returns does not leave
        self.bad = int(astray.sum())
        self.other_ends = 0

    def decide(self, ended: Any, throughout: bool) -> Convergence:
        """Decides convergence; `ended` says in which states an allowed end holds."""
        may_rest = self.graph.rests(self.asked) & self.astray
        rests = (may_rest & ~ended).nonzero()[0].tolist()
        if rests and not throughout:
            return self._found(False, path=self._resting(rests[0]))
        self.astray = self.astray & ~(may_rest & ended)
        self.other_ends = int((may_rest & ended).sum())
        component_of = components_among(self.astray, self.graph)
        lasting = self._lasting(rests, component_of)
        self.graph.forget()
        if lasting is not None and not throughout:
            return self._found(False, path=lasting)
        self._find_cut_off(component_of)
        self._measure(component_of)
        if lasting is not None:
            return self._found(False, path=lasting)
        if self.cut_off.any():
            return self._found(None)
        if not (self.steps >= 0).any():
            return self._found(True, 0, 0) if self.whole else self._found(True)
        if not self.whole:
            return self._found(True)
        worst = int(self.steps.argmax())  # the first of them
        numbers = [*self.paths.chain(worst), *self.way(worst)]
        return self._found(True, int(self.steps[worst]), int(self.exchanges.max()), self.paths.along(numbers))

    def _lasting(self, rests: list[int], component_of: Any) -> Path | None:
        """A fair run that never returns, if there is one; marks the states from which there is."""
        graph = self.graph
        lasting = (fair_components(self.astray, graph, self.asked) >= 0) & (np.bincount(component_of)[component_of] > 1)
        todo = lasting.copy()
        todo[rests] = True
        if not todo.any():
            return None
        if rests:
            path = self._resting(rests[0])
        else:
            run = liveness.fair_run(liveness.staying(lasting, self.astray), graph, self.paths, self.asked)
            assert run is not None
            path = self.paths.along(run.states, run.begin, *graph.fair_names(self.asked))
            self.endless = tuple(dict.fromkeys(run.states[run.begin :]))
        self.stays = leading(todo, graph, self.astray)
        return path

    def _find_cut_off(self, component_of: Any) -> None:
        """Marks the states from which only steps out of the bounds keep a run from staying for ever."""
        if len(self.graph.leaving):
            inner = self.graph.within_bounds()
            looping = fair_components(self.astray, inner, self.asked) >= 0
            looping &= (np.bincount(component_of)[component_of] > 1) | inner.rests(self.asked)
            self.cut_off = leading(looping & ~self.stays, self.graph, self.astray) & ~self.stays

    def _resting(self, n: int) -> Path:
        """A path to a state in which a run may stay for ever: it repeats nothing but its end."""
        numbers = self.paths.chain(n)
        self.endless = (n,)
        path: Path = self.paths.along(numbers, len(numbers) - 1, *self.graph.fair_names(self.asked))
        return path

    def run(self, n: int) -> tuple[list[int], int | None]:
        """The states after one from which a fair run never returns, on such a run, and where among them it repeats."""
        start = np.zeros(len(self.astray), dtype=bool)
        start[n] = True
        run = liveness.fair_run(liveness.staying(start, self.astray), self.graph, self.paths, self.asked)
        assert run is not None
        at = run.states.index(n)
        if at > run.begin:  # it lies on the cycle
            return [*run.states[at + 1 :], *run.states[run.begin + 1 : at + 1]], -1
        return run.states[at + 1 :], run.begin - at - 1

    def way(self, n: int) -> list[int]:
        """The states after a recovery state on its longest way, to the first legal one."""
        way: list[int] = []
        while self.astray[n] and self.steps[n] > 0:
            if n in self.through:
                way += self.through[n]
            else:
                after = (int(self.graph.targets[e]) for e in self.graph.out(n))
                way.append(next(t for t in after if t != n and 1 + max(0, int(self.steps[t])) == self.steps[n]))
            n = way[-1]
        return way

    def _found(
        self, converges: bool | None, steps: int | None = None, exchanges: int | None = None, path: Path | None = None
    ) -> Convergence:
        legal = len(self.astray) - self.bad
        return Convergence(legal, self.bad, self.other_ends, converges, steps, exchanges, path, self, self.endless)

    def _measure(self, component_of: Any) -> None:
        """The longest ways from the states from which every run returns, those of a component together."""
        asked = self.astray & ~self.stays & ~self.cut_off
        # What lies beyond a component that could not be measured has no number: `unknown` says so.
        for single, larger in component_layers(asked, component_of, self.graph):
            self._longest.layer(single)
            for component in larger:
                if not self._through(component, self._longest.unknown):
                    self.whole = False
                    self._longest.unknown[component] = True

    def _through(self, component: list[int], unknown: Any) -> bool:
        """Tries all ways through a component that go to no state twice; whether it could."""
        graph, inside = self.graph, set(component)
        out = {
            n: [(int(graph.targets[e]), int(graph.row_of(e).received)) for e in graph.out(n) if graph.targets[e] != n]
            for n in component
        }
        beyond = {t: (max(0, int(self.steps[t])), max(0, int(self.exchanges[t]))) for n in component for t, _ in out[n]}
        if any(unknown[t] for t in beyond if t not in inside):
            return False
        for start in component:
            steps = exchanges = tried = 0
            way: list[int] = []
            stack: list[Iterator[tuple[int, int]]] = [iter(out[start])]
            on, heard = [start], [0]
            while stack:
                target, received = next(stack[-1], (-1, 0))
                if target < 0:
                    stack.pop()
                    on.pop()
                    heard.pop()
                    continue
                tried += 1
                if tried > MOST_WAYS:
                    return False
                if target in inside:
                    if target not in on:
                        stack.append(iter(out[target]))
                        on.append(target)
                        heard.append(heard[-1] + received)
                    continue
                if (longer := len(on) + beyond[target][0]) > steps:
                    steps, way = longer, [*on[1:], target]
                exchanges = max(exchanges, heard[-1] + received + beyond[target][1])
            self.steps[start], self.exchanges[start], self.through[start] = steps, exchanges, way
        return True
