"""The steps of an exploration as compact arrays: for what is decided on the finished graph.

An edge is a source, a target and the number of its *row*, which says what kind of step it is; there are few rows. The
arrays are in the order of their sources once the graph is `finished`.
"""

from __future__ import annotations

from array import array
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from leasehold.checker.explore.fairness import Demands
from leasehold.checker.explore.step import Action

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from leasehold.checker.explore.waves import Waves


class Row(NamedTuple):
    """What an edge is, as far as liveness and recovery ask."""

    group: int  # of fairness: index into `Graph.names`; -1: it is of none
    clock: bool  # the clock ticks
    received: bool  # a message is received
    fault: bool  # the step is a fault, or has one in it
    cost: tuple[int, ...]  # what it takes of the budget of faults
    point: int  # of a crash: index into `Graph.points`; -1: it is none


class Word(NamedTuple):
    """Up to 64 groups to which a run must be fair, and where they are possible, as bits."""

    groups: tuple[int, ...]
    place: Any  # by group, and last for no group: its bit, or -1
    possible: Any  # by state: those of which some step is possible
    weak: Any
    strong: Any


WORD = 64
BLOCK = 1 << 16  # states of which something is worked out together: what is made on the way stays near
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


def in_order(keys: Any, size: int) -> Any:
    """The positions of keys below a size in the order of these, equal ones as they come; None: they lie so."""
    import numpy as np
    from scipy.sparse import csr_array

    if len(keys) < 2 or not (keys[1:] < keys[:-1]).any():
        return None
    # Counted, not compared: transposing a matrix with one entry in each row sorts them in one pass.
    rows = np.arange(len(keys) + 1, dtype=np.int32)
    table = csr_array(
        (np.ones(len(keys), dtype=np.int8), keys.astype(np.int32, copy=False), rows), shape=(len(keys), size)
    )
    return table.tocsc().indices


def sums_before(numbers: Any, kind: str = "int64") -> Any:
    """The sum of all numbers before each, and last that of all."""
    import numpy as np

    found = np.zeros(len(numbers) + 1, dtype=kind)
    np.cumsum(numbers, out=found[1:])
    return found


def by_source(states: int, sources: Any, targets: Any, rows: Any) -> tuple[Any, Any, Any, Any]:
    """Edges in the order of their sources: where those of each of so many states begin, and the three columns."""
    import numpy as np

    order = in_order(sources, states)
    if order is not None:
        sources, targets, rows = sources[order], targets[order], rows[order]
    return sums_before(np.bincount(sources, minlength=states)), sources, targets, rows


def spread(first: Any, states: Any) -> tuple[Any, Any]:
    """The edges of some states, and of each the position of its state among these.

    Of state n they are those from `first[n]` to `first[n + 1]`.
    """
    import numpy as np

    return edge_numbers(first, states), np.repeat(np.arange(len(states)), first[states + 1] - first[states])


def edge_numbers(first: Any, states: Any) -> Any:
    """The edges of some states; of state n they are those from `first[n]` to `first[n + 1]`."""
    import numpy as np

    begins = first[states]
    sizes = first[states + 1] - begins
    before = np.cumsum(sizes) - sizes
    found = np.repeat(begins - before, sizes)
    found += np.arange(len(found), dtype=found.dtype)
    return found


def raise_to(into: Any, at: Any, values: Any) -> None:
    """Makes each item (or row) of an array at least the largest of its values; where they belong (`at`) is in order."""
    import numpy as np

    if len(at):
        begins = np.append(0, (at[1:] != at[:-1]).nonzero()[0] + 1)
        places = at[begins]
        into[places] = np.maximum(into[places], np.maximum.reduceat(values, begins, axis=0))


