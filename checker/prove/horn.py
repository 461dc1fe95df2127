"""Constrained Horn clauses: Spacer looks for the lemmas itself, where the number of machines is known.

Theory of operation. "This holds of every reachable state" is a set of Horn clauses over one unknown relation between
the variables of a state (ground.py): the first states are in it, every step stays in it, what is bad is not. z3's
Spacer (Komuravelli, Gurfinkel, Chaki: CAV 2014) looks for such a relation. What it finds is checked as any invariant
is, condition by condition, before anything is said to be proved.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import z3

from leasehold.checker.prove.claims import Claim
from leasehold.checker.prove.ground import GroundEncoding, Rule, put
from leasehold.checker.prove.induct import START
from leasehold.checker.prove.steps import Scope
from leasehold.checker.prove.terms import Took
from leasehold.checker.prove.values import Term, conjunction, constants, disjunction
from leasehold.spec.language.model import System


@dataclass
class Solved:
    """What Spacer has said of a claim.

    Attributes:
        holds: True: in every reachable state and step; False: not; None: it could not say.
        invariant: the conjuncts of what it has found, over the variables of a state; checked.
        reason: why it could not say.
    """

    holds: bool | None
    invariant: list[Term] = field(default_factory=list)
    reason: str = ""
    seconds: float = 0.0


class Horn:
    """A system as Horn clauses.

    Raises:
        Unsupported: something has no encoding with finitely many variables.
    """

    def __init__(
        self, system: System, *, numbered: bool, scope: Scope | None = None, limit_seconds: float = 30.0
    ) -> None:
        self.encoding = GroundEncoding(system, numbered=numbered, scope=scope, limit_seconds=limit_seconds)
        self.limit = limit_seconds
        self.rules = list(self.encoding.rules())
        self.first = z3.simplify(conjunction(*self.encoding.given, self.encoding.first(self.encoding.state)))

    def solve(self, claim: Claim | None) -> Solved:
        """Asks Spacer about one claim.

        Args:
            claim: None: that the steps are all that there are (`Step.owed`), on which all else rests.
        """
        began = time.perf_counter()
        encoding = self.encoding
        wrong = [disjunction(*self._wrong(rule, claim)) for rule in self.rules]
        if not self._is_wrong(
            claim, wrong, []
        ):  # of any step from any state; then Spacer's relation would be of no use
            return Solved(True, [], "", time.perf_counter() - began)
        solver = z3.Fixedpoint()
        solver.set("engine", "spacer", "timeout", round(self.limit * 1000))
        everything = [*encoding.variables, *encoding.rigid]
        reached = z3.Function("reached", *(v.sort() for v in everything), z3.BoolSort())
        bad = z3.Function("bad", z3.BoolSort())
        solver.register_relation(reached, bad)
        here = reached(*everything)
        known = {v.get_id() for v in everything}
        solver.declare_var(*everything)
        solver.rule(here, self.first)
        # One clause for all steps: Spacer takes much longer for one clause each.
        then = [z3.Const(f"next.{v.decl().name()}", v.sort()) for v in encoding.variables]
        steps = [conjunction(rule.given, *map(_equal, then, rule.then)) for rule in self.rules]
        breaking = [conjunction(rule.given, w) for rule, w in zip(self.rules, wrong, strict=True) if not z3.is_false(w)]
        solver.declare_var(*then, *(c for c in constants(*steps, *breaking) if c.get_id() not in known))
        solver.rule(reached(*then, *encoding.rigid), [here, disjunction(*steps)])
        if breaking:
            solver.rule(bad(), [here, z3.simplify(disjunction(*breaking))])
        if claim is not None and not claim.about_steps:
            solver.rule(bad(), [here, z3.Not(self._now(claim))])
        try:
            answer = solver.query(bad())
        except z3.Z3Exception as error:  # it was broken off
            return Solved(None, [], str(error), time.perf_counter() - began)
        if answer != z3.unsat:
            reason = solver.reason_unknown() if answer == z3.unknown else ""
            return Solved(False if answer == z3.sat else None, [], reason, time.perf_counter() - began)
        found = [part for part in _relation(solver.get_answer(), reached, everything) if not _quantified(part)]
        why_not = self._is_wrong(claim, wrong, found)
        holds = None if why_not else True
        return Solved(holds, found if holds else [], why_not, time.perf_counter() - began)

    def _is_wrong(self, claim: Claim | None, wrong: list[Term], invariant: list[Term]) -> str:
        """Why a relation proves nothing; empty where it does: first states and steps keep to it, nothing bad does.

        Args:
            claim: that is asked about.
            wrong: of each rule, what it must not do.
            invariant: the conjuncts of the relation.
        """
        encoding = self.encoding
        solver = z3.Solver()
        solver.set("timeout", round(self.limit * 1000))

        def follows(what: Term, *given: Term) -> bool:
            solver.push()
            solver.add(*given, z3.Not(what))
            answer = solver.check()
            solver.pop()
            return bool(answer == z3.unsat)

        whole = conjunction(*invariant)
        if not follows(whole, self.first):
            return f"what Spacer found does not hold of {START}"
        solver.add(whole)
        if claim is not None and not claim.about_steps and not follows(self._now(claim)):
            return "what Spacer found does not imply it"
        for rule, bad in zip(self.rules, wrong, strict=True):
            after = z3.substitute(whole, *zip(encoding.variables, rule.then, strict=True))
            if not follows(conjunction(after, z3.Not(bad)), rule.given):
                return f"what Spacer found is not kept by {rule.step.name}"
        return ""

    def _now(self, claim: Claim) -> Term:
        return claim.words(self.encoding.state, None, Took())

    def _wrong(self, rule: Rule, claim: Claim | None) -> Iterator[Term]:
        """What a step must not do: break the claim, or be less than what may happen."""
        if claim is None:
            for _, owed in rule.step.owed:
                yield put(z3.Not(owed), rule.pairs)
            return
        if claim.about_steps:
            yield put(z3.Not(claim.words(rule.after, self.encoding.state, rule.step.took)), rule.pairs)


def _relation(answer: Term, reached: z3.FuncDeclRef, variables: list[Term]) -> list[Term]:
    """The conjuncts that Spacer has found for a relation, over the variables of a state."""
    for part in answer.children() if z3.is_and(answer) else [answer]:
        if not z3.is_quantifier(part) or not z3.is_eq(part.body()):
            continue
        head, body = part.body().children()
        if head.decl() != reached:
            continue
        # Variables of a quantifier are counted from the inside; each stands where it is an argument.
        count = part.num_vars()
        own: list[Term] = [z3.BoolVal(True)] * count
        for argument, variable in zip(head.children(), variables, strict=True):
            own[z3.get_var_index(argument)] = variable
        found = z3.substitute_vars(body, *own)
        return list(found.children()) if z3.is_and(found) else [found]
    return []


def _quantified(term: Term) -> bool:
    return z3.is_quantifier(term) or any(map(_quantified, term.children()))


def _equal(one: Term, other: Term) -> Term:
    return one == other
