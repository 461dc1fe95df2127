"""Errors seeded into what the relation stands on: terms, values, initial states, induction. ERRORS has all errors.

Errors of k-induction and of discovered lemmas are not among them: these use the same relation, and lemmas are proved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import z3

from leasehold.checker.prove import prover
from leasehold.checker.prove.decide import induction
from leasehold.checker.prove.decide.obligation import ProofObligation
from leasehold.checker.prove.encode import terms
from leasehold.checker.prove.encode.auxiliary import auxiliary_invariants
from leasehold.checker.prove.encode.encoding import Encoding, MakesRelation
from leasehold.checker.prove.encode.formulas import Term
from leasehold.checker.prove.encode.messages import MessageValue
from leasehold.checker.prove.encode.state import SymbolicState
from leasehold.checker.prove.encode.terms import Bindings
from leasehold.checker.prove.encode.transitions import TransitionRelation
from leasehold.checker.prove.encode.values import Cardinalities, MapValue, OptionValue, SetValue, Sorts
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.model import Role
from tests.checker.prove import wrong_effects, wrong_relations, wrong_shared

Patched = Callable[[], Any]  # a context in which the error is there
_PATCHED: dict[str, Patched] = {}


def instead_of(owner: Any, name: str) -> Callable[[Callable[..., Any]], None]:
    """A function that stands for another; the error has its name. It has the right one as its first argument."""
    right = getattr(owner, name)

    def seed(wrong: Callable[..., Any]) -> None:
        def replaced(*arguments: Any, **named: Any) -> Any:
            return wrong(right, *arguments, **named)

        _PATCHED[wrong.__name__] = lambda: patch.object(owner, name, replaced)

    return seed


def row(name: str, op: str, wrong: Any) -> None:
    """An operator with another meaning."""
    _PATCHED[name] = lambda: patch.dict(terms.ROWS, {op: wrong})  # type: ignore[arg-type]


# Operators


def _sets(e: x.Apply) -> bool:
    return isinstance(e.operands[0].type, t.Set)


def _truncated(a: Term, b: Term) -> Term:
    size = z3.If(a < 0, -a, a) / z3.If(b < 0, -b, b)
    return z3.If(b == 0, 0, z3.If((a < 0) == (b < 0), size, -size))


ROWS = {**terms.ROWS}  # the right ones
row("max_is_min", "max", terms.ROWS["min"])
row("in_is_not_in", "in", terms.ROWS["not in"])
row("difference_is_union", "-", lambda e, f: ROWS["|" if isinstance(e.type, t.Set) else "-"](e, f))
row("get_gives_the_other", "get", lambda e, f: terms.term(e.operands[1], f))
row("division_rounds_to_zero", "//", lambda e, f: _truncated(*(terms.term(o, f) for o in e.operands)))
row("if_is_then", "if", lambda e, f: terms.term(e.operands[1], f))
row("larger_sets_are_included", "<=", lambda e, f: ROWS[op := ">=" if _sets(e) else "<="](replace(e, op=op), f))
row("less_is_at_most", "<", lambda e, f: ROWS["<"](replace(e, op="<="), f))


@instead_of(terms, "_took")
def ignored_is_consumed(right: Any, e: x.Took, f: Bindings) -> Any:
    return right(replace(e, ignored=False), f)


@instead_of(terms, "_old")
def old_is_now(right: Any, e: x.Expression, f: Bindings) -> Any:
    return terms.term(e, f)


@instead_of(terms, "_old")
def old_is_now_under_quantifiers(right: Any, e: x.Expression, f: Bindings) -> Any:
    return terms.term(e, f) if f.variables else right(e, f)


@instead_of(terms, "_quantifier")
def comprehensions_take_all(right: Any, e: x.Quantifier, f: Bindings) -> Any:
    """The condition of a subset, of a count or of a sum is forgotten."""
    return right(replace(e, condition=None) if e.kind in ("set", "count", "sum", "union") else e, f)


def _is_extreme(e: x.Quantifier) -> bool:
    return e.kind in ("min", "max")


@instead_of(terms, "_quantifier")
def extremes_are_of_all(right: Any, e: x.Quantifier, f: Bindings) -> Any:
    """The condition of a least or greatest number is forgotten."""
    return right(replace(e, condition=None) if _is_extreme(e) else e, f)


@instead_of(terms, "_quantifier")
def without_a_member_it_is_zero(right: Any, e: x.Quantifier, f: Bindings) -> Any:
    """Returns what a least or greatest number of none is, is forgotten."""
    return right(replace(e, default=None) if _is_extreme(e) else e, f)


@instead_of(terms, "_quantifier")
def the_least_is_the_greatest(right: Any, e: x.Quantifier, f: Bindings) -> Any:
    return right(replace(e, kind="max") if e.kind == "min" else e, f)


@instead_of(terms, "_best")
def the_last_is_the_best(right: Any, cases: Any, better: Any, otherwise: Term) -> Term:
    """Of a known number of members, the last one that counts."""
    return right(cases, lambda a, b: z3.BoolVal(True), otherwise)


@instead_of(Cardinalities, "_of_one_best")
def nobody_is_beaten(right: Any, cardinals: Any, best: Any) -> Term:
    """Of an unknown number of members, each is as good as any."""
    return z3.And(right(cardinals, best), right(cardinals, replace(best, better=lambda a, b: b <= a)),
                  right(cardinals, replace(best, better=lambda a, b: a <= b)))  # fmt: skip


@instead_of(terms, "_quantifier")
def maps_have_one_value(right: Any, e: x.Quantifier, f: Bindings) -> Any:
    """Each cell of a map that is written as a whole has the value of the first."""
    if e.kind != "map":
        return right(e, f)
    cells = right(e, f)
    return MapValue(cells.key, lambda k: cells.at(f.sorts.literal(cells.key, t.members(cells.key)[0])))


@instead_of(terms, "_around")
def nothing_goes_around(right: Any, number: Term, of: t.Instance, size: Any) -> Term:
    """Behind the last instance comes the last, before the first one the first."""
    return z3.If(number < 0, 0, z3.If(number < size, number, size - 1))


@instead_of(terms, "_around")
def what_goes_around_is_the_first(right: Any, number: Term, of: t.Instance, size: Any) -> Term:
    return z3.If(z3.And(number >= 0, number < size), number, z3.IntVal(0))


@instead_of(terms, "_quantifier")
def messages_are_of_the_state_before(right: Any, e: x.Quantifier, f: Bindings) -> Any:
    """A claim about a step reads the messages on their way before it."""
    pending = isinstance(e.domain, x.Pending) and f.before is not None
    return right(e, replace(f, view=f.before) if pending else f)


@instead_of(terms, "_few")
def two_are_one(right: Any, e: x.Apply, f: Bindings) -> Term | None:
    """At most one is exactly one."""
    one = isinstance(e.operands[1], x.Literal_) and e.operands[1].value == 1
    return right(replace(e, op={">": "!=", "<=": "=="}.get(e.op, e.op)) if one else e, f)


@instead_of(Sorts, "anything")
def what_may_be_is(right: Any, sorts: Sorts, name: str) -> Term:
    """`reachable` is true, not arbitrary."""
    return z3.BoolVal(True) if name == "reachable" else right(sorts, name)


# Values


@instead_of(SymbolicState, "heard")
def what_is_lost_was_heard(right: Any, s: SymbolicState, name: str) -> Term:
    return s.every_message(name, lambda m: z3.BoolVal(False))


@instead_of(SymbolicState, "message")
def whatever_is_on_its_way_is_the_latest(right: Any, s: SymbolicState, *at: Any) -> MessageValue:
    found: MessageValue = right(s, *at)
    return replace(found, latest=z3.BoolVal(True))


def _declared_only() -> Any:
    """The set of all members of a type has those that the declared numbers of machines give it."""
    return patch.object(terms, "x", SimpleNamespace(**vars(x) | {"holds_all_members": lambda e: False}))


_PATCHED["all_machines_are_the_declared_ones"] = _declared_only


@instead_of(Sorts, "equal")
def options_are_equal_if_there(right: Any, sorts: Sorts, a: Any, b: Any) -> Term:
    if isinstance(a, OptionValue) and isinstance(b, OptionValue):
        return a.some == b.some
    return right(sorts, a, b)


@instead_of(Sorts, "equal")
def sets_are_equal_if_included(right: Any, sorts: Sorts, a: Any, b: Any) -> Term:
    of = (a.of or b.of) if isinstance(a, SetValue) else None
    return right(sorts, a, b) if of is None else sorts.every(of, lambda m: z3.Implies(a.holds(m), b.holds(m)))


@instead_of(Sorts, "scalar_within")
def ranges_end_before_their_end(right: Any, sorts: Sorts, type_: t.Type, term: Term) -> Term:
    if isinstance(type_, t.Int) and type_.high is not None:
        return right(sorts, replace(type_, high=type_.high - 1), term)
    return right(sorts, type_, term)


@instead_of(Sorts, "scalar_within")
def the_last_machine_is_none(right: Any, sorts: Sorts, type_: t.Type, term: Term) -> Term:
    found = right(sorts, type_, term)
    return z3.And(found, z3.Or(term == 0, term < sorts.size(type_) - 1)) if isinstance(type_, t.Instance) else found


@instead_of(Cardinalities, "_of_one_size")
def sets_have_at_most_one_member(right: Any, cardinals: Any, sized: Any) -> Iterator[Term]:
    yield from right(cardinals, sized)
    if not sized.outer:
        yield sized.size() <= 1


# Initial states and constants


@instead_of(Encoding, "_begins")
def any_is_the_first(right: Any, encoding: Encoding, s: Any, role: Role, *instance: Term) -> Term:
    """A field with `initial: any` has its type's first value."""
    data = {name: replace(datum, any_initial=False) for name, datum in role.data.items()}
    return right(encoding, s, replace(role, data=data), *instance)


