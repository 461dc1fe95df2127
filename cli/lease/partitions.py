"""Partitions of the demo's actors, and guests on the units, judged from outside.

One pair after the other is parted for longer than a term, one-way or both ways: the holder from its site, then from its
broker (broker and site say nothing to each other). /proc shows meanwhile who uses which unit (outside.py).
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from leasehold.checker.recovery.fleet.links import Links
from leasehold.checker.recovery.lease.processes.outside import Observer
from leasehold.faults.simulation.partition import ActorPartition, drawn_partition
from leasehold.impl.handlers import processes
from leasehold.impl.handlers.place import UnitDirectory
from leasehold.impl.lease.fleet import BROKER, SITE, TENANT, Fleet
from leasehold.impl.lease.fleet_monitor import FleetMonitor

FIRST_SECONDS = 4.0  # when the first leases are there
BETWEEN_SECONDS = 2.0
GRACE_SECONDS = 5.0  # for a holder that was down to make its guests leave
LATE_SECONDS = 0.3  # within which an end counts as kept


class Partitions(AbstractContextManager["Partitions"]):
    """The partitions of a demo.

    Args:
        fleet: whose actors are parted; it is not started yet.
        seed: of all choices.
        term: in ticks; a partition is longer.
    """

    def __init__(self, fleet: Fleet, seed: int, term: int) -> None:
        self.fleet, self.links = fleet, Links(fleet)
        self.observer: Observer | None = None
        self.done = 0
        self._say: Callable[[str], None] = lambda words: None
        self._monitor: FleetMonitor | None = None
        self._heal: Callable[[], None] | None = None
        self._able_at = 0.0
        self._due = self._plan(random.Random(f"partitions {seed}"), term)

    def __exit__(self, *error: object) -> None:
        if self.observer is not None and self.observer.is_alive():
            self.observer.close()
        self.links.close()
        for place in self._guest_places():
            for member in place.members(thorough=True):
                processes.send(member, signal.SIGKILL)

    def _plan(self, chance: random.Random, term: int) -> list[tuple[float, float, ActorPartition]]:
        """Returns the partitions, and from when to when each lasts, in seconds of the demo."""
        found, at = [], FIRST_SECONDS
        for pair in ((TENANT, SITE), (TENANT, BROKER)):
            partition, ticks = drawn_partition(chance, pair, term)
            end = at + ticks * self.fleet.tick_seconds
            found.append((at, end, partition))
            at = end + BETWEEN_SECONDS
        return found

    def watch(self, monitor: FleetMonitor, say: Callable[[str], None]) -> None:
        """Begins to look who uses which unit; the monitor has the violations, and `say` takes what happens."""
        self._monitor, self._say = monitor, say
        self.observer = Observer(self.fleet.folder.resolve(), lambda: time.monotonic() < self._able_at, self._end_of)
        self.observer.start()

    def _end_of(self, lease: str) -> float | None:
        row = self._monitor.last.row(SITE, lease) if self._monitor is not None else None
        return None if row is None else row["data"]["end"] * self.fleet.tick_seconds + LATE_SECONDS

    def step(self, seconds: float, holder_down: bool) -> None:
        """Parts and heals what is due."""
        if holder_down:
            self._able_at = time.monotonic() + GRACE_SECONDS
        if not self._due:
            return
        begins, ends, partition = self._due[0]
        if self._heal is None and seconds >= begins:
            self._heal = self.links.part(partition)
            self._say(f"{partition}: {'no message' if partition.both else 'what is sent there'} comes through")
        elif self._heal is not None and seconds >= ends:
            self._heal()
            self._heal = None
            self.done += 1
            self._due.pop(0)
            self._say(f"{partition}: it has healed")

    @property
    def parted(self) -> bool:
        """Returns whether actors are cut off from each other now."""
        return self._heal is not None

    @property
    def over(self) -> bool:
        """Returns whether all partitions have been and healed."""
        return not self._due

    def at_the_end(self) -> None:
        """Tells what was seen, and looks for guests of leases that are over."""
        assert self.observer is not None
        assert self._monitor is not None
        self.observer.close()
        for words in self.observer.violations:
            self._monitor.say(words)
        for place in self._guest_places():
            if place.alive():
                self._monitor.say(f"the guest {place.folder.name} is left")

    def _guest_places(self) -> list[UnitDirectory]:
        folder = self.fleet.folder / "guests"
        return [UnitDirectory(path) for path in sorted(folder.iterdir()) if path.is_dir()] if folder.is_dir() else []

    def summary(self) -> dict[str, Any]:
        return {"partitions": self.done, "guests_at_once": 0 if self.observer is None else self.observer.guests}
