"""A watchdog for tests: how long an event loop's turns take."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
import time
import traceback
from collections.abc import Iterator

# On a loaded machine a turn takes longer for no fault of its own: LEASEHOLD_TURN_SECONDS says how long it may.
LIMIT = float(os.environ.get("LEASEHOLD_TURN_SECONDS", "0.1" if os.getloadavg()[0] < (os.cpu_count() or 1) else "0.4"))


@contextlib.contextmanager
def short_turns(limit: float = LIMIT) -> Iterator[None]:
    """Fails where a turn of the running loop takes longer; says where it stood."""
    loop, main, over, late = asyncio.get_running_loop(), threading.get_ident(), threading.Event(), list[str]()

    def watch() -> None:
        while not over.wait(0.005):
            answered, asked = threading.Event(), time.monotonic()
            try:
                loop.call_soon_threadsafe(answered.set)
            except RuntimeError:  # the loop was closed since the turns are over
                return
            if not answered.wait(limit):
                frame = sys._current_frames().get(main)
                stack = "".join(traceback.format_stack(frame)[-4:]) if frame is not None else ""
                answered.wait(30)
                late.append(f"a turn took {time.monotonic() - asked:.2f} s:\n{stack}")

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
    assert not late, "\n".join(late[:3])
