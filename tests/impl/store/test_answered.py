"""The time within which a database's server has to answer begins anew with each part of an answer."""

from __future__ import annotations

from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

import pytest

from leasehold.impl.store import answered


class Clock:
    """Time that passes as the waits say."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


def parts(count: int) -> Generator[str, Any, str]:
    """What a driver waits for: so many parts of an answer; it asks again where nothing has come."""
    while count:
        if (yield "read"):
            count -= 1
    return "whole"


@pytest.mark.parametrize(
    ("waits", "came"),
    [
        ([(0.9, 1), (0.9, 1), (0.9, 1)], True),  # slow, but each part comes within the time
        ([(0.5, 0), (0.5, 1), (0.5, 0), (0.5, 1), (0.9, 1)], True),
        ([(0.5, 0), (0.6, 0)], False),
        ([(0.9, 1), (0.9, 1), (0.5, 0), (0.6, 0)], False),
        ([(1.0, 0), (1.0, 1), (1.0, 0), (0.1, 0)], False),  # just in time once, and not the second time
    ],
)
def test_each_part_has_the_whole_time(
    waits: list[tuple[float, int]], came: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, finished = Clock(), list[bool]()
    monkeypatch.setattr(answered, "time", clock)
    connection = SimpleNamespace(finish=lambda: finished.append(True))
    waiting = answered._limited(parts(3), connection, 1.0)
    next(waiting)
    end: Any = None
    try:
        for seconds, ready in waits:
            clock.now += seconds
            waiting.send(ready)
    except StopIteration as stop:
        end = stop.value
    except answered.Unanswered as error:
        end = str(error)
    assert end == ("whole" if came else "no answer within 1 seconds")
    assert bool(finished) is not came
