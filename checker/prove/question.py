"""One question to the solver: whether a step preserves claims."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import z3

from leasehold.checker.prove.claims import Claim
from leasehold.checker.prove.encoding import Encoding
from leasehold.checker.prove.steps import Step
from leasehold.checker.prove.values import Term, disjunction

FIRST_SECONDS = 2.0  # for a question without the sizes of sets, which is asked again with them
OWED = "owed: "  # before what a step owes, as a claim of its own


@dataclass(frozen=True)
class Loss:
    """A claim that a step takes away, from a state in which all that is known holds; that may not be reachable.

    Attributes:
        model: the solver's; None where it could not say.
        reason: why it could not.
    """

    claim: str
    model: Any = None
    reason: str = ""


class Question:
    """What a step makes of claims, where some are known before it.

    Args:
        known: claims about states, of the state before.
        asked: claims about states, of the state after, or about steps.
        owed: whether what the step owes is asked as well.
    """

    def __init__(
        self, encoding: Encoding, step: Step, known: Sequence[Claim], asked: Sequence[Claim], *, owed: bool = True
    ) -> None:
        self.encoding, self.step = encoding, step
        self.queries = 0
        self.used: set[str] = set()  # what was known and was needed
        self.sized = False  # whether sizes of sets were needed
        self.spent: dict[str, float] = defaultdict(float)  # seconds of the solver by claim
        self.before = before = {c.name: encoding.now(c) for c in known}
        self.after: dict[str, Term] = {f"{OWED}{words}": claim for words, claim in step.owed if owed}
        for c in asked:
            self.after[c.name] = encoding.then(c, step)
        self.known = {name: z3.Bool(f"known {name}") for name in before}
        self._name_of = {flag.get_id(): name for name, flag in self.known.items()}
        self.wrong = {name: z3.Bool(f"wrong {name}") for name in self.after}
        # What is as it was before the step, about a state of which it is known, need not be asked.
        self.changed = [n for n, p in self.after.items() if n not in before or not p.eq(before[n])]
        self.assertions = [
            *encoding.given, *step.given, *(z3.Implies(self.known[n], p) for n, p in before.items()),
            *(z3.Implies(self.wrong[n], z3.Not(self.after[n])) for n in self.changed),
        ]  # fmt: skip
        # Sizes of sets are hard for a solver, and most claims hold whatever they are.
        everything = [*encoding.given, *step.given, *before.values(), *self.after.values()]
        role = encoding.system.roles.get(step.took.role)
        points = [(role.instance, step.took.instance)] if role is not None and role.indexed else []
        self.facts = list(encoding.sorts.cardinals.facts(everything, points))

    def losses(self, seconds: float | None = None) -> list[Loss]:
        """The claims that do not follow from those that are known.

        Args:
            seconds: for each time that the solver is asked; left out: the encoding's.
        """
        given = list(self.known.values())
        wanted = self.changed
        limit = self.encoding.limit if seconds is None else seconds
        if not wanted:
            return []
        if not self.facts:
            return self._narrowed(self.assertions, limit, given, wanted)
        counts = self.encoding.sorts.cardinals.speaks
        about_sizes = [n for n in wanted if counts(self.after[n])]
        others = [n for n in wanted if n not in about_sizes]
        left = self._narrowed(self.assertions, min(limit, FIRST_SECONDS), given, others)
        self.sized = self.sized or bool(about_sizes or left)
        again = [*about_sizes, *(loss.claim for loss in left)]
        return self._narrowed([*self.assertions, *self.facts], limit, given, again)

    def needed(self) -> list[Term]:
        """The question as assertions that cannot all hold, once all that was asked has followed: what was needed."""
        known = [self.before[name] for name in sorted(self.used)]
        wrong = [z3.Not(self.after[name]) for name in self.changed]
        facts = self.facts if self.sized else []
        return [*self.encoding.given, *self.step.given, *known, disjunction(*wrong), *facts]

    def _narrowed(self, assertions: list[Term], seconds: float, given: list[Term], asked: list[str]) -> list[Loss]:
        """All together first; where the solver cannot say, by halves."""
        found: list[Loss] = []
        solver = self.encoding.solver(seconds)
        solver.add(*assertions)
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
                return found
            model = solver.model() if answer == z3.sat else None
            gone = [] if model is None else [n for n in asked if z3.is_true(model.eval(self.wrong[n]))]
            if not gone:  # and a solver that was broken off is not asked again: it may crash
                if len(asked) == 1:
                    return [*found, Loss(asked[0], model, solver.reason_unknown() if model is None else "")]
                half = len(asked) // 2
                for some in (asked[:half], asked[half:]):
                    found += self._narrowed(assertions, seconds, given, some)
                return found
            solver.pop()
            found += [Loss(name, model) for name in gone]
            asked = [n for n in asked if n not in gone]
        return found
