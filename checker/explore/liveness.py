"""Deciding `leads_to` (under weak fairness) and `always_possible` on the finished graph.

Theory of operation. `when` leads to the claim unless some fair run visits a state where `when` holds and never again
one where the claim does. Such a run stays, from that state on, among the states without the claim; being endless in a
finite graph it settles in a strongly connected part of them (or stutters for ever in one state). A part has a fair run
exactly when each group of fair actions is either taken inside it or disabled somewhere in it: the run that goes round
the whole part is then fair. Fair groups are: the messages of one channel between two machines, the answers of one task,
a machine's due tick, the clock, and environment actions that say `fair: true`.

`always_possible` asks less: that some run leads to the claim. Its counterexample is a shortest path to a state from
which none does.

`within: n` needs no fairness: no run may tick the clock more than n times between `when` and the claim.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import networkx as nx

from leasehold.checker.explore.layout import State
from leasehold.checker.explore.paths import Paths
from leasehold.checker.explore.properties import GraphClaim
from leasehold.checker.explore.result import PropertyResult
from leasehold.checker.explore.transition_system import Action, TransitionSystem


class Graph:
    """The steps of an exploration: compact arrays, in the order of their sources."""

    def __init__(self) -> None:
        self.sources = array("q")
        self.targets = array("q")
        self.groups = array("l")  # index into `names`; -1: not fair
        self.clock = bytearray()  # the clock ticks
        self.received = bytearray()  # a message is received
        self.fault = bytearray()  # the step is a fault, or has one in it
        self.names: dict[tuple[Any, ...], int] = {}

    def add(self, source: int, target: int, action: Action) -> None:
        self.sources.append(source)
        self.targets.append(target)
        group = action.group
        self.groups.append(-1 if group is None else self.names.setdefault(group, len(self.names)))
        self.clock.append(action.kind == "clock")
        self.received.append(action.kind in ("deliver", "duplicate"))
        self.fault.append(action.fault)

    def without_faults(self) -> Graph:
        """The same states with the steps alone that are no faults."""
        kept = [e for e, fault in enumerate(self.fault) if not fault]
        other = Graph()
        other.sources.extend(self.sources[e] for e in kept)
        other.targets.extend(self.targets[e] for e in kept)
        other.groups.extend(self.groups[e] for e in kept)
        other.clock.extend(self.clock[e] for e in kept)
        other.received.extend(self.received[e] for e in kept)
        other.fault.extend(0 for _ in kept)
        other.names = self.names
        return other

    def index(self, states: int) -> list[int]:
        """`index[n]:index[n + 1]` are the steps of state n."""
        first = [0] * (states + 1)
        for source in self.sources:
            first[source + 1] += 1
        for n in range(states):
            first[n + 1] += first[n]
        return first


def decide(
    claims: Sequence[GraphClaim], world: TransitionSystem, states: Sequence[State], graph: Graph, paths: Paths,
    complete: bool, why: str,
) -> list[PropertyResult]:  # fmt: skip
    """The verdict on every leads_to and always_possible."""
    first = graph.index(len(states))
    return [
        (_decide_possible if c.property.kind == "always_possible" else _decide)(
            c, states, graph, first, paths, complete, why
        )
        for c in claims
    ]


def _decide(
    claim: GraphClaim, states: Sequence[State], graph: Graph, first: list[int], paths: Paths, complete: bool, why: str
) -> PropertyResult:
    p = claim.property
    missing = bytearray(0 if claim.claim(s, (), -1) else 1 for s in states)
    starts = [n for n, s in enumerate(states) if missing[n] and claim.when(s, (), -1)]
    numbers, loop, reason = None, None, ""
    if p.within is not None:
        numbers = _too_late(p.within, starts, missing, graph, first)
        reason = f"the clock ticks more than {p.within} times"
    if numbers is None and complete:
        numbers, loop = fair_run(starts, missing, graph, first, paths)
        reason = "it never comes, in a run that is fair"
    if numbers is not None:
        path = paths.along(numbers, loop)
        return PropertyResult(p.name, p.kind, "violated", p.doc, p.source, path, reason)
    if complete:
        return PropertyResult(p.name, p.kind, "exhausted", p.doc, p.source)
    return PropertyResult(p.name, p.kind, "bounded", p.doc, p.source, None, why)


def _decide_possible(
    claim: GraphClaim, states: Sequence[State], graph: Graph, first: list[int], paths: Paths, complete: bool, why: str
) -> PropertyResult:
    p = claim.property
    if not complete:
        return PropertyResult(p.name, p.kind, "bounded", p.doc, p.source, None, why)
    back: list[list[int]] = [[] for _ in states]
    for source, target in zip(graph.sources, graph.targets, strict=True):
        back[target].append(source)
    able = bytearray(1 if claim.claim(s, (), -1) else 0 for s in states)
    todo = [n for n, yes in enumerate(able) if yes]
    while todo:
        for source in back[todo.pop()]:
            if not able[source]:
                able[source] = 1
                todo.append(source)
    for n, s in enumerate(states):  # in breadth-first order, so that the first is a nearest one
        if not able[n] and claim.when(s, (), -1):
            return PropertyResult(p.name, p.kind, "violated", p.doc, p.source, paths.to(n), "from here it never can")
    return PropertyResult(p.name, p.kind, "exhausted", p.doc, p.source)


def _steps(graph: Graph, first: list[int], n: int) -> Iterator[int]:
    return iter(range(first[n], first[n + 1]))


def _too_late(
    within: int, starts: Sequence[int], missing: bytearray, graph: Graph, first: list[int]
) -> list[int] | None:
    """A run from a start that ticks more than `within` times without the claim; shortest in steps per tick count."""
    came: dict[tuple[int, int], tuple[int, int] | None] = {(n, 0): None for n in starts}
    todo = deque(came)
    while todo:
        here = todo.popleft()
        for e in _steps(graph, first, here[0]):
            there = (graph.targets[e], here[1] + graph.clock[e])
            if not missing[there[0]] or there in came:
                continue
            came[there] = here
            if there[1] > within:
                run: list[int] = []
                at: tuple[int, int] | None = there
                while at is not None:
                    run.append(at[0])
                    at = came[at]
                return run[::-1]
            todo.append(there)
    return None


def fair_run(
    starts: Sequence[int], missing: bytearray, graph: Graph, first: list[int], paths: Paths
) -> tuple[list[int] | None, int | None]:
    """A shortest way from a start into a part that no fair run must leave, once round it, and where the loop begins."""
    came: dict[int, int] = dict.fromkeys(starts, -1)
    todo = deque(starts)
    inside: nx.DiGraph[int] = nx.DiGraph()
    inside.add_nodes_from(starts)
    while todo:
        n = todo.popleft()
        for e in _steps(graph, first, n):
            target = graph.targets[e]
            if missing[target]:
                inside.add_edge(n, target)
                if target not in came:
                    came[target] = n
                    todo.append(target)
    best: tuple[int, list[int], set[int]] | None = None
    for part in nx.strongly_connected_components(inside):
        if not _fair(part, graph, first):
            continue
        entry = min(part)  # numbers grow with the distance from the first states
        stem = _back(came, entry)
        length = len(paths.chain(stem[0])) + len(stem)
        if best is None or length < best[0]:
            best = length, stem, part
    if best is None:
        return None, None
    _, stem, part = best
    return [*stem, *_round(inside, part, stem[-1], graph, first)], len(stem) - 1


def _back(came: dict[int, int], n: int) -> list[int]:
    chain = [n]
    while came[chain[-1]] >= 0:
        chain.append(came[chain[-1]])
    return chain[::-1]


def _fair(part: set[int], graph: Graph, first: list[int]) -> bool:
    """Whether some fair run stays in the part: every fair group is taken inside it or disabled somewhere in it."""
    taken: set[int] = set()
    always: set[int] | None = None
    for n in part:
        here: set[int] = set()
        for e in _steps(graph, first, n):
            group = graph.groups[e]
            if group >= 0:
                here.add(group)
                if graph.targets[e] in part:
                    taken.add(group)
        always = here if always is None else always & here
    return not ((always or set()) - taken)


def _round(inside: nx.DiGraph[int], part: set[int], entry: int, graph: Graph, first: list[int]) -> list[int]:
    """A short way from the entry round the part and back that is fair, without the entry itself.

    For each fair group that is not disabled on the way it goes by a state where it is, or takes a step of it.
    """
    if len(part) == 1:
        return [entry] if inside.has_edge(entry, entry) else []
    sub = inside.subgraph(part)
    enabled = {n: {graph.groups[e] for e in _steps(graph, first, n)} - {-1} for n in part}
    takes: dict[int, list[tuple[int, int]]] = {}
    for n in part:
        for e in _steps(graph, first, n):
            if graph.groups[e] >= 0 and graph.targets[e] in part:
                takes.setdefault(graph.groups[e], []).append((n, graph.targets[e]))
    way, at = [entry], entry
    left = set(enabled[entry])
    while left:
        reach = nx.single_source_shortest_path(sub, at)
        group = min(left)
        off = [n for n in part if group not in enabled[n]]
        goals = [reach[n] for n in off] or [[*reach[n], target] for n, target in takes[group]]
        path = min(goals, key=lambda p: (len(p), p))
        way += path[1:]
        at = way[-1]
        left = {g for g in left if g != group and all(g in enabled[n] for n in path)}
    back = nx.shortest_path(sub, at, entry)
    if len(way) == 1 and len(back) == 1:  # no fair group asks for a step: any way round will do
        target = next(iter(sub.successors(entry)))
        return [target, *nx.shortest_path(sub, target, entry)[1:]]
    return [*way[1:], *back[1:]]
