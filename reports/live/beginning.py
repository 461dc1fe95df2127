"""The beginning of a walk: at the end of a counterexample, or of a run of real actors, of a test's for example.

A path of the explorer is followed step by step. A run is told by events, which say what machines record, and not which
of several ways a message took meanwhile: so all ways of the model to the same records are followed at once. A run that
the model does not have is followed as far as it goes, and the step where it leaves the model is named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from leasehold.checker.explore.layout import State
from leasehold.checker.explore.result import Path, Snapshot, Step
from leasehold.checker.explore.walker import FollowedTrail, Position, Walker
from leasehold.checker.recovery.cases.path_case import NoSuchStep, PathCase
from leasehold.faults.model import Budget
from leasehold.faults.model.lowering import UP

Records: TypeAlias = tuple[Mapping[str, str], Mapping[str, str]]
STOPS = ("crash", "recover")
TOLD = (*STOPS, "deliver", "duplicate", "local", "tick", "clock")  # kinds of steps that the model has, too
HOPS = 4  # steps that no event tells of, between two that are told
WIDEST = 50  # positions that are followed at once


def along_case(walker: Walker, case: PathCase) -> FollowedTrail:
    """Follows a counterexample out of a file, as far as the system still has it."""
    try:
        return walker.along(case.run(walker.system).path)
    except NoSuchStep as error:
        if error.number == 0:
            return FollowedTrail(walker.firsts[0], 0)
        begun = along_case(walker, replace(case, steps=case.steps[: error.number - 1]))
        return FollowedTrail(begun.position, error.number)


def faults_of(path: Path, budget: Budget) -> Budget:
    """A budget that has the crashes of a run of real actors, and as many more as before."""
    return budget.with_more(crash=budget.crash + sum(step.kind == "crash" for step in path.steps))


def along_run(walker: Walker, path: Path) -> FollowedTrail:
    """Follows a run of real actors, as their events tell it (verify/result.py)."""
    follower = _Follower(walker)
    layer = [p for p in walker.firsts if follower.records(p) == (path.initial.control, path.initial.data)]
    if not layer:
        return FollowedTrail(walker.firsts[0], 0)
    for number, (before, step) in enumerate(path.moves(), 1):
        further = follower.toward(layer, before, step)
        if not further:
            return FollowedTrail(layer[0], number)
        layer = sorted(further, key=lambda p: -sum(p.left))[:WIDEST]
    return FollowedTrail(layer[0])


class _Follower:
    """Follows a run that events tell, in the model."""

    def __init__(self, walker: Walker) -> None:
        self.walker, self.layout = walker, walker.world.layout
        self._records: dict[State, Records] = {}

    def records(self, at: Position) -> Records:
        """The records of all machines at a position."""
        known = self._records.get(at.state)
        if known is None:
            known = self._records[at.state] = self.layout.control(at.state), self.layout.data(at.state)
        return known

    def toward(self, layer: Sequence[Position], before: Snapshot, step: Step) -> list[Position]:
        """The positions after a step of a run, from those before it; the way may have steps that no event tells of."""
        held, wanted = (before.control, before.data), (step.state.control, step.state.data)
        if step.kind not in TOLD:
            return [at for at in layer if self.records(at) == wanted]
        frontier, seen = [*layer], {at.state for at in layer}
        for _ in range(HOPS + (step.state.now or 0) - (before.now or 0)):
            there, onwards = list[Position](), list[Position]()
            for at in frontier:
                if step.kind in STOPS and self._runs(at, step.machine) is (step.kind == "recover"):
                    there.append(at)
                    continue
                for p in self.walker.choices(at).next:
                    if step.kind not in STOPS and self._fits(p, step) and self.records(p) == wanted:
                        there.append(p)
                    elif p.state not in seen and self.records(p) == held:
                        seen.add(p.state)
                        onwards.append(p)
            if there:
                return there
            frontier = sorted(onwards, key=lambda p: -sum(p.left))[:WIDEST]
        return []

    def _fits(self, p: Position, step: Step) -> bool:
        """Returns whether a step of the model is the one that an event tells."""
        action = p.action
        assert action is not None
        if step.kind == "clock":
            return action.kind == "clock" and p.state[self.layout.clock or 0] == step.state.now
        transition = None if action.transition is None else action.transition.name
        return transition == step.transition and (transition is not None or action.kind == step.kind)

    def _runs(self, at: Position, machine: str | None) -> bool:
        """Returns whether the actor of a machine is up."""
        role, _, rest = (machine or "").partition("[")
        return at.state[self.layout.up[self.layout.of[role, int(rest.rstrip("]") or 0)].name]] is UP
