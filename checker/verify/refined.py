"""The refinement of an abstract system, asked of a run: each of its steps is mapped to a step there, or to none.

The explorer decides it for all runs (explore/graph/refinement.py), and has the mapping; here it is asked of the cuts of
one. A cut that no step has led to is compared with none before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from leasehold.checker.explore.graph.refinement import KIND, Abstraction, doc_of
from leasehold.checker.verify.cuts import Cut
from leasehold.checker.verify.result import Violation, events_of
from leasehold.checker.verify.system import CutsOfSystem
from leasehold.spec.language.model import Refinement


class RunRefinement:
    """The refinement of a system, asked of its runs.

    Args:
        known: the system.
        refines: what it says of an abstract one.
    """

    def __init__(self, known: CutsOfSystem, refines: Refinement) -> None:
        self.known, self.refines = known, refines
        self.abstraction = Abstraction(refines, known.layout)
        self._allowed: dict[tuple[object, object], bool] = {}  # few pairs of mapped states differ

    def violation(self, cuts: Sequence[Cut]) -> Violation | None:
        """The first cut of a run, from its beginning on, that no abstract run has; None: it refines."""
        abstraction = self.abstraction
        if reason := abstraction.not_initial(abstraction.image(cuts[0].state)):
            return self._at(cuts[:1], reason)
        for number, (before, after) in enumerate(pairwise(cuts), 2):
            pair = abstraction.image(before.state), abstraction.image(after.state)
            if not after.replaces and not self._is_allowed(pair):
                return self._at(cuts[:number], abstraction.no_step(*pair))
        return None

    def _is_allowed(self, pair: tuple[tuple[object, ...], tuple[object, ...]]) -> bool:
        if pair not in self._allowed:
            self._allowed[pair] = self.abstraction.allows(*pair)
        return self._allowed[pair]

    def _at(self, cuts: Sequence[Cut], reason: str) -> Violation:
        events, clock, last = events_of(cuts), self.known.layout.clock, cuts[-1]
        return Violation(
            KIND,
            KIND,
            doc_of(self.refines),
            "",
            last.run,
            last.number,
            None if clock is None else last.state[clock],
            tuple(dict.fromkeys(actor for actor, _ in reversed(events))),
            events,
            self.known.layout,
            tuple(cuts),
            claim=reason,
        )
