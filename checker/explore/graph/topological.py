"""A graph in topological layers of its strongly connected components, from the back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from leasehold.checker.explore.graph.arrays import in_order, sums_before, topological_layers
from leasehold.checker.explore.graph.edges import Graph


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
