"""Numbers of a type at their ends, the values of a sequence, and the parts of a type."""

from __future__ import annotations

import pytest

from leasehold.spec.language.types import (
    BOOL,
    INT,
    TIME,
    Enum,
    Int,
    Map,
    Opaque,
    Option,
    Seq,
    Set,
    Type,
    default,
    domain,
    in_range,
    numbers,
    parts,
    size,
)


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


@pytest.mark.parametrize("low", [None, -2, -1, 0, 1, 2])
@pytest.mark.parametrize("high", [None, -2, -1, 0, 1, 2])
def test_a_value_that_nobody_declares_is_in_its_type(low: int | None, high: int | None) -> None:
    """On both sides of 0, with and without each end; also in a map, and where it is the only value that is tried."""
    if low is not None and high is not None and low > high:
        return
    of = Int(low, high)
    cells = Map(Enum("side", ("left", "right")), of)
    assert in_range(of, default(of))
    assert in_range(cells, default(cells))
    assert default(Option(of)) is None
    assert default(of) in numbers(of, None)
    assert all(in_range(of, n) for n in numbers(of, None))


SIDE = Enum("side", ("left", "right"))


@pytest.mark.parametrize(
    ("of", "count"), [(Seq(BOOL, 2), 1 + 2 + 4), (Seq(SIDE, 1), 1 + 2), (Seq(Int(1, 3), 2), 1 + 3 + 9)]
)
def test_the_values_of_a_sequence_are_those_of_each_length_up_to_the_most(of: Seq, count: int) -> None:
    values = list(domain(of, None))
    assert size(of, None) == len(values) == len(set(values)) == count
    assert values[0] == default(of)
    assert all(in_range(of, value) for value in values)
    assert not in_range(of, (*values[-1], values[-1][0])), "one more is too many"


def test_each_value_in_a_sequence_is_in_its_range() -> None:
    of = Seq(Int(1, 3), 2)
    assert [in_range(of, value) for value in ((1, 3), (1, 4), (0, 3))] == [True, False, False]


@pytest.mark.parametrize(
    ("of", "within"),
    [
        (BOOL, []),
        (INT, []),
        (SIDE, []),
        (Set(None), []),
        (Option(None), []),
        (Seq(None), []),
        (Set(SIDE), [SIDE]),
        (Option(INT), [INT]),
        (Seq(SIDE), [SIDE]),
        (Map(SIDE, INT), [INT]),
        (Option(Set(SIDE)), [Set(SIDE), SIDE]),
        (Map(SIDE, Map(SIDE, BOOL)), [Map(SIDE, BOOL), BOOL]),
    ],
)
def test_the_parts_of_a_type_are_itself_and_what_its_values_hold(of: Type, within: list[Type]) -> None:
    assert list(parts(of)) == [of, *within]
