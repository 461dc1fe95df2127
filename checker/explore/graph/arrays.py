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
    if len(keys) < 2 or not (keys[1:] < keys[:-1]).any():
        return None
    keys = np.ascontiguousarray(keys, dtype=np.int32)
    if compiled := compiled_functions():
        begins, order = np.zeros(size + 1, dtype=np.int64), np.empty(len(keys), dtype=np.int32)
        compiled.graph_order(len(keys), address(keys), size, address(begins), address(order))
        return order
    from scipy.sparse import csr_array

    # Counted, not compared: transposing a matrix with one entry in each row sorts them in one pass.
    rows = np.arange(len(keys) + 1, dtype=np.int32)
    return csr_array((np.ones(len(keys), dtype=np.int8), keys, rows), shape=(len(keys), size)).tocsc().indices


def sums_before(numbers: Any, kind: str = "int64") -> Any:
    """The sum of all numbers before each, and last that of all."""
    sums = np.zeros(len(numbers) + 1, dtype=kind)
    np.cumsum(numbers, out=sums[1:])
    return sums


def by_source(states: int, sources: Any, targets: Any, rows: Any) -> tuple[Any, Any, Any]:
    """Edges in the order of their sources: where those of each of so many states begin, their targets and rows."""
    order = in_order(sources, states)
    if order is not None:
        targets, rows = targets[order], rows[order]
    return sums_before(np.bincount(sources, minlength=states)), np.ascontiguousarray(targets, dtype=np.int32), rows


def edges_of(first: Any, states: Any) -> tuple[Any, Any]:
    """The edges of some states, and of each the position of its state among these.

    Of state n they are those from `first[n]` to `first[n + 1]`.
    """
    sizes = first[states + 1] - first[states]
    return edge_numbers(first, states), np.repeat(np.arange(len(states), dtype=np.int32), sizes)


def edge_numbers(first: Any, states: Any) -> Any:
    """The edges of some states; of state n they are those from `first[n]` to `first[n + 1]`."""
    begins = first[states].astype(np.int32)  # there are fewer than 2 ** 31 (resources.py)
    sizes = (first[states + 1] - begins).astype(np.int32)
    before = np.cumsum(sizes, dtype=np.int32) - sizes
    edges = np.repeat(begins - before, sizes)
    edges += np.arange(len(edges), dtype=edges.dtype)
    return edges


def raise_to(into: Any, at: Any, values: Any) -> None:
    """Makes each item (or row) of an array at least the largest of its values; where they belong (`at`) is in order."""
    if len(at):
        begins = np.append(0, (at[1:] != at[:-1]).nonzero()[0] + 1)
        places = at[begins]
        into[places] = np.maximum(into[places], np.maximum.reduceat(values, begins, axis=0))


def reached_by(starts: Marks, first: Any, targets: Any, kept: Any = None) -> Marks:
    """The states reached from some states by edges, or by those that are kept (truths by edge)."""
    if compiled := compiled_functions():
        reached = starts.copy()
        _had(compiled.graph_reached(*_graph(first, targets, kept), address(reached)))
        return reached
    from scipy.sparse.csgraph import breadth_first_order

    first, targets = _chosen(first, targets, kept)
    size = len(starts)
    begin = starts.nonzero()[0].astype(np.int32)
    reached = np.zeros(size + 1, dtype=bool)
    if len(begin):  # a state of its own, numbered last, leads to all of them
        table = _table(np.append(first, first[-1] + len(begin)), np.concatenate([targets, begin]))
        reached[breadth_first_order(table, size, return_predecessors=False)] = True
    return reached[:size]


def leading_to(ends: Marks, first: Any, targets: Any, kept: Any = None, among: Marks | None = None) -> Marks:
    """The states from which edges that are kept lead to some states, and these; where marked, among these alone."""
    leading = ends.copy()
    compiled = compiled_functions()
    if compiled and compiled.graph_leading(*_graph(first, targets, kept), address(among), address(leading)):
        return leading
    if among is not None:
        inside = np.repeat(among, np.diff(first)) & among[targets]
        kept = inside if kept is None else kept & inside
    return reached_by(leading, *backward(first, targets, kept))


