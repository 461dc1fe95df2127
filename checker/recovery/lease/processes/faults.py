"""The faults of cases, as scripts that run beside the workload.

A script is a generator. Up to its first `yield` it prepares the actors, before they are configured and started. Each
`yield` waits: `(STEP, seconds)` until so many seconds after the workload has begun a step, `OUTAGE` or another number
of seconds, or `END`, until the workload is over. The script returns an empty text if the fault occurred, else why not.
"""

from __future__ import annotations

import re
import signal
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from leasehold.checker.recovery.lease.processes.actors import TICK_SECONDS, Actors
from leasehold.checker.recovery.lease.processes.workload import END, FaultScript, Workload
from leasehold.checker.recovery.processes.proxy import OPEN, TcpProxy
from leasehold.checker.recovery.processes.resources import LoopDisk, NetworkNamespace, TmpfsDisk, program
from leasehold.checker.recovery.processes.servers import Server
from leasehold.impl.lease.fleet import ROLES
from leasehold.impl.server.subscribers import VARIABLE

DURABLE = ("fdatasync", "fsync", "pwrite64")
OUTAGE = 1.0  # seconds
SHORT_TERM = 40  # ticks
# By which a clock is off: less than a term, and far more than a message takes.
CLOCK_OFFSETS = {"ahead": "+60s", "behind": "-60s"}
POWER_STEPS = ("demand", "extension", "grow", "shrink", "close", "next")
STORE_FAILED = "stops taking steps"  # in the log of an actor whose store fails


@dataclass
class CaseEnvironment:
    """The actors of a case and their surroundings, on which a fault works.

    Attributes:
        folder: of the case.
        actors: not started yet when a script begins.
        workload: what the actors are asked to do.
        server: of the stores, or of the messages; None: files, and HTTP.
        ends: called when the case is over.
    """

    folder: Path
    actors: Actors
    workload: Workload
    server: Server | None
    ends: ExitStack

    def required_server(self) -> Server:
        assert self.server is not None
        return self.server

    def log(self, actor: str) -> str:
        return (self.actors.folder / f"{actor}.log").read_text(errors="replace")

    def store_failed(self, *actors: str) -> str:
        """Empty where one of these actors has noticed that its store failed."""
        noticed = any(STORE_FAILED in self.log(name) for name in actors)
        return "" if noticed else "nothing was committed while the store failed"


# The actor's process


def kill_at_point(case: CaseEnvironment, actor: str, *point: str, again: bool = False) -> FaultScript:
    """The process kills itself at a point; `again`: once more as it has recovered."""
    name = "/".join(point)
    case.actors.environment[actor] = {VARIABLE: f"kill:{name}"}
    if again:
        yield "start", 0.0
        case.actors.environment[actor] = {VARIABLE: "kill:after-recovery/1"}
    yield END
    return "" if len(case.workload.deaths[actor]) > again else f"{name} was not passed in this run"


def pause_then_kill(case: CaseEnvironment, actor: str, step: str) -> FaultScript:
    """The process is stopped for a while, killed then, and started again."""
    yield step, 0.02
    case.actors.signal(actor, signal.SIGSTOP)
    yield OUTAGE
    case.actors.kill(actor)
    return ""


def kill_all(case: CaseEnvironment, step: str) -> FaultScript:
    """All three are killed at once."""
    yield step, 0.02
    for name in ROLES:
        case.actors.kill(name)
    return ""


def down_past_term(case: CaseEnvironment, actor: str, step: str) -> FaultScript:
    """An actor is killed, and starts again only when the lease's term is over."""
    case.workload.term = SHORT_TERM
    yield step, 0.02
    case.workload.held.add(actor)
    case.actors.kill(actor)
    yield SHORT_TERM * TICK_SECONDS * 3.5  # terms add up
    case.workload.held.discard(actor)
    yield END
    return "" if case.workload.outcome.end == "ended" else "the lease was renewed in time"


