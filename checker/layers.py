"""The states of a graph from the back: each after all that its edges lead to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from leasehold.checker.explore.graph import in_order, spread


def layers(asked: Any, part_of: Any, sources: Any, targets: Any) -> Iterator[tuple[Any, list[list[int]]]]:
    """States in layers: after those that any of their edges lead to, but within a part of its own.

    Args:
        asked: truths by state: which are wanted; None: all. Edges to others do not count.
        part_of: by state the number of its strongly connected part.
        sources: where the edges begin.
        targets: where they end.

    Yields:
        States that are parts of their own, as an array, and the larger parts, each as a list in order.
    """
    begins, ends = part_of[sources], part_of[targets]
    outer = begins != ends
    if asked is not None:
        outer &= asked[sources] & asked[targets]
    begins, ends = begins[outer], ends[outer]
    count = int(part_of.max()) + 1 if len(part_of) else 0
    order = in_order(ends, count)
    behind = begins if order is None else begins[order]  # the parts that lead to each part lie together
    first = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(ends, minlength=count), out=first[1:])
    waiting = np.bincount(begins, minlength=count)
    members = np.arange(len(part_of)) if asked is None else asked.nonzero()[0]
    order = in_order(part_of[members], count)
    members = members if order is None else members[order]
    sizes = np.bincount(part_of[members], minlength=count)
    at = np.cumsum(sizes) - sizes
    ready = ((waiting == 0) & (sizes > 0)).nonzero()[0]
    last = np.zeros(count, dtype=np.int64)  # of parts, where they were met last
    while len(ready):
        single = ready[sizes[ready] == 1]
        yield members[at[single]], [members[at[p] : at[p] + sizes[p]].tolist() for p in ready[sizes[ready] > 1]]
        edges, _ = spread(first, ready)
        near = behind[edges]
        np.subtract.at(waiting, near, 1)
        ready = near[waiting[near] == 0]
        last[ready] = np.arange(len(ready))
        ready = ready[last[ready] == np.arange(len(ready))]  # each once
