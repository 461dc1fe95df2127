"""The receiving end of every transport: it checks the limits, hands a frame to the actor, and returns the reply.

Theory of operation. The actor's `receive` runs in a task of its own, so that one frame never waits for another, and
nothing that a sender does (going away, giving up) cancels a commit that is under way. Any error while a frame is
received is answered UNREACHABLE, as nobody knows whether the frame was committed, and its sender sends it again. Who is
refused too often waits (BUSY) and costs nothing more than that answer (impl/transport/limits.py).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from leasehold.impl.transport.limits import Connection, Refusals, SparseLog, TransportLimits
from leasehold.impl.transport.transport import Delivery, Receive, Reply

_log = logging.getLogger(__name__)


class Reception:
    """Receives for one actor.

    Attributes:
        limits: for strangers.
        closing: whether frames are no longer taken.
    """

    def __init__(self, receive: Receive, limits: TransportLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self.closing = False
        self._receive, self._clock = receive, clock
        self._running: set[asyncio.Task[Reply]] = set()
        self._refusals = Refusals(limits)
        self._sparse = SparseLog(_log)

    def wait(self, connection: Connection) -> float:
        """The seconds for which a connection has to wait; 0: it may send."""
        seconds = self._refusals.wait(_payer(connection), self._clock())
        return seconds if connection.tried or connection.proven else 0.0

    def refused(self, connection: Connection, reason: str, proven: str = "") -> None:
        """Counts a refusal, of the actor that has proven who it is, or of an address."""
        now, connection.tried = self._clock(), True
        self._refusals.add(_actor(proven) if proven else _payer(connection), now)
        self._sparse.warning(now, "refused", "refused what came from %s: %s", connection.address, reason)

    def note(self, kind: str, message: str, *values: object) -> None:
        """Logs events that strangers cause, at a bounded rate."""
        self._sparse.warning(self._clock(), kind, message, *values)

    async def take(self, frame: bytes, address: str) -> Reply:
        """Receives one frame of a remote address that nobody else shares."""
        return (await self.take_all((frame,), Connection(address, tried=True)))[0]

    async def take_all(self, frames: Sequence[bytes], connection: Connection) -> list[Reply]:
        """Receives frames, all at the same time, and answers each within the time limit."""
        begun = [self._begin(frame, connection) for frame in frames]
        tasks = [task for task in begun if isinstance(task, asyncio.Task)]
        if tasks:
            await asyncio.wait(tasks, timeout=self.limits.answer_seconds)
        replies = [self._ended(one) if isinstance(one, asyncio.Task) else one for one in begun]
        for one, reply in zip(begun, replies, strict=True):
            connection.proven = reply.proven or connection.proven
            if reply.answer in (Delivery.REFUSED, Delivery.UNTRUSTED) and isinstance(one, asyncio.Task):
                self.refused(connection, reply.reason, reply.proven)
        return replies

    async def close(self) -> None:
        """Takes no more frames, waits a moment for those that are being received, and then cancels them."""
        self.closing = True
        if self._running:
            _, late = await asyncio.wait(self._running, timeout=self.limits.close_seconds)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=self.limits.close_seconds)

    def _begin(self, frame: bytes, connection: Connection) -> asyncio.Task[Reply] | Reply:
        if self.closing:
            return Reply(Delivery.UNREACHABLE, "the receiver is closing")
        if (seconds := self._refusals.wait(_payer(connection), self._clock())) > 0:
            if connection.tried or connection.proven:
                return Reply(Delivery.BUSY, f"too much of what came from you was refused; wait {seconds:.1f} seconds")
            connection.tried = True
        if len(frame) > self.limits.parcel:
            too_large = self.limits.too_large(frame)
            self.refused(connection, too_large.reason)
            return too_large
        if len(self._running) >= self.limits.receiving:
            self.note("busy", "%d frames are being received; more are answered BUSY", len(self._running))
            return Reply(Delivery.BUSY, "too much is being received at the moment")
        task = asyncio.get_running_loop().create_task(self._guarded(frame))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def _guarded(self, frame: bytes) -> Reply:
        try:
            reply = await self._receive(frame)
        except Exception as error:
            message = "an error of the receiver; the sender will send again: %r"
            self._sparse.warning(self._clock(), "error", message, error, exc_info=error)
            return Reply(Delivery.UNREACHABLE, "an error of the receiver")
        if not isinstance(reply, Reply):
            raise TypeError(f"the receiver answered {reply!r}, which is no Reply")
        return reply

    def _ended(self, task: asyncio.Task[Reply]) -> Reply:
        if not task.done():
            self.note("late", "a frame is being received for more than %s seconds", self.limits.answer_seconds)
            return Reply(Delivery.UNREACHABLE, "no answer within the receiver's time limit")
        if task.cancelled():
            return Reply(Delivery.UNREACHABLE, "the receiver has closed")
        if (error := task.exception()) is not None:  # a crash, which nobody may hide: it is the loop's to report
            context = {"message": "the receiver of a frame crashed", "exception": error, "task": task}
            asyncio.get_running_loop().call_exception_handler(context)
            return Reply(Delivery.UNREACHABLE, "the receiver crashed")
        return task.result()


def _payer(connection: Connection) -> str:
    """Whom refusals of a connection are charged to."""
    return _actor(connection.proven) if connection.proven else connection.address


def _actor(name: str) -> str:
    """An actor's key among the refusals, which no address has."""
    return f"actor {name}"
