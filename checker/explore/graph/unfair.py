"""The reasons why a run is fair in which what should come never does, and what more fairness would make it come.

Theory of operation. A counterexample's cycle shows which actions of the environment are possible in it, all along or
again and again, and never taken. Only if one of these were declared fair, or strongly fair, would the cycle be unfair.
So they alone are tried, each by deciding again; first one by one, then together, cycle by cycle; of those together only
the necessary ones are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from leasehold.checker.explore.graph.edges import Graph
from leasehold.checker.explore.graph.fairness import ENVIRONMENT, Demands, Fairness, Group, demands
from leasehold.spec.language.model import Fair, PropertyKind, System, machine_name
from leasehold.spec.language.types import show

Cycle: TypeAlias = list[int]  # states, of which the last is the first again; of one alone: nothing more happens
Said: TypeAlias = dict[str, Fair]  # of some environment actions, what is taken to be declared
FEW = 3  # things that are named in a sentence

_FAILS: Mapping[PropertyKind, str] = {
    "leads_to": "it never comes",
    "always_eventually": "in the end it comes no more",
    "eventually_always": "it never holds for good",
}
_KEYS = {Fair.WEAK: "fair: true", Fair.STRONG: "fair: strong"}
_MAY = {Fair.WEAK: "all the time", Fair.STRONG: "again and again"}


def why_unfair(
    system: System,
    graph: Graph,
    fairness: Fairness,
    kind: PropertyKind,
    cycle: Cycle,
    holds: Callable[[Demands], bool],
    fails: Callable[[Demands], Cycle | None],
) -> str:
    """Says why a claim about fair runs fails.

    Args:
        system: what declares fairness.
        graph: all steps.
        fairness: under which it was decided.
        kind: what the claim says of them.
        cycle: of the run that shows it.
        holds: decides it again: whether the claim holds of all runs that are fair to these groups.
        fails: where it does not, the cycle of one; None where it does.
    """
    groups, fails_so = list(graph.names), _FAILS[kind]
    met = _CycleGroups(graph, groups, cycle)
    if fairness is not Fairness.SPEC:
        base = f"{fails_so}, in a run that is fair enough: {fairness.words}"
        if len(cycle) == 1:
            base = f"{fails_so}, in a run that stops here: {fairness.words}"
            if fairness is Fairness.NONE and (may := [group_words(system, groups[g]) for g in sorted(met.always)]):
                more = f" and {len(may) - FEW} more" if len(may) > FEW else ""
                base += f", though {', '.join(may[:FEW])}{more} may come"
        return base + (
            "; as declared, this holds" if holds(demands(system, groups)) else "; nor does this hold as declared"
        )
    base = f"{fails_so}, in a run that is fair"
    helping = _enough(
        system, graph, groups, cycle, lambda overrides: holds(demands(system, groups, overrides=overrides)), fails
    )
    if helping is not None and len(helping) == 1:
        ((name, fair),) = helping.items()
        return f"{base}: `{name}` may come {_MAY[fair]} and never does; with `{_KEYS[fair]}` on it, this would hold"
    if helping:
        remedies = " and ".join(f"`{_KEYS[fair]}` on `{name}`" for name, fair in helping.items())
        return f"{base}: with {remedies} this would hold"
    if holds(demands(system, groups, Fairness.STRONG)):
        missed = [group_words(system, groups[g]) for g in sorted(met.some - met.taken) if groups[g][0] != ENVIRONMENT]
        lead = f"{', '.join(missed[:FEW])} may come again and again and never does; " if missed else ""
        return f"{base}: {lead}were all that is fair strongly so (`--fairness strong`), this would hold"
    return base


class _CycleGroups:
    """The groups of a cycle: those possible in all its states, in some, and those that are taken."""

    def __init__(self, graph: Graph, groups: Sequence[Group], cycle: Cycle) -> None:
        possible = [{graph.row_of(e).group for e in graph.out(n)} - {-1} for n in cycle]
        self.always = set.intersection(*possible)
        self.some = set().union(*possible)
        self.taken = {
            graph.row_of(e).group for n, after in pairwise(cycle) for e in graph.out(n) if graph.targets[e] == after
        }
        self.groups = groups

    def may_help(self, system: System, overrides: Said) -> Said:
        """The environment actions of which more fairness would make the cycle unfair, and how much more."""
        helping: Said = {}
        for fair, which in ((Fair.STRONG, self.some), (Fair.WEAK, self.always)):  # the weaker is written over
            for g in which - self.taken:
                group = self.groups[g]
                if group[0] == ENVIRONMENT and overrides.get(group[1], system.environment[group[1]].fair) < fair:
                    helping[group[1]] = fair
        return {name: helping[name] for name in system.environment if name in helping}


def _enough(
    system: System,
    graph: Graph,
    groups: Sequence[Group],
    cycle: Cycle,
    holds: Callable[[Said], bool],
    fails: Callable[[Demands], Cycle | None],
) -> Said | None:
    """Fairness of environment actions with which the claim would hold, none of it too much; None: there is none."""
    first = _CycleGroups(graph, groups, cycle).may_help(system, {})
    for fair in (Fair.WEAK, Fair.STRONG):
        for name in first:
            if first[name] <= fair and holds({name: fair}):
                return {name: fair}
    overrides: Said = {}
    at: Cycle | None = cycle
    while at is not None:
        more = _CycleGroups(graph, groups, at).may_help(system, overrides)
        if not more:
            return None
        overrides |= more
        at = fails(demands(system, groups, overrides=overrides))
    for name in list(overrides):
        less = {other: fair for other, fair in overrides.items() if other != name}
        if holds(less):
            overrides = less
        elif (
            overrides[name] is Fair.STRONG
            and system.environment[name].fair < Fair.WEAK
            and holds({**overrides, name: Fair.WEAK})
        ):
            overrides[name] = Fair.WEAK
    return {name: overrides[name] for name in system.environment if name in overrides}


def group_words(system: System, group: Group) -> str:
    """A group, as a reader knows it."""
    kind, *rest = group
    match kind:
        case "environment":
            name, instance, *values = rest
            action = system.environment[name]
            fields = [d for d in system.fields_of(action.role, action.event) if d.name in action.fair_for_each]
            shown = ", ".join(f"{d.name}={show(d.type, v)}" for d, v in zip(fields, values, strict=True))
            who = machine_name(system.roles[action.role], instance)
            return f"`{name}` for {who}" + (f" with {shown}" if shown else "")
        case "deliver":
            channel = system.channels[rest[0]]
            sender = machine_name(system.roles[channel.sender], rest[1])
            return f"a message from {sender} to {machine_name(system.roles[channel.receiver], rest[2])}"
        case "answer":
            return f"an answer of `{rest[2]}` to {machine_name(system.roles[rest[0]], rest[1])}"
        case "tick":
            return f"a tick of {machine_name(system.roles[rest[0]], rest[1])}"
        case "clock":
            return "the clock"
        case "recover":
            return f"the restart of {rest[0]}"
        case "retry":
            return f"a retry of {machine_name(system.roles[rest[0]], rest[1])}"
        case _:  # of a fault: `recovers` of a Change
            return str(kind)
