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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leasehold.checker.explore.graph import Graph
from leasehold.checker.explore.labels import Left, dominates
from leasehold.checker.explore.labels import after as faults_left
from leasehold.checker.explore.paths import Paths
from leasehold.checker.explore.properties import GraphClaim
from leasehold.checker.explore.result import PropertyResult

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Marks = NDArray[np.bool_]  # by state


def decide(claims: Sequence[GraphClaim], graph: Graph, paths: Paths, complete: bool, why: str) -> list[PropertyResult]:
    """The verdict on every leads_to and always_possible of a finished graph."""
    return [
        (_decide_possible if c.property.kind == "always_possible" else _decide)(c, graph, paths, complete, why)
        for c in claims
    ]


def _decide(claim: GraphClaim, graph: Graph, paths: Paths, complete: bool, why: str) -> PropertyResult:
    p = claim.property
    missing = ~paths.where(claim.property.claim)
    starts = missing & paths.where(claim.when)
    numbers, loop, reason = None, None, ""
    if p.within is not None:
        numbers = _too_late(p.within, starts, missing, graph, paths)
        reason = f"the clock ticks more than {p.within} times"
    if numbers is None and complete:
        numbers, loop = fair_run(starts, missing, graph, paths)
        reason = "it never comes, in a run that is fair"
    if numbers is not None:
        path = paths.along(numbers, loop)
        return PropertyResult(p.name, p.kind, "violated", p.doc, p.source, path, reason)
    if complete:
        return PropertyResult(p.name, p.kind, "exhausted", p.doc, p.source)
    return PropertyResult(p.name, p.kind, "bounded", p.doc, p.source, None, why)


def _decide_possible(claim: GraphClaim, graph: Graph, paths: Paths, complete: bool, why: str) -> PropertyResult:
    p = claim.property
    if not complete:
        return PropertyResult(p.name, p.kind, "bounded", p.doc, p.source, None, why)
    lasting = graph.lasting()
    able = reached(paths.where(claim.property.claim), graph.targets[lasting], graph.sources[lasting])
    unable = (~able & paths.where(claim.when)).nonzero()[0]
    if len(unable):  # states are numbered breadth first, so that the first is a nearest one
        path = paths.to(int(unable[0]))
        return PropertyResult(p.name, p.kind, "violated", p.doc, p.source, path, "from here it never can")
    return PropertyResult(p.name, p.kind, "exhausted", p.doc, p.source)


def reached(starts: Marks, sources: Any, targets: Any) -> Marks:
    """The states to which edges lead from some states, and these."""
    import numpy as np
    from scipy.sparse.csgraph import breadth_first_order

    size = len(starts)
    begin = starts.nonzero()[0]
    found = np.zeros(size + 1, dtype=bool)
    if len(begin):  # a state of its own, numbered last, leads to all of them
        table = _table(np.concatenate([sources, np.full(len(begin), size)]), np.concatenate([targets, begin]), size + 1)
        found[breadth_first_order(table, size, return_predecessors=False)] = True
    return found[:size]


def parts(sources: Any, targets: Any, size: int) -> tuple[int, Any]:
    """How many strongly connected parts a graph has, and by state the number of its part."""
    from scipy.sparse.csgraph import connected_components

    count, part_of = connected_components(_table(sources, targets, size), directed=True, connection="strong")
    return int(count), part_of


def _table(sources: Any, targets: Any, size: int) -> Any:
    import numpy as np
    from scipy.sparse import csr_array

    return csr_array((np.ones(len(sources), dtype=np.int8), (sources, targets)), shape=(size, size))


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


def _runs(starts: Sequence[int], missing: Marks, graph: Graph, paths: Paths, timed: bool = False) -> Iterator[_Stop]:
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
            for e in graph.out(stop.state):
                target, row = int(graph.targets[e]), graph.row_of(e)
                if missing[target]:
                    left = faults_left(stop.left, row.cost) if row.cost else stop.left
                    if left is not None:
                        ticks = stop.ticks + row.clock if timed else 0
                        waiting.setdefault(depth + 1, []).append(_Stop(target, left, ticks, stop.label, stop))


