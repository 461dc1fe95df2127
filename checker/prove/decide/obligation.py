"""A proof obligation: that a step preserves claims, given those that hold before it."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import z3

from leasehold.checker.prove.encode.encoding import Claim, Encoding
from leasehold.checker.prove.encode.formulas import Term, conjunction, disjunction
from leasehold.checker.prove.encode.transitions import SymbolicStep

FIRST_SECONDS = 2.0  # for a question without the sizes of sets, which is asked again with them
NEAR_SECONDS = 4.0  # for a question with those sizes that are compared with its own, which is asked again with all
TOGETHER_SECONDS = 4.0  # for a question about several claims, which is asked again in halves
SIDE_CONDITION = "side condition: "  # before the name of a step's side condition, as a claim of its own


@dataclass(frozen=True)
class Undischarged:
    """A claim that a step does not preserve, or of which the solver cannot decide it.

    Attributes:
        model: a counterexample to induction, whose state need not be reachable; None where the solver gave up.
        reason: why it gave up.
    """

    claim: str
    model: Any = None
    reason: str = ""


class ProofObligation:
    """The question whether claims hold after a step, where some are known before it.

    Args:
        known: claims about states, of the state before.
        asked: claims about states, of the state after, or about steps.
        side_conditions: whether the step's side conditions are asked as well.
        alone: whether each claim about states that is asked knows itself alone, beside those that are known.
    """

    def __init__(
        self,
        encoding: Encoding,
        step: SymbolicStep,
        known: Sequence[Claim],
        asked: Sequence[Claim],
        *,
        side_conditions: bool = True,
        alone: bool = False,
    ) -> None:
        self.encoding, self.step = encoding, step
        self.cases = [*step.cases, z3.Not(disjunction(*step.cases))]  # together they are all
        self.queries = 0
        self.used: set[str] = set()  # the known claims that the proof needed
        self.sized = False  # whether sizes of sets were needed
        self.subtracts = False  # whether it was asked with what one more element does to a size
        self.spent: dict[str, float] = defaultdict(float)  # seconds of the solver by claim
        self.before = before = {c.name: encoding.now(c) for c in known}
        self.after: dict[str, Term] = {
            f"{SIDE_CONDITION}{text}": claim for text, claim in step.side_conditions if side_conditions
        }
        for c in asked if not step.composite else [c for c in asked if c.about_steps]:
            self.after[c.name] = encoding.then(c, step)
        self.known = {name: z3.Bool(f"known {name}") for name in before}
        self._name_of = {flag.get_id(): name for name, flag in self.known.items()}
        self.wrong = {name: z3.Bool(f"wrong {name}") for name in self.after}
        own = {c.name: encoding.now(c) for c in asked if not c.about_steps} if alone else {}
        # A known claim that the step does not change need not be asked.
        assumed = before | own
        self.changed = [n for n, p in self.after.items() if n not in assumed or not p.eq(assumed[n])]
        breaks = {n: conjunction(*([own[n]] if n in own else []), z3.Not(self.after[n])) for n in self.changed}
        self.breaks = {n: z3.Implies(self.wrong[n], p) for n, p in breaks.items()}
        self.assertions = [*encoding.given, *step.given, *(z3.Implies(self.known[n], p) for n, p in before.items())]
        # Sizes of sets are hard for a solver, and most claims hold whatever they are.
        self._everything = [*encoding.given, *step.given, *assumed.values(), *self.after.values()]
        role = encoding.system.roles.get(step.took.role)
        self._points = [(role.instance, step.took.instance)] if role is not None and role.indexed else []
        self.facts = list(encoding.sorts.cardinals.facts(self._everything, self._points))
        self._subtracted = encoding.sorts.cardinals.subtracted(step.given)

    def undischarged(self, seconds: float | None = None) -> list[Undischarged]:
        """The claims that do not follow from the known ones.

        Args:
            seconds: for each time that the solver is asked; left out: the encoding's.
        """
        given = list(self.known.values())
        wanted = self.changed
        limit = self.encoding.limit if seconds is None else seconds
        if not wanted:
            return []
        if not self.facts:
            return self._by_cases(limit, given, wanted)
        counts = self.encoding.sorts.cardinals.speaks
        about_sizes = [n for n in wanted if counts(self.after[n])]
        others = [n for n in wanted if n not in about_sizes]
        left = self._by_cases(min(limit, FIRST_SECONDS), given, others)
        self.sized = self.sized or bool(about_sizes or left)
        again = [*about_sizes, *(loss.claim for loss in left)]
        left = self._by_cases(min(limit, NEAR_SECONDS), given, again, self._near)
        return self._by_cases(limit, given, [loss.claim for loss in left], self._facts)

    def _near(self, claims: Sequence[str]) -> list[Term]:
        """Returns what is known of sizes; no two are compared of which these claims do not speak."""
        return self._facts(claims, near=[self.after[name] for name in claims])

    def _facts(self, claims: Sequence[str], near: Sequence[Term] | None = None) -> list[Term]:
        """Returns what is known of sizes, with what one more element does where claims or the step's guard subtract."""
        cardinals = self.encoding.sorts.cardinals
        subtracted = self._subtracted | cardinals.subtracted(self.after[name] for name in claims)
        self.subtracts = self.subtracts or bool(subtracted)
        if near is None and not subtracted:
            return self.facts
        return list(cardinals.facts(self._everything, self._points, near, subtracted))

    def needed(self) -> list[Term]:
        """The obligation as unsatisfiable assertions with the claims that were needed, once it is discharged."""
        known = [self.before[name] for name in sorted(self.used)]
        wrong = [z3.Not(self.after[name]) for name in self.changed]
        facts = self._facts(self.changed) if self.sized else []
        return [*self.encoding.given, *self.step.given, *known, disjunction(*wrong), *facts]

    def _by_cases(
        self,
        seconds: float,
        given: list[Term],
        asked: list[str],
        facts: Callable[[Sequence[str]], list[Term]] = lambda claims: [],
    ) -> list[Undischarged]:
        """Each case by itself: what does not follow in one does not follow. `facts` are added for claims."""
        losses: list[Undischarged] = []
        for case in self.cases:
            lost = {loss.claim for loss in losses}
            losses += self._narrowed(seconds, given, [n for n in asked if n not in lost], facts, case)
        return losses

    def _narrowed(
        self,
        seconds: float,
        given: list[Term],
        asked: list[str],
        facts: Callable[[Sequence[str]], list[Term]],
        case: Term,
    ) -> list[Undischarged]:
        """All together first, and not for long; by halves where the solver gives up."""
        losses: list[Undischarged] = []
        if not asked:
            return losses
        solver = self.encoding.solver(seconds if len(asked) == 1 else min(seconds, TOGETHER_SECONDS))
        # Of claims that are not asked it says nothing, or the solver would look for what breaks them, too.
        solver.add(*self.assertions, *(self.breaks[n] for n in asked), case, *facts(asked))
        while asked:
            solver.push()
            solver.add(disjunction(*(self.wrong[n] for n in asked)))
            began = time.perf_counter()
            answer = solver.check(*given)
            share = (time.perf_counter() - began) / len(asked)
            for name in asked:
                self.spent[name] += share
            self.queries += 1
            if answer == z3.unsat:
                self.used |= {self._name_of[flag.get_id()] for flag in solver.unsat_core()}
                return losses
            model = solver.model() if answer == z3.sat else None
            gone = [] if model is None else [n for n in asked if z3.is_true(model.eval(self.wrong[n]))]
            if not gone:  # and a solver that was broken off is not asked again: it may crash
                if len(asked) == 1:
                    return [*losses, Undischarged(asked[0], model, solver.reason_unknown() if model is None else "")]
                half = len(asked) // 2
                for some in (asked[:half], asked[half:]):
                    losses += self._narrowed(seconds, given, some, facts, case)
                return losses
            solver.pop()
            losses += [Undischarged(name, model) for name in gone]
            asked = [n for n in asked if n not in gone]
        return losses
