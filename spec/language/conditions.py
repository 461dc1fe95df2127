"""Conditions in another form that means the same: negated part by part, and without what constants decide."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t

_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">", "in": "not in", "not in": "in"}


def opposite(e: x.Expression) -> x.Expression:
    """The negation of a condition, as near to its parts as it can stand."""
    match e:
        case x.Literal_(value=value):
            return replace(e, value=not value)
        case x.Apply(op="not", operands=(operand,)):
            return operand
        case x.Apply(op="and", operands=parts):
            return x.disjunction(map(opposite, parts), e.place)
        case x.Apply(op="or", operands=parts):
            return x.conjunction(map(opposite, parts), e.place)
        case x.Apply(op=op, operands=(a, _)) if op in _OPPOSITE and not (
            op in ("<", "<=", ">", ">=") and isinstance(a.type, t.Set)  # inclusion is no total order
        ):
            return replace(e, op=_OPPOSITE[op])
        case x.Apply(op="if", operands=(test, then, other)):
            return replace(e, operands=(test, opposite(then), opposite(other)))
        case x.Quantifier(kind="all" | "any" as kind, body=body):
            return replace(e, kind="any" if kind == "all" else "all", body=opposite(body))
        case x.Old(operand=operand):
            return replace(e, operand=opposite(operand))
        case x.Accepts():
            return opposite(e.meaning)
    return x.negation(e, e.place)


def folded(e: x.Expression, constants: Mapping[str, t.Value]) -> x.Expression:
    """The same expression with constants' values, and without what they decide."""
    match e:
        case x.ConstantRef(name=name):
            return x.Literal_(type=e.type, value=constants[name], place=e.place)
        case x.Accepts():
            return folded(e.meaning, constants)
    e = x.with_parts(e, lambda part: folded(part, constants))
    match e:
        case x.Apply(op="and" | "or" as op, operands=parts):
            decisive = op == "or"
            if any(_is(part, decisive) for part in parts):
                return _truth(decisive, e)
            left = _once(part for part in parts if not _is(part, not decisive))
            if any(opposite(part) in left for part in left):
                return _truth(decisive, e)
            if len(left) > 1:
                return replace(e, operands=left)
            return left[0] if left else _truth(not decisive, e)
        case x.Apply(op="not", operands=(x.Literal_(value=value),)):
            return _truth(not value, e)
        case x.Apply(op="==" | "!=" as op, operands=(x.Literal_(value=a), x.Literal_(value=b))):
            return _truth((a == b) == (op == "=="), e)
        case x.Apply(op="==" | "!=" as op, operands=(a, b)) if a == b:
            return _truth(op == "==", e)
        case x.Apply(op="if", operands=(x.Literal_(value=value), then, other)):
            return then if value else other
    return e


def _once(parts: Iterable[x.Expression]) -> tuple[x.Expression, ...]:
    """The parts, none twice; a literal may have no hash."""
    left: list[x.Expression] = []
    for part in parts:
        if part not in left:
            left.append(part)
    return tuple(left)


def _is(e: x.Expression, value: bool) -> bool:
    return isinstance(e, x.Literal_) and e.value is value


def _truth(value: bool, e: x.Expression) -> x.Expression:
    return x.Literal_(type=t.BOOL, value=value, place=e.place)
