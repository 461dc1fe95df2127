"""Whether a system stabilises by itself: once faults stop, every fair run returns to a legal state, and how fast.

Theory of operation (paper, section 3; Arora and Gouda's closure and convergence). A state is *legal* when it is
reachable without any fault; a *recovery state* is reachable only with faults. Once faults stop, a run takes steps of
the system and recoveries alone. Legal states are closed under the system's steps by what they are: a step from a
reachable state leads to one. Convergence is a question about the recovery states and the fault-free steps between
them: it fails if a fair run can stay there for ever, that is, if a strongly connected part of them has a fair run, or
if one of them has no step at all. Where they have no cycle, the longest way through them is the exact worst case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leasehold.checker.explore import liveness
from leasehold.checker.explore.faulty import FaultySystem
from leasehold.checker.explore.layout import State
from leasehold.checker.explore.paths import Paths
from leasehold.checker.explore.result import Exploration, Path


@dataclass(frozen=True, slots=True)
class Convergence:
    """What becomes of a system once faults stop.

    Attributes:
        legal_states: states (of those reached under faults) that are reachable without any fault.
        recovery_states: the others.
        converges: every fair run from a recovery state comes to a legal state.
        worst_steps: the most steps that takes; None where runs have no common bound.
        worst_exchanges: the most messages that are received on the way; None likewise.
        path: where it fails, a run that never returns; else one that takes the most steps.
    """

    legal_states: int
    recovery_states: int
    converges: bool
    worst_steps: int | None
    worst_exchanges: int | None
    path: Path | None

    def as_json(self) -> dict[str, object]:
        """All but the path."""
        return {
            "legal_states": self.legal_states,
            "recovery_states": self.recovery_states,
            "converges": self.converges,
            "worst_steps": self.worst_steps,
            "worst_exchanges": self.worst_exchanges,
        }


def convergence(legal: Exploration, faulty: Exploration) -> Convergence:
    """Decides convergence from the finished explorations of one system without and with faults.

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
    return _Ways(states, astray, faulty.graph, faulty.paths).decide()


class _Ways:
    """The fault-free steps among the recovery states."""

    def __init__(self, states: Sequence[State], astray: bytearray, graph: liveness.Graph, paths: Paths) -> None:
        self.astray, self.paths = astray, paths
        self.graph = graph.without_faults()
        self.first = self.graph.index(len(states))
        self.count = sum(astray)

    def steps(self, n: int) -> range:
        """The steps from a state."""
        return range(self.first[n], self.first[n + 1])

    def decide(self) -> Convergence:
        order, cyclic = self._order()
        if cyclic:
            numbers, loop = liveness.fair_run(cyclic, self.astray, self.graph, self.first, self.paths)
            return self._found(numbers is None, path=self.paths.along(numbers, loop) if numbers is not None else None)
        steps: dict[int, int] = {}
        exchanges: dict[int, int] = {}
        way: dict[int, int] = {}
        for n in order:  # targets before sources
            best = most = 0
            out = self.steps(n)
            for e in out:
                target = self.graph.targets[e]
                if (longer := 1 + steps.get(target, 0)) > best:
                    best, way[n] = longer, target
                most = max(most, self.graph.received[e] + exchanges.get(target, 0))
            if not out:
                return self._found(False, path=self.paths.to(n))
            steps[n], exchanges[n] = best, most
        if not steps:
            return self._found(True, 0, 0)
        numbers = [max(steps, key=lambda n: (steps[n], -n))]
        while numbers[-1] in way:
            numbers.append(way[numbers[-1]])
        return self._found(True, steps[numbers[0]], max(exchanges.values()), self.paths.along(numbers))

    def _found(
        self, converges: bool, steps: int | None = None, exchanges: int | None = None, path: Path | None = None
    ) -> Convergence:
        return Convergence(len(self.astray) - self.count, self.count, converges, steps, exchanges, path)

    def _order(self) -> tuple[list[int], list[int]]:
        """The recovery states, each after all that its fault-free steps lead to; and those on or before a cycle."""
        waiting = {n: 0 for n, bad in enumerate(self.astray) if bad}
        back: dict[int, list[int]] = {}
        for n in waiting:
            for e in self.steps(n):
                target = self.graph.targets[e]
                if self.astray[target]:
                    waiting[n] += 1
                    back.setdefault(target, []).append(n)
        order = [n for n, left in waiting.items() if not left]
        for n in order:
            for source in back.get(n, ()):
                waiting[source] -= 1
                if not waiting[source]:
                    order.append(source)
        return order, [n for n, left in waiting.items() if left]
