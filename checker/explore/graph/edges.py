"""The steps of an exploration as compact arrays: for what is decided on the finished graph.

An edge is a source, a target and the number of its *row*, which says what kind of step it is; there are few rows. The
arrays are in the order of their sources once the graph is `finished`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from leasehold.checker.explore.graph.arrays import (
    TopologicalLayers,
    backward,
    by_source,
    components,
    edges_of,
    topological_layers,
)
from leasehold.checker.explore.graph.fairness import Demands
from leasehold.checker.explore.graph.ways import select
from leasehold.checker.explore.resources import side_by_side
from leasehold.checker.explore.step import Action

if TYPE_CHECKING:
    from numpy.typing import NDArray


class EdgeKind(NamedTuple):
    """The kind of step that an edge is, as far as liveness and recovery ask."""

    group: int  # of fairness: index into `Graph.names`; -1: it is of none
    clock: bool  # `now` ticks, also where the clock of an actor stands still meanwhile
    received: bool  # a message is received
    fault: bool  # the step is a fault, or has one in it
    cost: tuple[int, ...]  # what it takes of the budget of faults
    point: int  # of a crash: index into `Graph.points`; -1: it is none


class FairGroups(NamedTuple):
    """Up to 64 groups to which a run must be fair, and where they are possible, as bits."""

    groups: tuple[int, ...]
    place: Any  # by group, and last for no group: its bit, or -1
    possible: Any  # by state: those of which some step is possible
    weak: Any
    strong: Any


WORD = 64
BLOCK = 1 << 16  # states of which something is worked out together: what is made on the way stays near


class Graph:
    """The steps of an exploration.

    Attributes:
        faults_stop: no endless run has a fault in it for ever, and none is needed to come anywhere.
        kinds: the rows that edges may have.
        names: groups of steps of which fairness may be asked (fairness.py), numbered.
        points: crash points (name, role and instance), numbered.
        targets, rows: of each edge, where it ends, and its row.
        leaving, leaving_rows: of each step that leads out of the bounds of the search, where it begins, and its row.
        first: `first[n]:first[n + 1]` are the edges of state n, once the graph is finished.
    """

    targets: NDArray[np.int32]
    rows: NDArray[np.integer[Any]]
    first: NDArray[np.int64]
    kernel: Any = None  # whose memory the targets are, where they are some

    def __init__(self, faults_stop: bool = False) -> None:
        self.faults_stop = faults_stop
        self.kinds: list[EdgeKind] = []
        self.names: dict[tuple[Any, ...], int] = {}
        self.points: dict[tuple[str, str, int], int] = {}
        self._numbers: dict[EdgeKind, int] = {}
        self._sources, self.found, self.found_rows = array("i"), array("i"), array("i")
        self._left, self._left_rows = array("i"), array("i")
        self.leave(np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32))
        self._enabled: dict[Demands, list[FairGroups]] = {}
        self._rests: dict[Demands, Any] = {}

    # While it grows

    def add(self, source: int, target: int, action: Action) -> None:
        self._sources.append(source)
        self.found.append(target)
        self.found_rows.append(self.row(action))

    def add_left(self, source: int, action: Action) -> None:
        """A step that leads out of the bounds."""
        self._left.append(source)
        self._left_rows.append(self.row(action))

    def row(self, action: Action) -> int:
        """The number of the row of a step."""
        point = -1
        if action.point and action.role is not None:
            point = self.points.setdefault((action.point, action.role, action.instance), len(self.points))
        row = EdgeKind(
            -1 if action.group is None else self.names.setdefault(action.group, len(self.names)),
            action.passes,
            action.kind in ("deliver", "duplicate"),
            action.fault,
            action.cost,
            point,
        )
        number = self._numbers.setdefault(row, len(self.kinds))
        if number == len(self.kinds):
            self.kinds.append(row)
        return number

    # Once it is finished

    def finish(self, states: int) -> Graph:
        """Brings the edges into the order of their sources, which states that are expanded twice spoil."""
        columns = self._sources, self.found, self.found_rows
        if self._left:
            self.leave(*(np.array(a, dtype=np.int32) for a in (self._left, self._left_rows)))
        return self.take(*by_source(states, *(np.frombuffer(a, dtype=np.int32) for a in columns)))

    def take(self, first: Any, targets: Any, rows: Any) -> Graph:
        """Has these edges, which are in the order of their sources."""
        self.first, self.targets, self.rows = first, targets, rows
        return self

    def leave(self, states: Any, rows: Any) -> None:
        """Has these steps out of the bounds."""
        self.leaving, self.leaving_rows = states, rows

    def within_bounds(self) -> Graph:
        """The same graph, as if no step led out of the bounds."""
        return self._like(self).take(self.first, self.targets, self.rows)

    @staticmethod
    def _like(other: Graph) -> Graph:
        """A graph without edges that has the kinds of steps of another, and what is the same of it."""
        graph = Graph(other.faults_stop)
        graph.kinds, graph.names, graph.points, graph.kernel = other.kinds, other.names, other.points, other.kernel
        if other.faults_stop:  # no cycle that counts has a fault in it
            graph.topological, graph.on_cycles = other.topological, other.on_cycles
        return graph

    @property
    def sources(self) -> NDArray[np.int32]:
        """The state in which each edge begins: made anew each time, as it is large and seldom asked for."""
        return np.repeat(np.arange(len(self.first) - 1, dtype=np.int32), np.diff(self.first))

    def source(self, e: int) -> int:
        """Returns where an edge begins."""
        return int(np.searchsorted(self.first, e, side="right")) - 1

    def beginning(self, marks: Any) -> Any:
        """Returns for each edge whether the state in which it begins is marked."""
        return np.repeat(marks, np.diff(self.first))

    @cached_property
    def self_loops(self) -> tuple[Any, Any]:
        """The edges that lead from a state to itself, and these states."""
        sources = self.sources
        edges = (sources == self.targets).nonzero()[0]
        return edges, sources[edges]

    def column(self, name: str) -> Any:
        """Returns for each edge the value of a field of its row that is a number or a truth."""
        values = np.array([getattr(row, name) for row in self.kinds], dtype=np.int32 if name in _NUMBERS else bool)
        if name in _NUMBERS and values.max(initial=0) <= np.iinfo(np.int16).max:
            values = values.astype(np.int16)
        return values[self.rows] if len(values) else np.zeros(0, dtype=values.dtype)

    def out(self, n: int) -> range:
        """The edges of a state."""
        return range(int(self.first[n]), int(self.first[n + 1]))

    def row_of(self, e: int) -> EdgeKind:
        return self.kinds[int(self.rows[e])]

    def edges_of(self, states: Any) -> tuple[Any, Any]:
        """The edges of some states, and of each the position of its state among these."""
        return edges_of(self.first, states)

    def edges_between(self, states: Any) -> tuple[Any, Any, Any]:
        """The edges between some states that may be taken for ever, with positions among them, and their rows."""
        if not len(states):
            return states, states, states
        place = np.full(len(self.first) - 1, -1, dtype=np.int32)
        place[states] = np.arange(len(states), dtype=np.int32)
        edges, of = self.edges_of(states)
        targets = place[self.targets[edges]]
        kept = (targets >= 0) & self.may_last(edges)
        return of[kept].astype(np.int32), targets[kept], self.rows[edges[kept]]

    @cached_property
    def lasting(self) -> Any:
        """Returns for each edge whether its step may be taken for ever; None: every one may."""
        return ~self.column("fault") if self.faults_stop else None

    def may_last(self, edges: Any) -> Any:
        """Returns for each of some edges whether its step may be taken for ever."""
        return np.ones(len(edges), dtype=bool) if self.lasting is None else self.lasting[edges]

    @cached_property
    def topological(self) -> TopologicalLayers:
        """The states in topological layers, by steps that may be taken for ever."""
        first, sources = backward(self.first, self.targets, self.lasting)
        leaving = np.bincount(sources, minlength=len(first) - 1)
        edges, states = self.self_loops
        np.subtract.at(leaving, states[self.may_last(edges)], 1)
        return topological_layers(first, sources, leaving)

    @cached_property
    def on_cycles(self) -> Any:
        """Returns for each state whether steps that may be taken for ever lead from it to another state and back."""
        _, component_of = components(self.first, self.targets, self.lasting)
        return (np.bincount(component_of) > 1)[component_of]

    # Fairness

    @cached_property
    def group_of(self) -> Any:
        """The group of each row."""
        return np.array([row.group for row in self.kinds], dtype=np.int32)

    def enabled(self, asked: Demands) -> list[FairGroups]:
        """Returns which of the groups to which a run must be fair are possible in each state."""
        known = self._enabled.get(asked)
        if known is not None:
            return known
        groups = sorted(asked.groups)
        fair_groups = self._enabled[asked] = []
        for begin in range(0, len(groups), WORD):
            here = groups[begin : begin + WORD]
            place = np.full(len(self.names) + 1, -1, dtype=np.int8)  # the last one: no group, which is -1
            place[here] = np.arange(len(here))
            bits = np.where(place >= 0, np.uint64(1) << np.maximum(place, 0).astype(np.uint64), np.uint64(0))
            possible = self._possible(bits[self.group_of])
            weak, strong = (
                sum(1 << n for n, g in enumerate(here) if g in which) for which in (asked.weak, asked.strong)
            )
            fair_groups.append(FairGroups(tuple(here), place, possible, np.uint64(weak), np.uint64(strong)))
        return fair_groups

    def _possible(self, by_row: Any) -> Any:
        """Returns the bits of all edges of each state together, given those of each row."""
        size = len(self.first) - 1
        possible = np.zeros(size, dtype=np.uint64)
        for begin in range(0, size, BLOCK):
            first = self.first[begin : begin + BLOCK + 1]
            states = (first[:-1] < first[1:]).nonzero()[0]
            if len(states):
                by_edge = by_row[self.rows[first[0] : first[-1]]]
                possible[begin + states] = np.bitwise_or.reduceat(by_edge, first[states] - first[0])
        if len(self.leaving):
            np.bitwise_or.at(possible, self.leaving, by_row[self.leaving_rows])
        return possible

    def fair_names(self, asked: Demands) -> tuple[frozenset[tuple[Any, ...]], frozenset[tuple[Any, ...]]]:
        """The groups to which a run must be fair weakly, and those strongly."""
        weak, strong = (
            frozenset(n for n, at in self.names.items() if at in which) for which in (asked.weak, asked.strong)
        )
        return weak, strong

    def prepare(self, asked: Demands) -> None:
        """Works out what every decision asks, for decisions that are then made side by side."""
        _ = self.lasting
        work: list[Callable[[], Any]] = [lambda: self.rests(asked), lambda: self.on_cycles]  # the first: and `enabled`
        if self.faults_stop:  # convergence will ask
            work.append(lambda: self.topological)
        side_by_side(lambda part: part(), work)

    def forget(self) -> None:
        """Gives back what is large, was worked out for a decision, and can be worked out again."""
        self._enabled.clear()
        self._rests.clear()

    def rests(self, asked: Demands) -> Any:
        """Returns in which states a fair run may stay for ever: no step must come, or one that must changes nothing."""
        known = self._rests.get(asked)
        if known is None:
            known = self._rests[asked] = np.ones(len(self.first) - 1, dtype=bool)
            edges, at = self.self_loops
            group = self.group_of[self.rows[edges]]
            for word in self.enabled(asked):
                left = word.possible.copy()
                for n, number in enumerate(word.groups):
                    left[at[group == number]] &= ~(np.uint64(1) << np.uint64(n))
                known &= left == 0
        return known

    def without_faults(self) -> Graph:
        """The same states with the steps alone that are no faults."""
        other, kept = self._like(self), ~np.array([row.fault for row in self.kinds], dtype=bool)
        if len(self.leaving):
            still = kept[self.leaving_rows]
            other.leave(self.leaving[still], self.leaving_rows[still])
        return other.take(*select(self.first, self.targets, self.rows, kept))


_NUMBERS = ("group", "point")
