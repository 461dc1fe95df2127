"""A system under a budget of faults as a lowered form: each kind adds what its row of the catalogue says."""

from __future__ import annotations

from dataclasses import replace

from leasehold.faults.budget import Budget
from leasehold.faults.kinds import rows
from leasehold.faults.up import DOWN, GONE, UP
from leasehold.spec.language.lower import Relation, Variable, lower
from leasehold.spec.language.model import System


def lower_with_faults(system: System, budget: Budget | None) -> Relation:
    """The steps of a system under a budget of faults; None, unlike an empty budget, is that actors have no state."""
    relation = lower(system)
    if budget is None:
        return relation
    up = Variable("up", tuple(a.name for a in relation.actors), UP, stops=(DOWN, GONE), shows=True)
    relation = replace(relation, variables=(up,), limits=budget.limits, unlimited=budget.unlimited)
    for name, value in budget.given.items():
        relation = rows()[name](relation, value)
    return relation
