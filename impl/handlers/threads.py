"""Work of handlers in threads, which is not done later where it could not be begun.

Theory of operation. A pool takes work into its queue, and then starts a thread for it. Where no thread can be started,
it says so, and the work stays in the queue: the next thread would do it, long after whoever wanted it has given it up,
and nobody would close what it opens. So such work is taken back. A thread of the pool that is alive may have begun it
by then; it is waited for, as if nothing had failed.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import ParamSpec, TypeVar

from leasehold.impl.handlers.handler import Done, HandlerAction, NotBegun, ended

P = ParamSpec("P")
R = TypeVar("R")


def in_thread(pool: Executor, function: Callable[P, R], *args: P.args, **named: P.kwargs) -> asyncio.Future[R]:
    """Has a function called by a thread of a pool.

    Raises:
        NotBegun: no thread can be started at this moment, and the function will not be called.
        RuntimeError: the pool was shut down.
    """
    future: Future[R] = Future()

    def work() -> None:
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(function(*args, **named))
            except BaseException as error:
                future.set_exception(error)

    try:
        pool.submit(work)
    except RuntimeError as error:
        if "shutdown" in str(error):
            raise
        if future.cancel():
            raise NotBegun(f"no thread can be started: {error}") from None
    return asyncio.wrap_future(future)


async def act_in_thread(
    pool: Executor, do: Callable[[HandlerAction, threading.Event], Done], action: HandlerAction
) -> Done:
    """Does an action in a thread; one that is cancelled ends at its next look at the event.

    Raises:
        Exception: as the action does.
    """
    stop = threading.Event()
    doing = in_thread(pool, do, action, stop)
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        # Only when it has ended may another begin, so that none overlap.
        stop.set()
        await ended(doing)
        doing.exception()
        raise
