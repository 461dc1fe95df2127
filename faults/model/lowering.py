"""A system under a budget of faults as a lowered form: each kind of fault adds its variables and actions.

A kind is a row of catalogue.yaml and one function here, a row of KINDS: from a lowered form and the kind's value in the
budget to a form with the fault in it. The state variable `up`, whether an actor runs, is common to all kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any, TypeAlias

from leasehold.faults.model.budget import Budget, BudgetError
from leasehold.spec.language.lower import Change, Crash, FaultCell, ModelActor, Relation, Variable, lower
from leasehold.spec.language.model import System
from leasehold.spec.language.types import finite

UP, DOWN, GONE = True, False, None  # GONE is halted for good; only UP is true
EVERYTHING = "everything"  # the name of a crash of all actors
WHOLE = 0  # the value while there is no partition; else the number of a cut, from 1 on


def lower_with_faults(system: System, budget: Budget | None) -> Relation:
    """The steps of a system under a budget of faults; None, unlike an empty budget, is that actors have no state."""
    relation = lower(system)
    if budget is None:
        return relation
    up = Variable("up", tuple(a.name for a in relation.actors), UP, stops=(DOWN, GONE), shows=True)
    relation = replace(relation, variables=(up,), limits=budget.limits, unlimited=budget.unlimited)
    for name, value in budget.given.items():
        relation = KINDS[name](relation, value)
    return relation


def crash(relation: Relation, count: int) -> Relation:
    """Each actor may stop by itself, and the actors of a node together (paper, sections 3.2 and 5.1)."""
    known = {a.name: a for a in relation.actors}
    groups: dict[str, tuple[ModelActor, ...]] = {name: (actor,) for name, actor in known.items()}
    for node, names in relation.system.faults.nodes.items():
        groups[node] = tuple(known[n] for n in names if n in known)
    crashes = tuple(Crash(name, actors, "crash", together=True) for name, actors in groups.items())
    return replace(relation, crashes=(*relation.crashes, *crashes))


def power_cut(relation: Relation, count: int) -> Relation:
    """All actors stop at once, whoever of them is up."""
    every = Crash(EVERYTHING, relation.actors, "power_cut", together=False)
    return replace(relation, crashes=(*relation.crashes, every))


def halt(relation: Relation, count: int) -> Relation:
    """An actor stops between two steps, and does not recover."""
    halts = tuple(
        Change(
            "halt",
            f"halt:{name}",
            {FaultCell("up", name): (UP,)},
            {FaultCell("up", name): GONE},
            actor=name,
            budget="halt",
        )
        for name in (a.name for a in relation.actors)
    )
    return replace(relation, changes=(*relation.changes, *halts))


def amnesia(relation: Relation, count: int) -> Relation:
    """An actor comes back with an empty store; what its peers' states say to it they say again, as if it were lost.

    Raises:
        BudgetError: its first state is not the only one.
    """
    data = [(role, datum) for role in relation.system.roles.values() for datum in role.data.values()]
    several = [f"`{role.name}.{datum.name}` begins with any value" for role, datum in data if datum.any_initial]
    several += [] if relation.system.initially is None else ["the first states have `initially`"]
    if several:
        raise BudgetError(f"an actor that comes back from amnesia is in its first state, and {several[0]}; give one")
    forgotten = tuple(
        Change(
            "amnesia",
            f"amnesia:{actor.name}",
            {FaultCell("up", actor.name): (UP, DOWN)},
            {FaultCell("up", actor.name): DOWN},
            actor=actor.name,
            budget="amnesia",
            resets=True,
            on_channels="forget",
        )
        for actor in relation.actors
    )
    return replace(relation, changes=(*relation.changes, *forgotten), retries=True)


def allowed(relation: Relation, count: int | str) -> Relation:
    """The budget allows it: what it does to a channel's content is the business of the channel's kind."""
    return relation


def lose(relation: Relation, count: int | str) -> Relation:
    """A message that was lost is sent again, under its number, while its sender is in a state that sends it."""
    return replace(relation, retries=True)


def partition(relation: Relation, count: int) -> Relation:
    """The network parts the actors in any two sides, until it heals: messages between the sides wait."""
    names = [a.name for a in relation.actors]
    sides = list(cuts(names))
    if not sides:
        return relation
    numbers = range(1, len(sides) + 1)
    apart = {
        n: frozenset(frozenset(pair) for pair in combinations(names, 2) if len(side & {*pair}) == 1)
        for n, side in zip(numbers, sides, strict=True)
    }
    cell = FaultCell("partition")
    heal = Change(
        "heal", "the partition heals", {cell: tuple(numbers)}, {cell: WHOLE}, recovers="the end of a partition"
    )
    parts = (
        Change("partition", _name(names, side), {cell: (WHOLE,)}, {cell: n}, budget="partition")
        for n, side in zip(numbers, sides, strict=True)
    )
    variable = Variable("partition", ("",), WHOLE, separates=apart, shows=True)
    return replace(relation, variables=(*relation.variables, variable), changes=(*relation.changes, heal, *parts))


def cuts(names: list[str]) -> Iterator[frozenset[str]]:
    """Every way to part the actors in two, by the side that is smaller or has not the first of them."""
    first = frozenset(names[:1])
    for size in range(1, len(names) // 2 + 1):
        for side in map(frozenset, combinations(names, size)):
            if 2 * size < len(names) or not side & first:
                yield side


def _name(names: list[str], side: frozenset[str]) -> str:
    rest = [name for name in names if name not in side]
    return f"partition: {', '.join(sorted(side))} | {', '.join(rest)}"


def skew(relation: Relation, ticks: int) -> Relation:
    """Each actor's clock may be ahead by so many ticks. That a clock stands still belongs to the passage of time."""
    if relation.passage is None:
        return relation
    lead = Variable("lead", tuple(a.name for a in relation.actors), 0, leads=True)
    gains = tuple(
        Change(
            "skew",
            f"the clock of {actor.name} gains a tick",
            {FaultCell("lead", actor.name): (ahead,)},
            {FaultCell("lead", actor.name): ahead + 1},
            waits_for=actor.name,
        )
        for actor in relation.actors
        for ahead in range(ticks)
    )
    return replace(relation, variables=(*relation.variables, lead), changes=(*relation.changes, *gains))


