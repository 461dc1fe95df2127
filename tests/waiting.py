"""Waiting for what comes sooner or later, on real time and however busy the machine is: never for seconds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

LIMIT_SECONDS = 30.0


def wait_until(true: Callable[[], Any], seconds: float = LIMIT_SECONDS) -> Any:
    """Returns what is true as soon as it is; a test that waits too long fails."""
    deadline = time.monotonic() + seconds
    while not (value := true()):
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.005)
    return value


async def until(true: Callable[[], Any], seconds: float = LIMIT_SECONDS) -> None:
    """Waits as `wait_until` does, while other tasks go on."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come about in time"
        await asyncio.sleep(0.005)
