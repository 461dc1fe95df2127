"""Weather for the transport in memory: a hand that does harm at random."""

from __future__ import annotations

import random

from leasehold.impl.transport.memory import FrameOutcome


class Weather:
    """A hand that does harm at random; the same seed does the same harm to the same frames in the same order."""

    def __init__(
        self, seed: int, *, lose: float = 0, duplicate: float = 0, delay: int = 0, unanswered: float = 0
    ) -> None:
        """Shares are from 0 to 1; `delay` is the largest, in turns of the event loop."""
        self._random = random.Random(seed)
        self._lose, self._duplicate, self._delay, self._unanswered = lose, duplicate, delay, unanswered

    def __call__(self, source: str, target: str, frame: bytes) -> FrameOutcome:
        if self._random.random() < self._lose:
            return FrameOutcome(())
        count = 2 if self._random.random() < self._duplicate else 1
        copies = tuple(self._random.randint(0, self._delay) for _ in range(count))
        return FrameOutcome(copies, self._random.random() >= self._unanswered)
