"""Random runs of the lease of which nobody but their events tells: what checks them otherwise is left out."""

from __future__ import annotations

from leasehold.checker.recovery.lease.random_runs.plan import RunPlan
from leasehold.checker.recovery.lease.random_runs.run import RandomRun
from leasehold.impl.events.event import AnyEvent, read
from leasehold.impl.store.memory import Disk

History = dict[str, list[AnyEvent]]


class UnwatchedRun(RandomRun):
    """A run that costs half as much, as neither its steps nor its states are compared with anything."""

    def __init__(self, plan: RunPlan) -> None:
        super().__init__(plan)
        self.sim.subscribers[:] = [self._hear]  # what stops actors amid their work
        self.sim.turns.clear()
        self.sim.ends.clear()

    def watch(self, lease: str) -> None:
        """Nobody does."""


def events_of(disks: dict[str, Disk]) -> History:
    """The events on the disks of actors."""
    return {name: [read(disk.events[at]) for at in sorted(disk.events)] for name, disk in disks.items()}


def history_of(plan: RunPlan) -> History:
    """The events of an unwatched run."""
    run = UnwatchedRun(plan)
    run.play()
    return events_of(run.sim.disks)
