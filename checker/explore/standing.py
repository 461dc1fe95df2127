"""The standing of each claim at a position of a walk: what a search would say there, and what a run still owes.

A claim about states or steps is asked of the position, or of the step to it. Of a claim about runs a position tells
whether it is true there, and of `leads_to` since when the way to it owes what has to follow: no finite way shows that
this never comes, unless it has to come `within` a number of ticks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeAlias

from leasehold.checker.explore.ground import function, step_function
from leasehold.checker.explore.properties import DEADLOCK, OF_THE_LANGUAGE, WatchedClaim, compiled_in, failed_parts
from leasehold.checker.explore.walker import MOST_KEPT, Position, Trail, Walker
from leasehold.faults.model.lowering import GONE
from leasehold.spec.language.for_each import each
from leasehold.spec.language.model import OF_FAIR_RUNS
from leasehold.spec.language.render.python_source import Frame

# In the order in which one of them speaks for a property of which bindings differ.
Status: TypeAlias = Literal["violated", "owed", "holds", "shown", "elsewhere", "no case", "unasked"]
STATUSES: dict[Status, str] = {
    "violated": "this position contradicts it",
    "owed": "what has to follow has not come yet",
    "holds": "it has a case here, and holds",
    "shown": "this position is a witness",
    "elsewhere": "it has to be true at some position, and is not at this one",
    "no case": "its condition is not met here",
    "unasked": "it speaks of who may do anything",
}
_WORST = list(STATUSES)


@dataclass(frozen=True)
class Standing:
    """A property at a position.

    Attributes:
        name: of the property, `deadlock_free`, or one that the language claims of every system.
        failed: the parts of its claim that are false there, where it joins several.
        binding: the values of its variables of which that is said.
        since: what is owed is so since this step (0: the first state); `ticks` have passed since then.
    """

    name: str
    status: Status
    failed: tuple[str, ...] = ()
    binding: dict[str, str] = field(default_factory=dict)
    since: int | None = None
    ticks: int | None = None
    reason: str = ""


@dataclass(frozen=True)
class _Debt:
    """A debt of a way: since which step it owes something, and how many ticks have passed."""

    since: int
    ticks: int = 0


_Debts: TypeAlias = dict[int, _Debt]  # by the index of a claim


class Standings:
    """The standing of all properties of a system that is walked through."""

    def __init__(self, walker: Walker) -> None:
        self.walker, self.system = walker, walker.system
        world = walker.world
        self._frame = Frame(world.layout, self.system.values(), before="o")
        self.claims: list[WatchedClaim] = []
        for p in self.system.properties.values():
            if world.asks(p.claim) and (p.when is None or world.asks(p.when)):
                compiled = partial(compiled_in, self._frame, step_function if p.kind == "step" else function)
                self.claims += [WatchedClaim(bound, bound.claim, bound.when, compiled) for bound in each(p)]
        self.ends = {end.name: world.function(end.holds) for end in self.system.ends or () if world.asks(end.holds)}
        self._debts: dict[Trail, _Debts] = {}

    def at(self, position: Position) -> list[Standing]:
        """The standing of each property there, in the order of the system; then what every system has to keep."""
        worst = self._worst(enumerate(self.claims), position, self._owed(position))
        found = [worst.get(name, Standing(name, "unasked")) for name in self.system.properties]
        return [*found, *self._of_the_language(position)]

    def violated_by_step(self, position: Position) -> list[Standing]:
        """The claims about steps that the step to a position violates; no step from there is looked for."""
        steps = ((index, claim) for index, claim in enumerate(self.claims) if claim.of.kind == "step")
        return [s for s in self._worst(steps, position, {}).values() if s.status == "violated"]

    def _worst(self, claims: Iterable[tuple[int, WatchedClaim]], at: Position, debts: _Debts) -> dict[str, Standing]:
        """The standing of each property of which these are claims: the worst one of its bindings."""
        worst: dict[str, Standing] = {}
        for index, claim in claims:
            standing = self._standing(claim, at, debts.get(index))
            known = worst.get(standing.name)
            if known is None or _WORST.index(standing.status) < _WORST.index(known.status):
                worst[standing.name] = standing
        return worst

    def _standing(self, claim: WatchedClaim, at: Position, debt: _Debt | None) -> Standing:
        p, arguments = claim.of, self._arguments(claim, at)
        said = partial(Standing, p.name, binding=dict(p.binding))
        if arguments is None:
            return said("no case")
        if p.kind == "leads_to":
            if debt is None:
                return said("holds" if claim.applies(arguments) or claim.holds(*arguments) else "no case")
            late = p.within is not None and debt.ticks > p.within
            return said("violated" if late else "owed", since=debt.since, ticks=debt.ticks)
        if p.kind == "sometimes":
            return said("shown" if claim.holds(*arguments) else "elsewhere")
        if not claim.applies(arguments):
            return said("no case")
        if claim.holds(*arguments):
            return said("holds")
        if p.kind in OF_FAIR_RUNS or p.kind == "always_possible":
            return said("elsewhere")
        compiled = step_function if p.kind == "step" else function
        return said("violated", failed=failed_parts(p, self._frame, compiled, arguments))

    def _arguments(self, claim: WatchedClaim, at: Position) -> tuple[Any, ...] | None:
        """The arguments of a claim's functions at a position; None for a claim about steps at a first state."""
        if claim.of.kind != "step":
            return at.state, (), -1
        return None if at.before is None else (at.before.state, at.state, at.action)

    def _owed(self, position: Position) -> _Debts:
        """The debts of the way to a position."""
        way = position.way()
        start = next((n for n in range(len(way) - 1, -1, -1) if way[n].trail in self._debts), -1)
        debts = dict(self._debts[way[start].trail]) if start >= 0 else {}
        for number in range(start + 1, len(way)):
            debts = self._after(number, way[number], debts)
            if len(self._debts) >= MOST_KEPT:
                self._debts.clear()
            self._debts[way[number].trail] = debts
        return debts

    def _after(self, number: int, at: Position, before: _Debts) -> _Debts:
        debts: _Debts = {}
        for index, claim in enumerate(self.claims):
            if claim.of.kind != "leads_to":
                continue
            arguments, debt, within = (at.state, (), -1), before.get(index), claim.of.within
            if debt is not None and at.action is not None and at.action.passes:
                debt = _Debt(debt.since, debt.ticks + 1)
            if debt is not None and within is not None and debt.ticks > within:
                debts[index] = debt  # a claim that comes with this tick, or later, is too late
            elif not claim.holds(*arguments) and (debt is not None or claim.applies(arguments)):
                debts[index] = debt or _Debt(number)
        return debts

    def _of_the_language(self, at: Position) -> list[Standing]:
        """Deadlock, and the mistakes of a specification that show here."""
        steps, found = self.walker.choices(at), []
        stuck = steps.fault is None and all(p.action is not None and p.action.fault for p in steps.next)
        if self.system.ends is not None and stuck:
            met = [name for name, holds in self.ends.items() if holds(at.state, (), -1)]
            reason = f": {', '.join(met)}" if met else ", and no allowed end holds"
            found.append(Standing(DEADLOCK, "holds" if met else "violated", reason=f"no step is possible{reason}"))
        if steps.fault is not None:
            name, _ = OF_THE_LANGUAGE[steps.fault.kind]
            found.append(Standing(name, "violated", reason=str(steps.fault)))
        return found


def faults_at(walker: Walker, at: Position) -> list[str]:
    """Changes that faults have made, as they are at a position; a sentence each."""
    layout, lines = walker.world.layout, list[str]()
    for v in walker.world.relation.variables:
        for key in v.keys:
            value = at.state[layout.added[v.name, key]]
            if value == v.initial:
                continue
            if v.stops:
                lines.append(f"{key} {'has halted for good' if value is GONE else 'is down'}")
            elif v.leads:
                lines.append(f"the clock of {key} is {'ahead' if value > 0 else 'behind'} by {abs(value)}")
            elif v.separates:
                pairs = sorted(" and ".join(sorted(pair)) for pair in v.separates[value])
                lines.append(f"no message passes between {'; '.join(pairs)}")
    return lines
