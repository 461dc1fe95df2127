"""A state in an expression stands for itself and for the states that remember tasks in it (see outlive.py).

Where tasks may outlive their state, `owner.state == closed` is read as `owner.state in {closed, closed__backup}`: it
makes no difference whether a task still runs. A remembering state that is named itself is meant alone. All of it is
written out here, in the language as it is, when a comparison is typed, so that no other reading has to know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from leasehold.spec.language import expression as x
from leasehold.spec.language.operators import COMPARISONS
from leasehold.spec.language.types import BOOL, Enum, Set

Remembering: TypeAlias = Mapping[str, tuple[str, ...]]  # by state: the states that remember tasks in it


def compared(e: x.Apply, remembering: Remembering) -> x.Expression:
    """A comparison of states (==, !=) or of a state with a set of them (in, not in), written out."""
    holds = _equal(e.operands[0], e.operands[1], remembering) if e.op in ("==", "!=") else _within(e, remembering)
    if e.op in ("==", "in"):
        return holds
    if isinstance(holds, x.Apply) and holds.op in ("==", "in"):
        return replace(holds, op="not in" if holds.op == "in" else "!=", place=e.place)
    return x.negation(holds, e.place)


def written_state(e: x.Expression, remembering: Remembering) -> x.Expression:
    """The state that a machine's state stands for, where it remembers tasks; one that is written out is left alone."""
    result = e
    for state, others in remembering.items() if not isinstance(e, x.Literal_) else ():
        test = _one_of(e, others)
        then = x.Literal_(type=e.type, value=state, place=e.place)
        result = x.Apply(type=e.type, op="if", operands=(test, then, result), place=e.place)
    return result


def named_alone(e: x.Expression, remembering: Remembering) -> x.Expression | None:
    """A remembering state that is named among the members of a set; comparisons in it are another matter."""
    if isinstance(e, x.Literal_):
        return e if any(e.value in others for others in remembering.values()) else None
    inside = () if isinstance(e, x.Apply) and e.op in COMPARISONS else x.children(e)
    return next((named for child in inside if (named := named_alone(child, remembering)) is not None), None)


def written_out(e: x.Expression) -> bool:
    """Returns whether an expression is a set of states that are all named."""
    return isinstance(e, x.Apply) and e.op == "{}" and all(isinstance(i, x.Literal_) for i in e.operands)


def _equal(a: x.Expression, b: x.Expression, remembering: Remembering) -> x.Expression:
    match a, b:
        case _, x.Literal_(value=value):
            return _one_of(a, (value, *remembering.get(value, ())))
        case x.Literal_(), _:
            return _equal(b, a, remembering)
        case _, x.Apply(op="if", operands=(test, then, otherwise)):
            both = (_equal(a, then, remembering), _equal(a, otherwise, remembering))
            return x.Apply(type=BOOL, op="if", operands=(test, *both), place=b.place)
        case x.Apply(op="if"), _:
            return _equal(b, a, remembering)
    same: list[x.Expression] = [x.Apply(type=BOOL, op="==", operands=(a, b), place=a.place)]
    for state, others in remembering.items():
        same.append(x.conjunction((_one_of(e, (state, *others)) for e in (a, b)), a.place))
    return x.disjunction(same, a.place)


def _within(e: x.Apply, remembering: Remembering) -> x.Expression:
    state, states = e.operands
    if isinstance(states, x.Apply) and written_out(states):
        names = [i.value for i in states.operands if isinstance(i, x.Literal_)]
        return _one_of(
            state, tuple(dict.fromkeys(n for name in names for n in (name, *remembering.get(name, ())))), one=False
        )
    return x.Apply(type=BOOL, op="in", operands=(written_state(state, remembering), states), place=e.place)


def _one_of(e: x.Expression, names: Sequence[str], one: bool = True) -> x.Expression:
    assert isinstance(e.type, Enum)
    items = tuple(x.Literal_(type=e.type, value=name, place=e.place) for name in names)
    if one and len(items) == 1:
        return x.Apply(type=BOOL, op="==", operands=(e, *items), place=e.place)
    states = x.Apply(type=Set(e.type), op="{}", operands=items, place=e.place)
    return x.Apply(type=BOOL, op="in", operands=(e, states), place=e.place)
