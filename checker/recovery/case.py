"""One case played by real actors, and what has to be so afterwards.

Theory of operation. Before the script begins, a bystander holds a lease of its own at the same actors. Then the script
is played, with its crash, and once more without: the *reference*. After the restart everything happens by itself again:
parcels come, policies and handlers answer, and no time passes at first. Where no parcel is lost, those that came before
come once more. What has to be so then, CHECKS says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from leasehold.checker.explore.result import Path
from leasehold.checker.recovery.again import SecondCrash
from leasehold.checker.recovery.audit import Auditor, Claims, Committed
from leasehold.checker.recovery.journal import Journal
from leasehold.checker.recovery.play import NotPlayed, Player, Role
from leasehold.checker.recovery.script import Script
from leasehold.faults.simulation.loop import Livelock
from leasehold.faults.simulation.simulation import Simulation
from leasehold.impl.actor.held import BELOW
from leasehold.impl.actor.setting import ActorError
from leasehold.impl.core.core import Program
from leasehold.impl.notices import Crash
from leasehold.impl.policy.calendar import Calendar
from leasehold.impl.policy.service_manager import DemandError

TENANT, BROKER, SITE = "service_manager", "broker", "authority"
BYSTANDER, LEASE, NEXT = f"{TENANT}:1", f"{TENANT}:2", f"{TENANT}:3"
CHECKS = {
    "drive": "The actors come to each state of the script as the model does.",
    "invariant": "Every property of the specification that can be asked of records holds throughout.",
    "lease": (
        "The lease comes to where it is without the crash, and can be extended once more if it runs; or it has ended, "
        "and its units serve the next request."
    ),
    "actor": "Another lease at the same actors is renewed at once after the restart, and goes on.",
    "policy": "The broker's calendar, and the units that the site takes for free, are what the records make of them.",
    "world": "The units that are up are those of machines that say so; none is acted on twice at once, none is left.",
    "record": "Who restarts has the records that it had committed, and all that goes with them.",
    "error": "Nothing is raised that nobody takes.",
}
LONG = 1_000  # ticks: later than any case ends
SETTLE = 5.0  # seconds in which everything that can be said at one tick is said


@dataclass(slots=True)
class Finding:
    """One thing that is not as it has to be."""

    check: str
    words: str


@dataclass(slots=True)
class Outcome:
    """What became of a case.

    Attributes:
        end: `same`, the lease came to where the reference came; `ended`, it is over instead.
        findings: empty where all is well.
        asked: how many states and steps the invariants were asked about.
        path: what the actors did, where that was wanted.
    """

    name: str
    end: str = ""
    findings: list[Finding] = field(default_factory=list)
    asked: int = 0
    path: Path | None = None

    @property
    def passed(self) -> bool:
        return not self.findings


class Played:
    """A case as it is played.

    Args:
        program: compiled with a unit more than the script has.
        claims: of the same system.
        script: the case.
        lost: parcels of the crashed actor that are under way are lost; else they come.
        reference: without the crash.
        second: where an actor stops once more, after the restart (again.py); None: nowhere.
        drawn: what the actors do is written down, as a path.
        simulate: makes the world that it is played in.
    """

    def __init__(
        self, program: Program, claims: Claims, script: Script, *, lost: bool = False, reference: bool = False,
        second: str | None = None, drawn: bool = False, simulate: Callable[..., Simulation] = Simulation,
    ) -> None:  # fmt: skip
        self.script, self.reference, self.lost = script, reference, lost
        self.sim = simulate(program, units=int(program.constants["max_units"]))
        self.auditor = Auditor(self.sim, claims, LEASE)
        self.committed = Committed(self.sim)
        self.journal = Journal(self.sim, LEASE) if drawn else None
        self.again = SecondCrash(self.sim, LEASE, second)
        self.sim.start_all()
        self.player = Player(self.sim, claims.system, script, Role(LEASE, TENANT))
        self.outcome = Outcome(script.name)

    def say(self, check: str, words: str) -> None:
        if len(self.outcome.findings) < 8:
            self.outcome.findings.append(Finding(check, words))

    # Acts

    def run(self, reference: Played | None = None) -> Outcome:
        """Plays all of it; with a reference, compares."""
        try:
            self._acts(reference)
        except NotPlayed as error:
            self.say("drive", str(error))
        except (Livelock, TimeoutError) as error:
            self.say("actor", f"it does not come to rest: {error}")
        self.auditor.settle()
        for name, when in self.auditor.broken.items():
            self.say("invariant", f"{name} does not hold {when}")
        for words in self.committed.lost:
            self.say("record", words)
        for context in self.sim.loop.errors:
            raised = context.get("exception")
            if not isinstance(raised, Crash):
                self.say("error", f"{context.get('message')}: {raised!r}")
        self.outcome.asked = self.auditor.asked
        return self.outcome

    def close(self) -> None:
        self.sim.close()

    def _acts(self, reference: Played | None) -> None:
        self.to_the_restart()
        self.at_once()
        if reference is not None:
            self._compare(reference)
        self.rest("after the restart")
        for _ in range(2):
            self._extend()
        self._end()
        self._next()
        if self.sim.outside:
            self._leave()

    def to_the_restart(self) -> None:
        """The bystander's lease, then the script."""
        self._demand(BYSTANDER, LONG, 6)
        self.sim.loop.advance(0.5)
        self.sim.hold()
        for n, step in enumerate(self.script.steps):
            if n == len(self.script.steps) - 1 and not self.reference:
                self.again.armed = True
            try:
                self.player.step(step, n, self.reference)
            except Crash:
                self.again.restart()
            if step.kind == "clock":
                self.auditor.tick()
            if step.kind == "recover" and step.machine is not None and not self.reference:
                self.committed.compare(self.sim.player[step.machine[0]])
            if self.lost and step.kind in ("crash", "stillborn") and not self.reference:
                self._lose(step.machine)

    def _lose(self, machine: Any) -> None:
        name = self.sim.player[machine[0]]
        for parcel in tuple(self.sim.network.under_way):
            ends = parcel.source.rpartition(":")[2], parcel.target.rpartition(":")[2]
            if name in ends and parcel.said["lease"] == LEASE:
                self.sim.network.lose(parcel)

    def at_once(self) -> None:
        """Everything that follows from where the actors are now, before the next tick; the bystander is renewed."""
        self.sim.release()
        self._say_all_again()
        before = self._end_of(BYSTANDER)
        self._flex()
        self._settle()
        self.again.armed = False
        if self._end_of(BYSTANDER) <= before or self._state(BYSTANDER) != "active":
            self.say("actor", f"the bystander's lease was not renewed: {self._where(BYSTANDER)}, until {before}")

    def _flex(self) -> None:
        """The bystander wants its lease renewed now; it says so again where the actor ends before it has heard it."""
        try:
            self.sim.wish(lambda policy, now: list(policy.flex(BYSTANDER, 1, now=now, soon=True)))
        except ActorError:
            if not self.again.struck:
                raise
            self.again.restart()
            self._flex()

    def _say_all_again(self) -> None:
        """What came before comes once more, the newest first; nobody may mind."""
        came = () if self.reference or self.lost else tuple(self.sim.network.brought)
        for parcel in reversed(came):
            self.sim.loop.call(partial(self.sim.network.deliver, parcel, False))

    def _settle(self) -> None:
        """Lets all be said that can be said at one tick, and restarts who has stopped meanwhile."""
        for _ in range(10):
            self.sim.loop.advance(SETTLE / 10)
            if self.again.struck:
                self.again.restart()
                self.sim.loop.advance(SETTLE)

    def _compare(self, reference: Played) -> None:
        ours, theirs = self.view(), reference.view()
        if ours == theirs:
            self.outcome.end = "same"
            return
        self.outcome.end = "ended"
        if self._quarantined() > reference._quarantined():
            self.say("world", f"{self._quarantined()} units are in quarantine, that are not without the crash")
        if self._runs(LEASE) or reference._runs(LEASE):
            differ = [f"{m}: {ours[m]}, not {theirs[m]}" for m in ours if ours[m] != theirs[m]]
            self.say("lease", "it did not come back to where it is without the crash: " + "; ".join(differ))

    def _extend(self) -> None:
        """One further extension, if the lease runs."""
        if self._state(LEASE) not in ("active", "active_ticketed"):
            return
        held = self.sim.held(LEASE, TENANT)
        assert held is not None
        data = held.core.view(held.record)
        end = max(data["ticket_end"], self.sim.time.now) + 2
        if self.sim.time.now >= data["lease_end"]:
            return
        actor = self.sim.actors[self.sim.player[TENANT]]
        self.sim.network.holds = True
        self.sim.loop.call(partial(actor.tell, LEASE, TENANT, "extend", {"units": 1, "end": end}))
        self._say_all_again()
        self.sim.loop.call(self.sim.network.release)
        self.sim.loop.advance(SETTLE)
        if (self._state(LEASE), self._end_of(LEASE)) != ("active", end):
            self.say("lease", f"it cannot be extended: {self._where(LEASE)}, until {self._end_of(LEASE)}, not {end}")

    def _end(self) -> None:
        """The lease ends, and its units come free."""
        if self._state(LEASE) in ("active", "active_ticketed", "joining"):
            actor = self.sim.actors[self.sim.player[TENANT]]
            self.sim.loop.call(partial(actor.tell, LEASE, TENANT, "close", {}))
            self.sim.loop.advance(SETTLE)
        for _ in range(8):
            if self._over():
                break
            self.sim.tick()
            self.auditor.tick()
            self.sim.loop.advance(1.0)
        self._repair()
        if not self._over():
            self.say("lease", f"it does not end: {self._where(LEASE)}")
        self.rest("after the lease's end")

    def _next(self) -> None:
        """Another request is served with the same units."""
        self._demand(NEXT, self.sim.time.now + LONG, 6)
        self.sim.loop.advance(SETTLE)
        for _ in range(3):
            if self._state(NEXT) == "active":
                break
            self.sim.tick(1.0)
        if self._state(NEXT) != "active":
            self.say("lease", f"the next request is not served: {self._where(NEXT)}; this one: {self._where(LEASE)}")
        self.rest("after the next request")
        up = self.sim.up()
        if up != {"unit-0", "unit-1", BYSTANDER, NEXT} and not any(f.check == "lease" for f in self.outcome.findings):
            self.say("world", f"two leases run, and what is up is {sorted(up)}")
        if self._state(BYSTANDER) != "active":
            self.say("actor", f"the bystander's lease has not gone on: {self._where(BYSTANDER)}")

    def _leave(self) -> None:
        """The other leases end too, also where the site would keep them; then nothing is left of any unit."""
        tenant, site = (self.sim.actors[self.sim.player[role]] for role in (TENANT, SITE))
        for lease in (BYSTANDER, NEXT):
            self.sim.loop.call(partial(tenant.tell, lease, TENANT, "close", {}))
        self.sim.loop.advance(SETTLE)
        for _ in range(8):  # until the last term is over
            self.sim.tick(1.0)
        for lease in (LEASE, BYSTANDER, NEXT):
            if self._state(lease, SITE) == "active":
                self.sim.loop.call(partial(site.tell, lease, SITE, "reclaim", {}))
        self.sim.loop.advance(SETTLE)
        self._repair()
        self.rest("in the end")
        if up := self.sim.up():
            self.say("world", f"in the end, when no lease runs, what is up is {sorted(up)}")

    # What has to be so at rest

    def rest(self, when: str) -> None:
        """Policies and units, when nothing is left to do."""
        self._policies(when)
        if self.sim.units.overlaps:
            self.say("world", f"two actions on one unit at once: {self.sim.units.overlaps[0]}")
        up = self.sim.up()
        for words in self.sim.strays():
            self.say("world", f"{when} {words}")
        for n, unit in enumerate(self.sim.inventory.units):
            held = self.sim.held(LEASE, f"unit[{n}]")
            state = held.state if held is not None else "idle"
            on = unit.name in up
            if on != (state == "active") and state in ("active", "idle", "closed"):
                self.say("world", f"{when} {unit.name} is {'up' if on else 'down'}, and its machine is {state}")
            if on and self.sim.serves(unit.name, BYSTANDER) and self._state(BYSTANDER) != "active":
                self.say("world", f"{when} {unit.name} is up for a lease that is over")

    def _policies(self, when: str) -> None:
        broker = self.sim.actors.get(self.sim.player[BROKER])
        site = self.sim.actors.get(self.sim.player[SITE])
        if broker is not None:
            leases = [broker.memory.view(*key) for key in broker.memory.held]
            rebuilt = Calendar.rebuilt(leases)
            if self.sim.policy(BROKER).calendar != rebuilt:
                self.say("policy", f"{when} the calendar is {self.sim.policy(BROKER).calendar}, the records {rebuilt}")
            if self.sim.policy(BROKER).free != self.sim.policy(BROKER).capacity - rebuilt.held:
                self.say("policy", f"{when} the broker keeps a promise that nobody holds")
        if site is not None:
            fresh = type(self.sim.policy(SITE))(self.sim.inventory)
            for key in site.memory.held:
                if key.lease != BELOW:
                    fresh.recovered(site.memory.view(*key))
            for n in sorted(self.sim.policy(SITE).free()):
                held = self.sim.held(LEASE, f"unit[{n}]")
                if held is not None and held.state not in ("idle", "closed"):
                    self.say("policy", f"{when} the site takes unit {n} for free, whose machine is {held.state}")
            if self.sim.policy(SITE).free() != fresh.free():
                free, says = sorted(self.sim.policy(SITE).free()), sorted(fresh.free())
                self.say("policy", f"{when} the site takes {free} for free, the records say {says}")

    # Looking

    def _demand(self, lease: str, until: int, term: int) -> None:
        try:
            self.sim.wish(lambda policy, now: list(policy.demand(lease, 1, until, term, now=now)))
        except DemandError as error:
            self.say("lease", f"{lease} cannot be asked for: {error}")

    def view(self) -> dict[str, Any]:
        """Where the machines of the lease are, and their data."""
        found: dict[str, Any] = {}
        for machine in (TENANT, BROKER, SITE, "unit[1]"):
            held = self.sim.held(LEASE, machine)
            found[machine] = None if held is None else (held.state, held.core.view(held.record))
        return found

    def _state(self, lease: str, machine: str = TENANT) -> str:
        held = self.sim.held(lease, machine)
        return "" if held is None else held.state

    def _quarantined(self) -> int:
        held = (self.sim.held(LEASE, f"unit[{n}]") for n in range(len(self.sim.inventory)))
        return sum(h.core.view(h.record)["quarantined"] for h in held if h is not None)

    def _runs(self, lease: str) -> bool:
        held = self.sim.held(lease, TENANT)
        return held is not None and not held.core.over(held.state)

    def _end_of(self, lease: str) -> int:
        held = self.sim.held(lease, TENANT)
        return 0 if held is None else int(held.core.view(held.record)["lease_end"])

    def _where(self, lease: str) -> str:
        return "/".join(self._state(lease, machine) or "-" for machine in (TENANT, BROKER, SITE))

    def _over(self) -> bool:
        """Whether service manager and broker are done with the lease; the site may keep it until it is asked."""
        if self._runs(LEASE) or self._state(LEASE, BROKER) not in ("", "closed", "nascent"):
            return False
        held = self.sim.held(LEASE, SITE)
        kept = held is not None and self.sim.time.now >= held.core.view(held.record)["end"]
        return self._state(LEASE, SITE) in ("", "nascent", "closed") or kept

    def _repair(self) -> None:
        """An operator sees to units that are in quarantine."""
        actor = self.sim.actors.get(self.sim.player[SITE])
        for n in range(len(self.sim.inventory)):
            held = self.sim.held(LEASE, f"unit[{n}]")
            if actor is not None and held is not None and held.core.view(held.record)["quarantined"]:
                self.sim.repair(self.sim.inventory.units[n].name)
                self.sim.loop.call(partial(actor.tell, BELOW, f"unit[{n}]", "repaired", {}))
