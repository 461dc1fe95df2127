"""The clock of an actor: time in ticks. Nothing else in an actor reads time."""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

log = logging.getLogger("leasehold.clock")

STANDS_STILL = 30.0  # seconds by which a clock may be set back before it is followed
OnTick = Callable[[int], Awaitable[None]]


class ActorClock(Protocol):
    """Tells the time in ticks, and when it has changed."""

    def now(self) -> int:
        """The time; it goes back only where the clock was wrong."""
        ...

    async def run(self, on_tick: OnTick) -> None:
        """Calls on every change, until it is cancelled."""
        ...


class RealClock:
    """Real time in ticks of some seconds, counted from 1970, so that all actors agree on when a term ends.

    A calendar clock that is set back by a little stands still here until it has come up again. One that is set back by
    more was ahead before, and is followed, as it would be after a restart: an actor that stood still for hours would
    end no lease meanwhile.
    """

    def __init__(self, tick_seconds: float = 1.0) -> None:
        if not tick_seconds > 0:
            raise ValueError(f"a tick lasts some time, not {tick_seconds} s")
        self.tick_seconds = tick_seconds
        self._latest = 0

    def now(self) -> int:
        shown = int(time.time() / self.tick_seconds)
        back = (self._latest - shown) * self.tick_seconds
        if back > STANDS_STILL:
            log.warning("the clock was set back by %.0f s, and is followed; leases end by the corrected time", back)
            self._latest = shown
        self._latest = max(self._latest, shown)
        return self._latest

    async def run(self, on_tick: OnTick) -> None:
        while True:
            await on_tick(self.now())
            ahead = (self.now() + 1) * self.tick_seconds - time.time()
            # A calendar clock that was set back would make this a long sleep.
            await asyncio.sleep(min(max(ahead, self.tick_seconds / 100), self.tick_seconds))


class ClockFileError(Exception):
    """A file cannot be the clock of an actor; the message says why."""


class FileClock:
    """The tick that a file has, in digits: a test moves the clock by writing the file and asking the actor to look.

    It has no `tick_seconds`, so actors whose time is real take no message of its actor, nor does it take theirs.

    Args:
        file: of the actor's user, and nobody else may write it.

    Raises:
        ClockFileError: it is no such file.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._now = _tick_of(file)
        self._on_tick: OnTick | None = None

    def now(self) -> int:
        return self._now

    async def run(self, on_tick: OnTick) -> None:
        self._on_tick = on_tick
        await on_tick(self._now)
        await asyncio.get_running_loop().create_future()

    async def look(self) -> int:
        """Takes the tick that the file has now, and returns it when the actor has done so.

        Raises:
            ClockFileError: the file has none, or an earlier one.
        """
        tick = _tick_of(self.file)
        if tick < self._now:
            raise ClockFileError(f"{self.file} has tick {tick}, which is before {self._now}; a clock does not go back")
        self._now = tick
        if self._on_tick is not None:
            await self._on_tick(tick)
        return tick


def _tick_of(file: Path) -> int:
    """The tick in a file that nobody else may write.

    Raises:
        ClockFileError: it is no such file.
    """
    try:
        with file.open("rb") as opened:
            about, text = os.fstat(opened.fileno()), opened.read(32)
    except OSError as error:
        raise ClockFileError(f"{file} cannot be read: {error.strerror or error}") from None
    if about.st_uid != os.geteuid() or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ClockFileError(f"{file} could be written by others than the actor's user; give it to that user, mode 600")
    if not text.strip().isdigit():
        raise ClockFileError(f"{file} has no tick; write one in digits, as in 0")
    return int(text)
