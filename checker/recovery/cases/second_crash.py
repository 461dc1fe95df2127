"""A second crash, during the recovery from the first.

Theory of operation. From the restart on, each of these notices about the lease is a point at which an actor may stop
once more: a commit that is about to be made or was made, a message that is about to be sent, a call of a policy or
handler. A run without a second crash collects these points; each is then a case of its own. Runs are deterministic, so
up to the point they are the same.
"""

from __future__ import annotations

from leasehold.faults.simulation.simulation import Simulation
from leasehold.impl.actor.table import BELOW
from leasehold.impl.notices import Kind, Notice, SimulatedCrash

_NAMES = {
    Kind.COMMIT: "before-commit",
    Kind.COMMITTED: "after-commit",
    Kind.SEND: "before-send",
    Kind.CALL: "before-call",
}


class SecondCrash:
    """Collects the points, and stops an actor at one of them.

    Attributes:
        armed: whether points count now.
        seen: the points that were passed.
        stopped: the actor that was stopped and has not restarted yet.
        met: whether an actor was stopped.
    """

    def __init__(self, simulation: Simulation, lease: str, point: str | None) -> None:
        self.sim, self.lease, self.point = simulation, lease, point
        self.armed = self.met = False
        self.seen: dict[str, None] = {}
        self.stopped = ""
        simulation.subscribers.append(self._hear)

    def _hear(self, notice: Notice) -> None:
        where = _NAMES.get(notice.kind)
        if not self.armed or where is None:
            return
        if notice.kind in (Kind.SEND, Kind.CALL) and notice.lease not in (self.lease, BELOW):
            return
        label = f"({notice.name})" if notice.name else ""
        name = f"crash:{notice.actor}@{self.sim.where(self.lease)}#{where}{label}"
        self.seen.setdefault(name)
        if name == self.point and not self.met:
            self.met, self.stopped = True, notice.actor
            raise SimulatedCrash

    def restart(self) -> None:
        """Restarts the actor that was stopped."""
        name, self.stopped = self.stopped, ""
        if name in self.sim.actors:
            self.sim.crash(name)
        self.sim.start(name)
