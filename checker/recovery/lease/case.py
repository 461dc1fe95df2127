"""One case of the lease replayed by real actors, and the checks of what follows.

Theory of operation. Before the script begins, a bystander holds a lease of its own at the same actors. Then the script
is replayed, with its crash, and once more without: the *reference*. After the restart everything happens by itself
again: messages arrive, policies and handlers answer, and no time passes at first. Where no message is lost, those that
were delivered before are delivered once more. CHECKS (run.py) lists what is checked then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from leasehold.checker.recovery.cases.case import CaseRun
from leasehold.checker.recovery.cases.replay import Replayer
from leasehold.checker.recovery.cases.steps import Machine, Script
from leasehold.checker.recovery.events import CommittedEvents
from leasehold.checker.recovery.lease.run import AUTHORITY, BROKER, SERVICE_MANAGER, LeaseRun
from leasehold.checker.recovery.lease.simulation import LeaseSimulation
from leasehold.checker.recovery.monitor import PropertyMonitor
from leasehold.checker.recovery.properties import RunProperties
from leasehold.impl.actor.environment import ActorError
from leasehold.impl.actor.table import BELOW
from leasehold.impl.core.core import Named, Program
from leasehold.impl.lease.calendar import Calendar
from leasehold.spec.language import types as t

BYSTANDER, LEASE, NEXT = f"{SERVICE_MANAGER}:1", f"{SERVICE_MANAGER}:2", f"{SERVICE_MANAGER}:3"
LONG = 1_000  # ticks: later than any case ends
SETTLE = 5.0  # seconds within which all messages of one tick are exchanged
SHIFT = 1  # the units that the bystander has come first, so the script's have greater numbers by this


class LeaseReplayer(Replayer):
    """Replays a script for the lease beside the bystander's."""

    def machine(self, machine: Machine) -> str:
        role, instance = machine
        core = self.sim.program.roles[role]
        return core.machine(instance + SHIFT if core.subsidiary else instance)

    def fields(self, shape: Named, values: tuple[Any, ...]) -> tuple[Any, ...]:
        shifted: list[Any] = []
        for (_, kind), value in zip(shape, values, strict=True):
            units = isinstance(kind, t.Set) and isinstance(kind.of, t.Instance)
            if isinstance(kind, t.Opaque):
                shifted.append({"script": value})  # other than what a record has at first
            elif isinstance(kind, t.Map):
                shifted.append((0,) * SHIFT + value)  # what is said of the bystander's units: nothing
            else:
                shifted.append(frozenset(n + SHIFT for n in value) if units else value)
        return tuple(shifted)


