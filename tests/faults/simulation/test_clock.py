"""The clock of one actor: it follows true time, never goes back by itself, and shows what it is made to show."""

from __future__ import annotations

import asyncio
import math
from fractions import Fraction
from itertools import combinations

import pytest

from leasehold.faults.simulation.clock import SimulatedClock, TrueTime


@pytest.mark.parametrize("ahead", [-2, -1, 0, 1])
def test_a_clock_is_ahead_of_true_time_by_as_much_and_never_below_0(ahead: int) -> None:
    time = TrueTime()
    clock = SimulatedClock(time, ahead)
    for now in range(4):
        assert clock.now() == max(0, now + ahead)
        time.advance()


@pytest.mark.parametrize("percent", [-50, -30, -10, 10, 25, 99])
def test_a_clock_of_a_rate_shows_what_the_model_has_under_as_much_drift(percent: int) -> None:
    """Each pair of readings is as far apart as its rate makes them, rounded, also with an offset."""
    rate, time = 1 + Fraction(percent, 100), TrueTime()
    clock, ahead = SimulatedClock(time), SimulatedClock(time, 3)
    clock.rate = ahead.rate = rate
    shown = []
    for _ in range(13):
        shown.append(clock.now())
        assert ahead.now() == clock.now() + 3
        time.advance()
    for one, two in combinations(range(13), 2):
        assert shown[two] - shown[one] in (math.floor(rate * (two - one)), math.ceil(rate * (two - one)))


def test_a_rate_that_changes_counts_from_then_on_and_a_clock_that_is_corrected_shows_true_time() -> None:
    time = TrueTime()
    clock = SimulatedClock(time)
    clock.rate = Fraction(3, 2)
    time.now = 4
    assert clock.now() == 6
    clock.rate = Fraction(1, 2)
    time.now = 6
    assert clock.now() == 7
    clock.show(20)
    time.now = 8
    assert clock.now() == 21
    clock.correct()
    assert (clock.now(), clock.rate) == (21, 1), "it does not go back"
    time.now = 22
    assert clock.now() == 22


@pytest.mark.parametrize("shown", [0, 4, 5, 6, 9])
def test_a_clock_that_is_set_goes_on_from_there(shown: int) -> None:
    """Also where it has shown a later time; from then on it does not go back, though it comes nearer to true time."""
    time = TrueTime()
    clock = SimulatedClock(time)
    time.now = 5
    assert clock.now() == 5
    clock.show(shown)
    assert (clock.now(), time.now) == (shown, 5)
    time.advance()
    assert clock.now() == shown + 1
    clock.ahead -= 3
    assert clock.now() == shown + 1


async def test_time_that_elapses_waits_for_all_that_hear_it_at_each_tick() -> None:
    """They hear the time when they begin, too; those that are cancelled hear no more."""
    time = TrueTime(7)
    clock, heard = SimulatedClock(time), list[tuple[str, int]]()

    def hears(name: str, seconds: float) -> asyncio.Task[None]:
        async def hear(now: int) -> None:
            await asyncio.sleep(seconds)
            heard.append((name, now))

        return asyncio.get_running_loop().create_task(clock.run(hear))

    slow, fast = hears("slow", 2.0), hears("fast", 1.0)
    await asyncio.sleep(3.0)
    assert (clock.now(), heard) == (7, [("fast", 7), ("slow", 7)])
    heard.clear()
    await time.elapse(2)
    assert clock.now() == 9
    assert heard == [("fast", 8), ("slow", 8), ("fast", 9), ("slow", 9)]
    slow.cancel()
    await asyncio.sleep(0.1)
    await time.elapse()
    assert (clock.now(), heard[4:]) == (10, [("fast", 10)])
    await time.elapse(0)
    assert clock.now() == 10
    fast.cancel()
    assert SimulatedClock().now() == 0
