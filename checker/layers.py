"""The states of a graph from the back: each after all that its edges lead to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np


def layers(asked: Any, part_of: Any, sources: Any, targets: Any) -> Iterator[tuple[Any, list[list[int]]]]:
    """States in layers: after those that any of their edges lead to, but within a part of its own.

    Args:
        asked: truths by state: which are wanted. Edges to others do not count.
        part_of: by state the number of its strongly connected part.
        sources: where the edges begin.
        targets: where they end.

    Yields:
        States that are parts of their own, as an array, and the larger parts, each as a list in order.
    """
    outer = asked[sources] & asked[targets] & (part_of[sources] != part_of[targets])
    begins, ends = part_of[sources[outer]], part_of[targets[outer]]
    count = int(part_of.max()) + 1 if len(part_of) else 0
    order = np.argsort(ends, kind="stable")
    behind = begins[order]  # the parts that lead to each part lie together
    first = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(ends, minlength=count), out=first[1:])
    waiting = np.bincount(begins, minlength=count)
    members = asked.nonzero()[0]
    members = members[np.argsort(part_of[members], kind="stable")]
    sizes = np.bincount(part_of[members], minlength=count)
    at = np.cumsum(sizes) - sizes
    ready = ((waiting == 0) & (sizes > 0)).nonzero()[0]
    while len(ready):
        single = ready[sizes[ready] == 1]
        yield members[at[single]], [members[at[p] : at[p] + sizes[p]].tolist() for p in ready[sizes[ready] > 1]]
        lengths = first[ready + 1] - first[ready]
        of = np.repeat(np.arange(len(ready)), lengths)
        edges = np.arange(len(of)) - (np.cumsum(lengths) - lengths)[of] + first[ready][of]
        near = behind[edges]
        np.subtract.at(waiting, near, 1)
        ready = np.unique(near[waiting[near] == 0])
