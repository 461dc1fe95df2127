"""Sequences where they are not made: a length, and a value at each place.

Theory of operation. Solver terms, Promela and SQL have no sequence as the language has it. There one is a length and a
function from a place, from 0 on, to a value, which says nothing of places from the length on. `append` and the others
give the same of their results. Only comparisons look at places one by one, and a sequence has few of them
(`expression.longest`). A reading says how its numbers and conditions are written (`Algebra`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Generic, Protocol, TypeVar

from leasehold.spec.language import expression as x
from leasehold.spec.language.types import Seq, Type, wider

T = TypeVar("T")  # a number or a condition of a reading


class Algebra(Protocol[T]):
    """The operations of a reading on numbers, conditions and values."""

    def number(self, value: int) -> T: ...
    def plus(self, a: T, b: T) -> T: ...
    def minus(self, a: T, b: T) -> T: ...
    def less(self, a: T, b: T) -> T: ...
    def same(self, a: Any, b: Any) -> T: ...
    def opposite(self, test: T) -> T: ...
    def every(self, tests: Sequence[T]) -> T: ...
    def some(self, tests: Sequence[T]) -> T: ...
    def choice(self, test: T, then: Any, otherwise: Any) -> Any: ...


@dataclass(frozen=True)
class SequenceValue(Generic[T]):
    """A sequence as a reading has it.

    Attributes:
        length: how many values it has, at most `most`.
        at: the value at a place; anything at a place that it has not.
    """

    length: T
    most: int
    at: Callable[[T], Any]


def operand_types(e: x.Apply) -> list[tuple[bool, Type | None]]:
    """Returns of each operand of an operator on sequences whether it is a value in one, and its type as such a value.

    Operands that are whole sequences have the type of all of them; those that are neither have none.
    """
    kinds = [e.type, *(o.type for o in e.operands)]
    sequences: list[Type] = [kind for kind in kinds if isinstance(kind, Seq)]
    whole = reduce(wider, sequences)
    assert isinstance(whole, Seq)
    inside = {"[,]": range(len(e.operands)), "append": (1,), "in": (0,), "not in": (0,)}.get(e.op, ())
    return [
        (place in inside, whole.of if place in inside else whole if isinstance(o.type, Seq) else None)
        for place, o in enumerate(e.operands)
    ]


class Sequences(Generic[T]):
    """The operators on sequences, of a reading."""

    def __init__(self, algebra: Algebra[T]) -> None:
        self.algebra = algebra

    def written(self, items: Sequence[Any], default: Any) -> SequenceValue[T]:
        """A sequence of these values; `default` is what stands at other places."""
        a = self.algebra

        def at(place: T) -> Any:
            value = items[-1] if items else default
            for number in range(len(items) - 2, -1, -1):
                value = a.choice(a.same(place, a.number(number)), items[number], value)
            return value

        return SequenceValue(a.number(len(items)), len(items), at)

    def append(self, values: SequenceValue[T], value: Any) -> SequenceValue[T]:
        a = self.algebra

        def at(place: T) -> Any:
            return a.choice(a.less(place, values.length), values.at(place), value)

        return SequenceValue(a.plus(values.length, a.number(1)), values.most + 1, at)

    def joined(self, one: SequenceValue[T], other: SequenceValue[T]) -> SequenceValue[T]:
        a = self.algebra
        if not one.most or not other.most:
            return one if one.most else other

        def at(place: T) -> Any:
            return a.choice(a.less(place, one.length), one.at(place), other.at(a.minus(place, one.length)))

        return SequenceValue(a.plus(one.length, other.length), one.most + other.most, at)

    def rest(self, values: SequenceValue[T]) -> SequenceValue[T]:
        a = self.algebra
        some, left = a.less(a.number(0), values.length), a.minus(values.length, a.number(1))
        length = a.choice(some, left, a.number(0))
        return SequenceValue(length, max(values.most - 1, 0), lambda place: values.at(a.plus(place, a.number(1))))

    def take(self, values: SequenceValue[T], count: T) -> SequenceValue[T]:
        a = self.algebra
        count = a.choice(a.less(count, a.number(0)), a.number(0), count)
        return replace(values, length=a.choice(a.less(count, values.length), count, values.length))

    def item(self, values: SequenceValue[T], place: T) -> tuple[T, Any]:
        """Returns whether there is a value at a place, and the value."""
        a = self.algebra
        return a.every([a.opposite(a.less(place, a.number(0))), a.less(place, values.length)]), values.at(place)

    def first(self, values: SequenceValue[T]) -> tuple[T, Any]:
        a = self.algebra
        return a.less(a.number(0), values.length), values.at(a.number(0))

    def last(self, values: SequenceValue[T]) -> tuple[T, Any]:
        a = self.algebra
        return a.less(a.number(0), values.length), values.at(a.minus(values.length, a.number(1)))

    def has(self, values: SequenceValue[T], value: Any) -> T:
        a = self.algebra
        places = [(a.less(place, values.length), values.at(place)) for place in map(a.number, range(values.most))]
        return a.some([a.every([there, a.same(other, value)]) for there, other in places])

    def equal(self, one: SequenceValue[T], other: SequenceValue[T]) -> T:
        return self.algebra.every([self.algebra.same(one.length, other.length), *self._alike(one, other)])

    def starts_with(self, values: SequenceValue[T], start: SequenceValue[T]) -> T:
        shorter = self.algebra.opposite(self.algebra.less(values.length, start.length))
        return self.algebra.every([shorter, *self._alike(values, start)])

    def _alike(self, one: SequenceValue[T], other: SequenceValue[T]) -> list[T]:
        """The conditions that one has the same value as the other at each place of both, of which it has as many."""
        a = self.algebra
        return [
            a.some([a.opposite(a.less(place, other.length)), a.same(one.at(place), other.at(place))])
            for place in map(a.number, range(min(one.most, other.most)))
        ]

    def choice(self, test: T, then: SequenceValue[T], otherwise: SequenceValue[T]) -> SequenceValue[T]:
        a = self.algebra
        if not then.most or not otherwise.most:
            at = then.at if then.most else otherwise.at
        else:

            def at(place: T) -> Any:
                return a.choice(test, then.at(place), otherwise.at(place))

        length = a.choice(test, then.length, otherwise.length)
        return SequenceValue(length, max(then.most, otherwise.most), at)

    def made(self, e: x.Apply, read: Callable[[x.Expression, bool, Type | None], Any], default: Any) -> Any:
        """The value of an operator that takes or makes a sequence; an option as whether there is a value, and it.

        Args:
            e: the operator with its operands.
            read: the value of an operand, given whether it is a value in a sequence, and its type as such.
            default: of the type of a sequence that is written out.
        """
        operands = [read(o, *as_given) for o, as_given in zip(e.operands, operand_types(e), strict=True)]
        match e.op:
            case "[,]":
                return self.written(operands, default)
            case "+":
                return self.joined(*operands)
            case "len":
                return operands[0].length
            case "in":
                return self.has(operands[1], operands[0])
            case "not in":
                return self.algebra.opposite(self.has(operands[1], operands[0]))
            case "==":
                return self.equal(*operands)
            case "!=":
                return self.algebra.opposite(self.equal(*operands))
            case "if":
                return self.choice(*operands)
        return getattr(self, e.op)(*operands)
