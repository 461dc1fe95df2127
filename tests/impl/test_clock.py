"""The clock: it follows real time, and records that count it in other ticks are refused."""

from __future__ import annotations

import logging

import pytest

from leasehold.impl import clock
from leasehold.impl.clock import STANDS_STILL, HandClock, RealClock
from leasehold.impl.cluster import SITE, Cluster
from leasehold.impl.core.codec import RecordError
from tests.impl.virtual import virtual


def test_a_clock_that_was_ahead_is_followed_when_it_is_corrected(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shown = 1_000_000.0
    monkeypatch.setattr(clock.time, "time", lambda: shown)
    real = RealClock(0.5)
    assert real.now() == 2_000_000
    shown -= STANDS_STILL
    assert real.now() == 2_000_000, "a little: it stands still"
    shown += STANDS_STILL + 1
    assert real.now() == 2_000_002
    shown += 86_400
    assert real.now() == 2_172_802
    with caplog.at_level(logging.WARNING):
        shown -= 86_400
        assert real.now() == 2_000_002
    assert "the clock was set back by 86400 s" in caplog.text


class Ticking(HandClock):
    """A clock that is moved by hand, of ticks with a length."""

    tick_seconds = 1.0


def test_ticks_of_another_length_are_refused_while_there_are_leases() -> None:
    async def story() -> None:
        c = Cluster()
        c.clock = ticking = Ticking()
        async with c:
            lease = await c.lease(1, until=30)
            for name in tuple(c.actors):
                await c.kill(name)
            ticking.tick_seconds = 5.0
            for name in tuple(c.actors):
                with pytest.raises(RecordError, match="ticks of 1 s, and it would run with ticks of 5 s"):
                    await c.start(name)
            ticking.tick_seconds = 1.0
            for name in tuple(c.actors):
                await c.start(name)
            await c.settle()
            assert c.state(lease) == ("active", "ticketed", "active")
            await c.advance(700)
            assert c.state(lease) == (None, None, None)
            await c.kill(SITE)
            ticking.tick_seconds = 5.0
            for number in range(4):  # units are remembered in records of their own
                c.disks[SITE].records.pop(("-", f"unit[{number}]"), None)
            await c.start(SITE)

    virtual(story())
