"""The oracle of a fleet of the lease: observes it from outside, and checks the observations.

Theory of operation. The oracle asks the three actors for their records, and reads /proc for the processes of the
site's units. These are not of one moment, so a difference between two of them counts as a violation only when it is
seen again in the next observation with the same records. The rules, after the paper's invariants (Table 1):

1. a unit serves one lease at a time;
2. the broker has promised no more units than there are;
3. as long as a lease has its units, their processes live on: the same ones, whichever actor crashes meanwhile;
4. while the holder says that its lease is active and its term lasts, all its units run, but for those that it knows to
   be lost.

Between two observations an observer looks all the time who uses which unit (outside.py). At the end no lease goes on,
and no process of a unit is left but those of an expired lease: the site keeps it until its units are needed, if no
message told it of the end (lazy close; paper, section 4.2.1).

The actors' events are another witness: `hear` takes what a verifier of the fleet has found in them.

Who kills the process of a unit says so (`killed`): that unit may be without a process, or have another one. Whether it
is set up again in time is judged by losses.py.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from leasehold.checker.recovery.lease.processes.outside import Observer
from leasehold.checker.recovery.processes.verifier import FleetVerifier
from leasehold.impl.handlers.handler import HandlerError
from leasehold.impl.lease.fleet import BROKER, ROLES, SITE, TENANT, Fleet
from leasehold.impl.server.client import ClientError
from leasehold.impl.words import counted

GRACE_SECONDS = 5.0  # for a holder that was down to make its guests leave
LATE_SECONDS = 0.3  # within which an end counts as kept


@dataclass(slots=True)
class Observation:
    """An observation of a fleet.

    Attributes:
        now: the clock, in ticks.
        abouts: what each actor says of itself; None: it did not answer.
        leases: each actor's leases by name; None: it did not answer.
        units: the processes of units that run: pid, start, lease.
    """

    now: int = 0
    abouts: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    leases: dict[str, dict[str, dict[str, Any]] | None] = field(default_factory=lambda: dict.fromkeys(ROLES))
    units: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def states(self) -> list[Any]:
        """The states and data of all leases; they change while there is progress."""
        return [
            (name, lease, row["state"], row["data"])
            for name, leases in self.leases.items()
            for lease, row in (leases or {}).items()
        ]

    def row(self, actor: str, lease: str) -> dict[str, Any] | None:
        """A lease at an actor; None where it has none, or does not answer."""
        return (self.leases[actor] or {}).get(lease)

    def state(self, actor: str, lease: str) -> str:
        row = self.row(actor, lease)
        return "" if row is None else str(row["state"])

    def assigned(self) -> dict[str, str]:
        """The lease that each unit serves, as the site has it."""
        rows = (self.leases[SITE] or {}).items()
        return {f"unit-{n}": lease for lease, row in rows for n in row["data"]["assigned"]}

    def running(self) -> dict[str, str]:
        """The lease that each unit's process runs for."""
        return {name: unit["lease"] for name, unit in self.units.items()}