def clock_offset(case: CaseEnvironment, actor: str, direction: str, step: str = "") -> FaultScript:
    """The clock of an actor's machine is off from the beginning, or is set so while the actor is down for a moment."""
    # Durations (CLOCK_MONOTONIC) are measured as before, as they are where a calendar clock is set.
    prefix = [program("faketime"), "--exclude-monotonic", "-f", CLOCK_OFFSETS[direction]]
    if step:
        yield step, 0.02
    case.actors.prefix[actor] = prefix
    if step:
        case.actors.kill(actor)
    return ""


def _strace(log: Path, calls: str) -> list[str]:
    # Units are detached as they become what they are, so that nothing traces them.
    return [program("strace"), "-f", "-b", "execve", "-qq", "-o", str(log), "-e", f"trace={calls}"]


def kill_in_call(case: CaseEnvironment, actor: str, call: str, when: str) -> FaultScript:
    """The process is killed in a system call that makes data durable.

    `when` is its number in strace's notation: counted by each thread alone; `5`, or `5..9`.
    """
    inject = f"inject={call}:signal=SIGKILL:when={when}"
    case.actors.prefix[actor] = [*_strace(case.folder / "calls", call), "-e", inject]
    yield END
    return "" if case.workload.deaths[actor] else f"{call} number {when} was not made in this run"


def io_error(case: CaseEnvironment, actor: str, call: str, when: str) -> FaultScript:
    """A system call that makes data durable fails with EIO."""
    log = case.folder / "calls"
    case.actors.prefix[actor] = [*_strace(log, call), "-e", f"inject={call}:error=EIO:when={when}"]
    # A disk that fails as the store is opened ends the process; an operator has to repair it, and starts it again.
    case.workload.may_end.add(actor)
    yield END
    met = "INJECTED" in log.read_text(errors="replace")
    return "" if met else f"{call} number {when} was not made in this run"


# Servers, connections and networks


def server_fails(case: CaseEnvironment, how: str, step: str) -> FaultScript:
    """The server of the stores, or of the messages, is killed and started again, or ends all its connections."""
    server = case.required_server()
    yield step, 0.03
    if how == "terminate":
        server.terminate()
    else:
        server.kill()
        yield OUTAGE
        server.start()
    yield END
    return "" if server.kind == "nats" else case.store_failed(*ROLES)


def store_connection(case: CaseEnvironment, actor: str, mode: str) -> FaultScript:
    """An actor's connection to its store is cut, or carries one way only."""
    server = case.required_server()
    proxy = TcpProxy(server.port)
    case.ends.callback(proxy.close)
    case.actors.stores[actor] = server.url(proxy.port)
    yield "grow", 0.02
    proxy.turn(mode)
    yield OUTAGE
    proxy.turn(OPEN)
    yield END
    return case.store_failed(actor)


def peer_connection(case: CaseEnvironment, actor: str, mode: str, step: str) -> FaultScript:
    """Messages of others to an actor are cut off, or lost, or its answers are; its own messages go through."""
    listens = case.actors.listens[actor]
    proxy = TcpProxy(int(listens.rpartition(":")[2]))
    case.ends.callback(proxy.close)
    case.actors.addresses[actor] = f"http://127.0.0.1:{proxy.port}"
    case.actors.listens[actor] = {"listen": listens, "advertise": case.actors.addresses[actor]}
    yield step, 0.0
    proxy.turn(mode)
    yield OUTAGE
    proxy.turn(OPEN)
    yield END
    return "" if proxy.hurt else "no message was sent to it while its connections failed"


def packet_loss(case: CaseEnvironment, actor: str, rule: str, step: str = "") -> FaultScript:
    """An actor has a network of its own, which loses packets: at random all the time, or one way for a while."""
    network = NetworkNamespace()
    case.ends.callback(network.remove)
    for name in ROLES:
        host = network.inside if name == actor else network.outside
        port = case.actors.listens[name].rpartition(":")[2]
        case.actors.listens[name] = case.actors.addresses[name] = f"http://{host}:{port}"
    case.actors.prefix[actor] = network.prefix
    if step:
        yield step, 0.0
    network.lose(rule)
    if step:
        yield OUTAGE
        network.mend()
    yield END
    return "" if network.lost() else "no packet came while they were dropped"


