"""The queue of an actor: the requests that wait for a turn, and those of the turn that is made."""

from __future__ import annotations

import asyncio
from collections import deque
from time import monotonic
from typing import Any, NamedTuple

from leasehold.impl.actor.environment import ActorError
from leasehold.impl.actor.ready import Read, Request

MOST = 1_000  # requests of one turn
QUIET = 4  # rounds of the event loop: as many lie between bytes at a socket and the request in them


class Queued(NamedTuple):
    """A request, and the future of its reply, which is given after the commit; None where nobody waits for it."""

    request: Request
    reply: asyncio.Future[Any] | None = None

    def answer(self, reply: Any) -> None:
        """Gives the reply. A view is taken now, when all that it sees is durable."""
        future = self.reply
        if future is None or future.done():
            return
        if isinstance(self.request, Read):
            try:
                reply = self.request.view()
            except Exception as error:
                reply = ActorError(f"{type(error).__name__}: {error}")
                reply.__cause__ = error
        if isinstance(reply, Exception):
            future.set_exception(reply)
        else:
            future.set_result(reply)

    def fail(self, reason: str) -> None:
        """Says that there will be no reply."""
        if self.reply is not None and not self.reply.done():
            self.reply.set_exception(ActorError(reason))
            self.reply.exception()  # nobody may be waiting for it


class RequestQueue:
    """The requests of one actor, in the order in which they came.

    Attributes:
        closed: there will be no turn any more; who puts a request learns so.
        waiting: those that no turn has taken yet.
        turn: those of the turn that is made.
        turn_began: when it began, by the monotonic clock; None: none is made.
    """

    def __init__(self) -> None:
        self.closed = False
        self.turn: list[Queued] = []
        self.turn_began: float | None = None
        self.waiting: deque[Queued] = deque()
        self._more = asyncio.Event()
        self._woken = False
        self._gathering = False  # rounds are made: so many in which nothing came, and how much waited before
        self._quiet = self._before = 0

    def __bool__(self) -> bool:
        """Returns whether a turn is made, or something waits for one."""
        return bool(self.waiting) or self.turn_began is not None or self._woken

    def put(self, request: Request) -> asyncio.Future[Any]:
        """Adds a request; returns the future of its reply."""
        queued = Queued(request, asyncio.get_running_loop().create_future())
        if self.closed:
            queued.fail("the actor has ended")
        else:
            self.waiting.append(queued)
            self._gather()
        assert queued.reply is not None
        return queued.reply

    def put_quietly(self, request: Request) -> None:
        """Adds a request of which nobody awaits the reply."""
        self.waiting.append(Queued(request))
        self._gather()

    def wake(self) -> None:
        """A turn is made, after the one under way, though nothing waits: timers may have become due."""
        self._woken = True
        self._gather()

    def _gather(self) -> None:
        """Lets the event loop read on until nothing has been put for a while; then a turn begins.

        So one commit serves all that has come to this process at the same time.
        """
        if self.turn_began is None and not self._gathering and not self._more.is_set():
            self._gathering, self._quiet, self._before = True, 0, len(self.waiting)
            asyncio.get_running_loop().call_soon(self._round)

    def _round(self) -> None:
        count = len(self.waiting)
        self._quiet, self._before = 0 if count > self._before else self._quiet + 1, count
        if self._quiet < QUIET and count < MOST:
            asyncio.get_running_loop().call_soon(self._round)
        else:
            self._gathering = False
            self._more.set()

    async def begin(self) -> None:
        """Waits until there is a reason to make a turn; it begins, and takes what it wants of those that wait."""
        await self._more.wait()
        self._more.clear()
        self._woken = False
        self.turn, self.turn_began = [], monotonic()

    def end(self) -> None:
        """The turn is over; another follows if more waits."""
        self.turn_began = None
        if self.waiting or self._woken:
            self._gather()

    def fail_turn(self, reason: str) -> None:
        """Says to those of the turn that there will be no reply."""
        for queued in self.turn:
            queued.fail(reason)

    def fail_waiting(self, reason: str) -> None:
        """Says so to those that wait, and forgets them."""
        waiting, self.waiting = self.waiting, deque()
        for queued in waiting:
            queued.fail(reason)

    def close(self) -> None:
        """Says so to all, and to those that are put from now on."""
        self.closed = True
        self.fail_turn("the actor has ended")
        self.fail_waiting("the actor has ended")