@instead_of(Encoding, "_begins")
def machines_begin_alike(right: Any, encoding: Encoding, s: Any, role: Role, *instance: Term) -> Term:
    """Of fields with `initial: any`, all machines of a role have one value."""
    names = [name for name, datum in role.data.items() if datum.any_initial] if instance else []
    alike = [encoding.sorts.equal(*(s.data(role.name, me, n) for me in (*instance, z3.IntVal(0)))) for n in names]
    return z3.And(right(encoding, s, role, *instance), *alike)


@instead_of(Encoding, "_begins")
def all_begin_where_the_first_does(right: Any, encoding: Encoding, s: Any, role: Role, *instance: Term) -> Term:
    """Returns which machines a first state is of is forgotten."""
    return right(encoding, s, _beginning(role, dict.fromkeys([s.name for s in role.initial][:1])), *instance)


@instead_of(Encoding, "_begins")
def the_others_begin_nowhere_else(right: Any, encoding: Encoding, s: Any, role: Role, *instance: Term) -> Term:
    """Of several first states, the first is one of no machine."""
    of = {state.name: state.starts for state in role.initial}
    return right(encoding, s, _beginning(role, {n: of[n] for n in [*of][1:]} if len(of) > 1 else of), *instance)


def _beginning(role: Role, of: Mapping[str, x.Expression | None]) -> Role:
    states = {n: replace(state, initial=n in of, starts=of.get(n)) for n, state in role.states.items()}
    return replace(role, states=states)


