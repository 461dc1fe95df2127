"""The clock of one actor: it follows true time, never goes back by itself, and shows what it is made to show."""

from __future__ import annotations

import pytest

from leasehold.faults.simulation.clock import SimulatedClock, TrueTime


@pytest.mark.parametrize("ahead", [-2, -1, 0, 1])
def test_a_clock_is_ahead_of_true_time_by_as_much_and_never_below_0(ahead: int) -> None:
    time = TrueTime()
    clock = SimulatedClock(time, ahead)
    for now in range(4):
        assert clock.now() == max(0, now + ahead)
        time.advance()


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
