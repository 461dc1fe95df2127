"""Deciding properties while the graph grows: invariants, steps, witnesses, deadlocks, and what is vacuous."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from math import prod
from typing import Any

from leasehold.checker.explore.ground import function, step_function
from leasehold.checker.explore.layout import State
from leasehold.checker.explore.paths import Paths
from leasehold.checker.explore.reference import Reference
from leasehold.checker.explore.result import PropertyResult, of_all_bindings, verdict_on
from leasehold.checker.explore.step import Action
from leasehold.checker.explore.symmetry import distinct_bindings
from leasehold.spec.language.expression import Apply, Expression, Quantifier, text
from leasehold.spec.language.model import Property, System
from leasehold.spec.language.render.python_source import Frame, source

DEADLOCK = "deadlock_free"
REFINES = "refines"
# Claims of the language about every system; no property can have their names. By the kind of what a step shows.
OF_THE_LANGUAGE = {
    "guards": ("guards_disjoint", "At most one guard of a state and event holds."),
    "range": ("types_hold", "Every value stays in its type's range."),
}


def only_these(system: System, names: Collection[str]) -> System:
    """The system with these of its properties, by name; what the others say is then of no account."""
    chosen = {name: p for name, p in system.properties.items() if name in names}
    refines = system.refines if REFINES in names else None
    return replace(system, properties=chosen, ends=system.ends if DEADLOCK in names else None, refines=refines)


@dataclass(eq=False)
class WatchedClaim:
    """A property or an allowed end, and what a search has found of it.

    Attributes:
        of: the property, of which values stand in place of its variables; or the end.
        claim, antecedent: its expressions, over a state, or over a step and its action; `holds`, `when`: as functions.
        seen: whether there is a case of it: the antecedent held, or the end was met.
        found: the state that violates it or is its witness; of a step a label, the action and where that leads.
    """

    of: Any
    claim: Expression
    antecedent: Expression | None
    compiled: Callable[[Expression], Callable[[Any, Any, Any], Any]]
    seen: bool = False
    found: Any = None

    @cached_property
    def holds(self) -> Callable[[Any, Any, Any], Any]:
        return self.compiled(self.claim)

    @cached_property
    def when(self) -> Callable[[Any, Any, Any], Any] | None:
        return None if self.antecedent is None else self.compiled(self.antecedent)

    def applies(self, arguments: tuple[Any, ...]) -> bool:
        return self.when is None or bool(self.when(*arguments))


class _ClaimsTogether:
    """Claims that are asked together: where a case of each was seen, by one function of all that are open."""

    def __init__(
        self, claims: list[WatchedClaim], frame: Frame, compiled: Callable[[str], Callable[[Any, Any, Any], Any]]
    ):
        self.claims, self.frame, self.compiled = claims, frame, compiled
        self.new = [c for c in claims if c.antecedent is not None]  # no case of them was seen yet
        self._joined = False  # not before somebody asks: the packed engine never does

    def _join(self) -> None:
        kept = [c.of for c in self.claims if c.found is None and c not in self.new]
        self.all_hold = self.compiled(" and ".join(["True", *(claim_words(of, self.frame) for of in kept)]))
        self.some_case = self.compiled(" or ".join(["False", *(source(c.of.when, self.frame) for c in self.new)]))

    def ask(self, arguments: tuple[Any, ...], witness: object) -> None:
        """Asks all of them; `witness` is noted of those that are violated."""
        if not self._joined:
            self._join()
            self._joined = True
        if self.some_case(*arguments):
            for claim in self.new:
                claim.seen = claim.applies(arguments)
            self.new = [c for c in self.new if not c.seen]
            self._join()
        if not self.all_hold(*arguments):
            for claim in self.claims:
                if claim.found is None and claim.applies(arguments) and not claim.holds(*arguments):
                    claim.found = witness
            self._join()


def claim_words(p: Property, frame: Frame) -> str:
    """Returns source text of what a property claims of each state or step, whether a case of it or not."""
    claim = source(p.claim, frame)
    return claim if p.when is None else f"(not {source(p.when, frame)} or {claim})"


def compiled_in(frame: Frame, make: Callable[[str], Callable[..., Any]], e: Expression) -> Callable[..., Any]:
    return make(source(e, frame))


class PropertyClaims:
    """All properties of a system, fed state by state and step by step."""

    def __init__(self, system: System, world: Reference) -> None:
        self.system = system
        self.invariants: list[WatchedClaim] = []
        self.witnesses: list[WatchedClaim] = []
        self.steps: list[WatchedClaim] = []
        self.graphical: list[WatchedClaim] = []  # what is decided on the finished graph
        self.unasked: list[Property] = []
        every_end = system.ends if system.ends is not None and all(world.asks(e.holds) for e in system.ends) else None
        self.ends = None if every_end is None else [WatchedClaim(e, e.holds, None, world.function) for e in every_end]
        self.deadlock: int | None = None
        frame = self._frame = Frame(world.layout, system.values(), before="o")
        kinds = {"always": self.invariants, "sometimes": self.witnesses, "step": self.steps}
        for p in system.properties.values():
            if not (world.asks(p.claim) and (p.when is None or world.asks(p.when))):
                self.unasked.append(p)
                continue
            compiled = partial(compiled_in, frame, step_function if p.kind == "step" else function)
            for bound in distinct_bindings(system, p, world.faulty):
                kinds.get(p.kind, self.graphical).append(WatchedClaim(bound, bound.claim, bound.when, compiled))
        self._of_states = _ClaimsTogether(self.invariants, frame, function)
        self._of_steps = _ClaimsTogether(self.steps, frame, step_function)

    def state(self, number: int, state: State) -> None:
        """A new state was visited."""
        arguments = state, (), -1
        self._of_states.ask(arguments, number)
        for claim in self.witnesses:
            if claim.found is None and claim.holds(*arguments):
                claim.found = number
        for claim in self.graphical:
            claim.seen = claim.seen or claim.applies(arguments)

    def step(self, label: int, before: State, action: Action, after: State) -> None:
        """A step between two states was found, from a label of the first."""
        if self.steps:
            self._of_steps.ask((before, after, action), (label, action, after))

    def stuck(self, number: int, state: State) -> None:
        """A state without any step was found."""
        if self.ends is None:
            return
        allowed = [end for end in self.ends if end.holds(state, (), -1)]
        for end in allowed:
            end.seen = True
        if not allowed and self.deadlock is None:
            self.deadlock = number

    def forget(self) -> None:
        """Is as if nothing had been seen."""
        for claim in [*self.invariants, *self.witnesses, *self.steps, *self.graphical, *(self.ends or ())]:
            claim.found, claim.seen = None, False
        self.deadlock = None

    @property
    def need_graph(self) -> bool:
        """Returns whether something is decided on the finished graph."""
        return bool(self.graphical) or self.system.refines is not None

    @property
    def violated(self) -> tuple[str, ...]:
        """The claims about states, steps and ends that have been found to be wrong; each once."""
        claims = (c.of.name for c in (*self.invariants, *self.steps) if c.found is not None)
        return tuple(dict.fromkeys((*claims, *([DEADLOCK] if self.deadlock is not None else []))))

    @property
    def names(self) -> tuple[str, ...]:
        """All claims, but for those that need a witness, and ends; each once."""
        every = (*self.invariants, *self.steps, *self.graphical, *(self.ends or ()))
        return tuple(dict.fromkeys(c.of.name for c in every))

    def vacuous(self) -> tuple[str, ...]:
        """Claims that say nothing, because no case of them exists."""
        claims = (c for c in (*self.invariants, *self.steps) if c.antecedent is not None and c.found is None)
        seen: dict[str, bool] = {}  # of a property with variables a case of one binding is enough
        for c in (*claims, *self.graphical, *(self.ends or ())):
            seen[c.of.name] = seen.get(c.of.name, False) or c.seen
        return tuple(name for name, once in seen.items() if not once)

    def results(self, paths: Paths, complete: bool, why: str) -> list[PropertyResult]:
        """The verdicts, once the search has ended."""
        results = [verdict_on(p, "unasked", None, "it speaks of who may do anything") for p in self.unasked]
        for claim in self.invariants:
            if claim.found is None:
                results.append(_unbroken(claim.of, complete, why))
                continue
            failed = failed_parts(claim.of, self._frame, function, (paths.states[claim.found], (), -1))
            results.append(replace(verdict_on(claim.of, "violated", paths.to(claim.found)), failed=failed))
        for step in self.steps:
            if step.found is None:
                results.append(_unbroken(step.of, complete, why))
                continue
            label, action, after = step.found
            arguments = paths.states[paths.labels.states[label]], after, action
            failed = failed_parts(step.of, self._frame, step_function, arguments)
            broken = verdict_on(step.of, "violated", paths.to_label(label, (action, after)))
            results.append(replace(broken, failed=failed))
        results += of_all_bindings([self._witnessed(witness, paths, complete, why) for witness in self.witnesses])
        if self.ends is not None:
            allowed = ", ".join(e.of.name for e in self.ends)
            doc = f"Nothing stops{f' but in an allowed end: {allowed}' if allowed else ''}."
            path = paths.to(self.deadlock) if self.deadlock is not None else None
            verdict = "violated" if path else "exhausted" if complete else "bounded"
            reason = "" if complete else why
            if self.deadlock is not None:
                state = paths.states[self.deadlock]
                reason = f"no step is possible, and no allowed end holds{paths.world.end_of_time(state)}"
            results.append(PropertyResult(DEADLOCK, "deadlock", verdict, doc, "", path, reason))  # type: ignore[arg-type]
        return results

    def _witnessed(self, claim: WatchedClaim, paths: Paths, complete: bool, why: str) -> PropertyResult:
        if claim.found is not None:
            return verdict_on(claim.of, "witnessed", paths.to(claim.found))
        if complete:
            return verdict_on(claim.of, "violated", None, "no reachable state shows it")
        return verdict_on(claim.of, "bounded", None, f"not seen; {why}")


def failed_parts(
    p: Property, frame: Frame, compiled: Callable[[str], Callable[[Any, Any, Any], Any]], arguments: tuple[Any, ...]
) -> tuple[str, ...]:
    """The parts of a claim that are false where it is violated; none where the claim has one part."""
    parts = claim_parts(p.claim)
    if len(parts) == 1:
        return ()
    return tuple(text(e) for e in parts if not compiled(source(e, frame))(*arguments))


def _unbroken(p: Property, complete: bool, why: str) -> PropertyResult:
    return verdict_on(p, "exhausted") if complete else verdict_on(p, "bounded", None, why)


MOST_PARTS = 64  # of a claim; what has more is not taken apart further


def claim_parts(e: Expression) -> tuple[Expression, ...]:
    """Claims that hold together exactly when a claim holds: its conjuncts, also those under `or` and `all`."""
    match e:
        case Apply(op="and", operands=operands):
            return tuple(part for operand in operands for part in claim_parts(operand))
        case Apply(op="or", operands=operands):
            parts = [claim_parts(operand) for operand in operands]
            if prod(map(len, parts)) <= MOST_PARTS:
                return tuple(replace(e, operands=chosen) for chosen in product(*parts))
        case Quantifier(kind="all", body=body):
            return tuple(replace(e, body=part) for part in claim_parts(body))
    return (e,)
