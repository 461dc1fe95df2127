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

    def image(self, state: State) -> State:
        """The state that a state is mapped to."""
        mapped: State = self._mapped(state, (), -1)
        return mapped

    def allows(self, before: State, after: State) -> bool:
        """Returns whether a pair of mapped states is a step of the abstract system, or changes nothing."""
        return before == after or any(target == after for _, target in self.world.successors(before, ()))

    def not_initial(self, mapped: State) -> str:
        """Returns what is wrong with a run that begins in a state that is mapped to this one; empty: nothing is."""
        if mapped in self.initial:
            return ""
        return f"an initial state that `{self.name}` does not have: {self.words(mapped)}"

    def no_step(self, before: State, after: State) -> str:
        """Returns what is wrong with a pair of mapped states that is no step."""
        return f"a step that `{self.name}` does not have: from {self.words(before)} to {self.words(after)}"

    def of(self, states: Iterable[State]) -> tuple[list[State], Any]:
        """The mapped states, and the number among them for each of some states: an array."""
        numbers: dict[State, int] = {}
        mapped = [numbers.setdefault(self.image(s), len(numbers)) for s in states]
        return [*numbers], np.array(mapped, dtype=np.int64)

    def words(self, state: State) -> str:
        layout = self.world.layout
        shown = {**layout.control(state), **layout.data(state)}
        return ", ".join(f"{name}={value}" for name, value in shown.items())


def doc_of(refines: Refinement) -> str:
    """Returns the claim that a refinement makes, in a sentence."""
    return refines.doc or f"Every step is one of {refines.abstract.name}, or changes nothing there."


def decide(refines: Refinement, graph: Graph | None, paths: Paths, complete: bool, why: str) -> PropertyResult:
    """The verdict on a refinement; without a graph it is left open."""
    doc = doc_of(refines)

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
        if reason := abstraction.not_initial(mapped[number]):
            return verdict("violated", paths.to(n), reason)
    begins = of[graph.sources]
    pairs, which = np.unique(begins * len(mapped) + of[graph.targets], return_inverse=True)
    asked = (divmod(pair, len(mapped)) for pair in pairs.tolist())
    wrong = np.array([not abstraction.allows(mapped[before], mapped[after]) for before, after in asked], dtype=bool)
    numbers = _nearest(np.flatnonzero(wrong[which]).tolist(), graph, paths) if wrong.any() else None
    if numbers is not None:
        before, after = (mapped[of[n]] for n in numbers[-2:])
        return verdict("violated", paths.along(numbers), abstraction.no_step(before, after))
    return verdict("exhausted") if complete else verdict("bounded", None, why)


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
