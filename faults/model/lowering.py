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
from leasehold.spec.language.expression import Now, mentions
from leasehold.spec.language.lower import Change, ClockBounds, Crash, FaultCell, ModelActor, Relation, Variable, lower
from leasehold.spec.language.model import System
from leasehold.spec.language.parts import expressions
from leasehold.spec.language.types import finite

UP, DOWN, GONE = True, False, None  # GONE is halted for good; only UP is true
EVERYTHING = "everything"  # the name of a crash of all actors
LEAD, PHASE = "lead", "phase"  # of a clock (spec/language/lower/clocks.py)
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


def without_effect(system: System, budget: Budget) -> dict[str, str]:
    """The kinds of a budget that can strike nothing in a system, each with the reason as a clause."""
    reasons: dict[str, str] = {}
    untouched = {kind: _untouched(system, kind) for kind in ("duplicate", "lose", "reorder")}
    for kind in budget.given:
        if kind in ("skew", "drift") and system.clock is None:
            reasons[kind] = "there is no clock"
        elif kind in ("skew", "drift") and not any(_reads_clock(system, a) for a in lower(system).actors):
            reasons[kind] = "no actor reads the clock"
        elif kind == "partition" and len(lower(system).actors) < 2:
            reasons[kind] = "there is one actor"
        elif kind in untouched and len(untouched[kind]) == len(system.channels):
            reasons[kind] = ", ".join(untouched[kind]) or "there is no channel"
    return reasons


def _untouched(system: System, fault: str) -> list[str]:
    """The channels that a budget's fault of messages does not reach, each as `NAME is a KIND`."""
    apart = {"duplicate": ("set",), "lose": ("set",), "reorder": ("bag", "multiset", "set")}[fault]
    return [f"{c.name} is a {c.kind}" for c in system.channels.values() if c.durable or c.kind in apart]


def crash(relation: Relation, count: int) -> Relation:
    """Each actor may stop by itself, and the actors of a node together (paper, sections 3.2 and 5.1)."""
    known = {a.name: a for a in relation.actors}
    groups: dict[str, tuple[ModelActor, ...]] = {name: (actor,) for name, actor in known.items()}
    for node, names in relation.system.faults.nodes.items():
        groups[node] = tuple(known[n] for n in names if n in known)
    lost = lost_at_crash(relation.system)
    crashes = tuple(Crash(name, actors, "crash", together=True, empties=lost) for name, actors in groups.items())
    return replace(relation, crashes=(*relation.crashes, *crashes), retries=relation.retries or _sent_again(relation))


def power_cut(relation: Relation, count: int) -> Relation:
    """All actors stop at once, whoever of them is up."""
    every = Crash(EVERYTHING, relation.actors, "power_cut", together=False, empties=lost_at_crash(relation.system))
    return replace(relation, crashes=(*relation.crashes, every), retries=relation.retries or _sent_again(relation))


def lost_at_crash(system: System) -> tuple[str, ...]:
    """The channels whose messages are lost when the actor crashes to which they are on their way."""
    return tuple(channel.name for channel in system.channels.values() if channel.on_crash == "lost")


def _sent_again(relation: Relation) -> bool:
    """Returns whether a crash loses messages that their senders send again: those of mailboxes."""
    channels = relation.system.channels
    return any(channels[name].kind == "mailbox" for name in lost_at_crash(relation.system))


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
            empties=lost_at_crash(relation.system),
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
            empties=lost_at_crash(relation.system),
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
    """Each actor's clock may be ahead by so many ticks."""
    return _clocks(relation, replace(relation.clocks, ahead=ticks))


def drift(relation: Relation, percent: int) -> Relation:
    """Each actor's clock may be slower or faster than true time by so many percent."""
    return _clocks(relation, replace(relation.clocks, percent=percent))


def _clocks(relation: Relation, bounds: ClockBounds) -> Relation:
    """Clocks with these bounds, of the actors that read one. That one stands still belongs to the passage of time."""
    names, first = tuple(a.name for a in relation.actors if _reads_clock(relation.system, a)), bounds.first
    if relation.passage is None or not names:
        return relation
    kept = tuple(v for v in relation.variables if v.name not in (LEAD, PHASE))
    phase = () if first.phase is None else (Variable(PHASE, names, first.phase),)
    gains = tuple(Change(bounds.kind, f"the clock of {name} gains a tick", {}, {}, gains=name) for name in names)
    return replace(
        relation,
        clocks=bounds,
        variables=(*kept, Variable(LEAD, names, first.lead, leads=True), *phase),
        changes=(*(c for c in relation.changes if not c.gains), *gains),
    )


def _reads_clock(system: System, actor: ModelActor) -> bool:
    roles = {machine.role for machine in actor.machines}
    return any(mentions(e, lambda n: isinstance(n, Now)) for name in roles for e in expressions(system.roles[name]))


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
        changes=tuple(c for c in relation.changes if traitor.name not in (c.actor, c.gains)),
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
    "drift": drift,
    "byzantine": byzantine,
}
