"""Judging one mutant in one trial: is a property violated, and if not, is the mutant the system itself?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from leasehold.checker.crash.convergence import convergence
from leasehold.checker.explore import Exploration, Limits, explore
from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.labels import Left, after
from leasehold.checker.explore.layout import State
from leasehold.checker.explore.properties import only_these
from leasehold.checker.explore.reference import Reference
from leasehold.checker.explore.step import SpecFault
from leasehold.checker.mutation.battery import Trial
from leasehold.spec import System

CONVERGENCE = "convergence"  # as what kills: some fair run never returns to a legal state, or the system cannot go on
VACUOUS = "vacuous: "


class MutationError(Exception):
    """The system itself cannot be explored to the end in a trial, so its mutants cannot be compared with it."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """The system itself in a trial: what a mutant is compared with."""

    states: int
    legal: int  # states without faults
    holds: frozenset[str]
    vacuous: frozenset[str]
    converges: bool
    unvisited: frozenset[str]  # transitions that are never taken


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a mutant in a trial.

    Attributes:
        by: the property that is violated; `steps` are those of the counterexample, where there is one.
        refused: the error that shows that the mutant is no specification.
        noticed: the witness or the case of a property that is lost. That is no claim about runs, so it kills nothing.
        cut_short: it has far more states than the system.
        states: whether it has as many states as the system.
    """

    by: str = ""
    steps: int | None = None
    refused: str = ""
    noticed: str = ""
    cut_short: bool = False
    states: bool = False
    seconds: float = 0.0


def baseline_of(system: System, trial: Trial) -> Baseline:
    """The results of the system itself in a trial.

    Raises:
        MutationError: it cannot be explored to the end.
    """
    exploration = _explored(system, Limits(), trial)
    legal = exploration if trial.budget is None else _explored(system, Limits())
    for searched in (exploration, legal):
        _require_whole(searched, trial)
    holds = frozenset(p.name for p in exploration.properties if p.verdict in ("exhausted", "witnessed"))
    converges = trial.budget is not None and convergence(legal, exploration).converges is True
    unvisited = frozenset(exploration.unvisited_transitions)
    return Baseline(exploration.distinct, legal.distinct, holds, frozenset(exploration.vacuous), converges, unvisited)


def judged(mutant: System, trial: Trial, baseline: Baseline) -> Verdict:
    """Returns the verdict on a mutant in a trial; of the properties, those alone count that the system satisfies."""
    mutant = only_these(mutant, baseline.holds)
    exploration = _explored(mutant, _limits(baseline.states, stop_at_violation=True), trial)
    violated = [p for p in exploration.properties if p.verdict == "violated"]
    claims = [p for p in violated if p.kind not in ("sometimes", "guards")]
    if claims:
        first = min(claims, key=lambda p: len(p.path) if p.path is not None else exploration.distinct)
        return Verdict(first.name, len(first.path) if first.path is not None else None)
    faults = [p for p in violated if p.kind == "guards"]
    if faults:
        return Verdict(refused=f"{faults[0].name}: {faults[0].reason}")
    if not exploration.complete:
        return Verdict(cut_short=True)
    lost = [VACUOUS + name for name in exploration.vacuous if name not in baseline.vacuous]
    verdict = Verdict(
        noticed=next(iter([*(p.name for p in violated), *lost]), ""), states=exploration.distinct == baseline.states
    )
    if not baseline.converges:
        return verdict
    legal = _explored(replace(mutant, properties={}), _limits(baseline.legal))
    if not legal.complete:
        return replace(verdict, cut_short=True)
    converges = convergence(legal, exploration)
    if converges.converges is not False:
        return verdict
    return Verdict(CONVERGENCE, len(converges.path) if converges.path is not None else None)


def _limits(states: int, stop_at_violation: bool = False) -> Limits:
    """A mutant may run away; three times what the system has is enough to see most violations."""
    return Limits(states=3 * states + 1000, stop_at_violation=stop_at_violation)


def _explored(system: System, limits: Limits, trial: Trial | None = None) -> Exploration:
    exploration = explore(system, limits, budget=trial.budget if trial is not None else None)
    if exploration.interrupted:
        raise KeyboardInterrupt
    return exploration


def _require_whole(exploration: Exploration, trial: Trial) -> None:
    if not exploration.complete:
        raise MutationError(f"{exploration.system.name} with {trial}: {exploration.why_incomplete}")


# Mutants that are the system itself

_Steps: TypeAlias = set[tuple[Any, ...]]


class ReachableGraph:
    """The reachable states of a system in a trial, with the faults that are left there, and the steps from them.

    Raises:
        MutationError: it cannot be explored to the end.
    """

    def __init__(self, system: System, trial: Trial) -> None:
        self.trial = trial
        exploration = _explored(replace(system, properties={}, ends=None), Limits(), trial)
        _require_whole(exploration, trial)  # also here: less memory may be left than when the campaign began
        self.world: Reference = exploration.paths.world
        states, labels = exploration.paths.states, exploration.paths.labels
        self.steps: list[tuple[State, Left, _Steps]] = [
            (states[n], left, _steps(self.world, states[n], left))
            for n, left in zip(labels.states, labels.lefts, strict=True)
        ]

    def is_of(self, mutant: System) -> bool:
        """Returns whether a mutant has exactly these states and steps, up to the names of transitions.

        From the same first states the same steps lead to the same states, so it is enough to compare the steps from
        every state of the system. A step that changes nothing is none.
        """
        world = reference_of(mutant, self.trial.budget)
        if world.initial_states() != self.world.initial_states():
            return False
        try:
            return all(_steps(world, state, left) == steps for state, left, steps in self.steps)
        except SpecFault:
            return False


def _steps(world: Reference, state: State, left: Left) -> _Steps:
    """Returns what machines consume in the steps from a state, and where these lead."""
    return {
        (a.kind, a.role, a.instance, a.event, a.fields, a.sender, after(left, a.cost), to)
        for a, to in world.successors(state, left)
        if to != state and after(left, a.cost) is not None
    }
