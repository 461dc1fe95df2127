"""Actors that stop: crash, power_cut and halt (paper, sections 3.2 and 5.1)."""

from __future__ import annotations

from dataclasses import replace

from leasehold.faults.kinds import adds
from leasehold.faults.up import EVERYTHING, GONE, UP
from leasehold.spec.language.lower import Actor, Cell, Change, Crash, Relation


@adds("crash")
def crash(relation: Relation, count: int) -> Relation:
    """Each actor may stop by itself, and the actors of a node together."""
    known = {a.name: a for a in relation.actors}
    groups: dict[str, tuple[Actor, ...]] = {name: (actor,) for name, actor in known.items()}
    for node, names in relation.system.faults.nodes.items():
        groups[node] = tuple(known[n] for n in names if n in known)
    crashes = tuple(Crash(name, actors, "crash", together=True) for name, actors in groups.items())
    return replace(relation, crashes=(*relation.crashes, *crashes))


@adds("power_cut")
def power_cut(relation: Relation, count: int) -> Relation:
    """All actors stop at once, whoever of them is up."""
    every = Crash(EVERYTHING, relation.actors, "power_cut", together=False)
    return replace(relation, crashes=(*relation.crashes, every))


@adds("halt")
def halt(relation: Relation, count: int) -> Relation:
    """An actor stops between two steps, and does not recover."""
    halts = tuple(
        Change("halt", f"halt:{name}", {Cell("up", name): (UP,)}, {Cell("up", name): GONE}, actor=name, budget="halt")
        for name in (a.name for a in relation.actors)
    )
    return replace(relation, changes=(*relation.changes, *halts))
