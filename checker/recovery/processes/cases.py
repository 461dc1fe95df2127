"""The cases of the campaign, by name, and one case played.

A name says what goes wrong, at whom, and where: `kill/site/before-send/update_lease/2`, `call/broker/fdatasync/7`,
`full/tenant/grow`. Behind an @ stands what the stores or the messages go through, where that is not SQLite and HTTP.
"""

from __future__ import annotations

import re
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from leasehold.checker.recovery.processes import faults, resource_faults
from leasehold.checker.recovery.processes.actors import Actors, found
from leasehold.checker.recovery.processes.faults import DURABLE, CaseEnvironment, ProcessFault
from leasehold.checker.recovery.processes.proxy import CUT, DEAF, MUTE
from leasehold.checker.recovery.processes.servers import SERVERS, Unavailable
from leasehold.checker.recovery.processes.workload import STEPS, Workload
from leasehold.impl.fleet import BROKER, ROLES, SITE, TENANT
from leasehold.impl.server.subscribers import VARIABLE

DATABASES, NATS = ("postgresql", "mariadb"), "nats"
# Every so many commits at other stores and transports than SQLite and HTTP.
EVERY_OTHER = 10
# pwrite64 puts pages and frames where nothing counts on them until a sync; so not each of them is a case.
EVERY_WRITE = 12
OFF_SECONDS = 60.0  # by which a clock is off: less than a term, and far more than a message takes


@dataclass(frozen=True, slots=True)
class ProcessCase:
    """What is played.

    Attributes:
        fault: makes what goes wrong.
        through: the server of its stores or messages; empty: SQLite and HTTP.
    """

    name: str
    fault: Callable[[], ProcessFault]
    through: str = ""


@dataclass(slots=True)
class ProcessOutcome:
    """What became of a case.

    Attributes:
        findings: empty where all is well.
        skipped: why it was not played, or its fault was not met; empty where it was.
        end: `same`, the lease came through; `ended`, it broke off.
    """

    name: str
    findings: list[str] = field(default_factory=list)
    skipped: str = ""
    end: str = ""
    deaths: int = 0
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        return not self.findings and not self.skipped


def play(case: ProcessCase, base: Path, number: int, stop: threading.Event) -> ProcessOutcome:
    """Plays a case in a folder of its own, which is removed with all its processes."""
    outcome, began = ProcessOutcome(case.name), time.monotonic()
    folder = base / f"case-{number}"
    folder.mkdir(mode=0o711)
    try:
        with ExitStack() as ends:
            _play(case, folder, stop, outcome, ends)
    except Unavailable as error:
        outcome.skipped = str(error)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    outcome.seconds = time.monotonic() - began
    return outcome


def _play(case: ProcessCase, folder: Path, stop: threading.Event, outcome: ProcessOutcome, ends: ExitStack) -> None:
    fault = case.fault()
    fault.check()
    server = None
    if case.through:
        server = SERVERS[case.through](folder)
        ends.callback(server.kill)
        server.start()
    actors = Actors(folder / "actors")
    for name in ROLES:
        if case.through in DATABASES and server is not None:
            actors.stores[name] = server.url(server.port)
        elif server is not None:
            actors.listens[name] = actors.addresses[name] = f"{server.url(server.port)}.{name}"
    workload = Workload(actors, stop, fault.at_step, lambda: fault.meanwhile(environment))
    environment = CaseEnvironment(folder, actors, workload, server, ends)
    fault.prepare(environment)
    ends.callback(actors.remove)
    actors.prepare()
    outcome.findings = workload.play()
    outcome.end, outcome.deaths = workload.end, sum(map(len, workload.deaths.values()))
    if not outcome.findings:
        outcome.skipped = fault.met(environment)


# Which cases there are


class _Points(ProcessFault):
    """Writes down the points that all actors pass."""

    def __init__(self, passed: dict[str, Counter[str]]) -> None:
        super().__init__()
        self._passed = passed

    def prepare(self, case: CaseEnvironment) -> None:
        for name in ROLES:
            case.actors.environment[name] = {VARIABLE: f"list:{case.folder}/{name}.points"}

    def met(self, case: CaseEnvironment) -> str:
        for name in ROLES:
            self._passed[name] = Counter((case.folder / f"{name}.points").read_text().split())
        return ""


