"""A watchdog: says when an actor's loop stands still, with the stack at which it does.

Theory of operation. A thread asks the event loop to answer, several times in each limit. An event loop that does not is
blocked by code that waits or computes without `await`: a subscriber, a handler, a driver. One that does may still have
a turn that does not end: a commit that waits for a database, say. Both hold up every lease of the actor. While the
store has failed the actor says so itself, and is not watched.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import traceback
from time import monotonic
from typing import Any

from leasehold.impl.actor.actor import Actor

log = logging.getLogger("leasehold.watchdog")

ASKED_PER_LIMIT = 4


class Watchdog:
    """Watches one actor, from `start` to `close`.

    Args:
        actor: whose loop.
        limit: seconds for which the loop may stand still.

    Attributes:
        stalls: how often it stood still for longer.
    """

    def __init__(self, actor: Actor, limit: float = 5.0) -> None:
        self.actor, self.limit, self.stalls = actor, limit, 0
        self._closed = threading.Event()
        self._blocked_since: float | None = None
        self._said: float | None = None  # the beginning of the turn that was said to be too long

    def start(self) -> None:
        """Begins to watch; called in the event loop of the actor."""
        loop, thread = asyncio.get_running_loop(), threading.get_ident()
        threading.Thread(target=self._watch, args=(loop, thread), name="watchdog", daemon=True).start()

    def close(self) -> None:
        """Watches no longer."""
        self._closed.set()

    @property
    def stalled_seconds(self) -> float:
        """The seconds for which the loop has stood still, if that is longer than the limit; else 0."""
        began = self.actor.queue.turn_began if self._blocked_since is None else self._blocked_since
        if began is None or not self.actor.running:
            return 0.0
        still = monotonic() - began
        return still if still > self.limit else 0.0

    def _watch(self, loop: asyncio.AbstractEventLoop, thread: int) -> None:
        while not self._closed.wait(self.limit / ASKED_PER_LIMIT):
            answered, asked = threading.Event(), monotonic()
            try:
                loop.call_soon_threadsafe(self._answer, answered)
            except RuntimeError:  # the loop is closed
                return
            if answered.wait(self.limit):
                continue
            self._blocked_since = asked
            frame = sys._current_frames().get(thread)
            self._say("is blocked", asked, "" if frame is None else "".join(traceback.format_stack(frame)))
            while not answered.wait(self.limit / ASKED_PER_LIMIT):
                if self._closed.is_set():
                    return
            self._blocked_since = None
            log.warning("%s goes on, after %.1f s", self.actor.identity.name, monotonic() - asked)

    def _answer(self, answered: threading.Event) -> None:
        """Answers the watchdog in the event loop, and reports a turn that does not end."""
        answered.set()
        began, task = self.actor.queue.turn_began, self.actor.turns
        if self.stalled_seconds and began is not None and began != self._said:
            self._said = began
            self._say("makes a turn that does not end", began, "" if task is None else _awaits(task))

    def _say(self, trouble: str, since: float, stack: str) -> None:
        self.stalls += 1
        still = monotonic() - since
        log.error("the loop of %s %s, for %.1f s so far:\n%s", self.actor.identity.name, trouble, still, stack.rstrip())


def _awaits(task: asyncio.Task[None]) -> str:
    """The stack of what a task awaits: `Task.print_stack` ends at the first coroutine."""
    lines: list[str] = []
    awaited: Any = task.get_coro()
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is not None:
            lines += traceback.format_list(traceback.extract_stack(frame, limit=1))
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    return "".join(lines)