def backward(first: Any, targets: Any, kept: Any = None) -> tuple[Any, Any]:
    """Edges that are kept by their targets: where those of each state begin, and their sources, which lie in order."""
    size = len(first) - 1
    if compiled := compiled_functions():
        into = np.zeros(size + 1, dtype=np.int64)
        sources = np.empty(len(targets) if kept is None else int(np.count_nonzero(kept)), dtype=np.int32)
        compiled.graph_backward(*_graph(first, targets, kept), address(into), address(sources))
        return into, sources
    first, targets = _chosen(first, targets, kept)
    sources = np.repeat(np.arange(size, dtype=np.int32), np.diff(first))
    order = in_order(targets, size)
    return sums_before(np.bincount(targets, minlength=size)), sources if order is None else sources[order]


def components(first: Any, targets: Any, kept: Any = None) -> tuple[int, Any]:
    """The number of strongly connected components by edges that are kept, and by state the number of its component."""
    size, targets = len(first) - 1, targets.astype(np.int32, copy=False)
    if compiled := compiled_functions():
        component_of = np.empty(size, dtype=np.int32)
        count = compiled.graph_components(*_graph(first, targets, kept), address(component_of))
        _had(count >= 0)
        return count, component_of
    from scipy.sparse.csgraph import connected_components

    first, targets = _chosen(first, targets, kept)
    if not len(targets):
        return size, np.arange(size, dtype=np.int32)
    table = _table(first, targets.astype(np.int32), np.ones(len(targets)))  # they are changed in place
    table.sum_duplicates()  # of an edge that is there twice scipy's search does not come to an end
    count, component_of = connected_components(table, directed=True, connection="strong")
    return int(count), component_of


def _chosen(first: Any, targets: Any, kept: Any) -> tuple[Any, Any]:
    """The edges that are kept: where those of each state begin, and their targets."""
    return (first, targets) if kept is None else (sums_before(kept)[first], targets[kept])


def _table(first: Any, targets: Any, values: Any = None) -> Any:
    """The matrix of a graph, made without a detour: scipy takes what has this form as it is."""
    from scipy.sparse import csr_array

    size = len(first) - 1
    if values is None:  # nobody looks at them
        values = np.broadcast_to(np.float64(1), len(targets))
    return csr_array((values, targets, first.astype(np.int32, copy=False)), shape=(size, size))


# The engine's own functions (packed/engine/graph.c and ways.c), which need less memory; without them, scipy's are used.


def compiled_functions() -> Any:
    """The functions that are compiled with the engine; None where it was not built."""
    from leasehold.checker.explore.packed.library import NotBuilt, graph_functions

    try:
        return graph_functions()
    except NotBuilt:
        return None


def _graph(first: Any, targets: Any, kept: Any) -> tuple[int, int, int, int]:
    """A graph as these functions take it."""
    assert first.dtype == np.int64 and targets.dtype == np.int32 and (kept is None or kept.dtype == bool)
    return len(first) - 1, address(first), address(targets), address(kept)


def address(array: Any) -> int:
    """Returns where an array lies, which has to be kept meanwhile; 0: there is none."""
    assert array is None or array.flags.c_contiguous
    return 0 if array is None else int(array.ctypes.data)


def _had(done: bool) -> None:
    if not done:
        raise MemoryError


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
    if compiled := compiled_functions():
        first = np.ascontiguousarray(first, dtype=np.int64)
        sources, leaving = np.ascontiguousarray(sources, dtype=np.int32), np.ascontiguousarray(leaving, dtype=np.int64)
        order, ends = np.empty(len(leaving), dtype=np.int32), np.zeros(len(leaving) + 1, dtype=np.int64)
        count = compiled.ways_layers(
            len(leaving), address(first), address(sources), address(leaving), address(order), address(ends)
        )
        parts = np.split(order, ends[:count])
        return TopologicalLayers(parts[:count], (leaving > 0).nonzero()[0])
    layers = []
    ready = (leaving == 0).nonzero()[0].astype(np.int32)
    last = np.zeros(len(leaving), dtype=np.int32)  # where a state was met last
    while len(ready):
        layers.append(ready)
        near = sources[edge_numbers(first, ready)]
        np.subtract.at(leaving, near, 1)  # a state that leads to itself is below 0 from then on
        near = near[leaving[near] == 0]
        last[near] = np.arange(len(near))
        ready = near[last[near] == np.arange(len(near))]  # each once
    return TopologicalLayers(layers, (leaving > 0).nonzero()[0])