class _Calls(ProcessFault):
    """Writes down the durable system calls that all actors make."""

    programs = ("strace",)

    def __init__(self, made: dict[str, Counter[str]]) -> None:
        super().__init__()
        self._made = made

    def prepare(self, case: CaseEnvironment) -> None:
        for name in ROLES:
            case.actors.prefix[name] = [
                found("strace")["strace"], "-f", "-b", "execve", "-qq", "-o", f"{case.folder}/{name}.calls", "-e",
                f"trace={','.join(DURABLE)}",
            ]  # fmt: skip

    def met(self, case: CaseEnvironment) -> str:
        for name in ROLES:
            by_thread: Counter[tuple[str, str]] = Counter()
            for line in (case.folder / f"{name}.calls").read_text(errors="replace").splitlines():
                if words := re.match(r"(\d+)\s+(\w+)\(", line):
                    by_thread[words[1], words[2]] += 1
            most: Counter[str] = Counter()
            for (_, call), count in by_thread.items():
                most[call] = max(most[call], count)
            self._made[name] = most
        return ""


@dataclass(slots=True)
class ReferenceRun:
    """What the workload passes when nothing goes wrong: points and durable calls of each actor, with how often."""

    points: dict[str, Counter[str]] = field(default_factory=dict)
    calls: dict[str, Counter[str]] = field(default_factory=dict)

    def cases(self) -> list[ProcessCase]:
        """The runs that find it out."""
        points = ProcessCase("reference/points", partial(_Points, self.points))
        return [points, ProcessCase("reference/calls", partial(_Calls, self.calls))]


def all_cases(known: ReferenceRun) -> list[ProcessCase]:
    """Every case, in the order in which they are wanted."""
    names = [*_kills(known), *_kills_elsewhere(known), *_calls(known)]
    return [*(case for name in names if (case := named(name)) is not None), *fixed_cases()]


def _kills(known: ReferenceRun) -> Iterator[str]:
    for actor, passed in known.points.items():
        for point, count in sorted(passed.items()):
            yield from (f"kill/{actor}/{point}/{n}" for n in range(1, count + 1))


def _kills_elsewhere(known: ReferenceRun) -> Iterator[str]:
    for actor, passed in known.points.items():
        for through in DATABASES:
            for point in ("before-commit", "after-commit"):
                numbers = range(3, passed[point] + 1, EVERY_OTHER)
                yield from (f"kill/{actor}/{point}/{n}@{through}" for n in numbers)
        for point in sorted(passed):
            if point.startswith("before-send"):
                yield f"kill/{actor}/{point}/1@{NATS}"
        yield from (f"kill/{actor}/after-commit/{n}@{NATS}" for n in range(4, passed["after-commit"] + 1, EVERY_OTHER))


def _calls(known: ReferenceRun) -> Iterator[str]:
    for actor, made in known.calls.items():
        for call, count in sorted(made.items()):
            every = EVERY_WRITE if call == "pwrite64" else 1
            yield from (f"call/{actor}/{call}/{n}" for n in range(1, count + 1, every))


def named(name: str) -> ProcessCase | None:
    """A case that is named by a point or a system call; None where the name is of another form."""
    plain, _, through = name.partition("@")
    if through and through not in SERVERS:
        return None
    kind, _, rest = plain.partition("/")
    actor, _, where = rest.partition("/")
    what, _, number = where.rpartition("/")
    if actor not in ROLES or not re.fullmatch(r"[1-9]\d{0,5}", number) or not what:
        return None
    if kind in ("kill", "twice"):
        return ProcessCase(name, partial(faults.KillAtPoint, actor, where, again=kind == "twice"), through)
    if kind == "call" and what in DURABLE:
        return ProcessCase(name, partial(faults.SystemCallFault, actor, what, number, "signal=SIGKILL"), through)
    return None


