"""The cases of the campaign, by name, and one case played.

A name has the fault, the actor and the place: `kill/site/before-send/update_lease/2`, `call/broker/fdatasync/7`,
`full/tenant/grow`. faults.yaml has the forms of names, with the scripts of their faults.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from leasehold.checker.recovery.campaign import CaseOutcome
from leasehold.checker.recovery.lease.processes.oracle import Oracle
from leasehold.checker.recovery.lease.processes.workload import TERM, Workload
from leasehold.checker.recovery.processes.faults import DURABLE, FaultRun, ProcessFault
from leasehold.checker.recovery.processes.forked import ForkedProcess
from leasehold.checker.recovery.processes.resources import Unavailable
from leasehold.checker.recovery.processes.rig import Rig
from leasehold.checker.recovery.processes.servers import SERVERS
from leasehold.checker.recovery.processes.verifier import FleetVerifier
from leasehold.impl.lease.fleet import ROLES, Fleet
from leasehold.impl.processes.supervisor import Supervisor

TICK_SECONDS, UNITS = 0.1, 3
RESTART_SECONDS = 0.5  # before who ended by itself is started again
FAST = {
    "messages": {"first_pause_seconds": 0.05, "longest_pause_seconds": 0.4, "ask_again_seconds": 0.5},
    "handling": {"tries": 3, "pause_seconds": 0.1, "longest_seconds": 10.0},
    "reopen_pause_seconds": 0.1,
}  # so that messages are repeated soon
DATABASES = tuple(kind for kind, server in SERVERS.items() if not server.messages)
NATS = "nats"
EVERY_COMMIT = (
    10  # commits are cases at intervals of so many where other stores and transports than the default are used
)
EVERY_WRITE = 12  # so are calls of pwrite64, as nothing counts on a page or frame until it is synced
# Names of cases whose places are found in runs without a fault: a point, or a call, with how often it is passed.
FOUND = re.compile(
    rf"((kill|twice)/({'|'.join(ROLES)})/[^@]+|call/({'|'.join(ROLES)})/({'|'.join(DURABLE)}))/[1-9]\d{{0,5}}"
    rf"(@({'|'.join(SERVERS)}))?"
)


@cache
def _table() -> dict[str, Any]:
    """The content of faults.yaml."""
    table: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("faults.yaml").read_text(encoding="utf-8"))
    return table


QUICK: tuple[str, ...] = tuple(_table()["quick"])


@dataclass(frozen=True, slots=True)
class ProcessCase:
    """A case with real processes.

    Attributes:
        faults: the script.
        server: of its stores or messages; empty: SQLite and HTTP.
        term: of the lease that is tried, in ticks; where it is another than usual, the lease has to end.
        counts: by actor, the points or calls that it passes, where they are listed.
    """

    name: str
    faults: tuple[ProcessFault, ...]
    server: str = ""
    term: int = TERM
    counts: dict[str, Counter[str]] = field(default_factory=dict)

    @classmethod
    def named(cls, name: str) -> ProcessCase | None:
        """The case of a name; None where there is none."""
        if not FOUND.fullmatch(name):
            return _fixed().get(name)
        plain, _, server = name.partition("@")
        kind, target, how = plain.split("/", 2)
        return _case(f"{kind}/target/how", {"target": target, "how": how}, server)


def _case(form: str, chosen: Mapping[str, str], server: str) -> ProcessCase:
    """The case of a form of names, with its words."""
    kind, *parts = form.split("/")
    name = "/".join([kind, *(chosen[part] for part in parts)]) + (f"@{server}" if server else "")
    case = _table()["cases"][form]
    return ProcessCase(name, tuple(_fault(row, chosen) for row in case["faults"]), server, case.get("term", TERM))


def _fault(row: Mapping[str, Any], chosen: Mapping[str, str]) -> ProcessFault:
    """A fault of a script, with the words of a case's name where it has no others."""
    values = {**chosen, **row}
    after = values.get("after", 0.0)
    return ProcessFault(**{**values, "after": after[values["step"]] if isinstance(after, dict) else after})


