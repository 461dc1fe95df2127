"""Random runs: many leases that contend for units under mixes of faults, and the checks that hold in each of them.

Theory of operation. A plan (plan.py) is played in simulation: clients and faults act at their ticks; then all faults
are over, demands end, and the actors have to come to rest: no lease runs, no unit is up, and a last request gets all
units. During the run, the invariants of every lease are evaluated at every commit, and at every recovery the store is
compared with what was committed (monitor.py). Over all leases, the broker may not promise more units than there are,
no unit may have two actions at once, and guests run only on what is their lease's (use.py).

Where clocks differ, some properties are known to fail (docs/findings.md), so the invariants are not evaluated then; but
the actors have to come to rest as well.
"""

from __future__ import annotations

import random
from contextlib import suppress
from fractions import Fraction
from functools import cache, partial
from typing import Any

from leasehold.checker.explore import Path
from leasehold.checker.recovery.campaign import CaseOutcome
from leasehold.checker.recovery.events import CommittedEvents
from leasehold.checker.recovery.lease.random_runs.plan import ACTORS, PlannedEvent, RunPlan
from leasehold.checker.recovery.lease.run import BROKER, SERVICE_MANAGER, LeaseRun
from leasehold.checker.recovery.lease.simulation import LeaseSimulation
from leasehold.checker.recovery.lease.use import UseOfUnits
from leasehold.checker.recovery.monitor import DurabilityMonitor, PropertyMonitor
from leasehold.checker.recovery.properties import RunProperties
from leasehold.checker.recovery.simulated_run import MOST_LOST
from leasehold.faults.simulation.disk import DiskFault, FailingDisk, FailingStore
from leasehold.faults.simulation.loop import Livelock
from leasehold.faults.simulation.network import NO_FAULTS, NetworkConditions
from leasehold.faults.simulation.schedule import CRASH_POINTS
from leasehold.impl.actor.environment import ActorError
from leasehold.impl.actor.table import BELOW
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.core.core import Program
from leasehold.impl.notices import Notice, SimulatedCrash
from leasehold.spec import load

TICK = 1.0  # seconds of a tick
REST = 40  # ticks within which everything has to be at rest once faults are over
LIMIT, LONG = 4, 6  # ticks after which a handler is given up, and that one takes which is
GUEST_VERBS = ("join", "modify", "leave")


@cache
def compiled(units: int, lazy: bool) -> tuple[Program, RunProperties]:
    """The lease's program and properties in a setting."""
    limits = {"handler_limit": LIMIT, "guest_limit": LIMIT}
    system = load("lease", {"max_units": units, "lazy_close": lazy, "losses": True, "advance": True, **limits})
    return compile_system(system), RunProperties(system)


