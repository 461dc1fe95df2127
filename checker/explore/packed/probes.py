"""The properties of a system as probes: programs that the kernel runs on states and steps, and what follows a yes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from leasehold.checker.explore.packed import kernel as k
from leasehold.checker.explore.packed.branching import NO
from leasehold.checker.explore.packed.model import PackedModel
from leasehold.checker.explore.packed.traced import applied
from leasehold.checker.explore.properties import PropertyClaims, WatchedClaim
from leasehold.spec.language.expression import TRUE, Expression, conjunction, disjunction, negation
from leasehold.spec.language.model import Property


@dataclass(frozen=True, slots=True)
class Fired:
    """A program holds for the first time: in a state, or for a step from a label by a change."""

    number: int
    label: int
    change: int
    before: tuple[int, ...]  # words: the state, or that before the step


@dataclass(slots=True)
class _Probe:
    """The reaction to a program that holds for the first time; `violates`: whether that is a violation."""

    tell: Callable[[Fired], None]
    violates: bool = False


class Probes:
    """The probes of a search. Each fires once.

    Attributes:
        fired: the numbers of the probes that have fired, with what they have found.
    """

    def __init__(self, model: PackedModel, claims: PropertyClaims) -> None:
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

    def _watch_all(self, claims: PropertyClaims) -> None:
        for claim in claims.invariants:
            self._on_states(_broken(claim.of), _finds(claim, "found"), violates=True)
            if claim.antecedent is not None:
                self._on_states(claim.of.when, _sees(claim))
        for claim in claims.witnesses:
            self._on_states(claim.of.claim, _finds(claim, "found"))
        for claim in claims.graphical:
            self._on_states(claim.of.when or TRUE, _sees(claim))
        for claim in claims.steps:
            self._on_steps(_broken(claim.of), self._finds_step(claim), violates=True)
            if claim.antecedent is not None:
                self._on_steps(claim.of.when, _sees(claim))
        if claims.ends is not None:
            for end in claims.ends:
                self._on_states(end.of.holds, _sees(end), where=k.OF_STUCK)
            none = negation(disjunction([end.of.holds for end in claims.ends]))
            self._on_states(none, _finds(claims, "deadlock"), violates=True, where=k.OF_STUCK)

    def _on_states(
        self, e: Expression, tell: Callable[[Fired], None], violates: bool = False, where: int = k.OF_STATE
    ) -> None:
        program = self._model.programs.of_state(e)
        if program != NO:
            self._model.kernel.watch(where, self._probe(tell, violates), program)

    def _on_steps(self, e: Expression, tell: Callable[[Fired], None], violates: bool = False) -> None:
        self._model.programs.on_step(e, self._probe(tell, violates))

    def _finds_step(self, claim: WatchedClaim) -> Callable[[Fired], None]:
        def tell(fired: Fired) -> None:
            effect = self._model.effects[fired.change]
            claim.found = fired.label, effect.action, tuple(applied(self._model.traced(fired.before), effect.writes))

        return tell


def _broken(p: Property) -> Expression:
    """Returns the expression that is true where a claim does not hold and should."""
    wrong = negation(p.claim)
    return wrong if p.when is None else conjunction((p.when, wrong))


def _finds(where: WatchedClaim | PropertyClaims, name: str) -> Callable[[Fired], None]:
    """Notes the state, in an attribute."""
    return lambda fired: setattr(where, name, fired.number)


def _sees(claim: WatchedClaim) -> Callable[[Fired], None]:
    """Notes that there is a case of a claim."""
    return lambda fired: setattr(claim, "seen", True)
