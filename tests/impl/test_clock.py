"""The clock: it follows real time, and records that count it in other ticks are refused."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

import pytest

from leasehold.faults.simulation.lease import Cluster
from leasehold.impl import clock
from leasehold.impl.clock import STANDS_STILL, ClockFileError, FileClock, RealClock
from leasehold.impl.core.codec import RecordError
from leasehold.impl.lease.fleet import SITE


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


@pytest.mark.parametrize("back", [0.0, 20.0, 3_600.0])
async def test_ticks_come_in_time_whatever_becomes_of_the_calendar(
    back: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Set back between two ticks, and put right again a few seconds later: no tick of true time is missed then."""
    ahead, heard = 0.0, list[tuple[float, int]]()
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(clock.time, "time", lambda: 1_000_000 + ahead + loop.time())

    async def hear(now: int) -> None:
        heard.append((loop.time(), now))

    ticking = loop.create_task(RealClock(1.0).run(hear))
    await asyncio.sleep(3.5)
    ahead -= back
    await asyncio.sleep(2.75)
    ahead += back
    await asyncio.sleep(4.25)
    ticking.cancel()
    came = {number: min(at for at, now in heard if now >= 1_000_000 + number) for number in range(11)}
    wrong = range(4, 8) if back else ()
    assert {n: at for n, at in came.items() if n not in wrong} == {
        n: pytest.approx(n, abs=0.05) for n in came if n not in wrong
    }
    assert came[7] < 8


async def test_ticks_of_another_length_are_refused_while_there_are_leases() -> None:
    c = Cluster()

    def ticks_last(seconds: float) -> None:
        for one in c.clocks.values():
            one.tick_seconds = seconds  # type: ignore[attr-defined]

    ticks_last(1.0)
    async with c:
        lease = await c.lease(1, until=30)
        for name in tuple(c.actors):
            await c.kill(name)
        ticks_last(5.0)
        for name in tuple(c.actors):
            with pytest.raises(RecordError, match="ticks of 1 s, and it would run with ticks of 5 s"):
                await c.start(name)
        ticks_last(1.0)
        for name in tuple(c.actors):
            await c.start(name)
        await c.settle()
        assert c.state(lease) == ("active", "ticketed", "active")
        await c.advance(700)
        assert c.state(lease) == (None, None, None)
        await c.kill(SITE)
        ticks_last(5.0)
        for number in range(4):  # units are remembered in records of their own
            c.disks[SITE].records.pop(("-", f"unit[{number}]"), None)
        await c.start(SITE)


@pytest.mark.parametrize("seconds", [0, 0.0, -1, float("nan")])
def test_a_tick_lasts_some_time(seconds: float) -> None:
    with pytest.raises(ValueError, match=f"a tick lasts some time, not {seconds} s"):
        RealClock(seconds)
    assert RealClock().tick_seconds == 1.0


@pytest.mark.parametrize("tick", [0.5, 1.0, 60.0])
def test_a_clock_that_is_set_back_stands_still_for_so_many_seconds_whatever_its_tick(
    tick: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock stands still up to the limit, and is followed a tick beyond it."""
    shown = 6_000.0
    monkeypatch.setattr(clock.time, "time", lambda: shown)
    for back in range(int(STANDS_STILL / tick) + 2):
        shown, first = 6_000.0, int(6_000 / tick)
        real = RealClock(tick)
        assert real.now() == first
        shown -= back * tick
        assert real.now() == (first if back * tick <= STANDS_STILL else first - back)


@pytest.mark.parametrize("phase", [0.0, 0.25, 0.75])
@pytest.mark.parametrize("tick", [1.0, 2.0])
async def test_a_tick_comes_when_it_begins_whenever_the_clock_was_started(
    phase: float, tick: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first is told at once, and each later one at its beginning and once."""
    heard = list[tuple[float, int]]()

    loop = asyncio.get_running_loop()
    begun = loop.time()
    monkeypatch.setattr(clock.time, "time", lambda: 1_000_000 + phase + loop.time() - begun)

    async def hear(now: int) -> None:
        heard.append((loop.time() - begun, now))

    ticking = loop.create_task(RealClock(tick).run(hear))
    await asyncio.sleep(4.1 * tick)
    ticking.cancel()
    first: dict[int, float] = {}
    for at, now in heard:
        first.setdefault(now, at)
    numbers = [int(1_000_000 / tick) + n for n in range(len(first))]
    assert list(first) == numbers
    assert len(numbers) >= 5
    assert list(first.values()) == [0, *(pytest.approx(n * tick - phase, abs=0.05) for n in range(1, len(first)))]


async def test_a_test_moves_the_clock_that_is_a_file(tmp_path: Path) -> None:
    file, heard = tmp_path / "clock", list[int]()
    file.write_text("3")
    by_hand = FileClock(file)
    assert await by_hand.look() == 3, "nobody runs yet"

    async def hear(now: int) -> None:
        await asyncio.sleep(0)
        heard.append(now)

    running = asyncio.get_running_loop().create_task(by_hand.run(hear))
    await asyncio.sleep(0.1)
    file.write_text("5\n")
    assert by_hand.now() == 3, "it has not looked"
    assert await by_hand.look() == by_hand.now() == 5
    assert heard == [3, 5], "the tick is taken before it says so"
    file.write_text("4")
    with pytest.raises(ClockFileError, match="has tick 4, which is before 5; a clock does not go back"):
        await by_hand.look()
    assert by_hand.now() == 5
    running.cancel()


@pytest.mark.parametrize("text", ["", "-1", "soon", "1.5"])
def test_a_file_without_a_tick_is_no_clock(text: str, tmp_path: Path) -> None:
    file = tmp_path / "clock"
    file.write_text(text)
    with pytest.raises(ClockFileError, match="has no tick; write one in digits, as in 0"):
        FileClock(file)
    with pytest.raises(ClockFileError, match="cannot be read: No such file"):
        FileClock(tmp_path / "other")


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_file_that_others_may_write_is_no_clock(mode: int, tmp_path: Path) -> None:
    file = tmp_path / "clock"
    file.write_text("0")
    file.chmod(mode)
    with pytest.raises(ClockFileError, match="could be written by others than the actor's user"):
        FileClock(file)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_another_user_is_no_clock(tmp_path: Path) -> None:
    file = tmp_path / "clock"
    file.write_text("0")
    os.chown(file, 65534, 65534)
    with pytest.raises(ClockFileError, match="could be written by others than the actor's user"):
        FileClock(file)
