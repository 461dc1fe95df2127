"""Whether a system stabilises by itself: once faults stop, every fair run returns to a legal state, and how fast.

Theory of operation (paper, section 3; Arora and Gouda's closure and convergence). A state is *legal* when it is
reachable without any fault; a *recovery state* is reachable only with faults. Once faults stop, a run takes steps of
the system and recoveries alone. Legal states are closed under the system's steps by what they are: a step from a
reachable state leads to one. Convergence is a question about the recovery states and the fault-free steps between
them: it fails if a fair run can stay there for ever, that is, if a strongly connected part of them has a fair run, or
if in one of them nothing has to happen. But where nothing has to happen any more and the system's `ends` allow that, a
run has come to its end: a lease may have ended in a way in which it does not end without faults, such as a request
that was lost and then taken back.

The worst case is the longest way through the recovery states. Where they have cycles (a policy may try again in no
time, as often as it likes), fair runs leave them, but only in the end; so a run is measured that goes to no state
twice. It is found exactly: cycles are few and small, and within one all ways are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import networkx as nx

from leasehold.checker.explore import liveness
from leasehold.checker.explore.faulty import FaultySystem
from leasehold.checker.explore.layout import State
from leasehold.checker.explore.paths import Paths
from leasehold.checker.explore.result import Exploration, Path

MOST_WAYS = 200_000  # that are tried round one knot of cycles


@dataclass(frozen=True, slots=True)
class Convergence:
    """What becomes of a system once faults stop.

    Attributes:
        legal_states: states (of those reached under faults) that are reachable without any fault.
        recovery_states: the others.
        other_ends: of the recovery states, those in which nothing has to happen any more and an allowed end holds.
        converges: every fair run from a recovery state comes to a legal state, or to such an end.
        worst_steps: the most steps that takes, of runs that go to no state twice; None where there is no such number,
            or it was not found among MOST_WAYS.
        worst_exchanges: the most messages that are received on the way; None likewise.
        path: where it fails, a run that never returns; else one that takes the most steps.
        ways: the worst way from each recovery state.
    """

    legal_states: int
    recovery_states: int
    other_ends: int
    converges: bool
    worst_steps: int | None
    worst_exchanges: int | None
    path: Path | None
    ways: Ways | None = field(default=None, repr=False, compare=False)

    def as_json(self) -> dict[str, object]:
        """All but the paths."""
        return {
            "legal_states": self.legal_states,
            "recovery_states": self.recovery_states,
            "other_ends": self.other_ends,
            "converges": self.converges,
            "worst_steps": self.worst_steps,
            "worst_exchanges": self.worst_exchanges,
        }


def convergence(legal: Exploration, faulty: Exploration, *, throughout: bool = False) -> Convergence:
    """Decides convergence from the finished explorations of one system without and with faults.

    Args:
        legal: the one without.
        faulty: the one with them.
        throughout: decide it of every recovery state, also where one is found from which a run never returns.

    Raises:
        ValueError: one of them is not complete, or the second was made without a budget of faults.
    """
    world = faulty.paths.world
    if not isinstance(world, FaultySystem) or faulty.graph is None:
        raise ValueError("the second exploration has no faults")
    if not (legal.complete and faulty.complete):
        raise ValueError("both explorations must be complete")
    fine = set(legal.paths.states)
    states: Sequence[State] = faulty.paths.states
    astray = bytearray(0 if world.without_faults(s) in fine else 1 for s in states)
    ends = [world.world(end.holds) for end in legal.system.ends or ()]
    return Ways(states, astray, faulty.graph, faulty.paths).decide(
        lambda n: any(end(states[n], (), -1) for end in ends), throughout
    )


class Ways:
    """The fault-free steps from the recovery states.

    Attributes:
        graph, first: these steps, and where those of each state begin.
        astray: which states are recovery states.
        stays: those from which a fair run can stay among them for ever.
        steps: for each recovery state, the most steps to a legal one; missing where there is no such number.
        exchanges: likewise, the most messages that are received.
    """

    def __init__(self, states: Sequence[State], astray: bytearray, graph: liveness.Graph, paths: Paths) -> None:
        self.astray, self.paths = astray, paths
        self.stays = bytearray(len(astray))
        self.graph = graph.without_faults()
        self.first = self.graph.index(len(states))
        self.steps: dict[int, int] = {}
        self.exchanges: dict[int, int] = {}
        self.next: dict[int, list[int]] = {}  # the states on the longest way, up to the next knot or state
        self.whole = True
        self.bad = sum(astray)
        self.other_ends = 0

    def out(self, n: int) -> range:
        """The steps from a state."""
        return range(self.first[n], self.first[n + 1])

    def decide(self, ended: Callable[[int], bool], throughout: bool) -> Convergence:
        rests = []
        for n, bad in enumerate(self.astray):
            if bad and self._may_rest(n):
                if not ended(n):
                    rests.append(n)
                    if not throughout:
                        return self._found(False, path=self.paths.to(n))
                    continue
                self.astray[n] = 0
                self.other_ends += 1
        knots = self._knots()
        lasting = self._lasting(rests, knots)
        if lasting is not None and not throughout:
            return self._found(False, path=lasting)
        for part in self._order([knot for knot in knots if not self.stays[knot[0]]]):
            if len(part) == 1:
                self._single(part[0])
            else:
                self._through(part)
        if lasting is not None:
            return self._found(False, path=lasting)
        if not self.steps:
            return self._found(True, 0, 0) if self.whole else self._found(True)
        if not self.whole:
            return self._found(True)
        worst = max(self.steps, key=lambda n: (self.steps[n], -n))
        numbers = [*self.paths.chain(worst), *self.way(worst)]
        return self._found(True, self.steps[worst], max(self.exchanges.values()), self.paths.along(numbers))

    def _lasting(self, rests: list[int], knots: list[list[int]]) -> Path | None:
        """A fair run that never returns, if there is one; marks the states from which there is."""
        lasting = [n for knot in knots if liveness.fair(set(knot), self.graph, self.first) for n in knot]
        todo = [*rests, *lasting]
        if not todo:
            return None
        if rests:
            path = self.paths.to(rests[0])
        else:
            numbers, loop = liveness.fair_run(lasting, self.astray, self.graph, self.first, self.paths)
            assert numbers is not None
            path = self.paths.along(numbers, loop)
        back: dict[int, list[int]] = {}
        for source, target in zip(self.graph.sources, self.graph.targets, strict=True):
            if self.astray[source] and self.astray[target]:
                back.setdefault(target, []).append(source)
        for n in todo:
            self.stays[n] = 1
        while todo:
            for source in back.get(todo.pop(), ()):
                if not self.stays[source]:
                    self.stays[source] = 1
                    todo.append(source)
        return path

    def run(self, n: int) -> tuple[list[int], int | None]:
        """The states after one from which a fair run never returns, on such a run, and where among them it repeats."""
        numbers, loop = liveness.fair_run([n], self.astray, self.graph, self.first, self.paths)
        assert numbers is not None and loop is not None
        begin = numbers.index(n) + 1
        return numbers[begin:], loop - begin

    def _may_rest(self, n: int) -> bool:
        """Whether a fair run may stay in a state for ever: no step must come, or one that must changes nothing."""
        must = {g for e in self.out(n) if (g := self.graph.groups[e]) >= 0}
        return must <= {self.graph.groups[e] for e in self.out(n) if self.graph.targets[e] == n}

    def way(self, n: int) -> list[int]:
        """The states after a recovery state on its longest way, to the first legal one."""
        found: list[int] = []
        while n in self.next:
            found += self.next[n]
            n = found[-1]
        return found

    def _found(
        self, converges: bool, steps: int | None = None, exchanges: int | None = None, path: Path | None = None
    ) -> Convergence:
        legal = len(self.astray) - self.bad
        return Convergence(legal, self.bad, self.other_ends, converges, steps, exchanges, path, self)

    def _knots(self) -> list[list[int]]:
        """The strongly connected parts with more than one state."""
        left = {n for n, bad in enumerate(self.astray) if bad}
        ahead: dict[int, int] = {}
        behind: dict[int, int] = dict.fromkeys(left, 0)
        back: dict[int, list[int]] = {}
        for n in left:
            targets = [t for e in self.out(n) if self.astray[t := self.graph.targets[e]]]
            ahead[n] = len(targets)
            for t in targets:
                behind[t] += 1
                back.setdefault(t, []).append(n)
        # What has nothing ahead of it, or nothing behind, lies on no cycle.
        for counts, other in ((ahead, back), (behind, None)):
            todo = [n for n in left if not counts[n]]
            while todo:
                n = todo.pop()
                left.discard(n)
                near = back.get(n, ()) if other is not None else [self.graph.targets[e] for e in self.out(n)]
                for m in near:
                    if m in left:
                        counts[m] -= 1
                        if not counts[m]:
                            todo.append(m)
            if other is not None:
                behind.update(dict.fromkeys(left, 0))
                for n in left:
                    for e in self.out(n):
                        if self.graph.targets[e] in left:
                            behind[self.graph.targets[e]] += 1
        tangle: nx.DiGraph[int] = nx.DiGraph()
        for n in left:
            tangle.add_edges_from((n, self.graph.targets[e]) for e in self.out(n) if self.graph.targets[e] in left)
        return [sorted(part) for part in nx.strongly_connected_components(tangle) if len(part) > 1]

    def _order(self, knots: list[list[int]]) -> Iterator[list[int]]:
        """The recovery states from which every run returns, knots as one, each after all that its steps lead to."""
        knot_of = {n: knot for knot in knots for n in knot}
        waiting: dict[int, int] = {}  # by the first state of a knot
        back: dict[int, list[int]] = {}
        for n, bad in enumerate(self.astray):
            if not bad or self.stays[n]:
                continue
            own = knot_of.get(n)
            name = own[0] if own else n
            waiting.setdefault(name, 0)
            for e in self.out(n):
                target = self.graph.targets[e]
                if self.astray[target] and target != n and (own is None or knot_of.get(target) is not own):
                    there = knot_of[target][0] if target in knot_of else target
                    waiting[name] += 1
                    back.setdefault(there, []).append(name)
        todo = [n for n, count in waiting.items() if not count]
        for n in todo:
            yield knot_of.get(n, [n])
            for source in back.get(n, ()):
                waiting[source] -= 1
                if not waiting[source]:
                    todo.append(source)

    def _single(self, n: int) -> None:
        best = most = 0
        for e in self.out(n):
            target = self.graph.targets[e]
            if target == n:
                continue
            if self.astray[target] and target not in self.steps:
                return  # beyond it lies a knot that was not measured
            if (longer := 1 + self.steps.get(target, 0)) > best:
                best, self.next[n] = longer, [target]
            most = max(most, self.graph.received[e] + self.exchanges.get(target, 0))
        self.steps[n], self.exchanges[n] = best, most

    def _through(self, knot: list[int]) -> None:
        """Tries all ways through a knot of cycles that go to no state twice."""
        inside = set(knot)
        for start in knot:
            steps = exchanges = tried = 0
            way: list[int] = []
            stack: list[tuple[int, Iterator[int]]] = [(start, iter(self.out(start)))]
            on = [start]
            heard = [0]
            while stack:
                steps_out = stack[-1][1]
                e = next(steps_out, None)
                if e is None:
                    stack.pop()
                    on.pop()
                    heard.pop()
                    continue
                tried += 1
                target = self.graph.targets[e]
                if tried > MOST_WAYS or (self.astray[target] and target not in inside and target not in self.steps):
                    self.whole = False
                    return
                if target in inside:
                    if target not in on:
                        stack.append((target, iter(self.out(target))))
                        on.append(target)
                        heard.append(heard[-1] + self.graph.received[e])
                    continue
                if (longer := len(on) + self.steps.get(target, 0)) > steps:
                    steps, way = longer, [*on[1:], target]
                exchanges = max(exchanges, heard[-1] + self.graph.received[e] + self.exchanges.get(target, 0))
            self.steps[start], self.exchanges[start], self.next[start] = steps, exchanges, way
