"""The use of units by processes, as the kernel shows it: who runs in which unit, and as a guest on it, for which lease.

It reads /proc alone and shares no code with what makes units, so that no mistake is shared.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

LOOK_SECONDS = 0.05
STALE_SECONDS = 1.0  # for which an end may be one that a site has just put off, as its answer is that old
STARTER = b"/starter.py"  # the program that becomes a unit's first process
ALONE_SECONDS = 1.5  # for which a guest may be seen on a unit that has no process


@dataclass(frozen=True, slots=True)
class UnitProcess:
    """A process in a unit, or of a guest on it: who it is, and for whom it runs."""

    pid: int
    parent: str
    start: str
    session: str
    unit: str
    lease: str
    guest: bool = False
    starting: bool = field(default=False, compare=False)  # it becomes the same process


def look(pid: str, folder: str) -> UnitProcess | None:
    """A process of a unit or guest whose home lies in a folder; None where it is none, or has ended."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = dict(word.partition("=")[::2] for word in file.read().decode(errors="replace").split("\0"))
        if not variables.get("HOME", "").startswith(folder) or "LEASEHOLD_UNIT" not in variables:
            return None
        fields = status(pid)
        starting = STARTER in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return None
    if fields[0] in "ZX":
        return None
    unit, guest = variables["LEASEHOLD_UNIT"], False
    if "/" in unit:  # a machine of a run: the unit's own name is among what its site has told
        guest = True
        with suppress(ValueError):
            unit = json.loads(variables.get("LEASEHOLD_PROPERTIES", "{}")).get("name", unit)
    return UnitProcess(int(pid), fields[1], fields[19], fields[3], unit, variables["LEASEHOLD_LEASE"], guest, starting)


def status(pid: str) -> list[str]:
    """The fields of /proc/PID/stat from the third on: state, parent, group, session and so on.

    Raises:
        OSError: there is no such process.
    """
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().decode(errors="replace").rpartition(") ")[2].split()


def begins(process: UnitProcess, folder: str) -> bool:
    """Returns whether a process is about to make a unit's first: it is still in the session of the actor starting it.

    The session's number says nothing alone: a leader outside this PID namespace has 0, and one that has ended is not
    to be found.
    """
    with suppress(OSError):
        return status(process.parent)[3] == process.session and look(process.parent, folder) is None
    return False


def unit_processes(folder: Path) -> Iterator[UnitProcess]:
    """All processes in units of a fleet, and of guests on them."""
    for pid in os.listdir("/proc"):
        if pid.isdecimal() and (process := look(pid, str(folder))) is not None:
            yield process


class Observer(threading.Thread):
    """Looks all the time whether a unit is in two hands, and whether a guest runs where or when it must not.

    Args:
        folder: of the fleet.
        excused: whether a holder cannot make its guests leave in time at the moment, as it is down.
        end_of: the time at which a lease ends, as its site says, in seconds of the clock; None where it does not.

    Attributes:
        violations: what was seen, each once.
        looks, most, guests, starting: how often it has looked; the most units, guests, and units that were being
            started, that it has seen at once.
    """

    def __init__(
        self,
        folder: Path,
        excused: Callable[[], bool] = lambda: False,
        end_of: Callable[[str], float | None] = lambda lease: None,
    ) -> None:
        super().__init__(daemon=True, name="observer")
        self.folder, self.excused, self.end_of = folder, excused, end_of
        self.violations: dict[str, None] = {}
        self.looks = self.most = self.guests = self.starting = 0
        self._alone: dict[tuple[str, str], float] = {}
        self._late: dict[tuple[str, str], float] = {}
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            self.look()

    def look(self) -> None:
        by_unit: dict[str, list[UnitProcess]] = {}
        for process in unit_processes(self.folder):
            by_unit.setdefault(process.unit, []).append(process)
        self.looks += 1
        units = {unit for unit, users in by_unit.items() if not all(p.guest for p in users)}
        self.most = max(self.most, len(units))
        self.guests = max(self.guests, sum(any(p.guest for p in users) for users in by_unit.values()))
        self.starting = max(self.starting, sum(any(p.starting and not p.guest for p in of) for of in by_unit.values()))
        for unit, users in by_unit.items():
            self._hands(unit, {(p.session, p.lease): p for p in users if not p.guest})
            guests = {p.lease: p for p in users if p.guest}
            if guests and not self.excused():
                self._guests(unit, guests, {p.lease: p for p in users if not p.guest})
        self._alone = {key: since for key, since in self._alone.items() if key[0] in by_unit}
        self._late = {
            (unit, of): since
            for (unit, of), since in self._late.items()
            if any(p.guest and p.lease == of for p in by_unit.get(unit, ()))
        }

    def _hands(self, unit: str, users: dict[tuple[str, str], UnitProcess]) -> None:
        """Processes are looked at one after the other: those that are still there now were there together."""
        still = self._still(users.values()) if len(users) > 1 else []
        if len(still) > 1:
            holders = " and ".join(sorted(f"{p.lease} (session {p.session})" for p in still))
            self.violations[f"{unit} is in two hands: {holders}"] = None

    def _guests(self, unit: str, guests: dict[str, UnitProcess], owners: dict[str, UnitProcess]) -> None:
        others = {f"a guest of {lease}": p for lease, p in guests.items()}
        others |= {lease: p for lease, p in owners.items() if lease not in guests}
        still = self._still(others.values()) if len(others) > 1 else []
        if len({p.lease for p in still}) > 1:
            users = " and ".join(sorted(f"{'a guest of ' if p.guest else ''}{p.lease}" for p in still))
            self.violations[f"{unit} is used by {users}"] = None
        now, moment = time.time(), time.monotonic()
        for lease, guest in guests.items():
            end = self.end_of(lease)
            if end is None or now <= end:
                self._late.pop((unit, lease), None)
            elif moment - self._late.setdefault((unit, lease), moment) > STALE_SECONDS and self._still([guest]):
                self.violations[f"a guest of {lease} runs on {unit} past the end that its site confirmed"] = None
            if owners:
                self._alone.pop((unit, lease), None)
            elif moment - self._alone.setdefault((unit, lease), moment) > ALONE_SECONDS and self._still([guest]):
                self.violations[f"a guest of {lease} runs on {unit}, which is torn down"] = None

    def _still(self, users: Iterable[UnitProcess]) -> list[UnitProcess]:
        folder = str(self.folder)
        return [p for p in users if look(str(p.pid), folder) == p and not begins(p, folder)]

    def close(self) -> None:
        """Looks no more."""
        self._ended.set()
        if self.is_alive():
            self.join()
