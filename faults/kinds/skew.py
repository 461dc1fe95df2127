"""Clocks that are ahead of true time: an actor's clock gains a tick, or stands still while time passes."""

from __future__ import annotations

from dataclasses import replace

from leasehold.faults.kinds import adds
from leasehold.spec.language.lower import Cell, Change, Relation, Variable


@adds("skew")
def skew(relation: Relation, ticks: int) -> Relation:
    """Each actor's clock may be ahead by so many ticks. That a clock stands still belongs to the passage of time."""
    if relation.passage is None:
        return relation
    lead = Variable("lead", tuple(a.name for a in relation.actors), 0, leads=True)
    gains = tuple(
        Change(
            "skew", f"the clock of {actor.name} gains a tick", {Cell("lead", actor.name): (ahead,)},
            {Cell("lead", actor.name): ahead + 1}, waits_for=actor.name,
        )
        for actor in relation.actors
        for ahead in range(ticks)
    )  # fmt: skip
    return replace(relation, variables=(*relation.variables, lead), changes=(*relation.changes, *gains))
