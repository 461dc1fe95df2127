"""Faults of processes: scripts of them as data, and the kinds that there are.

A script is a list of faults: of which kind, on whom, when, and for how long. It names no times of day: a fault begins
so many seconds after the run, a step of its workload, or the fault before it. `FaultRun` plays a script beside a
workload, which calls it now and then.

A kind is a generator, which yields what it waits for. At first it prepares the surroundings of actors that are not
configured yet, and waits until it is DUE (still, where it cannot happen yet); then the fault happens, until it is to be
MENDED, and it waits for the END of the workload. It returns an empty text if the fault occurred, else why not; at once
where it cannot.
"""

from __future__ import annotations

import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from math import inf
from pathlib import Path
from typing import TypeAlias

from leasehold.checker.recovery.processes.proxy import OPEN, TcpProxy
from leasehold.checker.recovery.processes.resources import LoopDisk, NetworkNamespace, Unavailable, program
from leasehold.checker.recovery.processes.rig import Rig
from leasehold.faults.simulation.partition import ActorPartition
from leasehold.impl.server.subscribers import VARIABLE

ALL = "all"  # actors
PREVIOUS = "previous"  # the fault before, as a moment
DURABLE = ("fdatasync", "fsync", "pwrite64")
# By which a clock is off: less than a term, and far more than a message takes; or its rate.
CLOCKS_OFF = {"ahead": "+60s", "behind": "-60s", "fast": "+0s x1.25", "slow": "+0s x0.75"}


@dataclass(frozen=True, slots=True)
class ProcessFault:
    """A fault of a script.

    Attributes:
        kind: a key of the kinds.
        target: an actor, `all`, or the text of a partition.
        how: what the kind makes of it: a mode of a proxy, a point, a rule.
        step: the step of the workload that it comes after; empty: the beginning of the run; or `previous`.
        after: so many seconds later.
        lasts: seconds until it is mended.
    """

    kind: str
    target: str = ""
    how: str = ""
    step: str = ""
    after: float = 0.0
    lasts: float = 0.0


class Until(Enum):
    """The moment that a kind waits for."""

    DUE = auto()
    MENDED = auto()
    END = auto()


FaultScript: TypeAlias = Generator[Until, None, str]
Kind: TypeAlias = Callable[[Rig, ProcessFault], FaultScript]


@dataclass(slots=True)
class _Scheduled:
    """A fault of a run, with the moment at which it begins, and then at which it is mended."""

    fault: ProcessFault
    script: FaultScript
    due: float = inf
    ends: float = inf
    begun: bool = False
    result: str | None = None