class Oracle:
    """Observes a fleet, and collects violations in sentences.

    Attributes:
        last: the last observation.
        killed: processes of units that were killed from outside, each by its number and start.
        extensions: how often a lease's end moved.
        observer: looks who uses which unit, between `watch` and `close`.
    """

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.last = Observation()
        self.violations: list[str] = []
        self.killed: set[tuple[int, int]] = set()
        self.extensions = 0
        self.observer = Observer(fleet.folder.resolve(), lambda: time.monotonic() < self._excused_until, self._end_of)
        self._excused_until = 0.0
        self._births: dict[tuple[str, str], tuple[int, int]] = {}
        self._suspects: dict[str, object] = {}
        self._over: set[str] = set()
        self._ends: dict[str, int] = {}

    def __enter__(self) -> Oracle:
        self.observer.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.observer.close()

    def excuse_holder(self) -> None:
        """The holder is down: it has a while to make its guests leave."""
        self._excused_until = time.monotonic() + GRACE_SECONDS

    def _end_of(self, lease: str) -> float | None:
        row = self.last.row(SITE, lease)
        return None if row is None else row["data"]["end"] * self.fleet.tick_seconds + LATE_SECONDS

    def say(self, violation: str) -> None:
        """Adds a violation."""
        if violation not in self.violations:
            self.violations.append(violation)

    def hear(self, verifier: FleetVerifier) -> None:
        """Takes what the actors' events show: properties that are violated, and steps that are not allowed."""
        for complaint in verifier.complaints:
            self.say(complaint)

    def observe(self) -> Observation:
        """Observes once, and checks."""
        seen = Observation(self.last.now)
        for name in ROLES:
            client = self.fleet.client(name)
            try:
                seen.abouts[name] = client.get("about")
                seen.leases[name] = {row["lease"]: row for row in client.get("leases")}
            except ClientError:
                seen.abouts[name] = seen.leases[name] = None
        seen.now = max([seen.now, *(about["now"] for about in seen.abouts.values() if about)])
        for place in self.fleet.unit_places():
            try:
                birth = place.birth()
            except HandlerError as error:
                self.say(str(error))
                continue
            if birth and place.alive():
                seen.units[place.folder.name] = birth
        self._one_lease_each(seen)
        self._live_on(seen)
        self._run_while_active(seen)
        for lease, row in (seen.leases[TENANT] or {}).items():
            end, before = row["data"]["lease_end"], self._ends.get(lease, 0)
            self.extensions += before and end > before
            self._ends[lease] = max(end, before)
        self.last = seen
        for violation in [*self.observer.violations]:
            self.say(violation)
        return seen

    def _one_lease_each(self, seen: Observation) -> None:
        holder: dict[int, str] = {}
        for lease, row in (seen.leases[SITE] or {}).items():
            for unit in row["data"]["assigned"]:
                if unit in holder:
                    self.say(f"unit-{unit} is assigned to {holder[unit]} and {lease} at once")
                holder[unit] = lease
        rows = (seen.leases[BROKER] or {}).values()
        promised = sum(row["data"]["units"] for row in rows if not row["over"])
        if promised > self.fleet.units:
            self.say(f"{promised} units are promised, and there are {self.fleet.units}")

    def _live_on(self, seen: Observation) -> None:
        births = {(unit["lease"], name): (unit["pid"], unit["start"]) for name, unit in seen.units.items()}
        for (lease, name), birth in births.items():
            before = self._births.get((lease, name))
            if before is not None and before != birth and before not in self.killed:
                self.say(f"{name} of {lease} was process {before[0]}, and is now {birth[0]}")
        # As long as the unit is the lease's, also while the site is away, it must be the process that it was.
        # A holder that has not heard yet that its site has let go of a unit that was killed cannot know better.
        kept = {
            key: birth
            for key, birth in self._births.items()
            if self._still_has(seen, *key) or (birth in self.killed and self._still_knows(seen, *key))
        }
        self._births = {**kept, **births}

    def _still_has(self, seen: Observation, lease: str, unit: str) -> bool:
        row = seen.row(SITE, lease)
        has = row is not None and not row["over"] and int(unit.rpartition("-")[2]) in row["data"]["assigned"]
        return has or seen.leases[SITE] is None

    def _still_knows(self, seen: Observation, lease: str, unit: str) -> bool:
        row = seen.row(TENANT, lease)
        knows = row is not None and not row["over"] and int(unit.rpartition("-")[2]) in row["data"]["lease_units"]
        return knows or seen.leases[TENANT] is None

    def _run_while_active(self, seen: Observation) -> None:
        suspects: dict[str, object] = {}
        for lease, row in (seen.leases[TENANT] or {}).items():
            data = row["data"]
            meant = {f"unit-{n}" for n in data["lease_units"] if n not in data["lease_lost"]}
            meant -= {name for name in meant if self._births.get((lease, name)) in self.killed}
            running = sum(of == lease for name, of in seen.running().items() if name in meant)
            if row["state"] == "active" and seen.now < data["lease_end"] and running < len(meant):
                violation = f"{lease} is active with {counted(len(meant), 'unit')}, and {running} run"
                suspects[violation] = (data["lease_end"], row["since"])
                if self._suspects.get(violation) == suspects[violation]:
                    self.say(violation)
        self._suspects = suspects

    # At rest, and at the end

    def agrees(self, seen: Observation) -> str:
        """Empty where the processes are what the site says; else what differs."""
        if seen.leases[SITE] is None:
            return "the site does not answer"
        assigned, running = seen.assigned(), seen.running()
        return "" if assigned == running else f"the site has assigned {assigned}, and {running} run"

    def one_each(self, seen: Observation) -> str:
        """Empty where each unit that runs is one process, and no other is left; else what is there."""
        left = [
            f"{place.folder.name} is {len(members)} processes"
            for place in self.fleet.unit_places()
            if len(members := place.members(thorough=True)) != (place.folder.name in seen.units)
        ]
        return "; ".join(left)

    def over(self, lease: str) -> bool:
        """Returns whether a lease is, or was, over at all actors that have it."""
        if lease not in self._over:
            rows = [(name, leases.get(lease)) for name, leases in self.last.leases.items() if leases is not None]
            known = [(name, row) for name, row in rows if row is not None]
            if len(rows) == len(ROLES) and known and all(self._done(name, row) for name, row in known):
                self._over.add(lease)
        return lease in self._over

    def _done(self, name: str, row: dict[str, Any]) -> bool:
        """Returns whether a machine is at its end, or the site keeps an expired lease until its units are needed."""
        expired = max((row["data"][field] for field in row["times"]), default=0) <= self.last.now
        return bool(row["over"] or (name == SITE and expired))

    def at_the_end(self) -> None:
        """Checks what is left when all is over."""
        self.observer.close()
        self.observe()
        for name, leases in self.last.leases.items():
            for row in (leases or {}).values():
                if not self._done(name, row):
                    self.say(f"{row['lease']} is left at {name}, {row['state']}")
        kept = {row["lease"] for row in (self.last.leases[SITE] or {}).values() if not row["over"]}
        for name, unit in self.last.units.items():
            if unit["lease"] not in kept:
                self.say(f"the process of {name} is left")
        for place in self.fleet.guest_places():
            if place.alive():
                self.say(f"the guest {place.folder.name} is left")
