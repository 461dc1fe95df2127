"""The mistakes that others have made, seeded in the lease: each is found, and the lease itself makes none of them."""

from __future__ import annotations

from functools import cache

import pytest

from leasehold.checker.crash.convergence import Convergence, convergence
from leasehold.checker.explore import Exploration, explore
from leasehold.checker.explore.result import Path as Trace
from leasehold.checker.mutation.judge import CONVERGENCE
from leasehold.faults.model import Budget
from leasehold.reports.trace import trace_text
from leasehold.spec import System
from tests.mutants.deviations import deviating
from tests.mutants.mutant import Mutant, mutants
from tests.systems import load

MUTANTS = mutants()
MOST_STEPS = 40  # of a counterexample that a person still reads
every = pytest.mark.parametrize("mutant", MUTANTS, ids=[m.name for m in MUTANTS])

Setting = tuple[tuple[str, str], ...]


def setting(mutant: Mutant) -> Setting:
    return tuple(mutant.setting.items())


@cache
def lease(values: Setting) -> System:
    return load("lease", dict(values))


@cache
def right(values: Setting, budget: Budget | None) -> Exploration:
    """The lease as it is."""
    return explore(lease(values), budget=budget)


@cache
def wrong(name: str, budget: Budget) -> Exploration:
    """The lease with a mistake."""
    mutant = next(m for m in MUTANTS if m.name == name)
    system = mutant.load() if mutant.edits else lease(setting(mutant))
    return explore(system, budget=budget, reference=deviating(mutant.deviation))


def after_faults(mutant: Mutant, found: Exploration) -> Convergence:
    """Returns what becomes of a mutant once faults stop; a state is legal if it is, with its text, without faults."""
    legal = explore(found.system) if mutant.edits else right(setting(mutant), None)
    return convergence(legal, found)


def counterexample(mutant: Mutant, name: str, budget: Budget) -> Trace | None:
    """Returns what shows the mistake, if it is found."""
    found = wrong(mutant.name, budget)
    if name == CONVERGENCE:
        verdict = after_faults(mutant, found)
        return None if verdict.converges else verdict.path
    (result,) = [p for p in found.properties if p.name == name] or [None]
    return result.path if result is not None and result.verdict == "violated" else None


@every
def test_a_mistake_is_found(mutant: Mutant) -> None:
    paths = [counterexample(mutant, name, mutant.budget) for name in mutant.properties]
    missed = [name for name, path in zip(mutant.properties, paths, strict=True) if path is None]
    assert not missed, f"{mutant.doc} ({mutant.budget}): not found"
    first = paths[0]
    assert first is not None
    assert len(first) == mutant.steps, trace_text(first)
    assert len(first) <= MOST_STEPS


@every
def test_the_lease_does_not_make_it(mutant: Mutant) -> None:
    found = right(setting(mutant), mutant.budget)
    paths = {p.name: p.path for p in found.properties if p.verdict == "violated" and p.path is not None}
    shown = [trace_text(path) for name, path in paths.items() if name in mutant.properties]
    assert not shown, shown[0]
    if not mutant.budget.passes:
        return  # who lies goes on to lie, so the system is not asked to come back
    verdict = convergence(right(setting(mutant), None), found)
    assert verdict.converges, trace_text(verdict.path) if verdict.path is not None else ""


@pytest.mark.parametrize("mutant", [m for m in MUTANTS if m.budget != Budget()], ids=lambda m: m.name)
def test_fewer_faults_do_not_show_it(mutant: Mutant) -> None:
    for budget in mutant.budget.weaker():
        for name in mutant.properties:
            path = counterexample(mutant, name, budget)
            assert path is None, f"found with {budget}:\n{trace_text(path)}"


def test_every_mistake_is_told_apart() -> None:
    """Two files with one change would be one mistake."""
    changes = {(m.edits, m.deviation, setting(m)) for m in MUTANTS}
    assert len(changes) == len({m.doc for m in MUTANTS}) == len(MUTANTS)
