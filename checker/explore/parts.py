"""What is reached in a graph, its strongly connected parts, and those in which a fair run can stay.

Theory of operation. An endless run in a finite graph settles in a strongly connected part of it, or stutters for ever
in one state. Among some states, a part is *fair* if a run that goes round the whole of it is: each weakly fair group is
taken inside it or impossible somewhere in it, and each strongly fair group is taken inside it or impossible everywhere
in it. Where a weakly fair group spoils a part, it spoils every smaller one in it too, and none of it is fair. Where a
strongly fair group does, no fair run in the part ever comes to the states where the group is possible: they are taken
out, and what is left is parted again (Streett's acceptance condition: Emerson and Lei, "Modalities for model checking",
1987, section 4). A part of one state needs no edge: a run may rest there if all that is asked changes nothing.

A part among some states lies in one of the whole graph. So those of the whole graph are found once, and few states are
left to be asked about: most lie on no cycle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from leasehold.checker.explore.fairness import Demands
from leasehold.checker.explore.graph import Graph, in_order, sums_before

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Marks = NDArray[np.bool_]  # by state


def reached(starts: Marks, graph: Graph, edges: Any) -> Marks:
    """The states to which some edges of a graph (truths by edge) lead from some states, and these."""
    return reached_by(starts, *chosen(graph, edges))


def chosen(graph: Graph, edges: Any) -> tuple[Any, Any]:
    """Some edges of a graph (truths by edge): where those of each state begin, and their targets."""
    return sums_before(edges, "int32")[graph.first], graph.targets[edges]


def leading(ends: Marks, graph: Graph, among: Marks | None = None) -> Marks:
    """The states from which steps that may be taken for ever lead to some states, and these; within the marked ones."""
    first, sources = graph.backward
    if among is not None:
        kept = among[sources] & among[np.repeat(np.arange(len(among)), np.diff(first))]
        first, sources = sums_before(kept, "int32")[first], sources[kept]
    return reached_by(ends, first, sources)


def reached_by(starts: Marks, first: Any, targets: Any) -> Marks:
    """What is reached from some states, `targets[first[n]:first[n + 1]]` being those of the edges of state n."""
    from scipy.sparse.csgraph import breadth_first_order

    size = len(starts)
    begin = starts.nonzero()[0].astype(np.int32)
    found = np.zeros(size + 1, dtype=bool)
    if len(begin):  # a state of its own, numbered last, leads to all of them
        table = _table(np.append(first, first[-1] + len(begin)), np.concatenate([targets, begin]))
        found[breadth_first_order(table, size, return_predecessors=False)] = True
    return found[:size]


def parts(sources: Any, targets: Any, size: int) -> tuple[int, Any]:
    """How many strongly connected parts a graph has, and by state the number of its part."""
    from scipy.sparse.csgraph import connected_components

    if not len(sources):
        return size, np.arange(size, dtype=np.int32)
    first, targets = _rows(sources, targets, size)
    table = _table(first, targets.copy(), np.ones(len(targets)))  # they are changed in place
    table.sum_duplicates()  # of an edge that is there twice scipy's search does not come to an end
    count, part_of = connected_components(table, directed=True, connection="strong")
    return int(count), part_of


def parts_among(among: Marks, graph: Graph) -> Any:
    """By state the number of its strongly connected part, where states are joined by steps that may be taken for ever.

    Only parts of states that are marked count; each other state is one of its own.
    """
    states = (among & graph.on_cycles).nonzero()[0]
    sources, targets, _ = between(graph, states)
    count, of = parts(sources, targets, len(states))
    found = np.arange(count, count + len(among), dtype=np.int32)
    found[states] = of
    return found


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


def staying(among: Marks, graph: Graph, asked: Demands) -> Any:
    """The parts of some states in which a fair run can stay: by state the number of its part, or -1.

    Args:
        among: the states.
        graph: all steps, as they make groups possible. A part is joined by those that may be taken for ever.
        asked: to what a run must be fair.
    """
    found = np.full(len(among), -1, dtype=np.int32)
    count = 0
    states = (among & graph.on_cycles).nonzero()[0]
    sources, targets, rows = between(graph, states)
    while len(sources):
        _, part_of = parts(sources, targets, len(states))
        sizes = np.bincount(part_of)
        states, part_of, (sources, targets, rows) = _kept(sizes[part_of] > 1, states, part_of, sources, targets, rows)
        if not len(states):
            break
        _, part_of = np.unique(part_of, return_inverse=True)
        inside = part_of[sources] == part_of[targets]
        sources, targets, rows = sources[inside], targets[inside], rows[inside]
        lost, out = _unfair(states, part_of, graph, asked, sources, rows)
        fair = ~(lost | np.bincount(part_of[out], minlength=len(lost)).astype(bool))
        numbers = np.cumsum(fair) - 1 + count
        ours = fair[part_of]
        found[states[ours]] = numbers[part_of[ours]]
        count += int(fair.sum())
        left = ~lost[part_of] & ~ours & ~out
        states, part_of, (sources, targets, rows) = _kept(left, states, part_of, sources, targets, rows)
    rests = (among & graph.rests(asked) & (found < 0)).nonzero()[0]
    found[rests] = np.arange(count, count + len(rests))
    return found


def between(graph: Graph, states: Any) -> tuple[Any, Any, Any]:
    """The edges between some states that may be taken for ever, with positions among them, and their rows."""
    if not len(states):
        return states, states, states
    place = np.full(len(graph.first) - 1, -1, dtype=np.int32)
    place[states] = np.arange(len(states), dtype=np.int32)
    edges, of = graph.edges_of(states)
    targets = place[graph.targets[edges]]
    kept = (targets >= 0) & graph.lasting[edges]
    return of[kept].astype(np.int32), targets[kept], graph.rows[edges[kept]]


def _kept(
    kept: Any, states: Any, part_of: Any, sources: Any, targets: Any, rows: Any
) -> tuple[Any, Any, tuple[Any, Any, Any]]:
    """Some of the states, their parts, and the edges between them."""
    place = np.cumsum(kept, dtype=np.int32) - 1
    edges = kept[sources] & kept[targets]
    return states[kept], part_of[kept], (place[sources[edges]], place[targets[edges]], rows[edges])


def _unfair(states: Any, part_of: Any, graph: Graph, asked: Demands, sources: Any, rows: Any) -> tuple[Any, Any]:
    """Which parts a weakly fair group spoils, and which states a strongly fair one takes out.

    Args:
        states: the states, in parts of more than one.
        part_of: the number of each state's part.
        graph: the graph.
        asked: to what a run must be fair.
        sources: the positions of states where the edges inside parts begin.
        rows: these edges' rows.
    """
    order = np.argsort(part_of, kind="stable")
    sizes = np.bincount(part_of)
    begins = np.cumsum(sizes) - sizes
    lost, out = np.zeros(len(sizes), dtype=bool), np.zeros(len(states), dtype=bool)
    group, begin_part = graph.group_of[rows], part_of[sources]
    for word in graph.enabled(asked):
        possible = word.possible[states]
        always = np.bitwise_and.reduceat(possible[order], begins)
        some = np.bitwise_or.reduceat(possible[order], begins)
        taken = np.zeros(len(sizes), dtype=np.uint64)
        place = word.place[group]
        own = place >= 0
        cells = np.zeros((len(word.groups), len(sizes)), dtype=bool)
        cells[place[own], begin_part[own]] = True
        for bit, cell in enumerate(cells):
            taken |= cell.astype(np.uint64) << np.uint64(bit)
        lost |= always & ~taken & word.weak != 0
        out |= possible & (some & ~taken & word.strong)[part_of] != 0
    return lost, out
