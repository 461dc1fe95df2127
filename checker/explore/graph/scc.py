"""Reachability, strongly connected components, their topological layers, and those in which a fair run can stay.

Theory of operation. An endless run in a finite graph settles in a strongly connected component of it, or stutters for
ever in one state. Among some states, a component is *fair* if a run that goes round the whole of it is: each weakly
fair group is taken inside it or impossible somewhere in it, and each strongly fair group is taken inside it or
impossible everywhere in it. A weakly fair group that makes a component unfair makes every smaller one in it unfair too,
so none of it is fair. With a strongly fair group, no fair run in the component ever comes to the states where the group
is possible: they are taken out, and components of the rest are found again (Streett's acceptance condition: Emerson and
Lei, "Modalities for model checking", 1987, section 4). A component of one state needs no edge: a run may stutter there
if no fair group asks for a step that changes something.

A component among some states lies in one of the whole graph. So those of the whole graph are found once, and few states
remain to be looked at: most lie on no cycle.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from leasehold.checker.explore.graph.arrays import components, in_order, leading_to, sums_before, topological_layers
from leasehold.checker.explore.graph.edges import Graph
from leasehold.checker.explore.graph.fairness import Demands

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Marks = NDArray[np.bool_]  # by state


def leading(ends: Marks, graph: Graph, among: Marks | None = None) -> Marks:
    """The states from which steps that may be taken for ever lead to some states, and these; within the marked ones."""
    return leading_to(ends, graph.first, graph.targets, graph.lasting, among)


def components_among(among: Marks, graph: Graph) -> Any:
    """Returns the number of each state's strongly connected component, by steps that may be taken for ever.

    Only components of states that are marked count; each other state is one of its own.
    """
    states = (among & graph.on_cycles).nonzero()[0]
    sources, targets, _ = graph.edges_between(states)
    count, of = components(_begins(sources, len(states)), targets)
    by_state = np.arange(count, count + len(among), dtype=np.int32)
    by_state[states] = of
    return by_state


def fair_components(among: Marks, graph: Graph, asked: Demands) -> Any:
    """The components of some states in which a fair run can stay: by state the number of its component, or -1.

    Args:
        among: the states.
        graph: all steps, as they make groups possible. Components are joined by those that may be taken for ever.
        asked: to what a run must be fair.
    """
    by_state = np.full(len(among), -1, dtype=np.int32)
    count = 0
    states = (among & graph.on_cycles).nonzero()[0]
    sources, targets, rows = graph.edges_between(states)
    while len(sources):
        _, component_of = components(_begins(sources, len(states)), targets)
        sizes = np.bincount(component_of)
        states, component_of, (sources, targets, rows) = _kept(
            sizes[component_of] > 1, states, component_of, sources, targets, rows
        )
        if not len(states):
            break
        _, component_of = np.unique(component_of, return_inverse=True)
        inside = component_of[sources] == component_of[targets]
        sources, targets, rows = sources[inside], targets[inside], rows[inside]
        lost, out = _unfair(states, component_of, graph, asked, sources, rows)
        fair = ~(lost | np.bincount(component_of[out], minlength=len(lost)).astype(bool))
        numbers = np.cumsum(fair) - 1 + count
        ours = fair[component_of]
        by_state[states[ours]] = numbers[component_of[ours]]
        count += int(fair.sum())
        left = ~lost[component_of] & ~ours & ~out
        states, component_of, (sources, targets, rows) = _kept(left, states, component_of, sources, targets, rows)
    rests = (among & graph.rests(asked) & (by_state < 0)).nonzero()[0]
    by_state[rests] = np.arange(count, count + len(rests))
    return by_state


def _begins(sources: Any, states: int) -> Any:
    """Returns where the edges of each of so many states begin, given the sources of edges, which are in order."""
    return sums_before(np.bincount(sources, minlength=states))


def _kept(
    kept: Any, states: Any, component_of: Any, sources: Any, targets: Any, rows: Any
) -> tuple[Any, Any, tuple[Any, Any, Any]]:
    """Some of the states, their components, and the edges between them."""
    place = np.cumsum(kept, dtype=np.int32) - 1
    edges = kept[sources] & kept[targets]
    return states[kept], component_of[kept], (place[sources[edges]], place[targets[edges]], rows[edges])


def _unfair(states: Any, component_of: Any, graph: Graph, asked: Demands, sources: Any, rows: Any) -> tuple[Any, Any]:
    """The components that a weakly fair group makes unfair, and the states that a strongly fair one takes out.

    Args:
        states: the states, in components of more than one.
        component_of: the number of each state's component.
        graph: the graph.
        asked: to what a run must be fair.
        sources: the positions of states where the edges inside components begin.
        rows: these edges' rows.
    """
    order = np.argsort(component_of, kind="stable")
    sizes = np.bincount(component_of)
    begins = np.cumsum(sizes) - sizes
    lost, out = np.zeros(len(sizes), dtype=bool), np.zeros(len(states), dtype=bool)
    group, begin_component = graph.group_of[rows], component_of[sources]
    for word in graph.enabled(asked):
        possible = word.possible[states]
        always = np.bitwise_and.reduceat(possible[order], begins)
        some = np.bitwise_or.reduceat(possible[order], begins)
        taken = np.zeros(len(sizes), dtype=np.uint64)
        place = word.place[group]
        own = place >= 0
        cells = np.zeros((len(word.groups), len(sizes)), dtype=bool)
        cells[place[own], begin_component[own]] = True
        for bit, cell in enumerate(cells):
            taken |= cell.astype(np.uint64) << np.uint64(bit)
        lost |= always & ~taken & word.weak != 0
        out |= possible & (some & ~taken & word.strong)[component_of] != 0
    return lost, out


def component_layers(asked: Any, component_of: Any, graph: Graph) -> Iterator[tuple[Any, list[list[int]]]]:
    """States in layers, each after those that its edges lead to, except within a component.

    Args:
        asked: truths by state: which are wanted. Edges to others do not count.
        component_of: by state the number of its strongly connected component among these.
        graph: the graph; steps that may be taken for ever count.

    Yields:
        States that are components of their own, as an array, and the larger components, each as a list in order.
    """
    for layer in graph.topological.layers:
        some = layer[asked[layer]]
        if len(some):
            yield some, []
    rest = graph.topological.rest
    rest = rest[asked[rest]]
    if len(rest):
        sources, targets, _ = graph.edges_between(rest)
        for single, larger in _of_components(np.unique(component_of[rest], return_inverse=True)[1], sources, targets):
            yield rest[single], [rest[component].tolist() for component in larger]


def _of_components(component_of: Any, sources: Any, targets: Any) -> Iterator[tuple[Any, list[Any]]]:
    """The same for few states, of which each component may have several."""
    begins, ends = component_of[sources], component_of[targets]
    outer = begins != ends
    begins, ends = begins[outer], ends[outer]
    sizes = np.bincount(component_of)
    order = in_order(ends, len(sizes))
    behind = begins if order is None else begins[order]  # the components that lead to each component lie together
    first = sums_before(np.bincount(ends, minlength=len(sizes)))
    members = np.argsort(component_of, kind="stable")
    at = np.cumsum(sizes) - sizes
    for layer in topological_layers(first, behind, np.bincount(begins, minlength=len(sizes))).layers:
        single = layer[sizes[layer] == 1]
        yield members[at[single]], [members[at[p] : at[p] + sizes[p]] for p in layer[sizes[layer] > 1]]