@cache
def _fixed() -> dict[str, ProcessCase]:
    """The cases that need no reference run, by name."""
    cases = []
    for form, case in _table()["cases"].items():
        for names in case.get("names", ()):
            parts = form.split("/")[1:]
            choices = [names.get(part, list(ROLES)) for part in parts]
            for server, *chosen in product(names.get("at", [""]), *choices):
                cases.append(_case(form, dict(zip(parts, chosen, strict=True)), server))
    return {case.name: case for case in cases}


def fixed_names() -> list[str]:
    """The names that need no reference run."""
    return list(_fixed())


@dataclass(slots=True)
class ReferenceRun:
    """The places that the workload passes without a fault: points and durable calls of each actor, with how often."""

    points: dict[str, Counter[str]] = field(default_factory=dict)
    calls: dict[str, Counter[str]] = field(default_factory=dict)

    def cases(self) -> list[ProcessCase]:
        """The runs that find them."""
        return [
            ProcessCase(f"reference/{kind}", tuple(ProcessFault(f"list_{kind}", name) for name in ROLES), counts=counts)
            for kind, counts in (("points", self.points), ("calls", self.calls))
        ]

    def names(self) -> list[str]:
        """The names of all cases."""
        return [*self._kills(), *self._kills_elsewhere(), *self._calls(), *fixed_names()]

    def _kills(self) -> Iterator[str]:
        for actor, passed in self.points.items():
            for point, count in sorted(passed.items()):
                yield from (f"kill/{actor}/{point}/{n}" for n in range(1, count + 1))

    def _kills_elsewhere(self) -> Iterator[str]:
        for actor, passed in self.points.items():
            for through in DATABASES:
                for point in ("before-commit", "after-commit"):
                    numbers = range(3, passed[point] + 1, EVERY_COMMIT)
                    yield from (f"kill/{actor}/{point}/{n}@{through}" for n in numbers)
            sends = (point for point in sorted(passed) if point.startswith("before-send"))
            yield from (f"kill/{actor}/{point}/1@{NATS}" for point in sends)
            numbers = range(4, passed["after-commit"] + 1, EVERY_COMMIT)
            yield from (f"kill/{actor}/after-commit/{n}@{NATS}" for n in numbers)

    def _calls(self) -> Iterator[str]:
        for actor, counts in self.calls.items():
            for call, count in sorted(counts.items()):
                every = EVERY_WRITE if call == "pwrite64" else 1
                yield from (f"call/{actor}/{call}/{n}" for n in range(1, count + 1, every))


def play(case: ProcessCase, base: Path, stop: threading.Event) -> CaseOutcome:
    """Plays a case in a folder of its own below `base`, which is removed with all its processes."""
    outcome = CaseOutcome(case.name)
    folder = Path(tempfile.mkdtemp(prefix="case-", dir=base))
    folder.chmod(0o711)
    fleet = Fleet(folder / "actors", UNITS, TICK_SECONDS, more=FAST)
    fleet.answer_seconds, fleet.fork = 5.0, ForkedProcess
    try:
        with Rig(fleet, folder, case.server, Supervisor(fleet, RESTART_SECONDS, killed_seconds=0.0)) as rig:
            _play(case, rig, fleet, stop, outcome)
    except Unavailable as error:
        outcome.skipped = str(error)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return outcome


def _play(case: ProcessCase, rig: Rig, fleet: Fleet, stop: threading.Event, outcome: CaseOutcome) -> None:
    run = FaultRun(rig, case.faults)
    rig.prepare()
    rig.ends.callback(fleet.remove)
    with Oracle(fleet) as oracle:
        workload = Workload(run, oracle, stop, case.term)
        workload.play()
    verifier = FleetVerifier(fleet, clocks=all(fault.kind != "clock" for fault in case.faults))
    verifier.judge_all()
    oracle.hear(verifier)
    outcome.end = workload.end
    outcome.crashes = sum(map(len, rig.supervisor.deaths.values()))
    for violation in oracle.violations:
        outcome.say("oracle", violation)
    if not outcome.findings:
        renewed = case.term != TERM and outcome.end != "ended"
        outcome.skipped = run.result() or ("the lease was renewed in time" if renewed else "")
        case.counts.update(rig.counts)
