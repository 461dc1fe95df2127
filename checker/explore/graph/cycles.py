"""A short fair cycle of a component in which a fair run can stay, as a counterexample shows it."""

from __future__ import annotations

from itertools import pairwise

from leasehold.checker.explore.graph.edges import Graph
from leasehold.checker.explore.graph.fairness import Demands


def fair_cycle(component: set[int], entry: int, graph: Graph, asked: Demands) -> list[int]:
    """A short fair cycle in a component from its entry and back, without the entry itself.

    It visits a state where a weakly fair group is impossible, or takes a step of the group; it takes a step of each
    strongly fair group that is possible on the way. Empty: the run may stutter at the entry.

    Args:
        component: the states of one that `leasehold.checker.explore.graph.scc.fair_components` finds.
        entry: one of them.
        graph: the graph.
        asked: to what the run must be fair.
    """
    import networkx as nx

    if not asked.groups:
        return []
    sub: nx.DiGraph[int] = nx.DiGraph()
    possible: dict[int, set[int]] = {}
    takes: dict[int, list[tuple[int, int]]] = {}
    for n in sorted(component):
        sub.add_node(n)
        possible[n] = set()
        for e in graph.out(n):
            target, group = int(graph.targets[e]), graph.row_of(e).group
            if target in component and bool(graph.may_last([e])[0]):
                sub.add_edge(n, target)
            if group in asked.groups:
                possible[n].add(group)
                if target in component:
                    takes.setdefault(group, []).append((n, target))
    if len(component) == 1:
        return [entry] if sub.has_edge(entry, entry) else []
    way, at = [entry], entry
    left = {g for g in possible[entry] if g in asked.weak}

    def shortest(goals: list[list[int]]) -> list[int]:
        return min(goals, key=lambda p: (len(p), p))

    while left:
        reach = nx.single_source_shortest_path(sub, at)
        chosen = min(left)
        off = [n for n in component if chosen not in possible[n]]
        goals = [reach[n] for n in off] or [[*reach[n], target] for n, target in takes[chosen]]
        path = shortest(goals)
        way += path[1:]
        at = way[-1]
        left = {g for g in left if g != chosen and all(g in possible[n] for n in path)}
    while True:
        back = nx.shortest_path(sub, at, entry)
        if len(way) == 1 and len(back) == 1:  # no fair group asks for a step: any way round will do
            target = next(iter(sub.successors(entry)))
            back = [entry, target, *nx.shortest_path(sub, target, entry)[1:]]
        whole = [*way, *back[1:]]
        steps = set(pairwise(whole))
        met = set().union(*(possible[n] for n in whole))
        missed = [g for g in sorted(asked.strong & met) if not steps & set(takes[g])]
        if not missed:
            return whole[1:]
        reach = nx.single_source_shortest_path(sub, at)
        way += shortest([[*reach[n], target] for n, target in takes[missed[0]]])[1:]
        at = way[-1]