class RandomRun(LeaseRun):
    """A run of one plan."""

    def __init__(self, plan: RunPlan) -> None:
        self.plan = plan
        program, self.properties = compiled(plan.units, plan.lazy)
        self.chance = random.Random(plan.seed)
        self.disks = {name: FailingDisk(self.chance) for name in ACTORS}
        simulation = LeaseSimulation(program, plan.seed, plan.units, lambda name: FailingStore(self.disks[name]))
        super().__init__(CommittedEvents(simulation), self.properties, f"seed {plan.seed}")
        self.sim.disks = self.disks  # type: ignore[assignment]
        self.sim.units._delay, self.sim.units._fails = self._delay, self._fails
        self.leases: list[str] = []
        self.monitors: list[PropertyMonitor] = []
        self.committed = DurabilityMonitor(self.sim)
        self.handler: tuple[str, int] = ("", 0)  # which verb fails (1) or takes its time (0)
        self.skewed = any(act.kind == "skew" for act in self.plan.acts)
        self.use = UseOfUnits(self.sim, self._holder_cannot)
        self.able = 0  # from when on the holder's guests leave in time, as far as it is known
        self.until: list[tuple[int, Any]] = []  # what ends at a tick
        self.down: dict[str, int] = {}  # when an actor restarts
        self.within: dict[str, tuple[int, int]] = {}  # after how many notices an actor stops, and for how long
        self.sim.subscribers.append(self._hear)

    def play(self) -> CaseOutcome:
        try:
            for number in sorted({act.who for act in self.plan.acts if act.kind == "demand"}):
                lease = f"{SERVICE_MANAGER}:{number}"
                self.leases.append(lease)
                self.watch(lease)
            self.sim.start_all()
            for tick in range(self.plan.ticks):
                for act in self.plan.acts:
                    if act.tick == tick:
                        self._act(act)
                self._tick()
            self._end_faults()
            self._come_to_rest()
        except (Livelock, TimeoutError) as error:
            self.say("actor", f"it does not come to rest: {error}")
        for reason in self.committed.lost[:MOST_LOST]:  # properties may be broken for no other reason
            self.say("record", reason)
        for monitor in self.monitors:
            for name, when in () if self.skewed else monitor.broken.items():
                self.say("invariant", f"{monitor.lease}: {name} does not hold {when}")
        for reason in self.use.wrong:
            self.say("use", reason)
        self.report_steps()
        self.report_errors()
        self.outcome.asked = sum(monitor.asked for monitor in self.monitors)
        self.outcome.crashes = self.sim.crashes
        self.sim.close()
        return self.outcome

    def path(self, lease: str) -> Path | None:
        """The path of a lease; None: it never began."""
        return next((monitor.path() for monitor in self.monitors if monitor.lease == lease and monitor.cuts), None)

    def watch(self, lease: str) -> None:
        """The properties of a lease are evaluated from now on."""
        self.monitors.append(PropertyMonitor(self.commits, self.properties, lease))

    # Time

    def _tick(self) -> None:
        """One tick."""
        self.sim.time.advance()
        for monitor in self.monitors:
            monitor.tick()
        now = self.sim.time.now
        self.sim.units.moved(now)
        self._holder_cannot()
        for end in [end for at, end in self.until if at <= now]:
            end()
        self.until = [(at, end) for at, end in self.until if at > now]
        for part in range(4):
            self.sim.loop.advance(TICK / 4)
            for name in [n for n, at in self.down.items() if at <= now and (part or at < now)]:
                self._restart(name)
        self._over_all_leases()
        self.use.tick()
        for monitor in () if self.skewed else self.monitors:
            self.check_progress(monitor)

    def _holder_cannot(self) -> bool:
        """Returns whether a holder that does all it can may be late.

        It may where clocks are skewed, where it is down or was, and where its guests' handlers fail or did.
        """
        holder_up = SERVICE_MANAGER in self.sim.actors and self.disks[SERVICE_MANAGER].fault is None
        if not holder_up or self.handler[0] in GUEST_VERBS:
            self.able = self.sim.time.now + LONG + 1
        return self.skewed or self.sim.time.now < self.able

    def _later(self, ticks: int, end: Any) -> None:
        self.until.append((self.sim.time.now + ticks, end))

    # Acts

    def _act(self, act: PlannedEvent) -> None:
        match act.kind:
            case "demand" | "flex" | "prolong" | "stop":
                self._client(act)
            case "crash":
                self._crash(act.who, act.numbers[0])
            case "crash_within":
                self.within[act.who] = act.numbers[0], act.numbers[1]
            case "power":
                for name in ACTORS:
                    self._crash(name, act.numbers[0])
            case "cut" | "partition":
                self._later(act.numbers[0], self.sim.network.part(act.partition.links))
            case "weather":
                long, lose, twice, slow = act.numbers
                self.sim.network.conditions = NetworkConditions(lose / 10, twice / 10, lose / 20, slow / 2)
                self._later(long, partial(setattr, self.sim.network, "conditions", NO_FAULTS))
            case "disk":
                self.disks[act.who].fault = DiskFault[act.more]
                self._later(act.numbers[0], partial(setattr, self.disks[act.who], "fault", None))
            case "skew":
                self.sim.clocks[act.who].ahead = act.numbers[0]
            case "drift":
                self.sim.clocks[act.who].rate = 1 + Fraction(act.numbers[0], 100)
            case "lose":
                self._lose(*act.numbers)
            case "handler":
                self.handler = act.more, act.numbers[1]
                self._later(act.numbers[0], partial(setattr, self, "handler", ("", 0)))

    def _lose(self, number: int, soon: int) -> None:
        """A unit is not up any more; a detector, or else a probe two ticks later, tells the site."""
        if number >= len(self.sim.inventory) or (name := self.sim.inventory.units[number].name) not in self.sim.up():
            return
        self.sim.units.lose(name)
        if soon:
            self._tell_lost(number)
        else:
            self._later(2, partial(self._tell_lost, number))

    def _tell_lost(self, number: int) -> None:
        """The site hears that a unit is lost, if it runs and the unit is not up again."""
        instance = self.sim.held(BELOW, f"unit[{number}]")
        lost = self.sim.inventory.units[number].name not in self.sim.up()
        if instance is not None and instance.state == "active" and lost:
            self.tell(f"unit[{number}]", BELOW, "lost")

    def _client(self, act: PlannedEvent) -> None:
        lease, numbers = f"{SERVICE_MANAGER}:{act.who}", act.numbers
        if SERVICE_MANAGER not in self.sim.actors:
            return

        later = self.sim.actors[SERVICE_MANAGER].clock.now() + 1
        with suppress(ActorError):  # the client hears that it cannot be, or that nobody knows
            match act.kind:
                case "demand":
                    units, until, term, *start = numbers
                    until = max(until, later)
                    self.sim.wish("demand", lease, units, until, term, start=min(sum(start), until - 1))
                case "flex":
                    unit_numbers = sorted(self.data(lease).get("lease_units", ()))
                    given = self.chance.sample(
                        unit_numbers, self.chance.randint(0, max(0, len(unit_numbers) - numbers[0]))
                    )
                    self.sim.wish("flex", lease, numbers[0], soon=self.chance.random() < 0.5, victims=given)
                case "prolong":
                    self.sim.wish("prolong", lease, max(numbers[0], later))
                case _:
                    self.sim.wish("stop", lease)

    def _crash(self, name: str, ticks: int) -> None:
        if name in self.sim.actors:
            self.sim.crash(name)
        if name not in self.down:
            self.down[name] = self.sim.time.now + ticks

    def _restart(self, name: str) -> None:
        if self.disks[name].fault is not None:
            return  # it would not start, and is tried again
        del self.down[name]
        try:
            self.sim.start(name)
        except SimulatedCrash:
            self._crash(name, 1)

    def _hear(self, notice: Notice) -> None:
        """Stops an actor amid its work."""
        if notice.actor not in self.within or notice.kind not in CRASH_POINTS:
            return
        left, ticks = self.within[notice.actor]
        if left > 1:
            self.within[notice.actor] = left - 1, ticks
            return
        del self.within[notice.actor]
        self.down.setdefault(notice.actor, self.sim.time.now + ticks)
        self.sim.loop.call_soon(self._take_away, notice.actor)
        raise SimulatedCrash

    def _take_away(self, name: str) -> None:
        """The rest of an actor that has stopped goes."""
        actor = self.sim.actors.pop(name, None)
        if actor is not None:
            self.sim.gone(name, actor)

    def _delay(self, action: Any, chance: random.Random) -> int:
        return (2 if chance.random() < 0.8 else LONG) if self.handler == (action.verb, 0) else 0

    def _fails(self, action: Any, chance: random.Random) -> bool:
        return self.handler == (action.verb, 1)

    # Checks

    def _over_all_leases(self) -> None:
        """Checks what must hold over all leases, at every tick."""
        broker = self.sim.actors.get(BROKER)
        if broker is not None:
            views = [broker.table.view(*key) for key in broker.table.instances]
            tickets = [v.data for v in views if v.state in ("ticketed", "extending")]
            now = self.sim.time.now
            for at in range(now, max((d["term_end"] for d in tickets), default=now)):
                promised = sum(d["counted"] for d in tickets if d["start"] <= at < d["term_end"])
                if promised > self.plan.units:
                    self.say("world", f"tick {now}: {promised} units are promised of {self.plan.units} at {at}")
                    break
        self.check_overlaps()

    def _end_faults(self) -> None:
        """Faults are over, everybody runs, and demands end."""
        self.sim.network.conditions = NO_FAULTS
        self.handler = "", 0
        self.sim.network.cut.clear()
        for clock in self.sim.clocks.values():
            clock.correct()
        self.within.clear()
        self.until.clear()
        for disk in self.disks.values():
            disk.fault = None
        for name in tuple(self.down):
            self._restart(name)
        for _ in range(3):
            self._tick()
        for lease in self.leases:
            with suppress(ActorError):  # it is over, or was never asked for
                self.sim.wish("stop", lease)

    def _come_to_rest(self) -> None:
        """Everything ends, and a last request gets all units."""
        for _ in range(REST):
            self._tick()
            if all(self.over(lease) for lease in self.leases):
                break
        for lease in self.leases:
            if not self.over(lease):
                self.say("lease", f"{lease} does not end: {self.where(lease)}")
        self.repair()
        self.sim.loop.advance(TICK)
        last = f"{SERVICE_MANAGER}:1000"
        now = self.sim.time.now
        self.sim.wish("demand", last, self.plan.units, now + 500, 20)
        for _ in range(8):
            self._tick()
            if self.state(last) == "active":
                break
        units = len(self.data(last).get("lease_units", ()))
        if self.state(last) != "active" or units != self.plan.units:
            self.say("lease", f"from tick {now} on a request for all units gets {units}: {self.where(last)}")
        up = {
            unit.name
            for unit in self.sim.inventory.units
            if self.sim.units.units.get(unit.name) is not None
            and self.sim.units.units[unit.name].on
            and self.sim.units.units[unit.name].lease != last
        }
        if up:
            self.say("world", f"{', '.join(sorted(up))} are up for leases that are over")
