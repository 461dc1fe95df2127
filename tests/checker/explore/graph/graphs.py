"""Small graphs, given as their edges, for tests of what is decided on them."""

from __future__ import annotations

import numpy as np

from leasehold.checker.explore.graph.arrays import by_source
from leasehold.checker.explore.graph.edges import EdgeKind, Graph

Edge = tuple[int, int, int]  # source, target, group; -1: of no group
GROUPS = 3


def graph(states: int, edges: list[Edge]) -> Graph:
    """A graph with these edges."""
    made = Graph()
    made.kinds = [EdgeKind(group, False, False, False, (), -1) for group in range(-1, GROUPS)]
    made.names = {("clock", n): n for n in range(GROUPS)}
    columns = np.array(edges, dtype=np.int32).reshape(-1, 3).T
    return made.take(*by_source(states, columns[0], columns[1], columns[2] + 1))