@dataclass
class FaultRun:
    """Plays a script beside a workload.

    Args:
        rig: what the faults work on.
        faults: taken one by one, where each comes after the one before it.
        kinds: of faults, by name.

    Attributes:
        begun: how many faults of each kind have happened.
    """

    rig: Rig
    faults: Iterable[ProcessFault]
    kinds: Mapping[str, Kind] = field(default_factory=lambda: KINDS)
    begun: Counter[str] = field(default_factory=Counter)
    _scheduled: list[_Scheduled] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._left: Iterator[ProcessFault] = iter(self.faults)
        self._draw()

    def _draw(self) -> None:
        """Prepares the next faults, up to one that comes after another."""
        for fault in self._left:
            script = self.kinds[fault.kind](self.rig, fault)
            next(script)
            self._scheduled.append(_Scheduled(fault, script))
            if fault.step == PREVIOUS:
                break

    def start(self) -> None:
        """The run begins: the actors are configured, and about to be started."""
        self.at_step("")
        self.at_step(PREVIOUS)
        self.meanwhile()

    def at_step(self, step: str) -> None:
        """The workload begins a step."""
        for one in self._scheduled:
            if one.fault.step == step and one.due == inf:
                one.due = time.monotonic() + one.fault.after

    def meanwhile(self) -> None:
        """Begins and mends what is due."""
        for one in [*self._scheduled]:
            if not one.begun and time.monotonic() >= one.due and (until := self._advance(one)) is not Until.DUE:
                one.begun = True
                self.begun[one.fault.kind] += not one.result
                if until is Until.MENDED:
                    one.ends = time.monotonic() + one.fault.lasts
                if one.fault.step == PREVIOUS:
                    self._draw()
                    self.at_step(PREVIOUS)
        for one in self._scheduled:
            if one.begun and time.monotonic() >= one.ends:
                one.ends = inf
                self._advance(one)

    def hasten(self, seconds: float) -> None:
        """The next fault that waits for its moment begins after so many seconds, if not before."""
        waiting = [one for one in self._scheduled if not one.begun and one.due < inf]
        if waiting:
            first = min(waiting, key=lambda one: one.due)
            first.due = min(first.due, time.monotonic() + seconds)

    def cancel(self) -> None:
        """No more faults begin."""
        self._scheduled = [one for one in self._scheduled if one.begun]

    def _advance(self, one: _Scheduled) -> Until:
        """Runs a script up to its next wait."""
        if one.result is None:
            try:
                return next(one.script)
            except StopIteration as end:
                one.result = end.value
            except Unavailable as error:
                one.result = str(error)
        return Until.END

    def under_way(self, *kinds: str) -> set[str]:
        """Returns on whom faults of some kinds are, which have begun and are not mended."""
        return {one.fault.target for one in self._scheduled if one.ends < inf and one.fault.kind in kinds}

    @property
    def over(self) -> bool:
        """Returns whether all faults are mended; those that come one after another are not awaited."""
        awaited = (one for one in self._scheduled if one.fault.step != PREVIOUS)
        return all(one.begun and (one.ends == inf or one.result is not None) for one in awaited)

    def result(self) -> str:
        """Empty if all faults occurred, else why not; to be called when the workload is over."""
        return next(filter(None, map(self._result, self._scheduled)), "")

    def _result(self, one: _Scheduled) -> str:
        if one.due == inf:
            return f"the step {one.fault.step} was not reached"
        if not one.begun:
            return "the workload was over before its time came"
        while one.result is None:
            self._advance(one)
        return one.result


# The actor's process


def kill(rig: Rig, fault: ProcessFault) -> FaultScript:
    """An actor is killed, or all at once; they may start again when it is mended."""
    names = {*rig.fleet.roles} if fault.target == ALL else {fault.target}
    yield Until.DUE
    if names & rig.supervisor.held:
        return "it was down already"
    rig.supervisor.held |= names
    for name in names:
        rig.fleet.kill(name)
    yield Until.MENDED
    rig.supervisor.held -= names
    return ""


def pause(rig: Rig, fault: ProcessFault) -> FaultScript:
    """An actor is stopped for a while."""
    yield Until.DUE
    if fault.target in rig.paused | rig.supervisor.held:
        return "it did not run"
    rig.paused.add(fault.target)
    rig.fleet.signal(fault.target, signal.SIGSTOP)
    yield Until.MENDED
    rig.paused.discard(fault.target)
    rig.fleet.signal(fault.target, signal.SIGCONT)
    return ""


def point(rig: Rig, fault: ProcessFault) -> FaultScript:
    """The process that an actor is started as next kills itself at a point."""
    yield Until.DUE
    rig.points[fault.target] += 1
    deaths = rig.points[fault.target]
    rig.fleet.environment[fault.target] = {VARIABLE: f"kill:{fault.how}"}
    yield Until.END
    return "" if len(rig.supervisor.deaths[fault.target]) >= deaths else f"{fault.how} was not passed in this run"


