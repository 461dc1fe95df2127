"""Three actors as real processes, under all faults together, and a workload; judged from outside when all is calm.

Theory of operation. A script of faults is drawn at random: each begins at its moment and is mended after a while, so
that several are there at once: an actor or all are killed, paused, or have a clock that jumps; messages to it are cut
off or lost; its disk is full or read-only, its database is killed, or the connection to it is cut. What ends by itself
is started again, as an operator's supervisor would. Strangers besiege its ports and its control socket, it lacks
descriptors, nobody reads its log, and half of its units do not hear SIGTERM (siege.py).
Meanwhile leases are asked for, changed and closed. Then everything is mended. Each lease
that was acknowledged has to come to its end, its units to be empty, and all units to serve a lease once more.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leasehold.checker.recovery.lease.processes.outside import Observer, unit_processes
from leasehold.checker.recovery.lease.processes.random_workload import RandomWorkload
from leasehold.checker.recovery.processes.faults import (
    ALL,
    KINDS,
    FaultRun,
    FaultScript,
    Kind,
    ProcessFault,
    Until,
    kill,
)
from leasehold.checker.recovery.processes.proxy import CUT, DEAF, MUTE
from leasehold.checker.recovery.processes.resources import PORTS, JumpingClock
from leasehold.checker.recovery.processes.rig import Rig
from leasehold.faults.simulation.partition import drawn_partition
from leasehold.impl.lease.fleet import ROLES, TENANT, Fleet
from leasehold.impl.processes.supervisor import BY_KILL, Died
from tests.chaos.observer import ask, held_locks, open_files, tracebacks, wait
from tests.chaos.siege import ADDRESSES, CALM_SECONDS, Clock, Crowd, bytes_in, few_descriptors, half_open

UNITS, TICK = 6, 0.25
TERMS = (5, 10, 20, 40)  # ticks
SHORT_TERM = 5  # ticks: a partition is longer
LONGEST_JUMP = 20  # seconds by which a clock is off
SETTLE_SECONDS = 150.0  # after which everything has to be over
MOST_FILES, MOST_KILOBYTES = 150, 64 << 10
MORE = {
    # A lazy site keeps units of a lease that has expired until another one needs them: nothing would have to be empty.
    "settings": {"max_units": UNITS, "handler_limit": 120, "lazy_close": False},
    "messages": {"first_pause_seconds": 0.05, "longest_pause_seconds": 1.0, "ask_again_seconds": 1.0},
    "handling": {"tries": 3, "pause_seconds": 0.2, "longest_seconds": 20.0},
    "reopen_pause_seconds": 0.2,
    "retire_after_ticks": 10**6,
    "events": {"keep": 1000, "most": 2000},  # the disk is small
}
STUBBORN = 'if [ $((LEASEHOLD_INDEX % 2)) = 0 ]; then trap "" TERM; fi; while :; do sleep 600; done'
HANDLER = {"name": "process", "directory": "units", "command": ["sh", "-c", STUBBORN], "grace": 0.5}
FAKETIME = JumpingClock.LIBRARIES

# The faults, with how likely each is; then those of files as stores, and those of databases.
EVERYWHERE = {
    "kill": 4.0,
    "kill_all": 0.3,
    "pause": 2.0,
    "wire": 3.0,
    "partition": 2.0,
    "half_open_metrics": 0.7,
    "slow_requests": 0.7,
    "crowd_at_control": 0.7,
    "few_descriptors": 0.7,
    **({"clock_jumps": 2.0} if FAKETIME else {}),
}
OF_FILES = {"disk_full": 1.5, "disk_read_only": 1.0}
OF_DATABASES = {"store": 2.0, "server_killed": 0.5, "connections_ended": 0.7}
HOWS = {"wire": (CUT, DEAF, MUTE), "store": (CUT, DEAF, MUTE), "connections_ended": ("terminate",)}


@dataclass
class Result:
    """What was done, and what was wrong.

    Attributes:
        faults: how many there were of each kind.
        leases: that were acknowledged.
        restarts: of actors that had ended by themselves.
        units: the most in use at once.
        answer: seconds of the longest answer at a control socket, of an actor that was not stopped or just started,
            without those that it waited for a processor that others used.
        load: the most seconds that it waited so during one answer.
        files: the most descriptors that an actor had open.
        kilobytes: what stores and units took on their disks at the end.
        left_out: faults that this machine cannot make.
    """

    store: str
    seed: int
    seconds: float
    faults: Counter[str] = field(default_factory=Counter)
    leases: int = 0
    changes: int = 0
    restarts: int = 0
    looks: int = 0
    units: int = 0
    answer: float = 0.0
    load: float = 0.0
    files: int = 0
    kilobytes: int = 0
    left_out: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "faults": dict(sorted(self.faults.items()))}


class ChaosFleet(Fleet):
    """A fleet whose clocks may jump, and some of whose logs nobody reads.

    Attributes:
        disturbed: when each actor was started, stopped, or let go on last.
        metrics: the port of each actor's metrics.
    """

    answer_seconds = 3.0

    def __init__(self, folder: Path, chance: random.Random) -> None:
        super().__init__(folder, UNITS, TICK, more=MORE, handler=HANDLER)
        self.chance = chance
        self.disturbed: dict[str, float] = {}
        self.metrics = {name: PORTS.take() for name in ROLES}
        self._clocks: dict[str, JumpingClock] = {}
        self.ports: dict[str, int] = {}  # for messages, not through a wire

    def _config(self, name: str, listen: Any) -> dict[str, Any]:
        return {**super()._config(name, listen), "metrics": f"127.0.0.1:{self.metrics[name]}"}

    def start(self, name: str) -> None:
        if FAKETIME:
            self.environment[name] = self._clock(name).environment
        if self.chance.random() < 0.3:
            self.prefix[name] = ["sh", "-c", f'exec "$0" "$@" 2>{self.folder}/unread']
        self.disturbed[name] = time.monotonic()
        super().start(name)

    def signal(self, name: str, *numbers: Any) -> None:
        self.disturbed[name] = time.monotonic()
        super().signal(name, *numbers)

    def _clock(self, name: str) -> JumpingClock:
        if name not in self._clocks:
            self._clocks[name] = JumpingClock(self.folder / f"{name}.clock")
        return self._clocks[name]

    def set_clock(self, name: str, seconds: int) -> None:
        self._clock(name).set(seconds)


def _besieged(attack: Callable[[ChaosFleet, str], Callable[[], None] | None]) -> Kind:
    """The kind of an attack, which returns what ends it; None where it cannot be."""

    def kind(rig: Rig, fault: ProcessFault) -> FaultScript:
        assert isinstance(rig.fleet, ChaosFleet)
        yield Until.DUE
        if fault.target in rig.paused | rig.supervisor.held or (end := attack(rig.fleet, fault.target)) is None:
            return "it could not be"
        yield Until.MENDED
        end()
        yield Until.END
        return ""

    return kind


def _clock_jumps(fleet: ChaosFleet, name: str) -> Callable[[], None]:
    fleet.set_clock(name, fleet.chance.randint(-LONGEST_JUMP, LONGEST_JUMP))
    return lambda: fleet.set_clock(name, 0)


def _crowd(fleet: ChaosFleet, name: str) -> Callable[[], None]:
    Crowd(fleet.folder / f"{name}.sock").start()
    return lambda: None


def _few_descriptors(fleet: ChaosFleet, name: str) -> Callable[[], None] | None:
    if (end := few_descriptors(fleet.processes[name].pid)) is None:
        return None
    fleet.disturbed[name] = float("inf")  # it has not even its reserve, so nobody can be served

    def give_back() -> None:
        end()
        fleet.disturbed[name] = time.monotonic()

    return give_back


ALL_KINDS = {
    **KINDS,
    "kill_all": kill,
    "server_killed": KINDS["server"],
    "connections_ended": KINDS["server"],
    "half_open_metrics": _besieged(lambda fleet, name: half_open(fleet.metrics[name])),
    "slow_requests": _besieged(
        lambda fleet, name: half_open(fleet.ports[name], 400, b"POST /parcels HTTP/1.1\r\nHo", ADDRESSES)
    ),
    "crowd_at_control": _besieged(_crowd),
    "few_descriptors": _besieged(_few_descriptors),
    "clock_jumps": _besieged(_clock_jumps),
}


def script(chance: random.Random, kinds: dict[str, float], seconds: float) -> Iterator[ProcessFault]:
    """Yields faults at random."""
    at = 0.0
    while (at := at + chance.uniform(0.1, 1.5)) < seconds:
        kind, target = chance.choices([*kinds], [*kinds.values()])[0], chance.choice([*ROLES])
        how, shortest = chance.choice(HOWS.get(kind, ("",))), 0.05
        if kind == "kill_all":
            target = ALL
        if kind == "partition":  # longer than a term where it is one of few ticks
            target, shortest = str(drawn_partition(chance, [*ROLES], SHORT_TERM)[0]), SHORT_TERM * TICK
        yield ProcessFault(kind, target, how, after=at, lasts=shortest + chance.uniform(0.0, 4.0))


class World:
    """A fleet under a script of faults, with its workload."""

    def __init__(self, rig: Rig, fleet: ChaosFleet, result: Result, chance: random.Random) -> None:
        self.rig, self.fleet, self.result, self.chance = rig, fleet, result, chance
        kinds = EVERYWHERE | (OF_FILES if result.store == "sqlite" else OF_DATABASES)
        self.workload = RandomWorkload(fleet, result.seed, None, together=10**6, terms=TERMS)
        fleet.ports = {name: int(listen.rpartition(":")[2]) for name, listen in fleet.listens.items()}
        self.faults = FaultRun(rig, script(chance, kinds, result.seconds), ALL_KINDS)
        if result.store == "sqlite":
            for name in ROLES:
                rig.disk(name)
        rig.prepare()
        # A pipe that is never read, and never closed.
        os.mkfifo(fleet.folder / "unread")
        rig.ends.callback(os.close, os.open(fleet.folder / "unread", os.O_RDWR))

    def start(self) -> None:
        self.rig.ends.callback(self.end)
        for name in ROLES:
            self.fleet.set_clock(name, 0)
            self.fleet.start(name)
        for name in ROLES:
            self.fleet.await_ready(name)

    def end(self) -> None:
        for name in self.fleet.processes:
            self.fleet.kill(name)
        self.fleet.end_units()

    def calm(self, name: str) -> bool:
        """Returns whether an actor runs, and has for a while."""
        up = name not in self.rig.paused and self.fleet.processes[name].poll() is None
        return up and time.monotonic() - self.fleet.disturbed[name] > CALM_SECONDS

    def supervise(self) -> None:
        """Starts what has ended."""
        for change in self.rig.supervisor.attend():
            self.result.restarts += isinstance(change, Died) and change.code not in BY_KILL

    def chaos(self, say: Callable[[str], None]) -> None:
        """Lets faults happen while leases are asked for, until all are mended."""
        began = said = next_request = time.monotonic()
        self.faults.start()
        while (now := time.monotonic()) < began + self.result.seconds or not self.faults.over:
            self.faults.meanwhile()
            if next_request <= now < began + self.result.seconds:
                next_request = now + self.chance.uniform(0.2, 1.0)
                self.workload.go_on(int(time.time() / TICK), set())
            self.supervise()
            if now - said > 30:
                said = now
                say(f"{now - began:.0f} s, {self.faults.begun.total()} faults, {len(self.workload.plans)} leases")
            time.sleep(0.02)


def chaos(store: str, seconds: float, seed: int, say: Callable[[str], None] = lambda words: None) -> Result:
    """Runs it.

    Args:
        store: `sqlite`, `postgresql` or `mariadb`.
        seconds: for which faults are made.
        seed: of the faults and the workload; the processes' own timing is not repeatable.
        say: hears how far it is.

    Raises:
        Unavailable: this machine has not what it takes.
    """
    base = Path(tempfile.mkdtemp(prefix="leasehold-chaos-"))
    base.chmod(0o711)
    result = Result(store, seed, seconds, left_out=[] if FAKETIME else ["clocks that jump: faketime is not installed"])
    chance = random.Random(seed)
    fleet = ChaosFleet(base / "fleet", chance)
    observer = Observer(fleet.folder)
    with Rig(fleet, base, "" if store == "sqlite" else store) as rig:
        world = World(rig, fleet, result, chance)
        sockets = {name: fleet.folder / f"{name}.sock" for name in ROLES}
        clock = Clock(sockets, world.calm, lambda name: fleet.processes[name].pid)
        world.start()
        observer.start()
        clock.start()
        try:
            world.chaos(say)
            result.faults = world.faults.begun
            say(f"calm after {result.faults.total()} faults, {len(world.workload.plans)} leases")
            clock.close()
            result.violations += _judge(world)
            result.kilobytes = bytes_in([fleet.folder / "units", *(base / f"disk-{name}" for name in ROLES)]) >> 10
        finally:
            observer.close()
            if clock.is_alive():
                clock.close()
    if result.kilobytes > MOST_KILOBYTES:
        result.violations.append(f"stores and units take {result.kilobytes} KiB")
    result.leases = len(world.workload.plans)
    result.changes = sum(len(plan.asked) for plan in world.workload.plans.values())
    result.looks, result.units = observer.looks, observer.most
    result.answer, result.load, result.files = round(clock.longest, 3), round(clock.load, 3), clock.files
    result.violations = [*observer.violations, *clock.late, *result.violations]
    if result.violations:
        say(f"everything is left in {base}: {'; '.join(result.violations)}")
    else:
        shutil.rmtree(base, ignore_errors=True)
    return result


def _judge(world: World) -> list[str]:
    """Returns what is wrong when nothing has gone wrong for a while."""
    fleet, leases, control = world.fleet, world.workload.plans, world.fleet.folder / f"{TENANT}.sock"
    found: list[str] = []
    for name in ROLES:
        if not wait(lambda name=name: world.supervise() or fleet.about(name), 60):
            found.append(f"{name} does not come up: {fleet.last_words(name)}")
    if found:
        return found

    def rows() -> dict[str, str]:
        listed = ask(control, "GET", "/leases") or []
        return {row["lease"]: row["state"] for row in listed if row["machine"] == "service_manager"}

    over = {"closed", "failed"}

    def all_over() -> bool:
        seen = rows()
        return leases.keys() <= seen.keys() and set(seen.values()) <= over

    if not wait(all_over, SETTLE_SECONDS):
        seen = rows()
        found += [f"{lease} was acknowledged, and is lost" for lease in leases.keys() - seen.keys()]
        found += [f"{lease} does not end: it is {state}" for lease, state in seen.items() if state not in over]
    if not wait(lambda: not list(unit_processes(fleet.folder)), 60):
        found += [f"{p.unit} still runs for {p.lease}" for p in unit_processes(fleet.folder)]
    if not wait(lambda: not held_locks(fleet.folder / "units"), 20):
        found += [f"the lock of {unit} is held, and nobody uses it" for unit in held_locks(fleet.folder / "units")]
    now = int(time.time() / TICK)
    last = ask(control, "POST", "/demand", {"units": UNITS, "until": now + 1000, "term": 500})
    if last is None:
        return [*found, "no lease can be had any more"]
    mine = last["lease"]
    if not wait(lambda: {p.unit for p in unit_processes(fleet.folder) if p.lease == mine} == _units(), 60):
        up = {p.unit for p in unit_processes(fleet.folder)}
        found.append(f"units cannot be had any more: {', '.join(sorted(_units() - up))}")
    ask(control, "POST", f"/leases/{mine}/tell", {"event": "close"})
    if not wait(lambda: not list(unit_processes(fleet.folder)), 60):
        found.append("units of a lease that was closed go on")
    for name, process in fleet.processes.items():
        if (files := open_files(process.pid)) > MOST_FILES:
            found.append(f"{name} has {files} files open")
    return found + tracebacks(fleet.folder)


def _units() -> set[str]:
    return {f"unit-{n}" for n in range(UNITS)}
