"""Formulas of the solver: how they are made without the casts of its own interface, and what stands in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import z3

Term = Any  # z3 has no types for terms that a checker could use


class Unencodable(Exception):
    """An expression or a construct that has no encoding; the words say which."""


def conjunction(*parts: Term) -> Term:
    """Returns the formula that all parts hold; true without parts."""
    return _joined(z3.Z3_mk_and, parts) if len(parts) > 1 else parts[0] if parts else z3.BoolVal(True)


def disjunction(*parts: Term) -> Term:
    """Returns the formula that some part holds; false without parts."""
    return _joined(z3.Z3_mk_or, parts) if len(parts) > 1 else parts[0] if parts else z3.BoolVal(False)


def _joined(make: Callable[..., Any], parts: Sequence[Term]) -> Term:
    """Does what z3's And and Or do, which cast every part: that takes most of their time."""
    context = z3.main_ctx()
    terms = [z3.BoolVal(part) if isinstance(part, bool) else part for part in parts]
    return z3.BoolRef(make(context.ref(), len(terms), _array(terms)), context)


def applied(function: Any) -> Callable[..., Term]:
    """A function of the solver, of terms of its sorts, which it does not cast."""
    context, kind = function.ctx, function.range().kind()
    makes = {z3.Z3_BOOL_SORT: z3.BoolRef, z3.Z3_INT_SORT: z3.ArithRef}.get(kind, z3.DatatypeRef)

    def apply(*at: Term) -> Term:
        return makes(z3.Z3_mk_app(context.ref(), function.ast, len(at), _array(at)), context)

    return apply


def _array(terms: Sequence[Term]) -> Any:
    return (z3.Ast * len(terms))(*(term.as_ast() for term in terms))


def forall(bound: list[Term], body: Term) -> Term:
    """Returns the formula that a body holds for all values; the body alone if nothing is bound, or it is constant."""
    if not bound or z3.is_true(body) or z3.is_false(body):
        return body
    return z3.ForAll(bound, body)


def parts(formula: Term) -> Iterator[Term]:
    """Formulas that hold together where one does: a quantifier of each, and no other one directly within it."""
    if z3.is_and(formula):
        for part in formula.children():
            yield from parts(part)
    elif z3.is_quantifier(formula) and formula.is_forall():
        bound = [z3.Const(formula.var_name(n), formula.var_sort(n)) for n in range(formula.num_vars())]
        body = z3.substitute_vars(formula.body(), *reversed(bound))
        given, body = body.children() if z3.is_implies(body) else (z3.BoolVal(True), body)
        for part in parts(body):
            inner, holds = list[Term](), part
            if z3.is_quantifier(part):
                inner = [z3.Const(part.var_name(n), part.var_sort(n)) for n in range(part.num_vars())]
                holds = z3.substitute_vars(part.body(), *reversed(inner))
            yield forall([*bound, *inner], holds if z3.is_true(given) else z3.Implies(given, holds))
    else:
        yield formula


def subterms(*terms: Term) -> Iterator[Term]:
    """Yields terms and all their subterms, each once; also those in quantifiers."""
    seen: set[int] = set()
    waiting = list(terms)
    while waiting:
        e = waiting.pop()
        if e.get_id() not in seen:
            seen.add(e.get_id())
            waiting.extend(e.children())  # of a quantifier, its body
            yield e


def constants(*terms: Term) -> Iterator[Term]:
    """The constants in terms, each once; also those in quantifiers."""
    return (e for e in subterms(*terms) if z3.is_const(e) and e.decl().kind() == z3.Z3_OP_UNINTERPRETED)
