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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import networkx as nx

from leasehold.checker.explore.labels import Left, dominates
from leasehold.checker.explore.labels import after as faults_left
from leasehold.checker.explore.layout import State
from leasehold.checker.explore.paths import Paths
from leasehold.checker.explore.properties import GraphClaim
from leasehold.checker.explore.result import PropertyResult
from leasehold.checker.explore.step import Action
from leasehold.checker.explore.transition_system import TransitionSystem


class Graph:
    """The steps of an exploration: compact arrays.

    Attributes:
        faults_stop: no endless run has a fault in it for ever, and none is needed to come anywhere.
    """

    def __init__(self, faults_stop: bool = False) -> None:
        self.faults_stop = faults_stop
        self.sources = array("q")
        self.targets = array("q")
        self.groups = array("l")  # index into `names`; -1: not fair
        self.clock = bytearray()  # the clock ticks
        self.received = bytearray()  # a message is received
        self.fault = bytearray()  # the step is a fault, or has one in it
        self.costs = bytearray()  # index into `prices`
        self.prices: dict[tuple[int, ...], int] = {(): 0}  # what a step takes of the budget of faults
        self._prices: list[tuple[int, ...]] = [()]
        self._rows: dict[int, tuple[int, bool, bool, bool, int, int]] = {}  # by numbered change
        self.names: dict[tuple[Any, ...], int] = {}
        self.crashed = array("q")  # of each crash: the state that it led to
        self.crash_points = array("l")  # and its point: index into `points`
        self.points: dict[tuple[str, str, int], int] = {}  # name, role and instance

    def add(self, source: int, target: int, action: Action) -> None:
        row = self._rows.get(action.change) or self._row(action)
        self.sources.append(source)
        self.targets.append(target)
        self.groups.append(row[0])
        self.clock.append(row[1])
        self.received.append(row[2])
        self.fault.append(row[3])
        self.costs.append(row[4])
        if row[5] >= 0:
            self.crashed.append(target)
            self.crash_points.append(row[5])

    def _row(self, action: Action) -> tuple[int, bool, bool, bool, int, int]:
        """What a step adds to the arrays."""
        group = -1 if action.group is None else self.names.setdefault(action.group, len(self.names))
        point = -1
        if action.point and action.role is not None:
            point = self.points.setdefault((action.point, action.role, action.instance), len(self.points))
        cost = self.prices.get(action.cost)
        if cost is None:
            cost = self.prices[action.cost] = len(self.prices)
            self._prices.append(action.cost)
        row = group, action.kind == "clock", action.kind in ("deliver", "duplicate"), action.fault, cost, point
        if action.change:
            self._rows[action.change] = row
        return row

    def price(self, e: int) -> tuple[int, ...]:
        """What a step takes of the budget of faults."""
        return self._prices[self.costs[e]]

    def lasting(self, e: int) -> bool:
        """Whether a step may be taken for ever."""
        return not (self.faults_stop and self.fault[e])

    def without_faults(self) -> Graph:
        """The same states with the steps alone that are no faults."""
        kept = [e for e, fault in enumerate(self.fault) if not fault]
        other = Graph(self.faults_stop)
        for mine, theirs in (
            (self.sources, other.sources), (self.targets, other.targets), (self.groups, other.groups),
            (self.clock, other.clock), (self.received, other.received), (self.fault, other.fault),
            (self.costs, other.costs),
        ):  # fmt: skip
            theirs.extend(mine[e] for e in kept)
        other.names, other.prices, other._prices = self.names, self.prices, self._prices
        other.sort()
        return other

    def sort(self) -> None:
        """Brings the steps into the order of their sources, which a state that is expanded twice has spoilt."""
        if all(a <= b for a, b in pairwise(self.sources)):
            return
        order = sorted(range(len(self.sources)), key=self.sources.__getitem__)
        for name in ("sources", "targets", "groups"):
            found = getattr(self, name)
            setattr(self, name, array(found.typecode, (found[e] for e in order)))
        for name in ("clock", "received", "fault", "costs"):
            found = getattr(self, name)
            setattr(self, name, bytearray(found[e] for e in order))

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
    graph.sort()
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
        numbers = _too_late(p.within, starts, missing, graph, first, paths)
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
    for e, (source, target) in enumerate(zip(graph.sources, graph.targets, strict=True)):
        if graph.lasting(e):
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


