"""A federation of the lease as processes: what its holders ask for, and its judge, who looks from outside.

Theory of operation. Holders ask brokers for units of some type, of a site or of any. Each actor is killed in turn,
while leases begin, are renewed and end. The judge reads /proc for the processes of units, and asks actors for what they
say:

1. a unit serves one lease at a time (outside.py, which looks all the time);
2. while a holder says that its lease is active, and its term lasts, so many units of the type that its ticket is for
   run for it at the site that the ticket names, and nowhere else;
3. no unit of a type and site is promised more often than there are, by all brokers together;
4. at the end all leases are over everywhere, and no process of a unit is left.

An observation is not of one moment, so what differs counts when it is seen again with the same records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from leasehold.checker.recovery.lease.processes.outside import Observer, UnitProcess, unit_processes
from leasehold.checker.recovery.lease.processes.unattended import SERVING, UnattendedRun
from leasehold.impl.lease.fleet import FederationFleet
from leasehold.impl.server.client import ClientError

SITES = {"east": {"node": 4, "disk": 2}, "west": {"node": 3, "gpu": 2}, "north": {"disk": 3, "gpu": 2}}
ABOVE = "market"  # who hands the units of all sites on to the others
BROKERS = {
    "bazaar": {"east": {"node": 2, "disk": 2}, "west": {"node": 3, "gpu": 1}, "north": {"disk": 1}},
    "stall": {"east": {"node": 2}, "west": {"gpu": 1}, "north": {"disk": 2, "gpu": 2}},
}
HOLDERS = ("anna", "ben", "cleo", "dan")
TERMS = (8, 10, 14)  # ticks


@dataclass(slots=True)
class FederationJudge:
    """Looks at a federation from outside, and collects violations in sentences."""

    fleet: FederationFleet
    violations: dict[str, None] = field(default_factory=dict)
    now: int = 0
    rows: dict[str, dict[str, dict[str, Any]] | None] = field(default_factory=dict)
    suspects: dict[str, object] = field(default_factory=dict)
    served: set[str] = field(default_factory=set)

    def observe(self) -> None:
        """Looks once, and checks."""
        for name in self.fleet.roles:
            client = self.fleet.client(name)
            try:
                self.now = max(self.now, client.get("about")["now"])
                self.rows[name] = {row["lease"]: row for row in client.get("leases")}
            except ClientError:
                self.rows[name] = None
        running: dict[str, list[UnitProcess]] = {}
        for process in unit_processes(self.fleet.folder.resolve()):
            if not process.guest and not process.starting:
                running.setdefault(process.lease, []).append(process)
        suspects = dict(self._not_as_ticketed(running))
        for violation, records in suspects.items():
            if violation in self.suspects and self.suspects[violation] == records:
                self.violations[violation] = None
        self.suspects = suspects
        self._promised()

    def _not_as_ticketed(self, running: dict[str, list[UnitProcess]]) -> Iterator[tuple[str, object]]:
        for holder in self.fleet.holders:
            for lease, row in (self.rows[holder] or {}).items():
                data = row["data"]
                if row["state"] == "active":
                    self.served.add(lease)
                if row["state"] not in SERVING or self.now >= data["lease_end"]:
                    continue
                wanted, site = data["type"], data["ticket_properties"]["authority"]
                units = {process.unit for process in running.get(lease, ())}
                fit = {unit for unit in units if unit.startswith(f"{site}-{wanted}-")}
                records = (data["lease_end"], data["lease_units"], data["ticket_end"], row["since"])
                if units - fit:
                    yield f"{lease} is for {wanted} at {site}, and has {', '.join(sorted(units - fit))}", records
                if row["state"] == "active" and len(fit) < len(data["lease_units"]):
                    number = len(data["lease_units"])
                    yield f"{lease} is active with {number} units of {wanted} at {site}, and {len(fit)} run", records

    def _promised(self) -> None:
        held: Counter[tuple[str, str]] = Counter()
        for broker in self.fleet.brokers:
            for row in (self.rows[broker] or {}).values():
                if not row["over"] and row["data"]["counted"] and isinstance(row["data"]["properties"], dict):
                    said = row["data"]["properties"]
                    held[said["authority"], said["type"]] += row["data"]["counted"]
        for (site, type), units in held.items():
            if units > self.fleet.sites.get(site, {}).get(type, 0):
                self.violations[f"{units} units of {type} at {site} are promised, more than it has"] = None

    def over(self, lease: str) -> bool:
        """Returns whether a lease is over at all actors that have it; all answer."""
        if any(rows is None for rows in self.rows.values()):
            return False
        return all(rows[lease]["over"] for rows in self.rows.values() if rows is not None and lease in rows)

    def states(self) -> str:
        """The states of all leases at all actors; they change while there is progress."""
        return repr([(name, {k: row["state"] for k, row in (of or {}).items()}) for name, of in self.rows.items()])

    def left(self) -> list[str]:
        """The processes of units that are there, in words."""
        folder = self.fleet.folder.resolve()
        return sorted(f"{process.unit} for {process.lease}" for process in unit_processes(folder))


class FederationRun(UnattendedRun):
    """A run of a federation: leases come and go, and each actor is killed once.

    Args:
        fleet: whose actors serve.
        rest: as `UnattendedRun` takes it.
    """

    together, least_open = 6, 2
    asking_seconds, killing_seconds = (0.2, 1.0), (1.0, 2.5)
    look_seconds, patience_seconds = 0.2, 120.0

    def __init__(
        self,
        fleet: FederationFleet,
        seed: int,
        leases: int,
        kill_each: bool,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        super().__init__([one for one in (fleet, fleet.delegating) if one is not None], seed, leases, kill_each, say)
        self.fleet, self.judge = fleet, FederationJudge(fleet)
        self.violations, self.served = self.judge.violations, self.judge.served

    @property
    def now(self) -> int:
        return self.judge.now

    def observe(self) -> None:
        self.judge.observe()

    def is_over(self, lease: str) -> bool:
        return self.judge.over(lease)

    def states(self) -> str:
        return self.judge.states()

    def left(self) -> list[str]:
        return self.judge.left()

    def run(self) -> None:
        observer = Observer(self.fleet.folder.resolve())
        observer.start()
        try:
            super().run()
        finally:
            observer.close()
        self.violations.update(observer.violations)

    def ask(self) -> None:
        pick = self.chance
        holder = pick.choice(self.fleet.holders)
        type = pick.choice(sorted({type for types in self.fleet.sites.values() for type in types}))
        site = pick.choice(["", *(site for site, types in self.fleet.sites.items() if type in types)])
        term, units = pick.choice(TERMS), pick.randint(1, 2)
        asked = {"units": units, "until": self.now + term * 2, "term": term, "type": type}
        words = f"{units} of {type}{f' at {site}' if site else ''}"
        lease = f"{holder}:{len(self.wanted) + 1}"
        self.demand(self.fleet.client(holder), lease, words, **asked, **({"site": site} if site else {}))
