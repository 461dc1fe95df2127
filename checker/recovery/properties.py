"""The properties of any system, as runs of its actors in simulation are asked them, and what the end of a run shows.

Theory of operation. A run of real actors has to be a run of the specification: its properties are evaluated on its cuts
(checker/verify/evaluator.py), and each record state of a cut (control states and data of all machines, and the clock,
without messages) must be one of the explored graph's. Where no step is possible any more, what still waits is broken,
and one of the system's `ends` must hold.

An explored graph has the messages that faults have lost, doubled or held up; cuts have those that their senders have
to say. So where both are compared, properties of messages on their way are left out (`of_records`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.paths import Paths
from leasehold.checker.explore.reference import Reference
from leasehold.checker.verify.evaluator import ClaimsOfRuns, Decided
from leasehold.checker.verify.system import CRASH, CutsOfSystem
from leasehold.faults.model import Budget
from leasehold.impl.core.core import Program
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.model import System

Records = tuple[Any, ...]


class Projection:
    """A state of the model without messages, faults and opaque data: what records and the clock tell of it."""

    def __init__(self, world: Reference) -> None:
        layout = world.layout
        cells = []
        for role, i in world.system.machines():
            cells.append(layout.at(role.name, i, None))
            kinds = ((datum.name, datum.type) for datum in role.data.values())
            cells += [layout.at(role.name, i, name) for name, kind in kinds if not isinstance(kind, t.Opaque)]
        self.cells = (*cells, *([] if layout.clock is None else [layout.clock]))

    def __call__(self, state: Sequence[Any]) -> Records:
        return tuple([state[cell] for cell in self.cells])

    def every(self, paths: Paths) -> frozenset[Records]:
        """The record states of an explored graph."""
        _, known = paths.combinations(self.cells)
        return frozenset(known)


class RunProperties:
    """The properties of any system under a budget of faults.

    Attributes:
        world, layout: the system under the budget, and the cells of its states, which runs have too.
        claims: what a run may violate.
        projection: of states to record states.
        ends: by name.
        excused: the properties that the model says are broken with one crash.
    """

    def __init__(self, system: System, budget: Budget = CRASH) -> None:
        self.system = system
        self.world = reference_of(system, budget)
        self.layout = self.world.layout
        violable = {p.name: p for p in system.properties.values() if p.kind != "sometimes"}
        self.claims = ClaimsOfRuns(self.world, violable)
        self.projection = Projection(self.world)
        self.excused: frozenset[str] = frozenset()
        self.ends: dict[str, Callable[..., Any]] | None = None
        if system.ends is not None:
            self.ends = {end.name: self.world.function(end.holds) for end in system.ends}
        self._cuts: CutsOfSystem | None = None

    def cuts(self, program: Program) -> CutsOfSystem:
        """Returns the system as runs of its actors are cut, which play this program."""
        if self._cuts is None or self._cuts.program is not program:
            self._cuts = CutsOfSystem(self.system, program, self.world)
        return self._cuts

    def of_records(self, names: Iterable[str]) -> set[str]:
        """Returns those of some properties that ask for nothing but records, who is up, and the time."""
        return {*names} - self.claims.of_messages

    def end(self, state: Sequence[Any]) -> str | None:
        """The first end that holds; None: none does."""
        return next((name for name, holds in (self.ends or {}).items() if holds(state, (), -1)), None)


def named(decided: Iterable[Decided]) -> set[str]:
    """Returns the names of the properties that cuts decide."""
    return {one.name for one in decided}


def reads_messages(e: x.Expression) -> bool:
    """Returns whether an expression asks for messages in transit, which no record tells."""
    return x.mentions(e, lambda node: isinstance(node, x.Pending) or _asks_heard(node))


def _asks_heard(node: x.Expression) -> bool:
    return isinstance(node, x.GlobalQuery) and node.name == "heard"