def byzantine(relation: Relation, role: str) -> Relation:
    """The first actor that plays the role keeps to no machine: it sends any message that it can sign.

    Paper, sections 3.2 and 4.4.

    Its own state says nothing and takes no step, and its crashes would say nothing. Its neighbours see its messages:
    each may come at any time, with any content and a new number, so they need not wait in a channel. It cannot sign for
    another actor: a message that `carries` another one shows values that it received, which it knows for ever.

    Raises:
        BudgetError: a field of its messages has no end of values, or it writes shared variables.
    """
    traitor = next((a for a in relation.actors if any(m.role == role for m in a.machines)), None)
    if traitor is None:
        return relation
    roles = {machine.role for machine in traitor.machines}
    for tr in (tr for name in roles for tr in relation.system.roles[name].transitions()):
        for update in (u for u in tr.updates if u.shared):
            reason = f"a Byzantine {role} could write anything to `{update.target}`, and only its messages are explored"
            raise BudgetError(f"{reason} ({update.place})")
    signed = [m for m in relation.system.messages.values() if m.sender in roles]
    for message, field in ((m, f) for m in signed for f in m.fields if not finite(f.type, f.explore is not None)):
        reason = (
            f"{message.name} of a Byzantine {role} has any `{field.name}`, and of type {field.type} there is no end"
        )
        raise BudgetError(f"{reason}; give the field the range to try: `explore: [low, high]` ({field.place})")
    carried = (m.carries for m in signed)
    known = Variable("known", tuple(dict.fromkeys(c for c in carried if c is not None)), frozenset())
    crashes = (replace(c, actors=tuple(a for a in c.actors if a is not traitor)) for c in relation.crashes)
    return replace(
        relation,
        variables=(*relation.variables, known),
        crashes=tuple(c for c in crashes if c.actors),
        changes=tuple(c for c in relation.changes if c.actor != traitor.name),
        byzantine=traitor,
    )


AddsFault: TypeAlias = Callable[[Relation, Any], Relation]
KINDS: Mapping[str, AddsFault] = {
    "crash": crash,
    "power_cut": power_cut,
    "halt": halt,
    "amnesia": amnesia,
    "duplicate": allowed,
    "reorder": allowed,
    "lose": lose,
    "partition": partition,
    "skew": skew,
    "byzantine": byzantine,
}
