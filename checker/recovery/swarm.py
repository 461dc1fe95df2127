"""Random runs: many leases, contention, and mixes of faults, with everything asked that holds in each of them.

Theory of operation. A plan (plan.py) is played on a simulation: clients and faults act at their ticks; then all faults
are over, demands end, and everything has to come to rest: no lease runs, no unit is up, and a last request is given
all units. While it runs, the invariants of every lease are asked at every commit (audit.py), and over all leases that
the broker promises no more units than there are, and that no two actions are at work on one unit.

Where clocks differ, some properties are known to fail (docs/findings.md), so the invariants are not asked then; but all
has to come to rest as well.
"""

from __future__ import annotations

import random
from contextlib import suppress
from functools import partial
from typing import Any

from leasehold.checker.recovery.audit import Auditor, Claims
from leasehold.checker.recovery.case import Finding
from leasehold.checker.recovery.journal import Journal
from leasehold.checker.recovery.plan import ACTORS, Act, Plan
from leasehold.faults.simulation.disk import DiskFault, FailingDisk, FailingStore
from leasehold.faults.simulation.loop import Livelock
from leasehold.faults.simulation.network import CALM, SCHEME, Weather
from leasehold.faults.simulation.simulation import Simulation
from leasehold.impl.actor.held import BELOW
from leasehold.impl.actor.setting import ActorError
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.core.core import Program
from leasehold.impl.notices import Crash, Kind, Notice
from leasehold.impl.policy.policy import Decision
from leasehold.impl.policy.service_manager import DemandError, FixedDemand
from leasehold.spec import load

TENANT, BROKER, SITE = ACTORS
TICK = 1.0  # seconds of a tick
REST = 40  # ticks within which everything has to be at rest once faults are over


