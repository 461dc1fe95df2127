"""The steps of an exploration as compact arrays: for what is decided on the finished graph.

An edge is a source, a target and the number of its *row*, which says what kind of step it is; there are few rows. The
arrays are in the order of their sources once the graph is `finished`.
"""

from __future__ import annotations

from array import array
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from leasehold.checker.explore.step import Action

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Row(NamedTuple):
    """What an edge is, as far as liveness and recovery ask."""

    group: int  # of weak fairness: index into `Graph.names`; -1: it need never be taken
    clock: bool  # the clock ticks
    received: bool  # a message is received
    fault: bool  # the step is a fault, or has one in it
    cost: tuple[int, ...]  # what it takes of the budget of faults
    point: int  # of a crash: index into `Graph.points`; -1: it is none


MOST_DENSE = 1 << 26  # keys that may be looked up in an array of all of them


def numbered(keys: Any) -> tuple[Any, Any]:
    """Numbers for keys, which are not negative: where each number is first met, and the numbers of all keys."""
    import numpy as np

    top = int(keys.max()) + 1 if len(keys) else 0
    if top > MOST_DENSE:
        _, first, numbers = np.unique(keys, return_index=True, return_inverse=True)
        return first, numbers
    met = np.zeros(top, dtype=bool)
    met[keys] = True
    numbers = (np.cumsum(met) - 1)[keys]
    first = np.zeros(int(met.sum()), dtype=np.int64)
    first[numbers[::-1]] = np.arange(len(keys))[::-1]  # of several writes the last one stays
    return first, numbers


class Graph:
    """The steps of an exploration.

    Attributes:
        faults_stop: no endless run has a fault in it for ever, and none is needed to come anywhere.
        kinds: the rows that edges may have.
        names: fair groups, numbered.
        points: crash points (name, role and instance), numbered.
        sources, targets, rows: of each edge, where it begins and ends, and its row.
        first: `first[n]:first[n + 1]` are the edges of state n, once the graph is finished.
    """

    sources: NDArray[np.int32]
    targets: NDArray[np.int32]
    rows: NDArray[np.int32]
    first: NDArray[np.int64]

    def __init__(self, faults_stop: bool = False) -> None:
        self.faults_stop = faults_stop
        self.kinds: list[Row] = []
        self.names: dict[tuple[Any, ...], int] = {}
        self.points: dict[tuple[str, str, int], int] = {}
        self._numbers: dict[Row, int] = {}
        self._by_change: dict[int, int] = {}
        self._sources, self.found, self.found_rows = array("i"), array("i"), array("i")

    # While it grows

    def add(self, source: int, target: int, action: Action) -> None:
        row = self._by_change.get(action.change)
        if row is None:
            row = self.row(action)
            if action.change:
                self._by_change[action.change] = row
        self._sources.append(source)
        self.found.append(target)
        self.found_rows.append(row)

    def row(self, action: Action) -> int:
        """The number of the row of a step."""
        point = -1
        if action.point and action.role is not None:
            point = self.points.setdefault((action.point, action.role, action.instance), len(self.points))
        row = Row(
            -1 if action.group is None else self.names.setdefault(action.group, len(self.names)),
            action.kind == "clock", action.kind in ("deliver", "duplicate"), action.fault, action.cost, point,
        )  # fmt: skip
        number = self._numbers.setdefault(row, len(self.kinds))
        if number == len(self.kinds):
            self.kinds.append(row)
        return number

    # Once it is finished

    def finish(self, states: int) -> Graph:
        """Brings the edges into the order of their sources, which states that are expanded twice spoil."""
        import numpy as np

        columns = (np.frombuffer(a, dtype=np.int32) for a in (self._sources, self.found, self.found_rows))
        return self.take(states, *columns)

    def take(self, states: int, sources: Any, targets: Any, rows: Any) -> Graph:
        """Has these edges, in the order of their sources."""
        import numpy as np

        if len(sources) and (np.diff(sources) < 0).any():
            order = np.argsort(sources, kind="stable")
            sources, targets, rows = sources[order], targets[order], rows[order]
        self.sources, self.targets, self.rows = sources, targets, rows
        self.first = np.zeros(states + 1, dtype=np.int64)
        np.cumsum(np.bincount(sources, minlength=states), out=self.first[1:])
        return self

    def column(self, name: str) -> Any:
        """What each edge's row has in a field that is a number or a truth."""
        import numpy as np

        values = np.array([getattr(row, name) for row in self.kinds], dtype=np.int32 if name in _NUMBERS else bool)
        return values[self.rows] if len(values) else np.zeros(0, dtype=values.dtype)

    def out(self, n: int) -> range:
        """The edges of a state."""
        return range(int(self.first[n]), int(self.first[n + 1]))

    def row_of(self, e: int) -> Row:
        return self.kinds[int(self.rows[e])]

    def lasting(self) -> Any:
        """Of each edge, whether the step may be taken for ever."""
        return ~self.column("fault") if self.faults_stop else self.column("fault") | True

    @cached_property
    def fair_groups(self) -> list[tuple[Any, Any]]:
        """Of each edge its fair group, and of each state those that are enabled: as bits, for every 64 groups."""
        import numpy as np

        group, states, found = self.column("group"), len(self.first) - 1, []
        for begin in range(0, max(1, len(self.names)), 64):
            here = (group >= begin) & (group < begin + 64)
            shifts = np.where(here, group - begin, 0).astype(np.uint64)
            bits = np.where(here, np.uint64(1) << shifts, np.uint64(0))
            enabled = np.zeros(states, dtype=np.uint64)
            some = self.first[:-1] < self.first[1:]
            if some.any():
                enabled[some] = np.bitwise_or.reduceat(bits, self.first[:-1][some])
            found.append((bits, enabled))
        return found

    def without_faults(self) -> Graph:
        """The same states with the steps alone that are no faults."""
        other = Graph(self.faults_stop)
        other.kinds, other.names, other.points = self.kinds, self.names, self.points
        kept = ~self.column("fault")
        return other.take(len(self.first) - 1, self.sources[kept], self.targets[kept], self.rows[kept])


_NUMBERS = ("group", "point")