def clock(rig: Rig, fault: ProcessFault) -> FaultScript:
    """The clock of an actor's machine is off, or runs at another rate, from its next start on."""
    # Durations (CLOCK_MONOTONIC) are measured as before, as they are where a calendar clock is set.
    prefix = [program("faketime"), "--exclude-monotonic", "-f", CLOCKS_OFF[fault.how]]
    yield Until.DUE
    rig.fleet.prefix[fault.target] = prefix
    return ""


def _strace(log: Path, calls: str) -> list[str]:
    # Units are detached as they become what they are, so that nothing traces them.
    return [program("strace"), "-f", "-b", "execve", "-qq", "-o", str(log), "-e", f"trace={calls}"]


def kill_in_call(rig: Rig, fault: ProcessFault) -> FaultScript:
    """The process is killed in a system call that makes data durable.

    `how` is the call, with its number in strace's notation: counted by each thread alone; `fsync/5`, or `fsync/5..9`.
    """
    call, _, when = fault.how.partition("/")
    prefix = _strace(rig.folder / "calls", call)
    yield Until.DUE
    rig.fleet.prefix[fault.target] = [*prefix, "-e", f"inject={call}:signal=SIGKILL:when={when}"]
    yield Until.END
    return "" if rig.supervisor.deaths[fault.target] else f"{call} number {when} was not made in this run"


def io_error(rig: Rig, fault: ProcessFault) -> FaultScript:
    """A system call that makes data durable fails with EIO; `how` as above."""
    call, _, when = fault.how.partition("/")
    log = rig.folder / "calls"
    prefix = _strace(log, call)
    yield Until.DUE
    rig.fleet.prefix[fault.target] = [*prefix, "-e", f"inject={call}:error=EIO:when={when}"]
    # A disk that fails as the store is opened ends the process; an operator has to repair it, and starts it again.
    rig.may_end.add(fault.target)
    yield Until.END
    met = "INJECTED" in log.read_text(errors="replace")
    return "" if met else f"{call} number {when} was not made in this run"


# Servers, connections and networks


def server(rig: Rig, fault: ProcessFault) -> FaultScript:
    """The server of the stores, or of the messages, is killed and started again, or ends all its connections."""
    server = rig.server
    yield Until.DUE
    if not server.running:
        return "it was down already"
    killed = fault.how != "terminate"
    if killed:
        server.kill()
    else:
        server.terminate()
    yield Until.MENDED
    if killed:
        server.start()
    yield Until.END
    return "" if server.messages else rig.store_failed(*rig.fleet.roles)


def _turned(proxy: TcpProxy, mode: str) -> Generator[Until, None, bool]:
    """A proxy has another mode for a while; returns whether it was open before."""
    yield Until.DUE
    if proxy.mode != OPEN:
        return False
    proxy.turn(mode)
    yield Until.MENDED
    proxy.turn(OPEN)
    yield Until.END
    return True


def store(rig: Rig, fault: ProcessFault) -> FaultScript:
    """An actor's connection to its store is cut, or carries one way only."""
    turned = yield from _turned(rig.to_store(fault.target), fault.how)
    return rig.store_failed(fault.target) if turned else "it failed already"


def wire(rig: Rig, fault: ProcessFault) -> FaultScript:
    """Messages of others to an actor are cut off, or lost, or its answers are; its own messages go through."""
    proxy = rig.wire(fault.target)
    if not (yield from _turned(proxy, fault.how)):
        return "it failed already"
    return "" if proxy.hurt else "no message was sent to it while its connections failed"


def partition(rig: Rig, fault: ProcessFault) -> FaultScript:
    """Messages between two actors do not come, one-way or both ways."""
    parted = ActorPartition.named(fault.target)
    rig.parted = True
    yield Until.DUE
    assert rig.links is not None
    heal = rig.links.part(parted.links)
    rig.say(f"{parted}: {'no message' if parted.both else 'what is sent there'} comes through")
    yield Until.MENDED
    heal()
    rig.say(f"{parted}: it has healed")
    return ""