def fixed_cases() -> list[ProcessCase]:
    """The cases that need no reference."""
    made: list[ProcessCase] = []

    def add(name: str, fault: Callable[[], ProcessFault], through: str = "") -> None:
        made.append(ProcessCase(f"{name}@{through}" if through else name, fault, through))

    for actor in ROLES:
        for point in ("before-commit/9", "after-commit/9", "after-recovery/1"):
            add(f"twice/{actor}/{point}", partial(faults.KillAtPoint, actor, point, again=True))
    for step in STEPS[1:]:
        add(f"all/{step}", partial(faults.KillAll, "", step, 0.02, 0.0))
    for through in DATABASES:
        for step in ("demand", "grow", "close", "next"):
            add(f"server/kill/{step}", partial(resource_faults.ServerRestart, "", step, 0.03), through)
            add(f"server/terminate/{step}", partial(resource_faults.ConnectionsTerminated, "", step, 0.03), through)
        for actor in ROLES:
            for mode in (CUT, DEAF, MUTE):
                add(
                    f"store/{actor}/{mode}",
                    partial(resource_faults.StoreConnectionFault, actor, mode, "grow", 0.02),
                    through,
                )
    for step in ("demand", "grow", "close", "next"):
        add(f"server/kill/{step}", partial(resource_faults.ServerRestart, "", step, 0.03), NATS)
    for actor in ROLES:
        for mode in (CUT, DEAF, MUTE):
            for step in ("grow", "close", "next"):
                add(f"wire/{actor}/{mode}/{step}", partial(resource_faults.NetworkLinkFault, actor, mode, step))
        for step in ("demand", "grow", "close"):
            add(f"full/{actor}/{step}", partial(resource_faults.DiskFull, actor, step))
        for step in ("grow", "close"):
            add(f"read-only/{actor}/{step}", partial(resource_faults.DiskReadOnly, actor, step, 0.02))
        for when in ("5", "14", "22", "8..11"):
            add(f"eio/{actor}/fdatasync/{when}", partial(faults.SystemCallFault, actor, "fdatasync", when, "error=EIO"))
        for n, step in enumerate(("demand", "extension", "grow", "shrink", "close", "next")):
            add(f"power/{actor}/{step}", partial(resource_faults.DiskPowerLoss, actor, step, 0.02 * n))
        add(f"pause/{actor}/grow", partial(faults.PauseThenKill, actor, "grow", 0.02))
    for when in ("3", "7"):
        add(f"eio/{SITE}/fsync/{when}", partial(faults.SystemCallFault, SITE, "fsync", when, "error=EIO"))
    for actor in ROLES:
        for direction, seconds in (("ahead", OFF_SECONDS), ("behind", -OFF_SECONDS)):
            add(f"clock/{actor}/{direction}", partial(faults.ClockOffset, actor, seconds))
            add(f"clock/{actor}/{direction}/grow", partial(faults.ClockOffset, actor, seconds, "grow"))
        add(f"packets/{actor}/random", partial(resource_faults.PacketLoss, actor, "random"))
        for what in (DEAF, MUTE):
            for step in ("grow", "close"):
                add(f"packets/{actor}/{what}/{step}", partial(resource_faults.PacketLoss, actor, what, step))
        for step in ("demand", "extension"):
            add(f"over/{actor}/{step}", partial(faults.DownPastTerm, actor, step))
    return made


QUICK = (
    f"kill/{TENANT}/before-commit/12",
    f"kill/{TENANT}/after-commit/18",
    f"kill/{TENANT}/before-send/redeem/2",
    f"kill/{TENANT}/before-call/handler.join/3",
    f"kill/{BROKER}/before-commit/7",
    f"kill/{BROKER}/after-commit/9",
    f"kill/{BROKER}/before-send/update_ticket/4",
    f"kill/{BROKER}/before-call/policy.extend/2",
    f"kill/{SITE}/before-commit/10",
    f"kill/{SITE}/after-commit/13",
    f"kill/{SITE}/before-send/update_lease/4",
    f"kill/{SITE}/before-call/handler.setup/2",
    f"kill/{SITE}/before-call/handler.teardown/1",
    f"twice/{SITE}/before-commit/9",
    f"call/{TENANT}/fdatasync/30",
    f"call/{BROKER}/pwrite64/49",
    f"call/{SITE}/fsync/5",
    f"kill/{SITE}/after-commit/13@postgresql",
    f"kill/{BROKER}/after-commit/13@mariadb",
    f"kill/{SITE}/before-send/update_lease/1@nats",
    "server/kill/grow@postgresql",
    "server/kill/grow@mariadb",
    "server/kill/grow@nats",
    "server/terminate/grow@postgresql",
    f"store/{SITE}/{CUT}@mariadb",
    f"wire/{SITE}/{MUTE}/grow",
    f"wire/{BROKER}/{CUT}/grow",
    f"full/{SITE}/grow",
    f"read-only/{TENANT}/grow",
    f"eio/{SITE}/fdatasync/14",
    f"power/{SITE}/grow",
    "all/grow",
    f"clock/{SITE}/behind/grow",
    f"packets/{BROKER}/{DEAF}/grow",
    f"over/{SITE}/extension",
)  # some two minutes on two processors
