"""One case replayed by real actors: its script, with the crash, and what is watched meanwhile.

Theory of operation. The script is replayed step by step up to the restart. What follows, and what is checked then, is
the business of the kinds of runs: those of any system (walk.py) answer for the environment as the specification
allows; those of a plug-in may have real policies, handlers and units.
"""

from __future__ import annotations

from abc import abstractmethod

from leasehold.checker.recovery.campaign import CaseOutcome
from leasehold.checker.recovery.cases.player import ReplayDiverged
from leasehold.checker.recovery.cases.replay import Replayer, Unplayable
from leasehold.checker.recovery.cases.second_crash import SecondCrash
from leasehold.checker.recovery.cases.steps import ScriptStep
from leasehold.checker.recovery.events import S
from leasehold.checker.recovery.monitor import DurabilityMonitor, PropertyMonitor
from leasehold.checker.recovery.simulated_run import MOST_LOST, SimulatedRun
from leasehold.faults.simulation.loop import Livelock
from leasehold.impl.notices import SimulatedCrash


class CaseRun(SimulatedRun[S]):
    """A run of one case.

    Args:
        monitor: of the properties.
        replayer: of the script.
        lost: the messages of the crashed actor that are in transit are lost; else they arrive.
        second: where an actor stops once more, after the restart (second_crash.py); None: nowhere.
    """

    reference = False  # it is replayed without the crash

    def __init__(
        self,
        monitor: PropertyMonitor,
        replayer: Replayer,
        *,
        lost: bool = False,
        second: str | None = None,
    ) -> None:
        super().__init__(monitor.commits, monitor.properties, replayer.script.name)
        self.script, self.lost, self.monitor, self.replayer = replayer.script, lost, monitor, replayer
        self.lease, self.steps.cells = replayer.lease, monitor.cells
        self.committed = DurabilityMonitor(self.sim)
        self.second = SecondCrash(self.sim, self.lease, second)
        self.prepare()
        self.sim.start_all()
        self.monitor.begin()

    def prepare(self) -> None:
        """Called before the actors start, for those who observe them."""

    def run(self) -> CaseOutcome:
        """Runs the whole case."""
        try:
            self.stages()
        except Unplayable as error:
            self.outcome.skipped = str(error)
        except ReplayDiverged as error:
            self.say("drive", str(error))
        except (Livelock, TimeoutError) as error:
            self.say("actor", f"it does not come to rest: {error}")
        for reason in self.committed.lost[:MOST_LOST]:  # properties may be broken for no other reason
            self.say("record", reason)
        self.judge()
        self.report_steps()
        self.report_errors()
        self.outcome.asked = self.monitor.asked
        return self.outcome

    def close(self) -> None:
        self.sim.close()

    @abstractmethod
    def until_recovered(self) -> None:
        """The script, and what follows its restart as long as a second crash may come."""

    @abstractmethod
    def stages(self) -> None:
        """The script, what follows the restart, and its checks."""

    def judge(self) -> None:
        """Checks whether all properties held."""
        for name, when in self.monitor.broken.items():
            self.say("invariant", f"{name} does not hold {when}")

    def to_the_restart(self) -> None:
        """Replays the script."""
        self.sim.hold()
        for n, step in enumerate(self.script.steps):
            if n == len(self.script.steps) - 1 and not self.reference:
                self.second.armed = True
            try:
                self.replayer.step(step, n, self.reference)
            except SimulatedCrash:
                self.second.restart()
            self.watch(step)

    def watch(self, step: ScriptStep) -> None:
        """Does what follows a step of the script for the monitors and the network."""
        if step.kind == "clock":
            self.monitor.tick()
        if self.lost and step.kind in ("crash", "stillborn") and not self.reference:
            self._lose_messages(step)

    def redeliver(self) -> None:
        """All messages that were delivered before are delivered again, the newest first, unless messages are lost."""
        for packet in () if self.lost else reversed(tuple(self.sim.network.delivered)):
            self.sim.deliver(packet, answered=False)

    def _lose_messages(self, step: ScriptStep) -> None:
        assert step.machine is not None
        stopped = {self.replayer.player(machine) for machine in (step.machine, *step.along)}
        for packet in tuple(self.sim.network.in_transit):
            ends = {packet.source.rpartition(":")[2], packet.target.rpartition(":")[2]}
            if ends & stopped and packet.envelope["lease"] == self.lease:
                self.sim.network.lose(packet)
