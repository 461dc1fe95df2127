"""Conditions of ranges in Promela mean what they mean for values: each shape of type, at both ends and beyond."""

from __future__ import annotations

from itertools import product

import pytest

from leasehold.checker.export.promela_layout import Words, between
from leasehold.spec.language.types import Enum, Int, Map, Option, Type

SIDES = Enum("side", ("left", "right"))


def holds(condition: str, scalars: dict[str, int]) -> bool:
    """The value of a condition, as C has it."""
    words = condition.replace("||", " or ").replace("&&", " and ").replace("!", " not ")
    return bool(eval(words, {}, scalars))


@pytest.mark.parametrize(("low", "high"), [(0, 2), (1, 1), (None, 2), (0, None), (None, None)])
def test_a_number_in_a_value_is_between_two_ends(low: int | None, high: int | None) -> None:
    def inside(number: int) -> bool:
        return (low is None or low <= number) and (high is None or number <= high)

    def tests(kind: Type, value: Words) -> str:
        return " && ".join(f"({one})" for one in between(kind, value, low, high)) or "1"

    number, numbers = Int(), range(-1, 4)
    for n, m, present in product(numbers, numbers, (0, 1)):
        scalars = {"n": n, "m": m, "present": present}
        assert holds(tests(number, "n"), scalars) == inside(n)
        assert holds(tests(Map(SIDES, number), ["n", "m"]), scalars) == (inside(n) and inside(m))
        assert holds(tests(Option(number), ["present", "n"]), scalars) == (not present or inside(n))
        cells = tests(Map(SIDES, Option(number)), [["present", "n"], ["1", "m"]])
        assert holds(cells, scalars) == ((not present or inside(n)) and inside(m))
