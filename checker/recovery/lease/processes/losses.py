"""Units that are killed from outside: the faults that do so, and the judge of what becomes of each.

Theory of operation. A unit is a process group with a file that says which process it is and for which lease; /proc says
whether that one runs. A unit is killed only when its holder knows this very process, so every loss is news for it. Of
each loss the judge awaits one of three ends, and that the holder is told:

repaired  another process is the unit, for the same lease;
replaced  the lease has the unit no more, and another one that it did not have runs for it;
let go    the lease has the unit no more, and needs no other: it is over, or as small as its ticket; or it may have no
          other: the site has none that is free, or has replaced units for this ticket as often as the settings say.

The holder has been told when its record has the unit among the lost ones, or not at all, or with another process. What
takes longer than the limit is a violation; time in which an actor is down or parted from another does not count, as a
site that is down repairs nothing, and one that is cut off tells nothing. Of a unit that was killed nothing may be left
when it is the lease's no more, or is up again; the judge knows a unit's processes by their working directory, which the
units' handler does not look at.

Nothing runs on a machine that is down. Where a fleet has guests, whose processes are none of the unit's, those of a
lease are killed with its unit, and those that its holder begins there before it has heard are, too.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from leasehold.checker.recovery.lease.processes.oracle import Observation, Oracle
from leasehold.checker.recovery.lease.processes.outside import unit_processes
from leasehold.checker.recovery.processes.faults import PREVIOUS, FaultScript, Kind, ProcessFault, Until
from leasehold.checker.recovery.processes.rig import Rig
from leasehold.impl.handlers import processes
from leasehold.impl.handlers.place import UnitDirectory
from leasehold.impl.lease.fleet import SITE, TENANT

REPAIRED, REPLACED, LET_GO = "repaired", "replaced", "let go"
REPLACEMENTS = 2
FIRST_SECONDS, PAUSE_SECONDS = 2.0, 0.6  # before the first loss, and between two, on average
WHOLE, LEADER = "all processes", "first process"  # of a unit that dies


def losses_of(chance: random.Random) -> Iterator[ProcessFault]:
    """A script without end, in which units die one at a time."""
    pause = FIRST_SECONDS
    while True:
        yield ProcessFault("unit", how=chance.choice([WHOLE, LEADER]), step=PREVIOUS, after=pause)
        pause = chance.expovariate(1 / PAUSE_SECONDS)


def reboots_of(count: int, within: float) -> list[ProcessFault]:
    """A script in which all units die at once, so often."""
    return [ProcessFault("host", step=PREVIOUS, after=within if n else FIRST_SECONDS) for n in range(count)]


@dataclass(slots=True)
class Loss:
    """A unit that was killed.

    Attributes:
        process: its first process, by number and start.
        left: all processes that were the unit's, also those that were not killed.
        had: the units that the lease had.
        waited: seconds since, while all actors ran and reached one another.
        outcome: what became of it; empty: nothing yet.
        told: whether its holder knows.
        late: whether it took too long.
    """

    unit: str
    lease: str
    process: tuple[int, int]
    left: set[tuple[int, int]]
    had: set[str]
    waited: float = 0.0
    outcome: str = ""
    told: bool = False
    late: bool = False
    full: bool = False  # whether the site had no free unit meanwhile

    @property
    def number(self) -> int:
        return int(self.unit.rpartition("-")[2])

    @property
    def open(self) -> bool:
        return not self.late and not (self.outcome and self.told)


class Losses:
    """Kills units, and judges what becomes of them.

    Args:
        oracle: observes the fleet; it is told what was killed, and has the violations.
        seed: of all choices.
        within: seconds within which a unit is repaired or replaced, and its holder told.
        no_more: returns whether no more leases will come; else a host reboots only once half of its units run.
        starts: how many units may be started at once, where that counts.
    """

    def __init__(
        self,
        oracle: Oracle,
        seed: int,
        within: float,
        no_more: Callable[[], bool] = lambda: True,
        starts: int | None = None,
    ) -> None:
        self.oracle, self.fleet = oracle, oracle.fleet
        self.within, self._no_more, self._starts = within, no_more, starts
        self.losses: list[Loss] = []
        self.leaked = 0
        self._random = random.Random(f"losses {seed}")
        self._before = time.monotonic()
        self._calm = 0.0
        self._claimed: set[tuple[str, str]] = set()

    # Faults

    @property
    def kinds(self) -> Mapping[str, Kind]:
        return {"unit": self._unit_dies, "host": self._host_reboots}

    def _unit_dies(self, rig: Rig, fault: ProcessFault) -> FaultScript:
        """Some unit of which its holder knows dies: all of its processes, or the first one."""
        yield Until.DUE
        while not (places := self._known(self.oracle.last)) or time.monotonic() < self._calm:
            yield Until.DUE
        place = self._random.choice(places)
        if self.lose(place, whole=fault.how == WHOLE):
            rig.say(f"{place.folder.name} of {self.losses[-1].lease} is dead")
        return ""

    def _host_reboots(self, rig: Rig, fault: ProcessFault) -> FaultScript:
        """All units die at once; others do not die before there was time to repair them."""
        yield Until.DUE
        while not (places := self._known(self.oracle.last)) or not (
            self._no_more() or 2 * len(places) >= self.fleet.units
        ):
            yield Until.DUE
        self._calm = time.monotonic() + self.within
        lost = [place for place in places if self.lose(place, whole=True)]
        rig.say(f"the host reboots: {len(lost)} units are dead")
        return ""

    def _known(self, seen: Observation) -> list[UnitDirectory]:
        """The units that run for an active lease, whose holder knows their process."""
        places = []
        for place in self.fleet.unit_places():
            unit = seen.units.get(place.folder.name)
            row = seen.row(TENANT, unit["lease"]) if unit else None
            if unit and row and not row["over"] and seen.now < row["data"]["lease_end"]:
                number = int(place.folder.name.rpartition("-")[2])
                if number in row["data"]["lease_units"] and _told_process(row["data"], number) == unit["pid"]:
                    places.append(place)
        return places

    def lose(self, place: UnitDirectory, whole: bool) -> bool:
        """Kills a unit: all its processes, or the first one; whether it ran until then."""
        leader, birth = place.leader(), place.birth()
        known = self.oracle.last.units.get(place.folder.name)
        if leader is None or leader.gone or known is None or known["pid"] != leader.pid:
            return False
        process, members = (leader.pid, leader.start), self._processes(place.folder.name)
        self.oracle.killed.add(process)
        for member in members if whole else [leader]:
            processes.send(member, signal.SIGKILL)
        lease = birth["lease"]
        had = {name for name, of in self.oracle.last.assigned().items() if of == lease}
        left = {(m.pid, m.start) for m in members}
        self.losses.append(Loss(place.folder.name, lease, process, left, had | {place.folder.name}))
        return True

    def _end_guests(self) -> None:
        """Kills the guests of leases whose unit below them is dead, and not up again for the same lease."""
        if not self.losses:
            return
        units = self.fleet.folder.resolve() / "units"
        lost = {(loss.unit, loss.lease): loss for loss in self.losses}
        for process in unit_processes(self.fleet.folder.resolve()):
            loss = lost.get((process.unit, process.lease)) if process.guest else None
            seen = processes.look(process.pid) if loss is not None else None
            if loss is None or seen is None or str(seen.start) != process.start:
                continue
            birth = UnitDirectory(units / loss.unit).birth()
            if birth.get("lease") != loss.lease or (birth["pid"], birth["start"]) == loss.process:
                processes.send(seen, signal.SIGKILL)

    # Judging

    def step(self, able: bool) -> None:
        """Judges by the last observation; `able`: all actors run, and reach one another."""
        now = time.monotonic()
        passed, self._before = now - self._before, now
        self.judge(self.oracle.last, passed if able else 0.0)
        self._end_guests()

    def judge(self, seen: Observation, passed: float) -> None:
        """Judges all losses by an observation, so many seconds after the last one."""
        free = self.fleet.units - len(seen.assigned())
        for loss in self.losses:
            if not loss.open:
                continue
            loss.waited += passed
            loss.full = loss.full or (seen.leases[SITE] is not None and free <= 0)
            loss.told = loss.told or _is_told(seen, loss)
            if not loss.outcome and (outcome := self._outcome(seen, loss)):
                loss.outcome = outcome
                self._look_for_leaks(loss)
            if loss.open and loss.waited > self.within:
                loss.late = True
                missing = "its holder was not told" if loss.outcome else "it is neither repaired nor replaced"
                self.oracle.say(
                    f"{loss.unit} of {loss.lease} (process {loss.process[0]}) was lost, and {missing} within "
                    f"{self.within:g} s"
                )

    def _outcome(self, seen: Observation, loss: Loss) -> str:
        unit = seen.units.get(loss.unit)
        if unit and unit["lease"] == loss.lease and (unit["pid"], unit["start"]) != loss.process:
            return REPAIRED
        if seen.leases[SITE] is None or seen.leases[TENANT] is None:
            return ""
        site, tenant = seen.row(SITE, loss.lease), seen.row(TENANT, loss.lease)
        if site is None or tenant is None or site["over"] or tenant["over"] or tenant["state"] == "closing":
            return LET_GO
        data = site["data"]
        if loss.number in data["assigned"]:
            return LET_GO if seen.now >= data["end"] else ""
        running = {name for name, of in seen.running().items() if of == loss.lease}
        others = sum(other.lease == loss.lease and not other.outcome for other in self.losses) - 1
        if len(running) + others >= tenant["data"]["ticket_units"]:
            new = next((n for n in sorted(running - loss.had) if (loss.lease, n) not in self._claimed), "")
            if new:
                self._claimed.add((loss.lease, new))
            return REPLACED if new else LET_GO
        may_not = data["replaced"] >= REPLACEMENTS or loss.full
        return LET_GO if may_not and site["state"] == "active" else ""

    def _look_for_leaks(self, loss: Loss) -> None:
        """Nothing may be left of what was killed, unless the site has not been told yet that the lease is over."""
        if loss.outcome != LET_GO:
            for pid, start in loss.left:
                process = processes.look(pid)
                if process is not None and process.start == start and not process.gone:
                    self._leak(f"process {pid} of {loss.unit} is left from {loss.lease}")

    def at_the_end(self) -> None:
        """No process of a unit is left but those that a lease has at its site."""
        kept = {name for name, lease in self.oracle.last.assigned().items() if not self._over(lease)}
        for place in self.fleet.unit_places():
            if place.folder.name not in kept:
                for member in self._processes(place.folder.name):
                    self._leak(f"process {member.pid} of {place.folder.name} is left, and no lease has that unit")

        most = self.oracle.observer.starting
        if self._starts is not None and most > self._starts:
            self.oracle.say(f"{most} units were being started at once, and {self._starts} are the most")

    def _processes(self, unit: str) -> list[processes.ProcessSnapshot]:
        """The processes that work in a unit's folder, also where that has been removed."""
        folder = f"{self.fleet.folder.resolve() / 'units' / unit}/"
        return [seen for seen in processes.everyone() if not seen.gone and _directory(seen.pid).startswith(folder)]

    def _over(self, lease: str) -> bool:
        row = self.oracle.last.row(SITE, lease)
        return row is None or bool(row["over"])

    def _leak(self, violation: str) -> None:
        self.leaked += 1
        self.oracle.say(violation)

    def summary(self) -> dict[str, Any]:
        """The counts; what was neither repaired nor replaced nor let go is a violation, or still open."""
        count = {name: sum(loss.outcome == name for loss in self.losses) for name in (REPAIRED, REPLACED, LET_GO)}
        mended = [loss for loss in self.losses if loss.outcome in (REPAIRED, REPLACED)]
        return {
            "lost": len(self.losses),
            "repaired": count[REPAIRED],
            "replaced": count[REPLACED],
            "let_go": count[LET_GO],
            "told": sum(loss.told for loss in mended),
            "worst_seconds": round(max((loss.waited for loss in mended), default=0.0), 1),
            "leaked": self.leaked,
            "starts_at_once": self.oracle.observer.starting,
        }


def _directory(pid: int) -> str:
    """The working directory of a process; empty where it is gone."""
    try:
        return os.readlink(processes.PROC / str(pid) / "cwd")
    except OSError:
        return ""


def _told_process(data: dict[str, Any], number: int) -> int:
    """The first process of a unit, as the site has told the holder; 0 where it has not."""
    properties = data["unit_properties"]
    entry = properties[number] if number < len(properties) else None
    return int(entry.get("pid", 0)) if isinstance(entry, dict) else 0


def _is_told(seen: Observation, loss: Loss) -> bool:
    """Returns whether the holder knows of a loss; of a lease that is over there is nothing to know."""
    row = seen.row(TENANT, loss.lease)
    if row is None:
        return seen.leases[TENANT] is not None
    data = row["data"]
    gone = loss.number in data["lease_lost"] or loss.number not in data["lease_units"]
    return bool(row["over"] or gone or _told_process(data, loss.number) != loss.process[0])
