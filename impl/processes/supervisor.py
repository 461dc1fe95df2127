"""Starts actors of a fleet again that have ended, as a supervisor of services does, and tells what becomes of them."""

from __future__ import annotations

import signal
import time
from collections import Counter
from typing import Any, NamedTuple, TypeAlias

from leasehold.impl.processes.fleet import SystemFleet

BY_KILL = (-signal.SIGKILL, 128 + signal.SIGKILL)  # the second, of a program that it runs under


class Died(NamedTuple):
    """An actor has ended, with a code."""

    actor: str
    code: int


class Back(NamedTuple):
    """An actor serves again, so many seconds after its start; `about` is its description of itself."""

    actor: str
    seconds: float
    about: dict[str, Any]


Change: TypeAlias = Died | Back


class Supervisor:
    """Looks after the actors of a fleet.

    Args:
        fleet: whose actors.
        pause_seconds: before who has ended by itself is started again.
        killed_seconds: before who was killed is; left out: as many.

    Attributes:
        held: actors that are not started for now.
        down: those that have ended and were not started again, each with the moment at which that was seen.
        returning: those that were started and do not serve yet, each with the moment of its start.
        deaths: the codes of each actor that has died, in order.
        in_vain: how often each actor has been started and ended since it served last.
    """

    def __init__(self, fleet: SystemFleet, pause_seconds: float = 0.0, killed_seconds: float | None = None) -> None:
        self.fleet = fleet
        self._pause = pause_seconds
        self._killed = pause_seconds if killed_seconds is None else killed_seconds
        self.held: set[str] = set()
        self.down: dict[str, float] = {}
        self.returning: dict[str, float] = {}
        self.deaths: dict[str, list[int]] = {name: [] for name in fleet.roles}
        self.in_vain: Counter[str] = Counter()

    @property
    def all_serve(self) -> bool:
        """Returns whether every actor serves, as far as is known."""
        return not self.down and not self.returning

    def start(self, name: str) -> None:
        """Starts an actor."""
        self.down.pop(name, None)
        self.returning[name] = time.monotonic()
        self.fleet.start(name)

    def attend(self) -> list[Change]:
        """Starts who has ended, once its pause is over; returns what has changed since the last call."""
        changes: list[Change] = []
        for name, process in self.fleet.processes.items():
            now = time.monotonic()
            if name not in self.down and (code := process.poll()) is not None:
                self.in_vain[name] += self.returning.pop(name, None) is not None
                self.down[name] = now
                self.deaths[name].append(code)
                changes.append(Died(name, code))
            if name in self.down and name not in self.held and now >= self.down[name] + self._pause_of(name):
                self.start(name)
        for name, since in list(self.returning.items()):
            if (about := self.fleet.about(name)) is not None and about["running"]:
                del self.returning[name], self.in_vain[name]
                changes.append(Back(name, time.monotonic() - since, about))
        return changes

    def _pause_of(self, name: str) -> float:
        return self._killed if self.deaths[name][-1] in BY_KILL else self._pause