@instead_of(Encoding, "_constants")
def constants_are_at_most_as_declared(right: Any, encoding: Encoding, sizes: Any, values: Any) -> Any:
    found = right(encoding, sizes, values)
    for name, constant in encoding.system.constants.items():
        if isinstance(constant.type, t.Int):
            encoding.given.append(found[name] <= encoding.system.defaults[name])
    return found


# Induction


@instead_of(induction, "_not_at_first")
def initial_states_are_not_asked(right: Any, *arguments: Any) -> set[str]:
    return set()


@instead_of(ProofObligation, "__init__")
def auxiliary_invariants_are_assumed(right: Any, question: Any, encoding: Encoding, step: Any, known: Any,
                                     *rest: Any, **named: Any) -> None:  # fmt: skip
    """Invariants that the prover adds are known in every state, proved or not."""
    names = {claim.name for claim in known}
    right(question, encoding, step, [*known, *(c for c in auxiliary_invariants(encoding) if c.name not in names)],
          *rest, **named)  # fmt: skip


@instead_of(ProofObligation, "undischarged")
def what_was_lost_stays_known(right: Any, question: Any, *rest: Any) -> Any:
    """A step whose proof used a claim that was left out later is not asked again."""
    found = right(question, *rest)
    question.used.clear()
    return found


@instead_of(ProofObligation, "_narrowed")
def what_is_not_decided_is_proved(right: Any, *arguments: Any) -> Any:
    return [loss for loss in right(*arguments) if loss.model is not None]


@instead_of(ProofObligation, "_by_cases")
def recovery_in_one_state_is_not_asked(right: Any, question: Any, *rest: Any) -> Any:
    """Returns what an actor does when it recovers is asked of all its states but one with work to do."""
    passed_over = question.step.cases[:1]
    question.cases = [case for case in question.cases if not any(case.eq(other) for other in passed_over)]
    return right(question, *rest)


@instead_of(prover, "held")
def constants_that_bound_are_not_said(right: Any, *arguments: Any) -> list[str]:
    return []


assert wrong_effects.error is wrong_shared.error is wrong_relations.error  # importing them has added their errors
ERRORS = [*wrong_relations.ERRORS, *_PATCHED]


@contextmanager
def seeded(name: str) -> Iterator[MakesRelation]:
    """While an error is there: the relation that proofs are of."""
    if name in wrong_relations.ERRORS:
        yield wrong_relations.ERRORS[name]
        return
    with _PATCHED[name]():
        yield TransitionRelation
