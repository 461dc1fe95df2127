"""Three actors as real processes, under all faults together, and a workload; judged from outside when all is calm.

Theory of operation. Each fault begins at random and is mended by itself after a while, so that several are there at
once: an actor or all are killed, paused, or have a clock that jumps; messages to it are cut off or lost; its disk is
full or read-only, its database is killed, or the connection to it is cut. What ends by itself is started again, as an
operator's supervisor would. Strangers besiege its ports and its control socket, it lacks descriptors, nobody reads its
log, and half of its units do not hear SIGTERM (siege.py).
Meanwhile leases are asked for, changed and closed. Then everything is mended. Each lease
that was acknowledged has to come to its end, its units to be empty, and all units to serve a lease once more.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from typing import Any

from leasehold.checker.recovery.fleet.links import Links
from leasehold.checker.recovery.lease.processes.outside import Observer, unit_processes
from leasehold.checker.recovery.processes.proxy import CUT, DEAF, MUTE, OPEN, TcpProxy
from leasehold.checker.recovery.processes.resources import PORTS, TmpfsDisk, Unavailable
from leasehold.checker.recovery.processes.servers import SERVERS, Server
from leasehold.faults.simulation.partition import drawn_partition
from leasehold.impl.lease.fleet import ROLES, TENANT, Fleet
from tests.chaos.observer import ask, held_locks, open_files, tracebacks, wait
from tests.chaos.siege import ADDRESSES, CALM_SECONDS, Clock, Crowd, bytes_in, few_descriptors, half_open

UNITS, TICK = 6, 0.25
LONGEST_LEASE = 80  # ticks
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
FAKETIME = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))


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


class World:
    """A fleet, and whatever can go wrong around it."""

    def __init__(self, folder: Path, store: str, seed: int) -> None:
        self.folder, self.store, self.chance = folder / "fleet", store, random.Random(seed)
        self.ends = ExitStack()
        self.server: Server | None = None
        self.disks: dict[str, TmpfsDisk] = {}
        self.to_store: dict[str, TcpProxy] = {}
        urls = {name: self._url(folder, name) for name in ROLES}
        stubborn = 'if [ $((LEASEHOLD_INDEX % 2)) = 0 ]; then trap "" TERM; fi; while :; do sleep 600; done'
        handler = {"name": "process", "directory": "units", "command": ["sh", "-c", stubborn], "grace": 0.5}
        self.fleet = Fleet(self.folder, UNITS, TICK, store=urls.__getitem__, more=MORE, handler=handler)
        self.wires: dict[str, TcpProxy] = {}
        self.ports: dict[str, int] = {}  # for messages, not through a wire
        self.disturbed: dict[str, float] = {}  # when an actor was stopped, started or cut off last
        self.crowds: list[Crowd] = []
        for name in ROLES:
            port = self.ports[name] = PORTS.take()
            self.wires[name] = TcpProxy(port)
            self.ends.callback(self.wires[name].close)
            address = f"http://127.0.0.1:{self.wires[name].port}"
            self.fleet.listens[name] = {"listen": f"http://127.0.0.1:{port}", "advertise": address}
            self.fleet.addresses[name] = address
        self.links = Links(self.fleet)
        self.metrics = {name: PORTS.take() for name in ROLES}
        for name, port in self.metrics.items():
            with (self.folder / f"{name}.yaml").open("a") as file:
                file.write(f"metrics: 127.0.0.1:{port}\n")
        # A pipe that is never read, and never closed.
        os.mkfifo(self.folder / "unread")
        pipe = os.open(self.folder / "unread", os.O_RDWR)
        self.ends.callback(os.close, pipe)
        self.ends.callback(self.links.close)
        self.down: set[str] = set()
        self.hurt: set[str] = set()  # whose disk is

    def _url(self, folder: Path, name: str) -> str:
        if self.store == "sqlite":
            (folder / f"disk-{name}").mkdir()
            self.disks[name] = TmpfsDisk(folder / f"disk-{name}")
            self.ends.callback(self.disks[name].unmount)
            return f"sqlite:{self.disks[name].path}/store.db"
        if self.server is None:
            self.server = SERVERS[self.store](folder)
            self.server.start()
            self.ends.callback(self.server.kill)
        self.to_store[name] = TcpProxy(self.server.port)
        self.ends.callback(self.to_store[name].close)
        return self.server.url(self.to_store[name].port)

    # Actors

    def start(self, name: str) -> None:
        if FAKETIME:
            self.fleet.environment[name] = {
                "LD_PRELOAD": str(FAKETIME[0]), "FAKETIME_TIMESTAMP_FILE": str(self._clock(name)),
                "FAKETIME_CACHE_DURATION": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            }  # fmt: skip
        if self.chance.random() < 0.3:
            self.fleet.prefix[name] = ("sh", "-c", f'exec "$0" "$@" 2>{self.folder}/unread')
        self.disturb(name)
        self.fleet.start(name)

    def disturb(self, name: str) -> None:
        self.disturbed[name] = time.monotonic()

    def calm(self, name: str) -> bool:
        """Returns whether an actor runs, and has for a while."""
        process, since = self.fleet.processes.get(name), self.disturbed.get(name, 0.0)
        up = name not in self.down and process is not None and process.poll() is None
        return up and time.monotonic() - since > CALM_SECONDS

    def _clock(self, name: str) -> Path:
        return self.folder / f"{name}.clock"

    def set_clock(self, name: str, seconds: int) -> None:
        fresh = self._clock(name).with_suffix(".new")
        fresh.write_text(f"{seconds:+d}s\n")
        fresh.replace(self._clock(name))

    def kill(self, name: str) -> None:
        self.down.add(name)
        with suppress(ProcessLookupError):
            self.fleet.kill(name)

    def up(self, name: str) -> None:
        self.down.discard(name)
        self.start(name)

    def signal(self, name: str, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.fleet.processes[name].pid, number)

    def supervise(self) -> int:
        """Starts what has ended by itself; returns how many."""
        ended = [n for n, p in self.fleet.processes.items() if n not in self.down and p.poll() is not None]
        for name in ended:
            self.start(name)
        return len(ended)

    # Faults: each returns how it is mended

    def kill_one(self, name: str) -> Callable[[], None] | None:
        if name in self.down:
            return None
        self.kill(name)
        return lambda: self.up(name)

    def kill_all(self, name: str) -> Callable[[], None] | None:
        if self.down:
            return None
        for one in ROLES:
            self.kill(one)

        def start() -> None:
            for one in ROLES:
                self.up(one)

        return start

    def pause(self, name: str) -> Callable[[], None] | None:
        if name in self.down or self.disturbed[name] == float("inf"):
            return None
        self.disturbed[name] = float("inf")
        self.signal(name, signal.SIGSTOP)

        def go_on() -> None:
            self.signal(name, signal.SIGCONT)
            self.disturb(name)

        return go_on

    def clock_jumps(self, name: str) -> Callable[[], None]:
        self.set_clock(name, self.chance.randint(-LONGEST_JUMP, LONGEST_JUMP))
        return lambda: self.set_clock(name, 0)

    def wire(self, name: str) -> Callable[[], None] | None:
        if self.wires[name].mode != OPEN:
            return None
        self.wires[name].turn(self.chance.choice([CUT, DEAF, MUTE]))
        return lambda: self.wires[name].turn(OPEN)

    def partition(self, name: str) -> Callable[[], None]:
        """Between two actors at random, one-way or both ways; longer than a term where it is one of few ticks."""
        return self.links.part(drawn_partition(self.chance, list(ROLES), SHORT_TERM)[0])

    def disk_full(self, name: str) -> Callable[[], None] | None:
        if name in self.hurt:
            return None
        self.hurt.add(name)
        self.disks[name].fill()
        return partial(self._mended, name, self.disks[name].empty)

    def disk_read_only(self, name: str) -> Callable[[], None] | None:
        if name in self.hurt or name not in self.down:  # it cannot be made so while a file is open to be written
            return None
        self.hurt.add(name)
        self.disks[name].remount("ro")
        return partial(self._mended, name, partial(self.disks[name].remount, "rw"))

    def _mended(self, name: str, mend: Callable[[], None]) -> None:
        mend()
        self.hurt.discard(name)

    def store_cut(self, name: str) -> Callable[[], None] | None:
        if self.to_store[name].mode != OPEN:
            return None
        self.to_store[name].turn(self.chance.choice([CUT, DEAF, MUTE]))
        return lambda: self.to_store[name].turn(OPEN)

    def server_killed(self, name: str) -> Callable[[], None] | None:
        assert self.server is not None
        if self.server._process is None:
            return None
        self.server.kill()
        return self.server.start

    def connections_ended(self, name: str) -> Callable[[], None] | None:
        assert self.server is not None
        if self.server._process is None:
            return None
        with suppress(Unavailable):
            self.server.terminate()
        return lambda: None

    def half_open_metrics(self, name: str) -> Callable[[], None]:
        return half_open(self.metrics[name])

    def slow_requests(self, name: str) -> Callable[[], None]:
        return half_open(self.ports[name], 400, b"POST /parcels HTTP/1.1\r\nHo", ADDRESSES)

    def crowd_at_control(self, name: str) -> Callable[[], None]:
        crowd = Crowd(self.folder / f"{name}.sock")
        crowd.start()
        self.crowds.append(crowd)
        return lambda: None

    def few_descriptors(self, name: str) -> Callable[[], None] | None:
        if name in self.down or self.disturbed[name] == float("inf"):
            return None
        if (mend := few_descriptors(self.fleet.processes[name].pid)) is None:
            return None
        self.disturbed[name] = float("inf")  # it has not even its reserve, so nobody can be served

        def give_back() -> None:
            mend()
            self.disturb(name)

        return give_back

    def faults(self) -> list[tuple[Callable[[str], Callable[[], None] | None], float]]:
        """Those that this world has, with how likely each is."""
        found = [(self.kill_one, 4.0), (self.kill_all, 0.3), (self.pause, 2.0), (self.wire, 3.0), (self.partition, 2.0)]
        found += [(self.half_open_metrics, 0.7), (self.slow_requests, 0.7), (self.crowd_at_control, 0.7)]
        found.append((self.few_descriptors, 0.7))
        if FAKETIME:
            found.append((self.clock_jumps, 2.0))
        if self.store == "sqlite":
            return [*found, (self.disk_full, 1.5), (self.disk_read_only, 1.0)]
        return [*found, (self.store_cut, 2.0), (self.server_killed, 0.5), (self.connections_ended, 0.7)]


class Workload:
    """A client of the service manager that asks for leases, changes them and closes them."""

    def __init__(self, world: World) -> None:
        self.control, self.chance = world.folder / f"{TENANT}.sock", world.chance
        self.leases: dict[str, int] = {}  # those that were acknowledged, and until when they were wanted at first
        self.changes = 0

    def act(self) -> None:
        chance, now = self.chance, int(time.time() / TICK)
        if not self.leases or chance.random() < 0.5:
            until = now + chance.randint(5, LONGEST_LEASE)
            asked = {"units": chance.randint(1, 3), "until": until, "term": chance.choice([5, 10, 20, 40])}
            found = ask(self.control, "POST", "/demand", asked)
            if found is not None:
                self.leases[found["lease"]] = until
            return
        lease = chance.choice(list(self.leases)[-12:])
        if chance.random() < 0.6:
            given: dict[str, Any] = {"units": chance.randint(1, 3), "soon": True}
            place = f"/leases/{lease}/flex"
        else:
            given, place = {"event": "close"}, f"/leases/{lease}/tell"
        self.changes += ask(self.control, "POST", place, given) is not None


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
    world = World(base, store, seed)
    observer = Observer(world.folder)
    sockets = {name: world.folder / f"{name}.sock" for name in ROLES}
    clock = Clock(sockets, world.calm, lambda name: world.fleet.processes[name].pid)
    try:
        for name in ROLES:
            world.set_clock(name, 0)
            world.start(name)
        for name in ROLES:
            world.fleet.await_ready(name)
        observer.start()
        clock.start()
        workload = Workload(world)
        _chaos(world, workload, result, seconds, say)
        say(f"calm after {sum(result.faults.values())} faults, {len(workload.leases)} leases")
        clock.close()
        result.violations += _judge(world, workload)
        folders = [world.folder / "units", *(base / f"disk-{name}" for name in ROLES)]
        result.kilobytes = bytes_in(folders) >> 10
        if result.kilobytes > MOST_KILOBYTES:
            result.violations.append(f"stores and units take {result.kilobytes} KiB")
        result.leases, result.changes = len(workload.leases), workload.changes
    finally:
        if observer.is_alive():
            observer.close()
        if clock.is_alive():
            clock.close()
        for process in world.fleet.processes.values():
            process.kill()
            process.wait()
        world.fleet.end_units()
        world.ends.close()
    result.looks, result.units = observer.looks, observer.most
    result.answer, result.load, result.files = round(clock.longest, 3), round(clock.load, 3), clock.files
    result.violations = [*observer.violations, *clock.late, *result.violations]
    if result.violations:
        say(f"everything is left in {base}: {'; '.join(result.violations)}")
    else:
        shutil.rmtree(base, ignore_errors=True)
    return result


def _chaos(world: World, workload: Workload, result: Result, seconds: float, say: Callable[[str], None]) -> None:
    chance, order = world.chance, count()
    mending: list[tuple[float, int, Callable[[], None]]] = []
    kinds, weights = zip(*world.faults(), strict=True)
    began = said = time.monotonic()
    next_fault = next_request = began
    while (now := time.monotonic()) < began + seconds or mending:
        while mending and mending[0][0] <= now:
            heappop(mending)[2]()
        if next_fault <= now < began + seconds:
            next_fault = now + chance.uniform(0.1, 1.5)
            kind, name = chance.choices(kinds, weights)[0], chance.choice(list(ROLES))
            mend = kind(name)
            if mend is not None:
                result.faults[kind.__name__] += 1
                shortest = 0.05 if kind.__name__ != "partition" else SHORT_TERM * TICK
                heappush(mending, (now + shortest + chance.uniform(0.0, 4.0), next(order), mend))
        if next_request <= now < began + seconds:
            next_request = now + chance.uniform(0.2, 1.0)
            workload.act()
        result.restarts += world.supervise()
        if now - said > 30:
            said = now
            say(f"{now - began:.0f} s, {sum(result.faults.values())} faults, {len(workload.leases)} leases")
        time.sleep(0.02)


def _judge(world: World, workload: Workload) -> list[str]:
    """Returns what is wrong when nothing has gone wrong for a while."""
    found: list[str] = []
    for name in ROLES:
        if not wait(lambda name=name: world.supervise() or world.fleet.about(name), 60):
            found.append(f"{name} does not come up: {world.fleet.last_words(name)}")
    if found:
        return found

    def rows() -> dict[str, str]:
        listed = ask(workload.control, "GET", "/leases") or []
        return {row["lease"]: row["state"] for row in listed if row["machine"] == "service_manager"}

    over = {"closed", "failed"}

    def all_over() -> bool:
        seen = rows()
        return workload.leases.keys() <= seen.keys() and set(seen.values()) <= over

    if not wait(all_over, SETTLE_SECONDS):
        seen = rows()
        found += [f"{lease} was acknowledged, and is lost" for lease in workload.leases.keys() - seen.keys()]
        found += [f"{lease} does not end: it is {state}" for lease, state in seen.items() if state not in over]
    if not wait(lambda: not list(unit_processes(world.folder)), 60):
        found += [f"{p.unit} still runs for {p.lease}" for p in unit_processes(world.folder)]
    if not wait(lambda: not held_locks(world.folder / "units"), 20):
        found += [f"the lock of {unit} is held, and nobody uses it" for unit in held_locks(world.folder / "units")]
    now = int(time.time() / TICK)
    last = ask(workload.control, "POST", "/demand", {"units": UNITS, "until": now + 1000, "term": 500})
    if last is None:
        return [*found, "no lease can be had any more"]
    mine = last["lease"]
    if not wait(lambda: {p.unit for p in unit_processes(world.folder) if p.lease == mine} == _units(), 60):
        up = {p.unit for p in unit_processes(world.folder)}
        found.append(f"units cannot be had any more: {', '.join(sorted(_units() - up))}")
    ask(workload.control, "POST", f"/leases/{mine}/tell", {"event": "close"})
    if not wait(lambda: not list(unit_processes(world.folder)), 60):
        found.append("units of a lease that was closed go on")
    for name, process in world.fleet.processes.items():
        if (files := open_files(process.pid)) > MOST_FILES:
            found.append(f"{name} has {files} files open")
    return found + tracebacks(world.folder)


def _units() -> set[str]:
    return {f"unit-{n}" for n in range(UNITS)}
