"""A state in an expression stands for itself and for the states that remember tasks in it (see outlive.py).

Where tasks may outlive their state, `owner.state == closed` is read as `owner.state in {closed, closed__backup}`: it
makes no difference whether a task still runs. A remembering state that is named itself is meant alone. All of it is
written out here, in the language as it is, when a comparison is typed, so that no other reading has to know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from leasehold.spec.language import expression as x
from leasehold.spec.language.types import BOOL, Enum, Set

Remembering: TypeAlias = Mapping[str, tuple[str, ...]]  # by state: the states that remember tasks in it


def compared(e: x.Compare, made: Remembering) -> x.Expression:
    """A comparison of states (==, !=) or of a state with a set of them (in, not in), written out."""
    holds = _equal(e.left, e.right, made) if e.op in ("==", "!=") else _within(e, made)
    if e.op in ("==", "in"):
        return holds
    if isinstance(holds, x.Compare):
        return x.Compare(
            op="not in" if holds.op == "in" else "!=", left=holds.left, right=holds.right, place=e.place
        )  # fmt: skip
    return x.Unary(type=BOOL, op="not", operand=holds, place=e.place)


def plain(e: x.Expression, made: Remembering) -> x.Expression:
    """The state that a machine's state stands for, where it remembers tasks; one that is written out is left alone."""
    result = e
    for state, others in made.items() if not isinstance(e, x.Literal_) else ():
        test = _one_of(e, others)
        then = x.Literal_(type=e.type, value=state, place=e.place)
        result = x.Conditional(type=e.type, test=test, then=then, otherwise=result, place=e.place)
    return result


def named_alone(e: x.Expression, made: Remembering) -> x.Expression | None:
    """A remembering state that is named among the members of a set; comparisons in it are another matter."""
    if isinstance(e, x.Literal_):
        return e if any(e.value in others for others in made.values()) else None
    inside = () if isinstance(e, x.Compare) else x.children(e)
    return next((found for child in inside if (found := named_alone(child, made)) is not None), None)


def written_out(e: x.Expression) -> bool:
    """Whether an expression is a set of states that are all named."""
    return isinstance(e, x.SetOf) and all(isinstance(i, x.Literal_) for i in e.items)


def _equal(a: x.Expression, b: x.Expression, made: Remembering) -> x.Expression:
    match a, b:
        case _, x.Literal_(value=value):
            return _one_of(a, (value, *made.get(value, ())))
        case x.Literal_(), _:
            return _equal(b, a, made)
        case _, x.Conditional(test=test, then=then, otherwise=otherwise):
            return x.Conditional(
                type=BOOL, test=test, then=_equal(a, then, made), otherwise=_equal(a, otherwise, made), place=b.place
            )  # fmt: skip
        case x.Conditional(), _:
            return _equal(b, a, made)
    same: list[x.Expression] = [x.Compare(op="==", left=a, right=b, place=a.place)]
    for state, others in made.items():
        both = tuple(_one_of(e, (state, *others)) for e in (a, b))
        same.append(x.Logic(op="and", operands=both, place=a.place))
    return x.Logic(op="or", operands=tuple(same), place=a.place)


def _within(e: x.Compare, made: Remembering) -> x.Expression:
    if isinstance(e.right, x.SetOf) and written_out(e.right):
        names = [i.value for i in e.right.items if isinstance(i, x.Literal_)]
        return _one_of(
            e.left, tuple(dict.fromkeys(n for name in names for n in (name, *made.get(name, ())))), one=False
        )
    return x.Compare(op="in", left=plain(e.left, made), right=e.right, place=e.place)


def _one_of(e: x.Expression, names: Sequence[str], one: bool = True) -> x.Compare:
    assert isinstance(e.type, Enum)
    items = tuple(x.Literal_(type=e.type, value=name, place=e.place) for name in names)
    if one and len(items) == 1:
        return x.Compare(op="==", left=e, right=items[0], place=e.place)
    return x.Compare(op="in", left=e, right=x.SetOf(type=Set(e.type), items=items, place=e.place), place=e.place)
