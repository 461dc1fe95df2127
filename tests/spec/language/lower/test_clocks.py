"""Clocks that leave true time, against the definition: every pair of readings, and every clock in parts of a tick."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

import pytest

from leasehold.spec.language.lower.clocks import ClockBounds, ClockReading

TICKS = 6
BOUNDS = [
    *(ClockBounds(percent=percent) for percent in (1, 10, 20, 25, 33, 50, 75, 99)),
    *(ClockBounds(ahead, percent) for ahead in (1, 2) for percent in (20, 50)),
]


def shown(bounds: ClockBounds, ticks: int) -> set[tuple[int, ...]]:
    """The readings at each true tick, by all ways of gains and clock steps."""
    now = {(bounds.first, (0,))}
    for tick in range(1, ticks + 1):
        between = {(reading, was) for old, was in now for reading in gains(bounds, old)}
        now = {(reading, (*was, tick + reading.lead)) for old, was in between for reading in bounds.passed(*old)}
    return {was for _, was in now}


def gains(bounds: ClockBounds, reading: ClockReading) -> Iterator[ClockReading]:
    """A reading, and those after it has gained one tick, two, and so on."""
    following: ClockReading | None = reading
    while following is not None:
        yield following
        following = bounds.gained(*following)


def by_pairs(bounds: ClockBounds, ticks: int) -> set[tuple[int, ...]]:
    """The readings of which each pair is as far apart as the bounds allow, and that begin without an offset."""
    rate, found = Fraction(bounds.percent, 100), {(0,)}
    for _ in range(ticks):
        found = {(*was, reading) for was in found for reading in range(was[-1], was[-1] + 4 + bounds.ahead)}
        found = {was for was in found if agree(was, rate, bounds.ahead)}
    return found


def agree(was: tuple[int, ...], rate: Fraction, ahead: int) -> bool:
    last = len(was) - 1
    return all(
        math.floor((1 - rate) * (last - t)) - (ahead if t else 0)
        <= was[last] - was[t]
        <= math.ceil((1 + rate) * (last - t)) + ahead
        for t in range(last)
    )


def by_parts(percent: int, ticks: int) -> set[tuple[int, ...]]:
    """The readings of clocks that begin anywhere in their first tick and have any rates, in hundredths."""
    now = {(start, (0,)) for start in range(100)}
    for _ in range(ticks):
        now = {
            (clock + rate, (*was, (clock + rate) // 100))
            for clock, was in now
            for rate in range(100 - percent, 100 + percent + 1)
        }
    return {was for _, was in now}


@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
def test_a_clock_shows_what_each_pair_of_readings_allows(bounds: ClockBounds) -> None:
    ticks = TICKS if not bounds.ahead else 4
    assert shown(bounds, ticks) == by_pairs(bounds, ticks)


@pytest.mark.parametrize("percent", [1, 10, 25, 40])
def test_these_are_the_readings_of_clocks_whose_rates_are_within_bounds(percent: int) -> None:
    assert shown(ClockBounds(percent=percent), 4) == by_parts(percent, 4)


@pytest.mark.parametrize("percent", [10, 25, 33])
def test_every_fixed_rate_within_bounds_is_among_them(percent: int) -> None:
    """Also where it begins within a tick; one that is beyond the bounds is not, once it shows."""
    bounds, known = ClockBounds(percent=percent), shown(ClockBounds(percent=percent), TICKS)
    for start in range(0, 100, 9):
        for rate in range(100 - percent, 100 + percent + 1):
            assert tuple((start + rate * t) // 100 for t in range(TICKS + 1)) in known
    fast = 1 + Fraction(percent, 100) + Fraction(1, 2)
    assert tuple(math.floor(fast * t) for t in range(TICKS + 1)) not in known
    assert bounds.first == ClockReading(0, (0, bounds.parts))


@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
def test_time_is_never_blocked_and_states_are_finite(bounds: ClockBounds) -> None:
    """In whatever it has gained, a clock step is possible; a gain goes at most to where the next true tick may be."""
    seen, todo = {bounds.first.phase}, [bounds.first]
    while todo:
        old = todo.pop()
        for reading in gains(bounds, old):
            passed = bounds.passed(*reading)
            assert passed
            assert all(after.lead in (reading.lead, reading.lead - 1) for after in passed)
            for after in passed:
                assert after.phase is not None
                assert -bounds.ahead * bounds.parts <= after.phase[0] < after.phase[1] <= bounds.parts
            new = [after for after in passed if after.phase not in seen]
            seen |= {after.phase for after in new}
            todo += [after._replace(lead=0) for after in new]
    assert len(seen) <= (bounds.parts * (bounds.ahead + 1) + 1) ** 2


def test_a_clock_with_an_offset_alone_goes_on_or_loses_what_it_has_gained() -> None:
    bounds = ClockBounds(ahead=2)
    assert [reading.lead for reading in gains(bounds, bounds.first)] == [0, 1, 2]
    assert [r.lead for r in bounds.passed(2, None)] == [2, 1]
    assert [r.lead for r in bounds.passed(0, None)] == [0]
    for one, other in pairwise(gains(bounds, bounds.first)):
        assert other.lead == one.lead + 1


def test_the_first_of_what_may_follow_goes_on_with_true_time_if_it_can() -> None:
    bounds = ClockBounds(percent=25)
    assert [r.lead for r in bounds.passed(0, (0, 4))] == [0, -1]
    twice = [*gains(bounds, bounds.first)][-1]
    assert twice.lead == 2
    assert [r.lead for r in bounds.passed(*twice)] == [1]


def test_over_ten_ticks_rounding_hides_which_of_two_small_rates_a_clock_has() -> None:
    slow, fast = ClockBounds(percent=1), ClockBounds(percent=10)
    assert shown(slow, 10) == shown(fast, 10)
    assert shown(slow, 11) < shown(fast, 11)