class LeaseCaseRun(CaseRun[LeaseSimulation], LeaseRun):
    """A run of one case of the lease.

    Args:
        program: compiled with a unit more than the script has.
        properties: of the same system.
        script, lost, second: as for every case.
        reference: without the crash.
        simulate: makes the simulation.
    """

    def __init__(
        self,
        program: Program,
        properties: RunProperties,
        script: Script,
        *,
        lost: bool = False,
        reference: bool = False,
        second: str | None = None,
        simulate: Callable[..., LeaseSimulation] = LeaseSimulation,
    ) -> None:
        simulation = simulate(program, units=int(program.constants["max_units"]))
        super().__init__(
            PropertyMonitor(CommittedEvents(simulation), properties, LEASE),
            LeaseReplayer(simulation, properties.system, script, LEASE),
            lost=lost,
            second=second,
        )
        self.reference = reference
        self._compared: LeaseCaseRun | None = None

    # Stages

    def compare_with(self, reference: LeaseCaseRun) -> None:
        """The run is compared with the reference."""
        self._compared = reference

    def stages(self) -> None:
        self.until_recovered()
        if self._compared is not None:
            self._compare(self._compared)
        self.rest("after the restart")
        for _ in range(2):
            self._extend()
        self._end()
        self._next_request()
        if self.sim.outside:
            self._close_all()

    def to_the_restart(self) -> None:
        """The bystander's lease, then the script."""
        self._demand(BYSTANDER, LONG, 9)
        self.sim.loop.advance(0.5)
        super().to_the_restart()

    def until_recovered(self) -> None:
        self.to_the_restart()
        self.at_once()

    def at_once(self) -> None:
        """All that happens before the next tick; the bystander renews its lease."""
        self.sim.release()
        self.redeliver()
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

    def redeliver(self) -> None:
        """Redelivers as any case does; in the reference nothing comes again."""
        if not self.reference:
            super().redeliver()

    def _settle(self) -> None:
        """Lets the actors exchange all messages of one tick, and restarts an actor that has stopped."""
        for _ in range(10):
            self.sim.loop.advance(SETTLE / 10)
            if self.second.stopped:
                self.second.restart()
                self.sim.loop.advance(SETTLE)

    def _compare(self, reference: LeaseCaseRun) -> None:
        ours, theirs = self.view(), reference.view()
        if ours == theirs:
            self.outcome.end = "same"
            return
        self.outcome.end = "ended"
        here, there = set(self.quarantined()), set(reference.quarantined())
        if len(here) > len(there):
            self.say("world", f"{len(here)} units are in quarantine, that are not without the crash")
        if any(self.state(BELOW, f"unit[{n}]") != "failed" for n in there - here):
            return  # the teardown that failed there was made again, and a lease that waits there for its unit got it
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
        self.tell(
            SERVICE_MANAGER,
            LEASE,
            "extend",
            {"units": 1, "end": end, "properties": {}, "configuration": {}, "local": {}},
        )
        self.redeliver()
        self.sim.loop.call(self.sim.network.release)
        self.sim.loop.advance(SETTLE)
        if (self.state(LEASE), self._end_of(LEASE)) != ("active", end):
            self.say("lease", f"it cannot be extended: {self.where(LEASE)}, until {self._end_of(LEASE)}, not {end}")

    def _end(self) -> None:
        """The lease ends, and its units come free."""
        if self.state(LEASE) in ("active", "active_ticketed", "joining"):
            self.tell(SERVICE_MANAGER, LEASE, "close")
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
        guests = {f"{BYSTANDER}/guest[0]", f"{NEXT}/guest[1]"}
        if up != {"unit-0", "unit-1", *guests} and not any(f.check == "lease" for f in self.outcome.findings):
            self.say("world", f"two leases run, and what is up is {sorted(up)}")
        if self.state(BYSTANDER) != "active":
            self.say("actor", f"the bystander's lease has not gone on: {self.where(BYSTANDER)}")

    def _close_all(self) -> None:
        """The other leases end too, also where the site would keep them; then nothing is left of any unit."""
        for lease in (BYSTANDER, NEXT):
            self.tell(SERVICE_MANAGER, lease, "close")
        self.sim.loop.advance(SETTLE)
        for _ in range(8):  # until the last term is over
            self.sim.tick(1.0)
        for lease in (LEASE, BYSTANDER, NEXT):
            if self.state(lease, AUTHORITY) == "active":
                self.tell(AUTHORITY, lease, "reclaim")
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
        for stray in self.sim.strays():
            self.say("world", f"{when} {stray}")
        for n, unit in enumerate(self.sim.inventory.units):
            state = self.state(LEASE, f"unit[{n}]") or "idle"
            on = unit.name in up
            if on != (state == "active") and state in ("active", "idle", "closed"):
                self.say("world", f"{when} {unit.name} is {'up' if on else 'down'}, and its machine is {state}")
            if on and self.sim.serves(unit.name, BYSTANDER) and self.state(BYSTANDER) != "active":
                self.say("world", f"{when} {unit.name} is up for a lease that is over")

    def _policies(self, when: str) -> None:
        broker = self.sim.actors.get(self.sim.players[BROKER])
        site = self.sim.actors.get(self.sim.players[AUTHORITY])
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
        machines = (SERVICE_MANAGER, BROKER, AUTHORITY, "unit[1]", "guest[1]")
        states = {m: self.state(LEASE, m) for m in machines}
        return {m: (state, _told(m, self.data(LEASE, m))) if state else None for m, state in states.items()}

    def _runs(self, lease: str) -> bool:
        instance = self.sim.held(lease, SERVICE_MANAGER)
        return instance is not None and not instance.core.over(instance.state)

    def _end_of(self, lease: str) -> int:
        return int(self.data(lease).get("lease_end", 0))


def _told(machine: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Data of a record without what handlers say: the script's answer and the handler's own differ."""
    omitted = {"reason", "lease_reason", "properties" if machine.startswith("unit") else "unit_properties"}
    return {name: value for name, value in data.items() if name not in omitted}