def _too_late(within: int, starts: Marks, missing: Marks, graph: Graph, paths: Paths) -> list[int] | None:
    """A shortest run from a start that ticks more than `within` times without the claim."""
    inside = missing[graph.sources] & missing[graph.targets]
    ticking = graph.column("clock") & inside
    still = inside & ~ticking
    now = starts
    for _ in range(within + 1):  # without regard to how many faults are left
        now = reached(now, graph.sources[still], graph.targets[still])
        later = graph.targets[ticking & now[graph.sources]]
        now = now & False
        now[later] = True
    if not now.any():
        return None
    for stop in _runs(starts.nonzero()[0].tolist(), missing, graph, paths, timed=True):
        if stop.ticks > within:
            return stop.run(paths)
    return None


def fair_run(starts: Marks, missing: Marks, graph: Graph, paths: Paths) -> tuple[list[int] | None, int | None]:
    """A shortest fair run that stays among the missing states from a start on, and where its loop begins.

    It leads from an initial state by a start into a part that no fair run must leave, and once round it.
    """
    inside = missing[graph.sources] & missing[graph.targets]
    lasting = inside & graph.lasting()
    come = reached(starts, graph.sources[inside], graph.targets[inside])  # also by a fault alone
    part_of = staying(come, graph, lasting)
    if (part_of >= 0).any():
        for stop in _runs(starts.nonzero()[0].tolist(), missing, graph, paths):
            if part_of[stop.state] >= 0:
                stem = stop.run(paths)
                part = set((part_of == part_of[stop.state]).nonzero()[0].tolist())
                return [*stem, *_round(part, stop.state, graph, lasting)], len(stem) - 1
    return None, None


def staying(among: Marks, graph: Graph, edges: Marks) -> Any:
    """The strongly connected parts of some states in which a fair run can stay: by state their number, or -1.

    Every fair group is taken inside such a part or disabled somewhere in it.

    Args:
        among: the states.
        graph: all steps, as they enable what is fair.
        edges: those that join a part.
    """
    import numpy as np

    kept = edges & among[graph.sources] & among[graph.targets]
    count, part_of = parts(graph.sources[kept], graph.targets[kept], len(among))
    left = np.zeros(count, dtype=bool)
    own = (part_of[graph.targets] == part_of[graph.sources]) & among[graph.sources] & among[graph.targets]
    for bits, enabled in graph.fair_groups:
        always = np.full(count, ~np.uint64(0))
        np.bitwise_and.at(always, part_of[among], enabled[among])
        taken = np.zeros(count, dtype=np.uint64)
        np.bitwise_or.at(taken, part_of[graph.sources[own]], bits[own])
        left |= always & ~taken != 0
    return np.where(among & ~left[part_of], part_of, -1)


def _round(part: set[int], entry: int, graph: Graph, edges: Marks) -> list[int]:
    """A short way from the entry round the part and back that is fair, without the entry itself.

    For each fair group that is not disabled on the way it goes by a state where it is, or takes a step of it.
    """
    import networkx as nx

    sub: nx.DiGraph[int] = nx.DiGraph()
    enabled: dict[int, set[int]] = {}
    takes: dict[int, list[tuple[int, int]]] = {}
    for n in sorted(part):
        sub.add_node(n)
        enabled[n] = set()
        for e in graph.out(n):
            target, group = int(graph.targets[e]), graph.row_of(e).group
            if edges[e] and target in part:
                sub.add_edge(n, target)
            if group >= 0:
                enabled[n].add(group)
                if target in part:
                    takes.setdefault(group, []).append((n, target))
    if len(part) == 1:
        return [entry] if sub.has_edge(entry, entry) else []
    way, at = [entry], entry
    left = set(enabled[entry])
    while left:
        reach = nx.single_source_shortest_path(sub, at)
        chosen = min(left)
        off = [n for n in part if chosen not in enabled[n]]
        goals = [reach[n] for n in off] or [[*reach[n], target] for n, target in takes[chosen]]
        path = min(goals, key=lambda p: (len(p), p))
        way += path[1:]
        at = way[-1]
        left = {g for g in left if g != chosen and all(g in enabled[n] for n in path)}
    back = nx.shortest_path(sub, at, entry)
    if len(way) == 1 and len(back) == 1:  # no fair group asks for a step: any way round will do
        target = next(iter(sub.successors(entry)))
        return [target, *nx.shortest_path(sub, target, entry)[1:]]
    return [*way[1:], *back[1:]]
