"""Deciding properties while the graph grows: invariants, steps, witnesses, deadlocks, and what is vacuous."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from leasehold.checker.explore.compiled import Function, step_function
from leasehold.checker.explore.layout import State
from leasehold.checker.explore.paths import Paths
from leasehold.checker.explore.result import PropertyResult
from leasehold.checker.explore.transition_system import Action, TransitionSystem
from leasehold.spec.language.expression import TRUE
from leasehold.spec.language.model import End, Property, System
from leasehold.spec.language.python_source import Frame, source

DEADLOCK = "deadlock_free"


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
    found: tuple[int, Action, State] | None = None


@dataclass
class GraphClaim:
    """A leads_to or always_possible: from every state where `when` holds to one where the claim does."""

    property: Property
    when: Function
    claim: Function


@dataclass
class _End:
    end: End
    holds: Function
    seen: bool = False


class Claims:
    """All properties of a system, fed state by state and step by step."""

    def __init__(self, system: System, world: TransitionSystem) -> None:
        self.system = system
        self.invariants: list[_StateClaim] = []
        self.witnesses: list[_StateClaim] = []
        self.steps: list[_StepClaim] = []
        self.graphical: list[GraphClaim] = []  # decided on the finished graph
        self.ends = [_End(e, world.world(e.holds)) for e in system.ends or ()]
        self.deadlock: int | None = None
        frame = Frame(world.layout, system.values(), before="o")
        for p in system.properties.values():
            if p.kind == "step":
                claim = step_function(source(p.claim, frame))
                self.steps.append(_StepClaim(p, claim, step_function(source(p.when, frame)) if p.when else None))
            elif p.kind in ("leads_to", "always_possible"):
                self.graphical.append(GraphClaim(p, world.world(p.when or TRUE), world.world(p.claim)))
            else:
                found = _StateClaim(p, world.world(p.claim), world.world(p.when) if p.when else None)
                (self.invariants if p.kind == "always" else self.witnesses).append(found)
        self.antecedents = {c.property.name: False for c in self.graphical}
        self.open = list(self.invariants)
        self.sought = list(self.witnesses)

    def state(self, number: int, state: State) -> None:
        """A new state was visited."""
        for claim in self.open:
            if claim.when is not None:
                if not claim.when(state, (), -1):
                    continue
                claim.antecedent_seen = True
            if not claim.claim(state, (), -1):
                claim.found = number
        if any(c.found is not None for c in self.open):
            self.open = [c for c in self.open if c.found is None]
        for claim in self.sought:
            if claim.claim(state, (), -1):
                claim.found = number
        if any(c.found is not None for c in self.sought):
            self.sought = [c for c in self.sought if c.found is None]
        for lead in self.graphical:
            if not self.antecedents[lead.property.name] and lead.when(state, (), -1):
                self.antecedents[lead.property.name] = True

    def step(self, number: int, before: State, action: Action, after: State) -> None:
        """A step between two states was found."""
        for claim in self.steps:
            if claim.found is not None:
                continue
            if claim.when is not None:
                if not claim.when(before, after, action):
                    continue
                claim.antecedent_seen = True
            if not claim.claim(before, after, action):
                claim.found = (number, action, after)

    def stuck(self, number: int, state: State) -> None:
        """A state without any step was found."""
        if self.system.ends is None:
            return
        allowed = False
        for end in self.ends:
            if end.holds(state, (), -1):
                end.seen = allowed = True
        if not allowed and self.deadlock is None:
            self.deadlock = number

    def vacuous(self) -> tuple[str, ...]:
        """Claims that say nothing, because no case of them exists."""
        names = [
            c.property.name for c in self.invariants if c.when is not None and not c.antecedent_seen and c.found is None
        ]
        names += [
            c.property.name for c in self.steps if c.when is not None and not c.antecedent_seen and c.found is None
        ]
        names += [name for name, seen in self.antecedents.items() if not seen]
        names += [e.end.name for e in self.ends if not e.seen]
        return tuple(names)

    def results(self, paths: Paths, complete: bool, why: str) -> list[PropertyResult]:
        """The verdicts, once the search has ended."""
        results = []
        for claim in self.invariants:
            path = paths.to(claim.found) if claim.found is not None else None
            results.append(_result(claim.property, path, complete, why))
        for step in self.steps:
            path = paths.to(step.found[0], step.found[1:]) if step.found is not None else None
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
        if self.system.ends is not None:
            doc = "Nothing stops but in an allowed end: " + ", ".join(e.name for e in self.system.ends) + "."
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
