"""Deciding whether a system refines an abstract one, on the finished graph.

Theory of operation. The mapping gives each state a state of the abstract system. The system refines it if each initial
state is mapped to an initial one, and each step to a step of the abstract system or to none (both states are mapped to
the same): then every path is mapped to a path, with steps that change nothing. So whatever holds of all states and
steps of the abstract system holds of this one, through the mapping. Nothing follows about what has to happen.

Few pairs of mapped states are different, so each is asked about once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.graph.edges import Graph
from leasehold.checker.explore.ground import function
from leasehold.checker.explore.labels import after as faults_left
from leasehold.checker.explore.layout import State
from leasehold.checker.explore.paths import Paths
from leasehold.checker.explore.result import Path, PropertyResult, Verdict
from leasehold.spec.language.model import Refinement
from leasehold.spec.language.render.python_source import Frame, source

if TYPE_CHECKING:
    from leasehold.checker.explore.layout import Layout

KIND = "refines"


class Abstraction:
    """The abstract system, and the states of it that states are mapped to."""

    def __init__(self, refines: Refinement, layout: Layout) -> None:
        self.world = reference_of(refines.abstract)
        values: dict[int, str] = {}
        constants = layout.system.values()
        for role, i in refines.abstract.records():
            frame = Frame(layout, constants, None, {}, "b", {"it": str(i)})
            for field in (*([None] if role.states else []), *role.data):
                cell = self.world.layout.at(role.name, i, field)
                values[cell] = source(refines.values[role.name, field], frame)
        self._mapped = function("(" + "".join(f"{values[cell]}, " for cell in sorted(values)) + ")")
        self.initial = frozenset(self.world.initial_states())
        self.name = refines.abstract.name

    def of(self, states: Iterable[State]) -> tuple[list[State], Any]:
        """The mapped states, and the number among them for each of some states: an array."""
        numbers: dict[State, int] = {}
        mapped = [numbers.setdefault(self._mapped(s, (), -1), len(numbers)) for s in states]
        return [*numbers], np.array(mapped, dtype=np.int64)

    def words(self, state: State) -> str:
        layout = self.world.layout
        shown = {**layout.control(state), **layout.data(state)}
        return ", ".join(f"{name}={value}" for name, value in shown.items())


def decide(refines: Refinement, graph: Graph | None, paths: Paths, complete: bool, why: str) -> PropertyResult:
    """The verdict on a refinement; without a graph it is left open."""
    doc = refines.doc or f"Every step is one of {refines.abstract.name}, or changes nothing there."

    def verdict(of: Verdict, path: Path | None = None, reason: str = "") -> PropertyResult:
        return PropertyResult(KIND, KIND, of, doc, "", path, reason)

    if graph is None:
        return verdict("bounded", None, why)
    abstraction = Abstraction(refines, paths.world.layout)
    mapped, of = abstraction.of(paths.states)
    labels = paths.labels
    for n, number in enumerate(of.tolist()):
        if labels.depths[labels.of[n][0]]:
            break  # states are numbered breadth first
        if mapped[number] not in abstraction.initial:
            reason = f"an initial state that `{abstraction.name}` does not have: {abstraction.words(mapped[number])}"
            return verdict("violated", paths.to(n), reason)
    begins = of[graph.sources]
    pairs, which = np.unique(begins * len(mapped) + of[graph.targets], return_inverse=True)
    wrong = np.array([not _is_step(abstraction, mapped, divmod(p, len(mapped))) for p in pairs.tolist()], dtype=bool)
    numbers = _nearest(np.flatnonzero(wrong[which]).tolist(), graph, paths) if wrong.any() else None
    if numbers is not None:
        before, after = (abstraction.words(mapped[of[n]]) for n in numbers[-2:])
        reason = f"a step that `{abstraction.name}` does not have: from {before} to {after}"
        return verdict("violated", paths.along(numbers), reason)
    return verdict("exhausted") if complete else verdict("bounded", None, why)


def _is_step(abstraction: Abstraction, mapped: list[State], pair: tuple[int, int]) -> bool:
    """Returns whether a pair of mapped states is a step of the abstract system, or changes nothing."""
    before, after = (mapped[n] for n in pair)
    if before == after:
        return True
    return any(target == after for _, target in abstraction.world.successors(before, ()))


def _nearest(edges: list[int], graph: Graph, paths: Paths) -> list[int] | None:
    """The states on a shortest path that ends with one of some edges, with as many faults as it needs."""
    labels, best = paths.labels, None
    for e in edges:
        source, cost = graph.source(e), graph.row_of(e).cost
        if best is not None and labels.depths[labels.of[source][0]] >= best[0]:
            break  # states are numbered breadth first, and edges lie in the order of their sources
        for label in labels.of[source]:
            left = not cost or faults_left(labels.lefts[label], cost) is not None
            if left and (best is None or labels.depths[label] < best[0]):
                best = labels.depths[label], label, int(graph.targets[e])
    return None if best is None else [*labels.chain(best[1]), best[2]]
