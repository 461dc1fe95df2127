"""Algorithms on edges in arrays: order, reachability, strongly connected components, topological layers.

An edge has a position in arrays of sources and targets. In the order of their sources, the edges of state n are those
from `first[n]` to `first[n + 1]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Marks = NDArray[np.bool_]  # by state

MOST_DENSE = 1 << 26  # keys that may be looked up in an array of all of them


def numbered(keys: Any) -> tuple[Any, Any]:
    """Numbers for keys, which are not negative: where each number is first met, and the numbers of all keys."""
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
    found = np.zeros(len(numbers) + 1, dtype=kind)
    np.cumsum(numbers, out=found[1:])
    return found


def by_source(states: int, sources: Any, targets: Any, rows: Any) -> tuple[Any, Any, Any, Any]:
    """Edges in the order of their sources: where those of each of so many states begin, and the three columns."""
    order = in_order(sources, states)
    if order is not None:
        sources, targets, rows = sources[order], targets[order], rows[order]
    return sums_before(np.bincount(sources, minlength=states)), sources, targets, rows


def spread(first: Any, states: Any) -> tuple[Any, Any]:
    """The edges of some states, and of each the position of its state among these.

    Of state n they are those from `first[n]` to `first[n + 1]`.
    """
    return edge_numbers(first, states), np.repeat(np.arange(len(states)), first[states + 1] - first[states])


def edge_numbers(first: Any, states: Any) -> Any:
    """The edges of some states; of state n they are those from `first[n]` to `first[n + 1]`."""
    begins = first[states]
    sizes = first[states + 1] - begins
    before = np.cumsum(sizes) - sizes
    found = np.repeat(begins - before, sizes)
    found += np.arange(len(found), dtype=found.dtype)
    return found


def raise_to(into: Any, at: Any, values: Any) -> None:
    """Makes each item (or row) of an array at least the largest of its values; where they belong (`at`) is in order."""
    if len(at):
        begins = np.append(0, (at[1:] != at[:-1]).nonzero()[0] + 1)
        places = at[begins]
        into[places] = np.maximum(into[places], np.maximum.reduceat(values, begins, axis=0))


def reached_by(starts: Marks, first: Any, targets: Any) -> Marks:
    """The states reached from some states; `targets[first[n]:first[n + 1]]` are the targets of state n's edges."""
    from scipy.sparse.csgraph import breadth_first_order

    size = len(starts)
    begin = starts.nonzero()[0].astype(np.int32)
    found = np.zeros(size + 1, dtype=bool)
    if len(begin):  # a state of its own, numbered last, leads to all of them
        table = _table(np.append(first, first[-1] + len(begin)), np.concatenate([targets, begin]))
        found[breadth_first_order(table, size, return_predecessors=False)] = True
    return found[:size]


def components(sources: Any, targets: Any, size: int) -> tuple[int, Any]:
    """The number of strongly connected components of a graph, and by state the number of its component."""
    from scipy.sparse.csgraph import connected_components

    if not len(sources):
        return size, np.arange(size, dtype=np.int32)
    first, targets = _rows(sources, targets, size)
    table = _table(first, targets.copy(), np.ones(len(targets)))  # they are changed in place
    table.sum_duplicates()  # of an edge that is there twice scipy's search does not come to an end
    count, component_of = connected_components(table, directed=True, connection="strong")
    return int(count), component_of


def _rows(sources: Any, targets: Any, size: int) -> tuple[Any, Any]:
    """Where the edges of each state begin, and the targets in that order."""
    order = in_order(sources, size)
    first = sums_before(np.bincount(sources, minlength=size), "int32")
    return first, (targets if order is None else targets[order]).astype(np.int32, copy=False)


def _table(first: Any, targets: Any, values: Any = None) -> Any:
    """The matrix of a graph, made without a detour: scipy takes what has this form as it is."""
    from scipy.sparse import csr_array

    size = len(first) - 1
    if values is None:  # nobody looks at them
        values = np.broadcast_to(np.float64(1), len(targets))
    return csr_array((values, targets, first.astype(np.int32, copy=False)), shape=(size, size))


class TopologicalLayers(NamedTuple):
    """The states of a graph from the back: each layer after all that its edges lead to.

    Attributes:
        layers: arrays of states, first those without edges to other states.
        rest: the states that lead to a cycle.
    """

    layers: list[Any]
    rest: Any


def topological_layers(first: Any, sources: Any, leaving: Any) -> TopologicalLayers:
    """Layers of a graph: Kahn, "Topological sorting of large networks", 1962, each layer as a whole.

    Args:
        first: by state where the edges that end in it begin among `sources`, and where the last one's end.
        sources: where these edges begin.
        leaving: by state how many of its edges lead to another one; it is changed.
    """
    found = []
    ready = (leaving == 0).nonzero()[0].astype(np.int32)
    last = np.zeros(len(leaving), dtype=np.int32)  # where a state was met last
    while len(ready):
        found.append(ready)
        near = sources[edge_numbers(first, ready)]
        np.subtract.at(leaving, near, 1)  # a state that leads to itself is below 0 from then on
        near = near[leaving[near] == 0]
        last[near] = np.arange(len(near))
        ready = near[last[near] == np.arange(len(near))]  # each once
    return TopologicalLayers(found, (leaving > 0).nonzero()[0])