@dataclass(frozen=True, slots=True, eq=False)
class _Stop:
    """A state on a run that began at a label; `ticks` since then."""

    state: int
    left: Left
    ticks: int
    label: int
    before: _Stop | None = None

    def run(self, paths: Paths) -> list[int]:
        """The states of the run, from an initial one on."""
        found: list[int] = []
        at: _Stop | None = self
        while at is not None:
            found.append(at.state)
            at = at.before
        return [*paths.labels.chain(self.label)[:-1], *found[::-1]]


def _runs(
    starts: Sequence[int], missing: bytearray, graph: Graph, first: list[int], paths: Paths, timed: bool = False
) -> Iterator[_Stop]:
    """Where runs from the starts come to within the missing states, with as many faults as are left; nearest first."""
    labels = paths.labels
    came: dict[tuple[int, int], list[Left]] = {}
    waiting: dict[int, list[_Stop]] = {}
    for n in starts:
        for label in labels.of[n]:
            waiting.setdefault(labels.depths[label], []).append(_Stop(n, labels.lefts[label], 0, label))
    while waiting:
        depth = min(waiting)
        for stop in waiting.pop(depth):
            known = came.setdefault((stop.state, stop.ticks), [])
            if any(dominates(other, stop.left) for other in known):
                continue
            known.append(stop.left)
            yield stop
            for e in range(first[stop.state], first[stop.state + 1]):
                if missing[graph.targets[e]]:
                    left = faults_left(stop.left, graph.price(e)) if graph.costs[e] else stop.left
                    if left is not None:
                        ticks = stop.ticks + graph.clock[e] if timed else 0
                        waiting.setdefault(depth + 1, []).append(_Stop(graph.targets[e], left, ticks, stop.label, stop))


def _too_late(
    within: int, starts: Sequence[int], missing: bytearray, graph: Graph, first: list[int], paths: Paths
) -> list[int] | None:
    """A shortest run from a start that ticks more than `within` times without the claim."""
    for stop in _runs(starts, missing, graph, first, paths, timed=True):
        if stop.ticks > within:
            return stop.run(paths)
    return None


def fair_run(
    starts: Sequence[int], missing: bytearray, graph: Graph, first: list[int], paths: Paths
) -> tuple[list[int] | None, int | None]:
    """A shortest fair run that stays among the missing states from a start on, and where its loop begins.

    It leads from an initial state by a start into a part that no fair run must leave, and once round it.
    """
    inside: nx.DiGraph[int] = nx.DiGraph()
    inside.add_nodes_from(starts)
    todo = list(starts)
    seen = bytearray(len(missing))
    for n in starts:
        seen[n] = 1
    while todo:
        n = todo.pop()
        inside.add_node(n)  # a fault alone may have led here
        for e in range(first[n], first[n + 1]):
            target = graph.targets[e]
            if missing[target]:
                if graph.lasting(e):
                    inside.add_edge(n, target)
                if not seen[target]:
                    seen[target] = 1
                    todo.append(target)
    part_of: dict[int, set[int]] = {}
    for part in nx.strongly_connected_components(inside):
        if fair(part, graph, first):
            part_of.update(dict.fromkeys(part, part))
    if part_of:
        for stop in _runs(starts, missing, graph, first, paths):
            if stop.state in part_of:
                stem = stop.run(paths)
                way = _round(inside, part_of[stop.state], stop.state, graph, first)
                return [*stem, *way], len(stem) - 1
    return None, None


def fair(part: set[int], graph: Graph, first: list[int]) -> bool:
    """Whether some fair run stays in the part: every fair group is taken inside it or disabled somewhere in it."""
    taken: set[int] = set()
    always: set[int] | None = None
    for n in part:
        here: set[int] = set()
        for e in range(first[n], first[n + 1]):
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
    enabled = {n: {graph.groups[e] for e in range(first[n], first[n + 1])} - {-1} for n in part}
    takes: dict[int, list[tuple[int, int]]] = {}
    for n in part:
        for e in range(first[n], first[n + 1]):
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
