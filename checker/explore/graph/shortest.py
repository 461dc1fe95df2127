"""The shortest fair run among some states: a way there, and a cycle or a stop.

Theory of operation. A run that stays among the states for ever is shown as a stem, from an initial state to an entry,
and a cycle through the entry; where no fair group is possible in the entry the run may stop there, a cycle of no step.
Some state from which the claim has to come, a *start*, lies on the stem or on the cycle; if the claim has to hold in
the end, some state without it lies on the cycle (`again`). The sum of both lengths is the least where no entry has a
lesser one, so entries are tried in the order of their stems until these alone are as long as the best run that is
known. A cycle through an entry that was tried before need not be looked at again.

The shortest fair cycle through an entry is a shortest path back to it in a product: a state, with what the cycle has
done so far. That is, of each weakly fair group, whether it was impossible in a state or was taken; of each strongly
fair one, whether it was taken, and whether it still has to be; and whether there was a start, and one of `again`. A*
finds it: from a state it is never nearer than its entry, nor than to where any one group is done and back from there.
To find a shortest cycle is NP-hard in the number of groups (Clarke, Grumberg, McMillan and Zhao, "Efficient generation
of counterexamples and witnesses in symbolic model checking", 1995), so there is a limit (MOST_LABELS), beyond which the
best that is known stays, marked as such.

Two states may be joined by steps of several groups. Each time that the cycle goes from one to the other it takes one of
them, so that the cycle, as it is shown, is fair by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

import numpy as np

from leasehold.checker.explore.graph.arrays import edge_numbers, in_order, sums_before
from leasehold.checker.explore.graph.edges import Graph
from leasehold.checker.explore.graph.fairness import Demands

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Marks = NDArray[np.bool_]  # by state

MOST_LABELS = 40_000  # states of the product that are looked at, over all entries
FAR = 1 << 30  # more than any distance


@dataclass(frozen=True, slots=True)
class FairRun:
    """A run: its states from an initial one on, and where its cycle begins among them.

    The cycle's first state comes last again; where the run stops it is there once. `shortest` is false where a shorter
    one was not ruled out.
    """

    states: list[int]
    begin: int
    shortest: bool = True

    @property
    def cycle(self) -> list[int]:
        return self.states[self.begin :]


@dataclass(frozen=True, slots=True)
class CycleEntry:
    """A state that a cycle may begin in: how far it is from an initial state, and the states on the way there.

    `started` says whether one of them is a start, and no state after that has the claim.
    """

    state: int
    depth: int
    started: bool
    stem: Callable[[], list[int]]


class Cycles:
    """The fair cycles of a graph, within components in which a fair run can stay.

    Args:
        component_of: by state the number of its component, or -1.
        starts: the states of which a run has to visit one.
        again: the states of which a cycle has to visit one; None: any.
        graph: all steps.
        asked: to what a run must be fair.
    """

    def __init__(
        self, component_of: Any, starts: Marks, graph: Graph, asked: Demands, again: Marks | None = None
    ) -> None:
        self.states = (component_of >= 0).nonzero()[0]
        self.place = np.full(len(component_of), -1, dtype=np.int64)
        self.place[self.states] = np.arange(len(self.states))
        sources, targets, rows = graph.edges_between(self.states)
        of = component_of[self.states]
        inside = of[sources] == of[targets]
        self.sources, self.targets, rows = sources[inside], targets[inside], rows[inside]
        self.first = sums_before(np.bincount(self.sources, minlength=len(self.states)))
        self.group = graph.group_of[rows]
        self.weak, self.strong = sorted(asked.weak), sorted(asked.strong)
        self.bit = {g: 1 << n for n, g in enumerate([*self.weak, *self.strong])}
        self.start_bit, self.again_bit = 1 << len(self.bit), 2 << len(self.bit)
        self.owed_shift = len(self.bit) + 2
        self.weak_bits = (1 << len(self.weak)) - 1
        self.strong_bits = self.start_bit - 1 - self.weak_bits
        self.possible = self._possible(graph, asked)
        self.is_start = starts[self.states]
        self.is_again = np.ones(len(self.states), dtype=bool) if again is None else again[self.states]
        self.tried: set[int] = set()
        self.looked_at = 0

    def _possible(self, graph: Graph, asked: Demands) -> list[int]:
        """Returns the bits of the groups with a possible step at each position, steps that lead out included."""
        by_position = [0] * len(self.states)
        for word in graph.enabled(asked):
            bits = [self.bit[g] for g in word.groups]
            for n, possible in enumerate(word.possible[self.states].tolist()):
                by_position[n] |= sum(bit for at, bit in enumerate(bits) if possible >> at & 1)
        return by_position

    @cached_property
    def backward(self) -> tuple[Any, Any]:
        """The edges by their ends: where those of each position begin in an array of sources, and that array."""
        order = in_order(self.targets, len(self.states))
        sources = self.sources if order is None else self.sources[order]
        return sums_before(np.bincount(self.targets, minlength=len(self.states))), sources

    @cached_property
    def detours(self) -> dict[int, tuple[list[int], list[int]]]:
        """The distances to where a weakly fair group, a start or `again` is met, and back from there; by its bit."""
        detours = {}
        for group in self.weak:
            bit = self.bit[group]
            off = np.array([not possible & bit for possible in self.possible], dtype=bool)
            if not off.all():
                detours[bit] = self._there_and_back(off, self.group == group)
        for bit, marked in ((self.start_bit, self.is_start), (self.again_bit, self.is_again)):
            detours[bit] = self._there_and_back(marked, np.zeros(len(self.sources), dtype=bool))
        return detours

    def _there_and_back(self, at: Marks, by: Any) -> tuple[list[int], list[int]]:
        """Returns how far each state is from some states, or some edges, and how far it is from their ends to each."""
        near, ends = np.zeros(len(at), dtype=bool), at.copy()
        near[self.sources[by]] = True
        ends[self.targets[by]] = True
        there = _distances(at, near, *self.backward)
        return there.tolist(), _distances(ends, ends & False, self.first, self.targets).tolist()

    @cached_property
    def after(self) -> list[dict[int, int]]:
        """The next positions from each position, with the bits of the groups of the steps there."""
        after: list[dict[int, int]] = [{} for _ in self.states]
        for n, m, group in zip(self.sources.tolist(), self.targets.tolist(), self.group.tolist(), strict=True):
            after[n][m] = after[n].get(m, 0) | self.bit.get(group, 0)
        return after

    def may_stop(self, entry: CycleEntry) -> bool:
        """Returns whether a run may end in an entry: it has seen a start, and nothing that is fair is possible."""
        n = int(self.place[entry.state])
        return entry.started and bool(self.is_again[n]) and not self.possible[n]

    def least(self, state: int, started: bool) -> int:
        """No fair cycle through a state has fewer steps."""
        n = int(self.place[state])
        ways = (way for bit, way in self.detours.items() if not (started and bit == self.start_bit))
        return max([1, *(there[n] + back[n] for there, back in ways)])

    def shortest(self, state: int, started: bool, limit: int) -> list[int] | None:
        """The shortest fair cycle from a state and back, of at most so many steps: its states, without the first.

        Returns None where there is none, or too many states of the product were looked at.
        """
        entry = int(self.place[state])
        if started and self.is_again[entry] and not self.possible[entry]:
            return []
        home = _distances(np.arange(len(self.states)) == entry, np.zeros(len(self.states), dtype=bool), *self.backward)
        self.looked_at += len(self.states) // 100
        back = {bit: way[entry] for bit, (_, way) in self.detours.items()}
        all_done = self.weak_bits | self.start_bit | self.again_bit | self.strong_bits << self.owed_shift

        def arrived(n: int, done: int) -> int:
            """Returns what is done once a cycle has come to a state."""
            possible = self.possible[n]
            done |= ~possible & self.weak_bits | (self.start_bit if self.is_start[n] else 0)
            done |= self.again_bit if self.is_again[n] else 0
            owed = possible & self.strong_bits & ~done
            return done & ~(owed << self.owed_shift)

        def to_go(n: int, done: int) -> int:
            rest = int(home[n])
            for bit, (there, _) in self.detours.items():
                if not done & bit:
                    rest = max(rest, there[n] + back[bit])
            return rest

        # Of a strongly fair group, the lower bit says that it was taken, the upper that it is not owed.
        nothing = all_done & ~self.weak_bits & ~self.start_bit & ~self.again_bit
        begin = arrived(entry, nothing | (self.start_bit if started else 0))
        seen: dict[int, list[int]] = {}
        came: list[tuple[int, int]] = [(entry, -1)]  # by label: its position, and the label before
        waiting = [(to_go(entry, begin), 0, 0, begin)]  # steps in all at least, label, steps so far, what is done
        while waiting:
            _, label, steps, done = heappop(waiting)
            n = came[label][0]
            if steps and n == entry and done & all_done == all_done:
                return self._way(came, label)
            known = seen.setdefault(n, [])
            if any(other & done == done for other in known):
                continue
            known.append(done)
            self.looked_at += 1
            if self.looked_at > MOST_LABELS:
                return None
            for m, taken in self.after[n].items():
                if m in self.tried:
                    continue
                for one in _single(taken):
                    then = arrived(m, done | one | (one & self.strong_bits) << self.owed_shift)
                    total = steps + 1 + to_go(m, then)
                    if total <= limit:
                        came.append((m, label))
                        heappush(waiting, (total, len(came) - 1, steps + 1, then))
        return None

    def _way(self, came: list[tuple[int, int]], label: int) -> list[int]:
        way = []
        while label > 0:
            way.append(int(self.states[came[label][0]]))
            label = came[label][1]
        return way[::-1]


def _single(bits: int) -> Iterator[int]:
    """Each bit by itself; 0 where there is none."""
    if not bits:
        yield 0
    while bits:
        yield bits & -bits
        bits &= bits - 1


def _distances(seeds: Marks, near: Marks, first: Any, targets: Any) -> Any:
    """Returns the fewest edges from a seed to each state; `near` states are one edge away besides."""
    distances = np.full(len(seeds), FAR, dtype=np.int64)
    distances[seeds] = 0
    layer, length = seeds.nonzero()[0], 0
    while len(layer) or length == 0:
        length += 1
        ahead = targets[edge_numbers(first, layer)]
        if length == 1:
            ahead = np.concatenate([ahead, near.nonzero()[0]])
        layer = np.unique(ahead[distances[ahead] > length])
        distances[layer] = length
    return distances


def shortest_of(cycles: Cycles, entries: Iterable[CycleEntry], best: FairRun | None = None) -> FairRun | None:
    """The shortest run that has one of these entries, of which the nearest come first, unless the best is as short."""
    cycles.tried.clear()
    for entry in entries:
        most = FAR if best is None else len(best.states) - 1  # steps
        if entry.depth >= most or cycles.looked_at > MOST_LABELS:
            break
        if entry.depth + cycles.least(entry.state, entry.started) < most or cycles.may_stop(entry):
            cycle = cycles.shortest(entry.state, entry.started, most - entry.depth - 1)
            if cycle is not None:
                stem = entry.stem()
                best = FairRun([*stem, *cycle], len(stem) - 1)
        cycles.tried.add(int(cycles.place[entry.state]))
    return best
