"""The states of a graph from the back: each after all that its edges lead to.

Theory of operation. States without edges to others are taken away, then those whose edges led to these alone, and so on
(Kahn, "Topological sorting of large networks", 1962). Each wave is worked on as a whole, by NumPy. What is left when no
state can be taken away leads to a cycle.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from leasehold.checker.explore.graph import edge_numbers


class Waves(NamedTuple):
    """The waves of a graph, first those without edges to others; and the states that lead to a cycle."""

    waves: list[Any]
    rest: Any


def waves(first: Any, sources: Any, leaving: Any) -> Waves:
    """Finds the waves of a graph.

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
    return Waves(found, (leaving > 0).nonzero()[0])
