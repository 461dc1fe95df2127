"""Steps against a dict of changes that is added up for each time."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.impl.lease import steps
from leasehold.impl.lease.steps import Steps

TIMES = st.integers(0, 30)
CHANGES = st.lists(st.tuples(TIMES, st.integers(-3, 3)), max_size=60)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "HALF", 2)


def made(changes: list[tuple[int, int]]) -> tuple[Steps, dict[int, int]]:
    both = Steps(), dict[int, int]()
    for time, by in changes:
        both[0].change(time, by)
        both[1][time] = both[1].get(time, 0) + by
    return both


@given(CHANGES, st.tuples(TIMES, TIMES), st.integers(-6, 6))
def test_levels_are_those_that_the_changes_add_up_to(
    changes: list[tuple[int, int]], term: tuple[int, int], limit: int
) -> None:
    function, twin = made(changes)

    def level(time: int) -> int:
        return sum(by for at, by in twin.items() if at <= time)

    start, end = term[0], max(term[1], term[0] + 1)
    assert [function.level(time) for time in range(-1, 32)] == [level(time) for time in range(-1, 32)]
    assert function.highest(start, end) == max(map(level, range(start, end)))
    within = (at for at in range(start, end) if all(level(t) <= limit for t in range(at, end)))
    assert function.within(limit, start, end) == next(within, None)
    kept = {time: by for time, by in sorted(twin.items()) if by}
    assert list(function) == list(kept.items())
    assert function.last == max(kept, default=None)
    assert list(function.times()) == list(kept)
    assert list(function.times(start)) == [time for time in kept if time > start]


@given(CHANGES, st.integers(1, 60))
def test_a_level_is_first_reached(changes: list[tuple[int, int]], level: int) -> None:
    rising = [(time, abs(by)) for time, by in changes]
    function, twin = made(rising)
    levels = {time: sum(by for at, by in twin.items() if at <= time) for time in sorted(twin)}
    assert function.reaches(level) == next(((time, now) for time, now in levels.items() if now >= level), None)


@given(CHANGES)
def test_what_is_taken_back_leaves_nothing(changes: list[tuple[int, int]]) -> None:
    function, _ = made(changes)
    for time, by in reversed(changes):
        function.change(time, -by)
    assert list(function) == []
    assert function.last is None
    assert function.highest(0, 31) == 0


def test_blocks_stay_short() -> None:
    """Many times come in order, in the other order, and in between; blocks are split, and none is left empty."""
    function, _ = made([(time, 1) for time in (*range(0, 300, 3), *range(301, 1, -3), *range(2, 300, 3))])
    sizes = [len(block.times) for block in function._blocks]
    assert max(sizes) <= 2 * steps.HALF
    assert min(sizes) >= 1
    assert sum(sizes) == len(list(function))
    assert all(a < b for a, b in pairwise(function.times()))
