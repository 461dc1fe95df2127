"""The properties of a system as probes: programs that the kernel runs on states and steps, and what follows a yes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from leasehold.checker.explore.packed import kernel as k
from leasehold.checker.explore.packed.model import PackedModel
from leasehold.checker.explore.packed.programs import NO, BranchingProgram
from leasehold.checker.explore.packed.traced import applied
from leasehold.checker.explore.properties import Claims
from leasehold.spec.language.expression import TRUE, Expression, conjunction, disjunction, negation


@dataclass(frozen=True, slots=True)
class Fired:
    """A program holds for the first time: in a state, or for a step from a label by a change."""

    number: int
    label: int
    change: int
    before: tuple[int, ...]  # words: the state, or that before the step


@dataclass(slots=True)
class _Probe:
    """What is done when a program holds for the first time; `violates`: whether that is a violation."""

    tell: Callable[[Fired], None]
    violates: bool = False


class Probes:
    """The probes of a search. Each fires once.

    Attributes:
        fired: the numbers of the probes that have fired, with what they have found.
    """

    def __init__(self, model: PackedModel, claims: Claims) -> None:
        self._model = model
        self._all: list[_Probe] = []
        self.fired: list[tuple[int, Fired]] = []
        self._watch_all(claims)

    def tell(self, number: int, fired: Fired) -> bool:
        """Notes that a probe has fired; whether that is a violation."""
        self._model.kernel.silence(number)
        self.fired.append((number, fired))
        self._all[number].tell(fired)
        return self._all[number].violates

    def _probe(self, tell: Callable[[Fired], None], violates: bool = False) -> int:
        self._all.append(_Probe(tell, violates))
        return self._model.kernel.probe()

    def _watch_all(self, claims: Claims) -> None:
        for claim in claims.invariants:
            p = claim.property
            self._on_states(_broken(p.when, p.claim), _finder(claim), violates=True)
            if p.when is not None:
                self._on_states(p.when, _sees(claim))
        for claim in claims.witnesses:
            self._on_states(claim.property.claim, _finder(claim))
        for lead in claims.graphical:
            self._on_states(lead.property.when or TRUE, _marks(claims.antecedents, lead.property.name))
        for step in claims.steps:
            p = step.property
            self._on_steps(_broken(p.when, p.claim), self._finds_step(step), violates=True)
            if p.when is not None:
                self._on_steps(p.when, _sees(step))
        if claims.ends is not None:
            for end in claims.ends:
                program = self._model.programs.of_state(end.end.holds)
                self._model.kernel.watch(k.OF_STUCK, self._probe(_marks_end(end)), program)
            none = negation(disjunction([end.end.holds for end in claims.ends]))
            program = self._model.programs.of_state(none)
            self._model.kernel.watch(k.OF_STUCK, self._probe(_deadlock(claims), violates=True), program)

    def _on_states(self, e: Expression, tell: Callable[[Fired], None], violates: bool = False) -> None:
        program = self._model.programs.of_state(e)
        if program != NO:
            self._model.kernel.watch(k.OF_STATE, self._probe(tell, violates), program)

    def _on_steps(self, e: Expression, tell: Callable[[Fired], None], violates: bool = False) -> None:
        self._model.programs.on_steps.append((self._probe(tell, violates), BranchingProgram(e, self._model.frame)))

    def _finds_step(self, step: Any) -> Callable[[Fired], None]:
        def tell(fired: Fired) -> None:
            effect = self._model.effects[fired.change]
            step.found = fired.label, effect.action, tuple(applied(self._model.traced(fired.before), effect.writes))

        return tell


def _broken(when: Expression | None, claim: Expression) -> Expression:
    """That a claim does not hold where it should."""
    wrong = negation(claim)
    return wrong if when is None else conjunction((when, wrong))


def _finder(claim: Any) -> Callable[[Fired], None]:
    def tell(fired: Fired) -> None:
        claim.found = fired.number

    return tell


def _deadlock(claims: Claims) -> Callable[[Fired], None]:
    def tell(fired: Fired) -> None:
        claims.deadlock = fired.number

    return tell


def _sees(claim: Any) -> Callable[[Fired], None]:
    def tell(fired: Fired) -> None:
        claim.antecedent_seen = True

    return tell


def _marks(seen: dict[str, bool], name: str) -> Callable[[Fired], None]:
    def tell(fired: Fired) -> None:
        seen[name] = True

    return tell


def _marks_end(end: Any) -> Callable[[Fired], None]:
    def tell(fired: Fired) -> None:
        end.seen = True

    return tell