class World:
    """The programs and claims of each setting, made when they are first needed."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, bool], tuple[Program, Claims]] = {}

    def of(self, units: int, lazy: bool) -> tuple[Program, Claims]:
        if (units, lazy) not in self._made:
            system = load("lease", {"max_units": units, "lazy_close": lazy, "handler_limit": 4})
            self._made[units, lazy] = compile_system(system), Claims(system)
        return self._made[units, lazy]


class Run:
    """One plan, played.

    Attributes:
        findings: what is not as it has to be.
        asked: how many states and steps the invariants were asked about.
        crashes: how many actors were stopped.
    """

    def __init__(self, plan: Plan, world: World, draw: str = "") -> None:
        """Takes the plan, and the lease of which a path is wanted."""
        self.plan = plan
        program, self.claims = world.of(plan.units, plan.lazy)
        self.chance = random.Random(plan.seed)
        self.disks = {name: FailingDisk(self.chance) for name in ACTORS}
        self.sim = Simulation(program, plan.seed, plan.units, store=lambda name: FailingStore(self.disks[name]))
        self.sim.disks = self.disks  # type: ignore[assignment]
        self.sim.units._delay, self.sim.units._fails = self._delay, self._fails
        self.journal = Journal(self.sim, draw) if draw else None
        self.findings: list[Finding] = []
        self.leases: list[str] = []
        self.auditors: list[Auditor] = []
        self.handler: tuple[str, int] = ("", 0)  # which verb fails (1) or takes its time (0)
        self.until: list[tuple[int, Any]] = []  # what ends at a tick
        self.crashes = 0
        self.down: dict[str, int] = {}  # when an actor restarts
        self.within: dict[str, tuple[int, int]] = {}  # after how many notices an actor stops, and for how long
        self.sim.subscribers.append(self._hear)

    @property
    def asked(self) -> int:
        return sum(auditor.asked for auditor in self.auditors)

    def say(self, check: str, words: str) -> None:
        if len(self.findings) < 6:
            self.findings.append(Finding(check, words))

    def play(self) -> list[Finding]:
        try:
            for number in sorted({act.who for act in self.plan.acts if act.kind == "demand"}):
                lease = f"{TENANT}:{number}"
                self.leases.append(lease)
                self.auditors.append(Auditor(self.sim, self.claims, lease))
            self.sim.start_all()
            for tick in range(self.plan.ticks):
                for act in self.plan.acts:
                    if act.tick == tick:
                        self._act(act)
                self._pass()
            self._calm()
            self._rest()
        except (Livelock, TimeoutError) as error:
            self.say("actor", f"it does not come to rest: {error}")
        skewed = any(act.kind == "skew" for act in self.plan.acts)
        for lease, auditor in zip(self.leases, self.auditors, strict=True):
            auditor.settle()
            for name, when in () if skewed else auditor.broken.items():
                self.say("invariant", f"{lease}: {name} does not hold {when}")
        for context in self.sim.loop.errors:
            raised = context.get("exception")
            if not isinstance(raised, Crash):
                self.say("error", f"{context.get('message')}: {raised!r}")
        self.crashes = self.sim.crashes
        self.sim.close()
        return self.findings

    # Time

    def _pass(self) -> None:
        """One tick."""
        self.sim.time.pass_on()
        for auditor in self.auditors:
            auditor.tick()
        now = self.sim.time.now
        self.sim.units.moved(now)
        for end in [end for at, end in self.until if at <= now]:
            end()
        self.until = [(at, end) for at, end in self.until if at > now]
        for part in range(4):
            self.sim.loop.advance(TICK / 4)
            for name in [n for n, at in self.down.items() if at <= now and (part or at < now)]:
                self._restart(name)
        self._over_all_leases()

    def _later(self, ticks: int, end: Any) -> None:
        self.until.append((self.sim.time.now + ticks, end))

    # Acts

    def _act(self, act: Act) -> None:
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
            case "cut":
                other, _, both = act.more.partition(" ")
                links = {(SCHEME + act.who, SCHEME + other)} | ({(SCHEME + other, SCHEME + act.who)} if both else set())
                self.sim.network.cut |= links
                self._later(act.numbers[0], partial(self.sim.network.cut.difference_update, links))
            case "weather":
                long, lose, twice, slow = act.numbers
                self.sim.network.weather = Weather(lose / 10, twice / 10, lose / 20, slow / 2)
                self._later(long, self._fine)
            case "disk":
                self.disks[act.who].fault = DiskFault[act.more]
                self._later(act.numbers[0], partial(self._repair_disk, act.who))
            case "skew":
                self.sim.clocks[act.who].ahead = act.numbers[0]
            case "handler":
                self.handler = act.more, act.numbers[1]
                self._later(act.numbers[0], self._handlers_work)

    def _client(self, act: Act) -> None:
        lease, numbers = f"{TENANT}:{act.who}", act.numbers
        if TENANT not in self.sim.actors:
            return

        def say(policy: Any, now: int) -> list[Any]:
            match act.kind:
                case "demand":
                    units, until, term = numbers
                    return list(policy.demand(lease, units, max(until, now + 1), term, now=now))
                case "flex":
                    return list(policy.flex(lease, numbers[0], now=now, soon=self.chance.random() < 0.5))
                case "prolong":
                    return list(policy.prolong(lease, max(numbers[0], now + 1), now=now))
                case _:
                    return list(policy.stop(lease, now=now))

        with suppress(ActorError, DemandError):  # the client hears that it cannot be, or that nobody knows
            self.sim.wish(say)

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
        except Crash:
            self._crash(name, 1)

    def _hear(self, notice: Notice) -> None:
        """Stops an actor amid its work."""
        if notice.actor not in self.within or notice.kind not in (Kind.COMMIT, Kind.COMMITTED, Kind.SEND, Kind.CALL):
            return
        left, ticks = self.within[notice.actor]
        if left > 1:
            self.within[notice.actor] = left - 1, ticks
            return
        del self.within[notice.actor]
        self.down.setdefault(notice.actor, self.sim.time.now + ticks)
        self.sim.loop.call_soon(self._take_away, notice.actor)
        raise Crash

    def _take_away(self, name: str) -> None:
        """The rest of an actor that has stopped goes."""
        actor = self.sim.actors.pop(name, None)
        if actor is not None:
            self.sim.gone(name, actor)

    def _fine(self) -> None:
        self.sim.network.weather = CALM

    def _repair_disk(self, name: str) -> None:
        self.disks[name].fault = None

    def _handlers_work(self) -> None:
        self.handler = "", 0

    def _delay(self, action: Any, chance: random.Random) -> int:
        return 2 if self.handler == (action.verb, 0) else 0

    def _fails(self, action: Any, chance: random.Random) -> bool:
        return self.handler == (action.verb, 1)

    # What has to be so

    def _over_all_leases(self) -> None:
        """What holds over all leases, at every tick."""
        broker = self.sim.actors.get(BROKER)
        if broker is not None:
            views = [broker.memory.view(*key) for key in broker.memory.held]
            promised = sum(v.data["units"] for v in views if v.state in ("ticketed", "extending"))
            if promised > self.plan.units:
                self.say("world", f"tick {self.sim.time.now}: {promised} units are promised of {self.plan.units}")
        if self.sim.units.overlaps:
            self.say("world", f"two actions on one unit at once: {self.sim.units.overlaps[0]}")

    def _calm(self) -> None:
        """Faults are over, everybody runs, and demands end."""
        self._fine()
        self._handlers_work()
        self.sim.network.cut.clear()
        for clock in self.sim.clocks.values():
            clock.ahead = 0
        self.within.clear()
        self.until.clear()
        for disk in self.disks.values():
            disk.fault = None
        for name in tuple(self.down):
            self._restart(name)
        for _ in range(3):
            self._pass()
        for lease in self.leases:
            with suppress(ActorError, DemandError):  # it is over, or was never asked for
                self.sim.wish(partial(_stop, lease))

    def _rest(self) -> None:
        """Everything ends, and a last request gets all units."""
        for _ in range(REST):
            self._pass()
            if all(self._over(lease) for lease in self.leases):
                break
        for lease in self.leases:
            if not self._over(lease):
                self.say("lease", f"{lease} does not end: {self._where(lease)}")
        self._repair_units()
        self.sim.loop.advance(TICK)
        last = f"{TENANT}:1000"
        now = self.sim.time.now
        self.sim.wish(lambda policy, now: list(policy.demand(last, self.plan.units, now + 500, 20, now=now)))
        for _ in range(8):
            self._pass()
            if self._state(last, TENANT) == "active":
                break
        held = self.sim.held(last, "service_manager")
        units = held.core.view(held.record)["lease_units"] if held is not None else 0
        if self._state(last, "service_manager") != "active" or units != self.plan.units:
            self.say("lease", f"from tick {now} on a request for all units gets {units}: {self._where(last)}")
        up = {unit.name for unit in self.sim.inventory.units if self.sim.units.units.get(unit.name) is not None
              and self.sim.units.units[unit.name].on and self.sim.units.units[unit.name].lease != last}  # fmt: skip
        if up:
            self.say("world", f"{', '.join(sorted(up))} are up for leases that are over")

    def _repair_units(self) -> None:
        site = self.sim.actors[SITE]
        for n, unit in enumerate(self.sim.inventory.units):
            held = self.sim.held("", f"unit[{n}]")
            if held is not None and held.core.view(held.record)["quarantined"]:
                self.sim.units.units[unit.name].on = False
                self.sim.loop.call(partial(site.tell, BELOW, f"unit[{n}]", "repaired", {}))

    def _over(self, lease: str) -> bool:
        over = all(
            self._state(lease, role) in ("", "nascent", "closed", "failed") for role in ("service_manager", BROKER)
        )
        held = self.sim.held(lease, "authority")
        kept = held is not None and self.sim.time.now >= held.core.view(held.record)["end"] and self.plan.lazy
        return over and (self._state(lease, "authority") in ("", "nascent", "closed") or kept)

    def _state(self, lease: str, machine: str) -> str:
        held = self.sim.held(lease, machine)
        return "" if held is None else held.state

    def _where(self, lease: str) -> str:
        return "/".join(self._state(lease, machine) or "-" for machine in ("service_manager", BROKER, "authority"))


def _stop(lease: str, policy: FixedDemand, now: int) -> list[Decision]:
    return list(policy.stop(lease, now=now))