class Graph:
    """The steps of an exploration.

    Attributes:
        faults_stop: no endless run has a fault in it for ever, and none is needed to come anywhere.
        kinds: the rows that edges may have.
        names: groups of steps of which fairness may be asked (fairness.py), numbered.
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
        self._enabled: dict[Demands, list[Word]] = {}
        self._rests: dict[Demands, Any] = {}

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

        columns = self._sources, self.found, self.found_rows
        return self.take(*by_source(states, *(np.frombuffer(a, dtype=np.int32) for a in columns)))

    def take(self, first: Any, sources: Any, targets: Any, rows: Any) -> Graph:
        """Has these edges, which are in the order of their sources."""
        self.first, self.sources, self.targets, self.rows = first, sources, targets, rows
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

    def edges_of(self, states: Any) -> tuple[Any, Any]:
        """The edges of some states, and of each the position of its state among these."""
        return spread(self.first, states)

    @cached_property
    def lasting(self) -> Any:
        """Of each edge, whether the step may be taken for ever."""
        import numpy as np

        return ~self.column("fault") if self.faults_stop else np.ones(len(self.rows), dtype=bool)

    @cached_property
    def backward(self) -> tuple[Any, Any]:
        """The steps that may be taken for ever by their targets: where those of each state begin, and their sources."""
        import numpy as np

        size = len(self.first) - 1
        sources, targets = self.sources[self.lasting], self.targets[self.lasting]
        first = sums_before(np.bincount(targets, minlength=size), "int32")
        order = in_order(targets, size)
        return first, sources if order is None else sources[order]

    @cached_property
    def waves(self) -> Waves:
        """The states from the back, by steps that may be taken for ever."""
        import numpy as np

        from leasehold.checker.explore.waves import waves

        first, sources = self.backward
        leaving = np.bincount(sources, minlength=len(first) - 1)
        loops = self.sources[(self.sources == self.targets) & self.lasting]
        np.subtract.at(leaving, loops, 1)
        return waves(first, sources, leaving)

    @cached_property
    def on_cycles(self) -> Any:
        """By state, whether steps that may be taken for ever lead from it to another state and back."""
        import numpy as np

        from leasehold.checker.explore.parts import between, parts

        rest = self.waves.rest
        sources, targets, _ = between(self, rest)
        _, part_of = parts(sources, targets, len(rest))
        found = np.zeros(len(self.first) - 1, dtype=bool)
        found[rest] = (np.bincount(part_of) > 1)[part_of]
        return found

    # Fairness

    @cached_property
    def group_of(self) -> Any:
        """By row, its group."""
        import numpy as np

        return np.array([row.group for row in self.kinds], dtype=np.int32)

    def enabled(self, asked: Demands) -> list[Word]:
        """Which of the groups to which a run must be fair are possible in each state."""
        import numpy as np

        known = self._enabled.get(asked)
        if known is not None:
            return known
        groups = sorted(asked.groups)
        found = self._enabled[asked] = []
        for begin in range(0, len(groups), WORD):
            here = groups[begin : begin + WORD]
            place = np.full(len(self.names) + 1, -1, dtype=np.int8)  # the last one: no group, which is -1
            place[here] = np.arange(len(here))
            bits = np.where(place >= 0, np.uint64(1) << np.maximum(place, 0).astype(np.uint64), np.uint64(0))
            possible = self._possible(bits[self.group_of])
            weak, strong = (
                sum(1 << n for n, g in enumerate(here) if g in which) for which in (asked.weak, asked.strong)
            )
            found.append(Word(tuple(here), place, possible, np.uint64(weak), np.uint64(strong)))
        return found

    def _possible(self, by_row: Any) -> Any:
        """By state, the bits of all its edges together, given those of each row."""
        import numpy as np

        size = len(self.first) - 1
        found = np.zeros(size, dtype=np.uint64)
        for begin in range(0, size, BLOCK):
            first = self.first[begin : begin + BLOCK + 1]
            states = (first[:-1] < first[1:]).nonzero()[0]
            if len(states):
                by_edge = by_row[self.rows[first[0] : first[-1]]]
                found[begin + states] = np.bitwise_or.reduceat(by_edge, first[states] - first[0])
        return found

    def prepare(self, asked: Demands) -> None:
        """Works out what every decision asks, for decisions that are then made side by side."""
        self.rests(asked)  # and so `enabled`
        _ = self.on_cycles

    def rests(self, asked: Demands) -> Any:
        """By state, whether a fair run may stay in it for ever: no step must come, or one that must changes nothing."""
        import numpy as np

        known = self._rests.get(asked)
        if known is None:
            known = self._rests[asked] = np.ones(len(self.first) - 1, dtype=bool)
            loops = (self.sources == self.targets).nonzero()[0]
            at, group = self.sources[loops], self.group_of[self.rows[loops]]
            for word in self.enabled(asked):
                left = word.possible.copy()
                for n, number in enumerate(word.groups):
                    left[at[group == number]] &= ~(np.uint64(1) << np.uint64(n))
                known &= left == 0
        return known

    def without_faults(self) -> Graph:
        """The same states with the steps alone that are no faults."""
        other = Graph(self.faults_stop)
        other.kinds, other.names, other.points = self.kinds, self.names, self.points
        kept = ~self.column("fault")
        if self.faults_stop:  # no cycle that counts has a fault in it
            other.backward, other.waves, other.on_cycles = self.backward, self.waves, self.on_cycles
        return other.take(sums_before(kept)[self.first], self.sources[kept], self.targets[kept], self.rows[kept])


_NUMBERS = ("group", "point")
