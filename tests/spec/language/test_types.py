"""Numbers of a type at their ends."""

from __future__ import annotations

import pytest

from leasehold.spec.language.types import INT, TIME, Int, Opaque, domain, numbers, size


@pytest.mark.parametrize(
    ("of", "explore", "wanted"),
    [
        (Int(1, 3), None, [1, 2, 3]),
        (Int(1, 3), (1, 3), [1, 2, 3]),
        (Int(1, 3), (0, 4), [1, 2, 3]),
        (Int(1, 3), (2, 2), [2]),
        (Int(1), (0, 2), [1, 2]),
        (Int(None, 1), (0, 2), [0, 1]),
        (TIME, (-1, 1), [0, 1]),
        (INT, (-1, 1), [-1, 0, 1]),
        (Opaque(), (0, 1), [0, 1]),
        (Int(2), None, [2]),
    ],
)
def test_the_numbers_of_a_type_are_in_it_and_in_the_range_to_explore(
    of: Int, explore: tuple[int, int] | None, wanted: list[int]
) -> None:
    assert list(numbers(of, explore)) == list(domain(of, explore)) == wanted
    assert size(of, explore) == len(wanted)
