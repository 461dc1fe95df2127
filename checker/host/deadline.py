"""A limit of wall time for work that does not look at the clock by itself.

Work with a limit of time looks at the clock where it can, and ends by itself. What it cannot look out of (writing a
large value, deciding on a large graph, a solver that works on) is broken off by an alarm a little later: `OutOfTime`
is raised in the main thread, between two instructions of Python. A call that does not come back from C hears no alarm;
`ended_at` ends the whole process then, which its workers follow.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

LEAST_GRACE, GRACE_SHARE = 2.0, 0.1  # seconds, and a part of the limit, for what ends by itself
AGAIN = 1.0  # seconds until the alarm comes again, where something took it for an error of its own


class OutOfTime(BaseException):
    """The time is over; no `except Exception` takes it for an error."""


def grace(seconds: float) -> float:
    """The seconds beyond a limit of so many until work that goes on is broken off."""
    return max(LEAST_GRACE, GRACE_SHARE * seconds)


@contextmanager
def alarm_at(end: float | None) -> Iterator[None]:
    """Raises OutOfTime in the block when the time comes, as `time.perf_counter` counts; None: never.

    For the main thread, where nobody else has set an alarm; elsewhere it does nothing.
    """
    usable = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if end is None or not usable or signal.getitimer(signal.ITIMER_REAL)[0]:
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(1e-3, end - time.perf_counter()), AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def ended_at(end: float | None, say: Callable[[], None], code: int) -> Iterator[None]:
    """Ends the process with an exit code when the block still runs at that time, having said so; None: never."""
    done = threading.Event()

    def watch() -> None:
        if end is not None and not done.wait(max(0.0, end - time.perf_counter())):
            say()
            sys.stdout.flush()
            os._exit(code)

    if end is not None:
        threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        done.set()
