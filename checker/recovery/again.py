"""A second crash, while the first is being recovered from.

Theory of operation. From the restart on, everything an actor tells about the lease before or after it does it is a
point at which it may stop once more: a commit that is about to be made or was made, a message that is about to be sent,
a call of a policy or handler. A run without a second crash collects these points; each is then a case of its own. Runs
are deterministic, so up to the point they are the same.
"""

from __future__ import annotations

from leasehold.faults.simulation.simulation import Simulation
from leasehold.impl.actor.held import BELOW
from leasehold.impl.notices import Crash, Kind, Notice

_NAMES = {
    Kind.COMMIT: "before-commit",
    Kind.COMMITTED: "after-commit",
    Kind.SEND: "before-send",
    Kind.CALL: "before-call",
}


class SecondCrash:
    """Watches for the points, and stops an actor at one of them.

    Attributes:
        armed: whether points count now.
        seen: the points that were passed.
        struck: who was stopped and has not restarted yet.
        was_struck: whether anybody was stopped.
    """

    def __init__(self, simulation: Simulation, lease: str, point: str | None) -> None:
        self.sim, self.lease, self.point = simulation, lease, point
        self.armed = self.was_struck = False
        self.seen: dict[str, None] = {}
        self.struck = ""
        simulation.subscribers.append(self._hear)

    def _hear(self, notice: Notice) -> None:
        where = _NAMES.get(notice.kind)
        if not self.armed or where is None:
            return
        if notice.kind in (Kind.SEND, Kind.CALL) and notice.lease not in (self.lease, BELOW):
            return
        name = f"crash:{notice.actor}@{self._where()}#{where}" + (f"({notice.name})" if notice.name else "")
        self.seen.setdefault(name)
        if name == self.point and not self.was_struck:
            self.was_struck, self.struck = True, notice.actor
            raise Crash

    def _where(self) -> str:
        """Where the machines of the lease are."""
        states = (self._state(role) for role, core in self.sim.program.roles.items() if not core.subsidiary)
        return "/".join(states)

    def _state(self, role: str) -> str:
        held = self.sim.held(self.lease, role)
        return "-" if held is None else held.state

    def restart(self) -> None:
        """Who was stopped restarts."""
        name, self.struck = self.struck, ""
        if name in self.sim.actors:
            self.sim.crash(name)
        self.sim.start(name)
