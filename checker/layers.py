"""The states of a graph from the back: each after all that its edges lead to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from leasehold.checker.explore.graph import Graph, in_order, sums_before
from leasehold.checker.explore.parts import between
from leasehold.checker.explore.waves import waves


def layers(asked: Any, part_of: Any, graph: Graph) -> Iterator[tuple[Any, list[list[int]]]]:
    """States in layers: after those that any of their edges lead to, but within a part of its own.

    Args:
        asked: truths by state: which are wanted. Edges to others do not count.
        part_of: by state the number of its strongly connected part among these.
        graph: the graph; steps that may be taken for ever count.

    Yields:
        States that are parts of their own, as an array, and the larger parts, each as a list in order.
    """
    for wave in graph.waves.waves:
        some = wave[asked[wave]]
        if len(some):
            yield some, []
    rest = graph.waves.rest
    rest = rest[asked[rest]]
    if len(rest):
        sources, targets, _ = between(graph, rest)
        for single, knots in _of_parts(np.unique(part_of[rest], return_inverse=True)[1], sources, targets):
            yield rest[single], [rest[knot].tolist() for knot in knots]


def _of_parts(part_of: Any, sources: Any, targets: Any) -> Iterator[tuple[Any, list[Any]]]:
    """The same for few states, of which each part may have several."""
    begins, ends = part_of[sources], part_of[targets]
    outer = begins != ends
    begins, ends = begins[outer], ends[outer]
    sizes = np.bincount(part_of)
    order = in_order(ends, len(sizes))
    behind = begins if order is None else begins[order]  # the parts that lead to each part lie together
    first = sums_before(np.bincount(ends, minlength=len(sizes)))
    members = np.argsort(part_of, kind="stable")
    at = np.cumsum(sizes) - sizes
    for wave in waves(first, behind, np.bincount(begins, minlength=len(sizes))).waves:
        single = wave[sizes[wave] == 1]
        yield members[at[single]], [members[at[p] : at[p] + sizes[p]] for p in wave[sizes[wave] > 1]]
