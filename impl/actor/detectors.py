"""Detectors: what watches the world outside for an actor, and raises events on its machines (paper, section 5.4).

Theory of operation. A detector yields the events that it finds; the next is asked for when the last was judged, so one
that finds too many waits, and keeps nobody else from being served. One that ends or fails is begun again, after a pause
that doubles until it has found something. What it says is raised (raising.py), so it needs the actor's leave.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from functools import partial
from typing import Any

from leasehold.impl.actor.environment import ActorContext, ActorError
from leasehold.impl.actor.probes import Guard
from leasehold.impl.actor.ready import Raise
from leasehold.impl.notices import SimulatedCrash
from leasehold.impl.raised import Detector, RaisedEvent

log = logging.getLogger("leasehold.detectors")

PAUSE_SECONDS, LONGEST_SECONDS = 1.0, 60.0


class Detectors:
    """The detectors of one actor.

    Args:
        context: of the actor.
        put: takes a raised event; its future ends when it was judged.
        guard: runs a loop whose error ends the actor.
    """

    def __init__(self, context: ActorContext, put: Callable[[Raise], Awaitable[Any]], guard: Guard) -> None:
        self.context, self._put, self._guard = context, put, guard
        self._loops: list[asyncio.Task[None]] = []

    def open(self) -> None:
        """Begins to watch."""
        make = asyncio.get_running_loop().create_task
        for name, detector in self.context.environment.detectors.items():
            self._loops.append(make(self._guard(partial(self._watch, name, detector))))

    async def close(self) -> None:
        """Watches no more."""
        me = asyncio.current_task()
        ending, self._loops = [task for task in self._loops if task is not me], []
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    async def _watch(self, name: str, detector: Detector) -> None:
        pause = PAUSE_SECONDS
        while True:
            try:
                async with aclosing(detector.watch()) as found:  # type: ignore[type-var]
                    async for raised in found:
                        await self._raise(name, raised)
                        pause = PAUSE_SECONDS
                reason = "it has ended"
            except (SimulatedCrash, GeneratorExit):
                raise
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                reason = "it has cancelled itself"
            except BaseException as error:  # also an exit that a detector raises, which would end the actor
                reason = f"{type(error).__name__}: {error}"
            self.context.counts["detectors ended"] += 1
            log.warning("the detector %s is begun again in %g s: %s", name, pause, reason)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_SECONDS)

    async def _raise(self, name: str, raised: object) -> None:
        if not isinstance(raised, RaisedEvent):
            raise TypeError(f"it yields {raised!r:.80}, and a detector yields events that it raises")
        with suppress(ActorError):  # it is logged where it was refused
            await self._put(Raise(raised, f"the detector {name}", "probe"))