# Disks


def _store_on(case: CaseEnvironment, actor: str, disk: TmpfsDisk) -> None:
    case.ends.callback(disk.unmount)
    case.actors.stores[actor] = f"sqlite:{disk.path}/store.db"


def disk_full(case: CaseEnvironment, actor: str, step: str) -> FaultScript:
    """An actor's store is on a disk that is full for a while."""
    disk = TmpfsDisk(case.folder)
    _store_on(case, actor, disk)
    yield step, 0.0
    disk.fill()
    yield OUTAGE
    disk.empty()
    yield END
    return case.store_failed(actor)


def disk_read_only(case: CaseEnvironment, actor: str, step: str) -> FaultScript:
    """An actor is started again on a disk that is read-only for a while."""
    disk = TmpfsDisk(case.folder)
    _store_on(case, actor, disk)
    held = case.workload.held
    yield step, 0.02
    held.add(actor)
    case.workload.may_end.add(actor)
    case.actors.kill(actor)
    disk.remount("ro")
    held.discard(actor)
    yield 1.5
    held.add(actor)
    disk.remount("rw")  # also if the actor, which still tries, has a file open at this moment
    held.discard(actor)
    yield END
    return "" if "cannot start" in case.log(actor) else "it was not started while the disk was read-only"


def disk_power_loss(case: CaseEnvironment, actor: str, step: str) -> FaultScript:
    """The disk of an actor's store loses power during its work; the actor is started again when the disk is back."""
    disk = LoopDisk(case.folder)
    _store_on(case, actor, disk)
    yield step, 0.02 * POWER_STEPS.index(step)
    case.workload.held.add(actor)
    case.actors.signal(actor, signal.SIGSTOP)
    disk.lose_power()
    case.actors.kill(actor)
    yield 0.3
    disk.unmount()
    disk.mount()
    case.workload.held.discard(actor)
    return ""


FAULTS: Mapping[str, Callable[..., FaultScript]] = {  # by the first word of a case's name; the others are arguments
    "kill": kill_at_point,
    "twice": partial(kill_at_point, again=True),
    "all": kill_all,
    "pause": pause_then_kill,
    "over": down_past_term,
    "clock": clock_offset,
    "call": kill_in_call,
    "eio": io_error,
    "server": server_fails,
    "store": store_connection,
    "wire": peer_connection,
    "packets": packet_loss,
    "full": disk_full,
    "read-only": disk_read_only,
    "power": disk_power_loss,
}


# Without a fault: runs that list the places at which a process can die


def list_points(passed: dict[str, Counter[str]], case: CaseEnvironment) -> FaultScript:
    """Counts the points that each actor passes."""
    for name in ROLES:
        case.actors.environment[name] = {VARIABLE: f"list:{case.folder}/{name}.points"}
    yield END
    for name in ROLES:
        passed[name] = Counter((case.folder / f"{name}.points").read_text().split())
    return ""


def list_calls(made: dict[str, Counter[str]], case: CaseEnvironment) -> FaultScript:
    """Counts the system calls that make data durable: for each actor, the most that one of its threads makes."""
    for name in ROLES:
        case.actors.prefix[name] = _strace(case.folder / f"{name}.calls", ",".join(DURABLE))
    yield END
    for name in ROLES:
        lines = (case.folder / f"{name}.calls").read_text(errors="replace")
        by_thread = Counter(re.findall(r"^(\d+)\s+(\w+)\(", lines, re.MULTILINE))
        made[name] = Counter()
        for (_, call), count in by_thread.items():
            made[name][call] = max(made[name][call], count)
    return ""
