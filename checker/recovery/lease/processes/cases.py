"""The cases of the campaign, by name, and one case played.

A name has the fault, the actor and the place: `kill/site/before-send/update_lease/2`, `call/broker/fdatasync/7`,
`full/tenant/grow`. After an @ stands the server of the stores or messages, where it is not SQLite and HTTP.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path

from leasehold.checker.recovery.campaign import CaseOutcome
from leasehold.checker.recovery.lease.processes.actors import Actors
from leasehold.checker.recovery.lease.processes.faults import (
    CLOCK_OFFSETS,
    DURABLE,
    FAULTS,
    POWER_STEPS,
    CaseEnvironment,
    list_calls,
    list_points,
)
from leasehold.checker.recovery.lease.processes.workload import STEPS, FaultRun, FaultScript, Workload
from leasehold.checker.recovery.processes.proxy import CUT, DEAF, MUTE
from leasehold.checker.recovery.processes.resources import Unavailable
from leasehold.checker.recovery.processes.servers import SERVERS
from leasehold.impl.lease.fleet import BROKER, ROLES, SITE, TENANT

DATABASES, NATS = ("postgresql", "mariadb"), "nats"
EVERY_COMMIT = (
    10  # commits are cases at intervals of so many where other stores and transports than the default are used
)
EVERY_WRITE = 12  # so are calls of pwrite64, as nothing counts on a page or frame until it is synced

# Names, joined from every combination of their words; the first column is the server.
FIXED: tuple[tuple[tuple[str, ...], ...], ...] = (
    (("",), ("twice",), tuple(ROLES), ("before-commit/9", "after-commit/9", "after-recovery/1")),
    (("",), ("all",), STEPS[1:]),
    (DATABASES, ("server",), ("kill", "terminate"), ("demand", "grow", "close", "next")),
    (DATABASES, ("store",), tuple(ROLES), (CUT, DEAF, MUTE)),
    ((NATS,), ("server/kill",), ("demand", "grow", "close", "next")),
    (("",), ("wire",), tuple(ROLES), (CUT, DEAF, MUTE), ("grow", "close", "next")),
    (("",), ("full",), tuple(ROLES), ("demand", "grow", "close")),
    (("",), ("read-only",), tuple(ROLES), ("grow", "close")),
    (("",), ("eio",), tuple(ROLES), ("fdatasync",), ("5", "14", "22", "8..11")),
    (("",), ("power",), tuple(ROLES), POWER_STEPS),
    (("",), ("pause",), tuple(ROLES), ("grow",)),
    (("",), ("eio",), (SITE,), ("fsync",), ("3", "7")),
    (("",), ("clock",), tuple(ROLES), tuple(CLOCK_OFFSETS)),
    (("",), ("clock",), tuple(ROLES), tuple(CLOCK_OFFSETS), ("grow",)),
    (("",), ("packets",), tuple(ROLES), ("random",)),
    (("",), ("packets",), tuple(ROLES), (DEAF, MUTE), ("grow", "close")),
    (("",), ("over",), tuple(ROLES), ("demand", "extension")),
)
NAMED = re.compile(
    rf"((kill|twice)/({'|'.join(ROLES)})/[^@]+|call/({'|'.join(ROLES)})/({'|'.join(DURABLE)}))/[1-9]\d{{0,5}}"
    rf"(@({'|'.join(SERVERS)}))?"
)

# A selection that takes some two minutes on two processors.
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
)


@dataclass(frozen=True, slots=True)
class ProcessCase:
    """A case with real processes.

    Attributes:
        fault: makes the script of its fault.
        through: the server of its stores or messages; empty: SQLite and HTTP.
    """

    name: str
    fault: Callable[[CaseEnvironment], FaultScript]
    through: str = ""

    @classmethod
    def named(cls, name: str) -> ProcessCase | None:
        """The case of a name; None where there is none."""
        if name not in fixed_names() and not NAMED.fullmatch(name):
            return None
        plain, _, through = name.partition("@")
        kind, *words = plain.split("/")
        return cls(name, lambda case: FAULTS[kind](case, *words), through)


def fixed_names() -> list[str]:
    """The names that need no reference run."""
    names = []
    for servers, *words in FIXED:
        for server in servers:
            names += ["/".join(chosen) + (f"@{server}" if server else "") for chosen in product(*words)]
    return names


@dataclass(slots=True)
class ReferenceRun:
    """The places that the workload passes without a fault: points and durable calls of each actor, with how often."""

    points: dict[str, Counter[str]] = field(default_factory=dict)
    calls: dict[str, Counter[str]] = field(default_factory=dict)

    def cases(self) -> list[ProcessCase]:
        """The runs that find them."""
        points = ProcessCase("reference/points", partial(list_points, self.points))
        return [points, ProcessCase("reference/calls", partial(list_calls, self.calls))]

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
        for actor, made in self.calls.items():
            for call, count in sorted(made.items()):
                every = EVERY_WRITE if call == "pwrite64" else 1
                yield from (f"call/{actor}/{call}/{n}" for n in range(1, count + 1, every))


def play(case: ProcessCase, base: Path, stop: threading.Event) -> CaseOutcome:
    """Plays a case in a folder of its own below `base`, which is removed with all its processes."""
    outcome = CaseOutcome(case.name)
    folder = Path(tempfile.mkdtemp(prefix="case-", dir=base))
    folder.chmod(0o711)
    try:
        with ExitStack() as ends:
            _play(case, folder, stop, outcome, ends)
    except Unavailable as error:
        outcome.skipped = str(error)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return outcome


def _play(case: ProcessCase, folder: Path, stop: threading.Event, outcome: CaseOutcome, ends: ExitStack) -> None:
    server = SERVERS[case.through](folder) if case.through else None
    actors = Actors(folder / "actors")
    if server is not None:
        ends.callback(server.kill)
        server.start()
        for name in ROLES:
            if case.through in DATABASES:
                actors.stores[name] = server.url(server.port)
            else:
                actors.listens[name] = actors.addresses[name] = f"{server.url(server.port)}.{name}"
    workload = Workload(actors, stop, outcome)
    workload.fault = FaultRun(case.fault(CaseEnvironment(folder, actors, workload, server, ends)))
    ends.callback(actors.remove)
    actors.prepare()
    workload.play()
    outcome.crashes = sum(map(len, workload.deaths.values()))
    if not outcome.findings:
        outcome.skipped = workload.fault.result()