def packets(rig: Rig, fault: ProcessFault) -> FaultScript:
    """An actor has a network of its own, which loses packets: at random, or one way."""
    network, fleet = NetworkNamespace(), rig.fleet
    rig.ends.callback(network.remove)
    for name in fleet.roles:
        host = network.inside if name == fault.target else network.outside
        port = fleet.listens[name].rpartition(":")[2]
        fleet.listens[name] = fleet.addresses[name] = f"http://{host}:{port}"
    fleet.prefix[fault.target] = network.prefix
    yield Until.DUE
    network.lose(fault.how)
    yield Until.MENDED
    network.mend()
    yield Until.END
    return "" if network.lost() else "no packet came while they were dropped"


# Disks


def disk_full(rig: Rig, fault: ProcessFault) -> FaultScript:
    """An actor's store is on a disk that is full for a while."""
    disk = rig.disk(fault.target)
    yield Until.DUE
    if fault.target in rig.hurt:
        return "it was hurt already"
    rig.hurt.add(fault.target)
    disk.fill()
    yield Until.MENDED
    disk.empty()
    rig.hurt.discard(fault.target)
    yield Until.END
    return rig.store_failed(fault.target)


def disk_read_only(rig: Rig, fault: ProcessFault) -> FaultScript:
    """An actor is started again on a disk that is read-only for a while."""
    disk = rig.disk(fault.target)
    yield Until.DUE
    if fault.target in rig.hurt | rig.supervisor.held:
        return "it was hurt already"
    rig.hurt.add(fault.target)
    rig.may_end.add(fault.target)
    rig.fleet.kill(fault.target)  # a disk cannot be made so while a file is open to be written
    disk.remount("ro")
    yield Until.MENDED
    disk.remount("rw")
    rig.hurt.discard(fault.target)
    yield Until.END
    return "" if "cannot start" in rig.fleet.log(fault.target) else "it was not started while the disk was read-only"


def disk_power(rig: Rig, fault: ProcessFault) -> FaultScript:
    """The disk of an actor's store loses power during its work; the actor may start again when the disk is back."""
    disk = rig.disk(fault.target, LoopDisk)
    assert isinstance(disk, LoopDisk)
    yield Until.DUE
    rig.supervisor.held.add(fault.target)
    rig.fleet.signal(fault.target, signal.SIGSTOP)
    disk.lose_power()
    rig.fleet.kill(fault.target)
    yield Until.MENDED
    disk.unmount()
    disk.mount()
    rig.supervisor.held.discard(fault.target)
    return ""


# Without a fault: runs that list the places at which a process can die


def list_points(rig: Rig, fault: ProcessFault) -> FaultScript:
    """Counts the points that an actor passes."""
    file = rig.folder / f"{fault.target}.points"
    yield Until.DUE
    rig.fleet.environment[fault.target] = {VARIABLE: f"list:{file}"}
    yield Until.END
    rig.counts[fault.target] = Counter(file.read_text().split())
    return ""


def list_calls(rig: Rig, fault: ProcessFault) -> FaultScript:
    """Counts the system calls that make data durable: the most that one of an actor's threads makes."""
    file = rig.folder / f"{fault.target}.calls"
    prefix = _strace(file, ",".join(DURABLE))
    yield Until.DUE
    rig.fleet.prefix[fault.target] = prefix
    yield Until.END
    most = rig.counts[fault.target] = Counter()
    matches = re.findall(r"^(\d+)\s+(\w+)\(", file.read_text(errors="replace"), re.MULTILINE)
    for (_, call), count in Counter(matches).items():
        most[call] = max(most[call], count)
    return ""


KINDS: Mapping[str, Kind] = {
    kind.__name__: kind
    for kind in (
        kill,
        pause,
        point,
        clock,
        kill_in_call,
        io_error,
        server,
        store,
        wire,
        partition,
        packets,
        disk_full,
        disk_read_only,
        disk_power,
        list_points,
        list_calls,
    )
}
