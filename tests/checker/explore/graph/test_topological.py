"""Topological layers: against networkx, and by the definition of an order."""

from __future__ import annotations

import networkx as nx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from leasehold.checker.explore.graph.scc import component_layers, components_among
from tests.checker.explore.graph.graphs import Edge, graph

SIZE = 9
STATES = st.integers(0, SIZE - 1)
EDGES = st.lists(st.tuples(STATES, STATES, st.just(-1)), max_size=24)


def directed(edges: list[Edge], among: set[int]) -> nx.DiGraph:
    found = nx.DiGraph([(a, b) for a, b, _ in edges if a != b and {a, b} <= among])
    found.add_nodes_from(among)
    return found


@given(EDGES)
def test_topological_layers_and_states_that_lead_to_a_cycle(edges: list[Edge]) -> None:
    made, whole = graph(SIZE, edges), directed(edges, set(range(SIZE)))
    cyclic = {n for part in nx.strongly_connected_components(whole) if len(part) > 1 for n in part}
    leading = cyclic.union(*(nx.ancestors(whole, n) for n in cyclic))
    assert set(made.on_cycles.nonzero()[0].tolist()) == cyclic
    layers, rest = made.topological
    assert set(rest.tolist()) == leading
    number = {int(n): k for k, layer in enumerate(layers) for n in layer}
    assert number == {n: max([number[m] + 1 for m in whole[n]], default=0) for n in range(SIZE) if n not in leading}
    assert sum(map(len, layers)) == len(number)


@given(EDGES, st.sets(STATES))
def test_layers_come_after_what_their_edges_lead_to(edges: list[Edge], wanted: set[int]) -> None:
    made, some = graph(SIZE, edges), directed(edges, wanted)
    asked = np.isin(np.arange(SIZE), list(wanted))
    came: set[int] = set()
    for single, larger in component_layers(asked, components_among(asked, made), made):
        here = [{int(n)} for n in single] + [set(component) for component in larger]
        for part in here:
            assert part in list(nx.strongly_connected_components(some))
            assert all(n in came | part for m in part for n in some[m])
        assert not came & set().union(*here)
        came |= set().union(*here)
    assert came == wanted
