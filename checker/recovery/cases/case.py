"""One case replayed by real actors, and the checks of what follows.

Theory of operation. Before the script begins, a bystander holds a lease of its own at the same actors. Then the script
is replayed, with its crash, and once more without: the *reference*. After the restart everything happens by itself
again: messages arrive, policies and handlers answer, and no time passes at first. Where no message is lost, those that
were delivered before are delivered once more. CHECKS (simulated_run.py) lists what is checked then.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from leasehold.checker.recovery.campaign import CaseOutcome
from leasehold.checker.recovery.cases.replay import ReplayDiverged, Replayer, ReplayTarget
from leasehold.checker.recovery.cases.script import Script
from leasehold.checker.recovery.cases.second_crash import SecondCrash
from leasehold.checker.recovery.monitor import DurabilityMonitor, MonitoredProperties, PropertyMonitor
from leasehold.checker.recovery.simulated_run import AUTHORITY, BROKER, SERVICE_MANAGER, SimulatedRun
from leasehold.checker.recovery.trace import TraceRecorder
from leasehold.faults.simulation.loop import Livelock
from leasehold.faults.simulation.simulation import Simulation
from leasehold.impl.actor.environment import ActorError
from leasehold.impl.actor.table import BELOW
from leasehold.impl.core.core import Program
from leasehold.impl.lease.broker import Calendar
from leasehold.impl.notices import SimulatedCrash

BYSTANDER, LEASE, NEXT = f"{SERVICE_MANAGER}:1", f"{SERVICE_MANAGER}:2", f"{SERVICE_MANAGER}:3"
LONG = 1_000  # ticks: later than any case ends
SETTLE = 5.0  # seconds within which all messages of one tick are exchanged


class CaseRun(SimulatedRun):
    """A run of one case.

    Args:
        program: compiled with a unit more than the script has.
        properties: of the same system.
        script: the case.
        lost: the messages of the crashed actor that are in transit are lost; else they arrive.
        reference: without the crash.
        second: where an actor stops once more, after the restart (second_crash.py); None: nowhere.
        traced: what the actors do is recorded, as a path.
        simulate: makes the simulation.
    """

    def __init__(
        self, program: Program, properties: MonitoredProperties, script: Script, *, lost: bool = False,
        reference: bool = False, second: str | None = None, traced: bool = False,
        simulate: Callable[..., Simulation] = Simulation,
    ) -> None:  # fmt: skip
        self.script, self.reference, self.lost = script, reference, lost
        super().__init__(simulate(program, units=int(program.constants["max_units"])), script.name)
        self.monitor = PropertyMonitor(self.sim, properties, LEASE)
        self.committed = DurabilityMonitor(self.sim)
        self.trace = TraceRecorder(self.sim, LEASE) if traced else None
        self.second = SecondCrash(self.sim, LEASE, second)
        self.sim.start_all()
        self.replayer = Replayer(self.sim, properties.system, script, ReplayTarget(LEASE, SERVICE_MANAGER))

    # Stages

    def run(self, reference: CaseRun | None = None) -> CaseOutcome:
        """Runs the whole case; compares it with the reference, if there is one."""
        try:
            self._stages(reference)
        except ReplayDiverged as error:
            self.say("drive", str(error))
        except (Livelock, TimeoutError) as error:
            self.say("actor", f"it does not come to rest: {error}")
        self.monitor.settle()
        for name, when in self.monitor.broken.items():
            self.say("invariant", f"{name} does not hold {when}")
        for words in self.committed.lost:
            self.say("record", words)
        self.report_errors()
        self.outcome.asked = self.monitor.asked
        return self.outcome

    def close(self) -> None:
        self.sim.close()

    def _stages(self, reference: CaseRun | None) -> None:
        self.to_the_restart()
        self.at_once()
        if reference is not None:
            self._compare(reference)
        self.rest("after the restart")
        for _ in range(2):
            self._extend()
        self._end()
        self._next_request()
        if self.sim.outside:
            self._close_all()

    def to_the_restart(self) -> None:
        """The bystander's lease, then the script."""
        self._demand(BYSTANDER, LONG, 6)
        self.sim.loop.advance(0.5)
        self.sim.hold()
        for n, step in enumerate(self.script.steps):
            if n == len(self.script.steps) - 1 and not self.reference:
                self.second.armed = True
            try:
                self.replayer.step(step, n, self.reference)
            except SimulatedCrash:
                self.second.restart()
            if step.kind == "clock":
                self.monitor.tick()
            if step.kind == "recover" and step.machine is not None and not self.reference:
                self.committed.compare(self.sim.player[step.machine[0]])
            if self.lost and step.kind in ("crash", "stillborn") and not self.reference:
                self._lose_messages(step.machine)

    def _lose_messages(self, machine: Any) -> None:
        name = self.sim.player[machine[0]]
        for packet in tuple(self.sim.network.in_transit):
            ends = packet.source.rpartition(":")[2], packet.target.rpartition(":")[2]
            if name in ends and packet.envelope["lease"] == LEASE:
                self.sim.network.lose(packet)

    def at_once(self) -> None:
        """All that happens before the next tick; the bystander renews its lease."""
        self.sim.release()
        self._redeliver()
        before = self._end_of(BYSTANDER)
        self._flex()
        self._settle()
        self.second.armed = False
        if self._end_of(BYSTANDER) <= before or self.state(BYSTANDER) != "active":
            self.say("actor", f"the bystander's lease was not renewed: {self.where(BYSTANDER)}, until {before}")

    def _flex(self) -> None:
        """The bystander asks for a renewal now, and again if the actor stops before it has taken the request."""
        try:
            self.sim.wish("flex", BYSTANDER, 1, soon=True)
        except ActorError:
            if not self.second.stopped:
                raise
            self.second.restart()
            self._flex()

    def _redeliver(self) -> None:
        """All messages that were delivered before are delivered again, the newest first; nothing may change."""
        came = () if self.reference or self.lost else tuple(self.sim.network.delivered)
        for packet in reversed(came):
            self.sim.loop.call(partial(self.sim.network.deliver, packet, False))

    def _settle(self) -> None:
        """Lets the actors exchange all messages of one tick, and restarts an actor that has stopped."""
        for _ in range(10):
            self.sim.loop.advance(SETTLE / 10)
            if self.second.stopped:
                self.second.restart()
                self.sim.loop.advance(SETTLE)

    def _compare(self, reference: CaseRun) -> None:
        ours, theirs = self.view(), reference.view()
        if ours == theirs:
            self.outcome.end = "same"
            return
        self.outcome.end = "ended"
        if (count := len(self.quarantined())) > len(reference.quarantined()):
            self.say("world", f"{count} units are in quarantine, that are not without the crash")
        if self._runs(LEASE) or reference._runs(LEASE):
            differ = [f"{m}: {ours[m]}, not {theirs[m]}" for m in ours if ours[m] != theirs[m]]
            self.say("lease", "it did not come back to where it is without the crash: " + "; ".join(differ))

    def _extend(self) -> None:
        """One further extension, if the lease runs."""
        if self.state(LEASE) not in ("active", "active_ticketed"):
            return
        data = self.data(LEASE)
        end = max(data["ticket_end"], self.sim.time.now) + 2
        if self.sim.time.now >= data["lease_end"]:
            return
        self.sim.network.holds = True
        self.tell(SERVICE_MANAGER, SERVICE_MANAGER, LEASE, "extend", {"units": 1, "end": end})
        self._redeliver()
        self.sim.loop.call(self.sim.network.release)
        self.sim.loop.advance(SETTLE)
        if (self.state(LEASE), self._end_of(LEASE)) != ("active", end):
            self.say("lease", f"it cannot be extended: {self.where(LEASE)}, until {self._end_of(LEASE)}, not {end}")

    def _end(self) -> None:
        """The lease ends, and its units come free."""
        if self.state(LEASE) in ("active", "active_ticketed", "joining"):
            self.tell(SERVICE_MANAGER, SERVICE_MANAGER, LEASE, "close")
            self.sim.loop.advance(SETTLE)
        for _ in range(8):
            if self.over(LEASE):
                break
            self.sim.tick()
            self.monitor.tick()
            self.sim.loop.advance(1.0)
        self.repair()
        if not self.over(LEASE):
            self.say("lease", f"it does not end: {self.where(LEASE)}")
        self.rest("after the lease's end")

    def _next_request(self) -> None:
        """Another request is served with the same units."""
        self._demand(NEXT, self.sim.time.now + LONG, 6)
        self.sim.loop.advance(SETTLE)
        for _ in range(3):
            if self.state(NEXT) == "active":
                break
            self.sim.tick(1.0)
        if self.state(NEXT) != "active":
            self.say("lease", f"the next request is not served: {self.where(NEXT)}; this one: {self.where(LEASE)}")
        self.rest("after the next request")
        up = self.sim.up()
        if up != {"unit-0", "unit-1", BYSTANDER, NEXT} and not any(f.check == "lease" for f in self.outcome.findings):
            self.say("world", f"two leases run, and what is up is {sorted(up)}")
        if self.state(BYSTANDER) != "active":
            self.say("actor", f"the bystander's lease has not gone on: {self.where(BYSTANDER)}")

    def _close_all(self) -> None:
        """The other leases end too, also where the site would keep them; then nothing is left of any unit."""
        for lease in (BYSTANDER, NEXT):
            self.tell(SERVICE_MANAGER, SERVICE_MANAGER, lease, "close")
        self.sim.loop.advance(SETTLE)
        for _ in range(8):  # until the last term is over
            self.sim.tick(1.0)
        for lease in (LEASE, BYSTANDER, NEXT):
            if self.state(lease, AUTHORITY) == "active":
                self.tell(AUTHORITY, AUTHORITY, lease, "reclaim")
        self.sim.loop.advance(SETTLE)
        self.repair()
        self.rest("in the end")
        if up := self.sim.up():
            self.say("world", f"in the end, when no lease runs, what is up is {sorted(up)}")

    # Checks at rest

    def rest(self, when: str) -> None:
        """Policies and units, when nothing is left to do."""
        self._policies(when)
        self.check_overlaps()
        self.check_progress(self.monitor)
        up = self.sim.up()
        for words in self.sim.strays():
            self.say("world", f"{when} {words}")
        for n, unit in enumerate(self.sim.inventory.units):
            state = self.state(LEASE, f"unit[{n}]") or "idle"
            on = unit.name in up
            if on != (state == "active") and state in ("active", "idle", "closed"):
                self.say("world", f"{when} {unit.name} is {'up' if on else 'down'}, and its machine is {state}")
            if on and self.sim.serves(unit.name, BYSTANDER) and self.state(BYSTANDER) != "active":
                self.say("world", f"{when} {unit.name} is up for a lease that is over")

    def _policies(self, when: str) -> None:
        broker = self.sim.actors.get(self.sim.player[BROKER])
        site = self.sim.actors.get(self.sim.player[AUTHORITY])
        if broker is not None:
            leases = [broker.table.view(*key) for key in broker.table.instances]
            rebuilt = Calendar.rebuilt(leases)
            if self.sim.policy(BROKER).calendar != rebuilt:
                self.say("policy", f"{when} the calendar is {self.sim.policy(BROKER).calendar}, the records {rebuilt}")
            if self.sim.policy(BROKER).free != self.sim.policy(BROKER).capacity - rebuilt.held:
                self.say("policy", f"{when} the broker keeps a promise that nobody holds")
        if site is not None:
            fresh = type(self.sim.policy(AUTHORITY))(self.sim.inventory)
            for key in site.table.instances:
                if key.lease != BELOW:
                    fresh.recovered(site.table.view(*key))
            for n in sorted(self.sim.policy(AUTHORITY).free()):
                state = self.state(LEASE, f"unit[{n}]")
                if state not in ("", "idle", "closed"):
                    self.say("policy", f"{when} the site takes unit {n} for free, whose machine is {state}")
            if self.sim.policy(AUTHORITY).free() != fresh.free():
                free, says = sorted(self.sim.policy(AUTHORITY).free()), sorted(fresh.free())
                self.say("policy", f"{when} the site takes {free} for free, the records say {says}")

    # Observations

    def _demand(self, lease: str, until: int, term: int) -> None:
        try:
            self.sim.wish("demand", lease, 1, until, term)
        except ActorError as error:
            self.say("lease", f"{lease} cannot be asked for: {error}")

    def view(self) -> dict[str, Any]:
        """The states of the lease's machines, and their data."""
        machines = (SERVICE_MANAGER, BROKER, AUTHORITY, "unit[1]")
        return {m: (self.state(LEASE, m), self.data(LEASE, m)) if self.state(LEASE, m) else None for m in machines}

    def _runs(self, lease: str) -> bool:
        held = self.sim.held(lease, SERVICE_MANAGER)
        return held is not None and not held.core.over(held.state)

    def _end_of(self, lease: str) -> int:
        return int(self.data(lease).get("lease_end", 0))
