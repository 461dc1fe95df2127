"""Deciding properties while the graph grows: invariants, steps, witnesses, deadlocks, and what is vacuous."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

from leasehold.checker.explore.ground import Function, function, step_function
from leasehold.checker.explore.layout import State
from leasehold.checker.explore.paths import Paths
from leasehold.checker.explore.reference import Reference
from leasehold.checker.explore.result import PropertyResult
from leasehold.checker.explore.step import Action
from leasehold.spec.language.expression import TRUE, Expression
from leasehold.spec.language.model import End, Property, System
from leasehold.spec.language.python_source import Frame, source

DEADLOCK = "deadlock_free"


def only_these(system: System, names: Collection[str]) -> System:
    """The system with these of its properties, by name; what the others say is then of no account."""
    chosen = {name: p for name, p in system.properties.items() if name in names}
    return replace(system, properties=chosen, ends=system.ends if DEADLOCK in names else None)


@dataclass
class _StateClaim:
    property: Property
    claim: Function
    when: Function | None
    antecedent_seen: bool = False
    found: int | None = None  # the violating state, or the witness


@dataclass
class _StepClaim:
    property: Property
    claim: Callable[[Any, Any, Any], Any]
    when: Callable[[Any, Any, Any], Any] | None
    antecedent_seen: bool = False
    found: tuple[int, Action, State] | None = None  # a label, a step from it and where that leads


@dataclass
class GraphClaim:
    """A leads_to or always_possible: from every state where `when` holds to one where the claim does."""

    property: Property
    when: Expression
    sees: Function  # whether it holds


@dataclass
class _End:
    end: End
    holds: Function
    seen: bool = False


class Claims:
    """All properties of a system, fed state by state and step by step."""

    def __init__(self, system: System, world: Reference) -> None:
        self.system = system
        self.world = world
        self.invariants: list[_StateClaim] = []
        self.witnesses: list[_StateClaim] = []
        self.steps: list[_StepClaim] = []
        self.graphical: list[GraphClaim] = []  # decided on the finished graph
        self.unasked: list[Property] = []
        every_end = system.ends if system.ends is not None and all(world.asks(e.holds) for e in system.ends) else None
        self.ends = None if every_end is None else [_End(e, world.world(e.holds)) for e in every_end]
        self.deadlock: int | None = None
        self.frame = Frame(world.layout, system.values(), before="o")
        for p in system.properties.values():
            if not (world.asks(p.claim) and (p.when is None or world.asks(p.when))):
                self.unasked.append(p)
            elif p.kind == "step":
                claim = step_function(source(p.claim, self.frame))
                self.steps.append(_StepClaim(p, claim, step_function(source(p.when, self.frame)) if p.when else None))
            elif p.kind in ("leads_to", "always_possible"):
                self.graphical.append(GraphClaim(p, p.when or TRUE, world.world(p.when or TRUE)))
            else:
                found = _StateClaim(p, world.world(p.claim), world.world(p.when) if p.when else None)
                (self.invariants if p.kind == "always" else self.witnesses).append(found)
        self.antecedents = {c.property.name: False for c in self.graphical}
        self.sought = list(self.witnesses)
        # Claims of which no case was seen yet are asked one by one; all others at once, by `hold` and `steps_hold`.
        self.new_states = [c for c in self.invariants if c.when is not None]
        self.new_steps = [c for c in self.steps if c.when is not None]
        self._join()

    def _join(self) -> None:
        """Makes one function of all claims that are open and of which a case was seen, and one of the other cases."""
        kept = [c.property for c in self.invariants if c.found is None and c not in self.new_states]
        self.hold = function(" and ".join(["True", *map(self._words, kept)]))
        kept = [c.property for c in self.steps if c.found is None and c not in self.new_steps]
        self.steps_hold = step_function(" and ".join(["True", *map(self._words, kept)]))
        self.some_new_state = function(" or ".join(["False", *(self._case(c.property) for c in self.new_states)]))
        self.some_new_step = step_function(" or ".join(["False", *(self._case(c.property) for c in self.new_steps)]))

    def _case(self, p: Property) -> str:
        return source(p.when or TRUE, self.frame)

    def _words(self, p: Property) -> str:
        claim = source(p.claim, self.frame)
        return claim if p.when is None else f"(not {source(p.when, self.frame)} or {claim})"

    def state(self, number: int, state: State) -> None:
        """A new state was visited."""
        if self.some_new_state(state, (), -1):
            for claim in self.new_states:
                claim.antecedent_seen = bool(claim.when is not None and claim.when(state, (), -1))
            self.new_states = [c for c in self.new_states if not c.antecedent_seen]
            self._join()
        if not self.hold(state, (), -1):
            for claim in self.invariants:
                if claim.found is None and (claim.when is None or claim.when(state, (), -1)):
                    claim.found = None if claim.claim(state, (), -1) else number
            self._join()
        for claim in self.sought:
            if claim.claim(state, (), -1):
                claim.found = number
        if any(c.found is not None for c in self.sought):
            self.sought = [c for c in self.sought if c.found is None]
        for lead in self.graphical:
            if not self.antecedents[lead.property.name] and lead.sees(state, (), -1):
                self.antecedents[lead.property.name] = True

    def step(self, label: int, before: State, action: Action, after: State) -> None:
        """A step between two states was found, from a label of the first."""
        if not self.steps:
            return
        if self.some_new_step(before, after, action):
            for claim in self.new_steps:
                claim.antecedent_seen = bool(claim.when is not None and claim.when(before, after, action))
            self.new_steps = [c for c in self.new_steps if not c.antecedent_seen]
            self._join()
        if not self.steps_hold(before, after, action):
            for claim in self.steps:
                if claim.found is None and (claim.when is None or claim.when(before, after, action)):
                    claim.found = None if claim.claim(before, after, action) else (label, action, after)
            self._join()

    def stuck(self, number: int, state: State) -> None:
        """A state without any step was found."""
        if self.ends is None:
            return
        allowed = False
        for end in self.ends:
            if end.holds(state, (), -1):
                end.seen = allowed = True
        if not allowed and self.deadlock is None:
            self.deadlock = number

    def forget(self) -> None:
        """Is as if nothing had been seen."""
        states: list[_StateClaim | _StepClaim] = [*self.invariants, *self.witnesses]
        for claim in [*states, *self.steps]:
            claim.found, claim.antecedent_seen = None, False
        for end in self.ends or ():
            end.seen = False
        self.antecedents.update(dict.fromkeys(self.antecedents, False))
        self.deadlock = None

    @property
    def contradicted(self) -> bool:
        """Whether a claim about states, steps or ends has been found to be wrong."""
        return (
            self.deadlock is not None
            or any(c.found is not None for c in self.invariants)
            or any(c.found is not None for c in self.steps)
        )

    def vacuous(self) -> tuple[str, ...]:
        """Claims that say nothing, because no case of them exists."""
        names = [
            c.property.name for c in self.invariants if c.when is not None and not c.antecedent_seen and c.found is None
        ]
        names += [
            c.property.name for c in self.steps if c.when is not None and not c.antecedent_seen and c.found is None
        ]
        names += [name for name, seen in self.antecedents.items() if not seen]
        names += [e.end.name for e in self.ends or () if not e.seen]
        return tuple(names)

    def results(self, paths: Paths, complete: bool, why: str) -> list[PropertyResult]:
        """The verdicts, once the search has ended."""
        results = [
            PropertyResult(p.name, p.kind, "unasked", p.doc, p.source, None, "it speaks of who may do anything")
            for p in self.unasked
        ]
        for claim in self.invariants:
            path = paths.to(claim.found) if claim.found is not None else None
            results.append(_result(claim.property, path, complete, why))
        for step in self.steps:
            path = paths.to_label(step.found[0], step.found[1:]) if step.found is not None else None
            results.append(_result(step.property, path, complete, why))
        for witness in self.witnesses:
            p = witness.property
            if witness.found is not None:
                path = paths.to(witness.found)
                results.append(PropertyResult(p.name, p.kind, "witnessed", p.doc, p.source, path))
            elif complete:
                results.append(
                    PropertyResult(p.name, p.kind, "violated", p.doc, p.source, None, "no reachable state shows it")
                )
            else:
                results.append(PropertyResult(p.name, p.kind, "bounded", p.doc, p.source, None, f"not seen; {why}"))
        if self.ends is not None:
            doc = "Nothing stops but in an allowed end: " + ", ".join(e.end.name for e in self.ends) + "."
            path = paths.to(self.deadlock) if self.deadlock is not None else None
            verdict = "violated" if path else "exhausted" if complete else "bounded"
            reason = "no step is possible, and no allowed end holds" if path else "" if complete else why
            results.append(PropertyResult(DEADLOCK, "deadlock", verdict, doc, "", path, reason))  # type: ignore[arg-type]
        return results


def _result(p: Property, path: Any, complete: bool, why: str) -> PropertyResult:
    if path is not None:
        return PropertyResult(p.name, p.kind, "violated", p.doc, p.source, path)
    if complete:
        return PropertyResult(p.name, p.kind, "exhausted", p.doc, p.source)
    return PropertyResult(p.name, p.kind, "bounded", p.doc, p.source, None, why)
