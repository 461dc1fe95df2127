"""Failures of what is below a site, made real on the hosts of a demo, one at a time: who notices, and what mends them.

Theory of operation (paper, section 5.4). Each failure of the catalogue (faults/model/infrastructure.yaml) has a scene:
a lease whose servers are up, if it is about those; the failure of one host, or of the site's clock; and leases that are
asked for once it is there. The judge of `HostsRun` looks from outside all the while, and what holders say is written
down with its second. Who has noticed a failure is in the actors' logs, or among what their verifiers find. A scene is
over when the failure is mended, the servers of leases answer, or these were refused, and nothing is left of them.

`HostFailures` are kinds of `ProcessFault`: a failure that has not happened, such as a lack of memory in which the
kernel has killed nobody, is told.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from leasehold.checker.recovery.lease.processes.hosts import (
    TICK_SECONDS,
    HostFleet,
    HostsRun,
    HostsSite,
    packed,
    root_of,
    server_package,
)
from leasehold.checker.recovery.lease.processes.unattended import SERVING
from leasehold.checker.recovery.processes.faults import FaultRun, FaultScript, Kind, ProcessFault, Until
from leasehold.checker.recovery.processes.hosts import MEMORY, Hosts, killed_for_memory
from leasehold.checker.recovery.processes.resources import JumpingClock
from leasehold.checker.recovery.processes.rig import Rig
from leasehold.checker.recovery.processes.verifier import FleetVerifier
from leasehold.faults.model.catalogue import InfrastructureFault, infrastructure
from leasehold.impl.agent.fleet import CONTROLLER
from leasehold.impl.agent.host import OWN
from leasehold.impl.drivers.container import CONTAINER
from leasehold.impl.drivers.driver import named
from leasehold.impl.drivers.tools import PATH
from leasehold.impl.handlers import cgroups, processes
from leasehold.impl.lease.fleet import SITE, TENANT
from leasehold.impl.server.client import ClientError

STRUCK = "struck"  # the step of a scene at which the failure is due
HANDLER_TICKS, TERM_TICKS = 50, 600
WITHIN_SECONDS = 100.0  # the silence of an agent, a handler that is given up, and a teardown that is, and as much again
# More than the term, and than a clock that is set back may be off and stands still.
JUMP_SECONDS, JUMP_TERM = 60, 60
# Daemons that are each smaller than an agent, which the kernel therefore kills first.
HOGS, HOG_BYTES, SPARE_BYTES = 9, 8 << 20, 24 << 20
TAKES = """
import os, time
for _ in range({}):
    if not os.fork():
        taken = b"x" * {}
        time.sleep(1000)
time.sleep(1000)
"""
# Together they take more memory than a server may; the kernel ends one that is willing first, if none is large.
TOO_MUCH = "import os; os.fork(); x = bytearray(40 << 20)"
PADDING_BYTES = 4 << 20  # in an image that is not small
HANGS = "#!/bin/sh\nexec sleep 1000\n"
# Who has noticed a failure, by the logger that says so, and words of the message.
NOTICES = (
    ("leasehold.probes", "is found to be", "the probe of its agent", "the probe of the site"),
    ("leasehold.raising", "the detector hosts raises lost", "", "the detector of agents"),
    ("leasehold.raising", "the detector kernel raises lost", "the kernel's log on its host", ""),
    ("leasehold.calls", "it did not end within", "the time limit of its agent", "the time limit of the site"),
    ("leasehold.calls", "could not be begun", "the handler of its agent", "the handler of the site"),
    ("leasehold.calls", "failed:", "the handler of its agent", "the handler of the site"),
    ("leasehold.authority", "is held back until", "", "the policy of the site"),
)
BY_PROPERTY = "the property that is violated"


class Wish(NamedTuple):
    """A lease that is asked for.

    Attributes:
        units: how many.
        image: of its servers.
        refused: it is not to be served.
        term: in ticks.
    """

    units: int
    image: str = "server"
    refused: bool = False
    term: int = TERM_TICKS


class Scene(NamedTuple):
    """The leases that are asked for, before a failure and while it is there.

    Attributes:
        before: is served when the failure comes.
        after: are asked for then, one after the other.
        lasts: seconds until the failure is mended.
        ends: `before` ends by the failure.
        needs: programs, by the packages that bring them.
    """

    before: Wish | None = Wish(2)
    after: Sequence[Wish] = ()
    lasts: float = 0.0
    ends: bool = False
    needs: Mapping[str, str] = {}


BAD = Wish(1, "broken", refused=True)
SCENES: Mapping[str, Scene] = {
    "host_reboots": Scene(lasts=4),
    "mount_gone": Scene(Wish(2, "shared"), lasts=30, needs={"bindfs": "bindfs"}),
    "mount_hangs": Scene(Wish(2, "shared"), lasts=30, needs={"bindfs": "bindfs"}),
    "out_of_memory": Scene(lasts=18),
    "server_out_of_memory": Scene(lasts=4),
    "host_read_only": Scene(lasts=40, needs={"e2fsck": "e2fsprogs"}),
    "address_taken": Scene(lasts=18),
    "image_store_full": Scene(None, [Wish(2, "large")], lasts=8),
    "clock_jumps": Scene(Wish(2, term=JUMP_TERM), [Wish(2)], lasts=5, ends=True),
    "handler_hangs": Scene(None, [Wish(1, refused=True), Wish(2)], lasts=25),
    "image_fails": Scene(None, [BAD, BAD, BAD, BAD, Wish(4)]),
}


class FailingSite(HostsSite):
    """The lease's actors, whose site hears of agents that are silent, and whose clock may jump."""

    clock: JumpingClock | None = None

    def start(self, name: str) -> None:
        """Starts an actor."""
        if name == SITE and self.clock is not None:
            self.environment[name] = self.clock.environment
        super().start(name)


class InfrastructureRun(HostsRun):
    """A scene of one failure, played on two hosts with two units each; the failure is the first one's.

    Args:
        base: the folder of all.
        hosts: that are there.
        fault: the failure.
        say: takes what happens, for people.

    Attributes:
        struck: when the failure came, by the calendar; 0: it has not come yet.
        saw: what holders have said, with the seconds since.
        outage: the seconds since at which servers did not answer first, and last.
    """

    look_seconds, patience_seconds = 0.3, 120.0

    def __init__(
        self, base: Path, hosts: Hosts, fault: InfrastructureFault, say: Callable[[str], None] = lambda text: None
    ) -> None:
        self.fault, self.scene, self.victim = fault, SCENES[fault.name], hosts.names[0]
        self.store, self.exports = base / "store", base / "exports"
        super().__init__(base, hosts, 1, 0, False, False, WITHIN_SECONDS, say)
        self.struck = 0.0
        self.saw: list[tuple[float, str]] = []
        self.outage: tuple[float, float] | None = None
        self.mended = 0.0
        self._said: dict[str, str] = {}
        self.failures = HostFailures(self)
        self.rig = Rig(self.site, base, supervisor=self.supervisors[0], say=say)
        faults = [ProcessFault(fault.name, self.victim, step=STRUCK, after=1.0, lasts=self.scene.lasts)]
        if fault.name == "clock_jumps":
            assert isinstance(self.site, FailingSite)
            self.site.clock = JumpingClock(base / "site.clock")
        self.faults = FaultRun(self.rig, faults, self.failures.kinds)
        self._plot = self._scenes()
        self._waits: Callable[[], bool] | None = lambda: True

    # The rig

    def agents_on(self, hosts: Hosts) -> HostFleet:
        probing = {"every_seconds": 1, "patience": 2, "longest_seconds": 8, "hung_is_missed": True}
        handling = {"longest_seconds": 6, "tries": 2}
        return HostFleet(
            self.base / "agents", hosts, self.base / "packages", {"probing": probing, "handling": handling}
        )

    def site_with(self, agents: HostFleet) -> FailingSite:
        hosts = {
            "name": "agents",
            "trust": str(agents.folder / "trust.yaml"),
            "controller": str(agents.folder / f"{CONTROLLER}.sock"),
            "every_seconds": 1,
            "silent_seconds": 12,
        }
        plugs = {
            "policy": {"name": "first_fit", "hold_back": {"by": ["image.id"]}},
            "raises": {"unit": ["lost", "repaired"]},
            "detectors": {"hosts": hosts},
        }
        return FailingSite(self.base / "lease", agents, {"handler_limit": HANDLER_TICKS}, plugs)

    def server_package(self) -> Path:
        """Writes the package: with an image on a network file system, a large one, and one without its program."""
        folder = self.base / "servers"
        folder.mkdir(parents=True)
        root_of(self.exports)
        broken, large = root_of(self.base / "broken"), root_of(self.base / "large")
        (broken / "bin" / "busybox").unlink()
        (large / "padding").write_bytes(bytes(PADDING_BYTES))
        images = {
            "shared": {"directory": str(self.store)},
            "broken": packed(broken, folder / "broken.tar.gz"),
            "large": packed(large, folder / "large.tar.gz"),
        }
        return server_package(folder, images)

    def prepare(self) -> None:
        """Prepares the hosts, once they are up."""
        for name in self.hosts.names:
            self.failures.share(name)

    # The scene

    @property
    def more(self) -> bool:
        return False

    @property
    def over(self) -> bool:
        return self._waits is None

    def step(self) -> None:
        super().step()
        self.faults.meanwhile()
        while self._waits is not None and self._waits():
            self._waits = next(self._plot, None)

    def _scenes(self) -> Iterator[Callable[[], bool]]:
        yield lambda: self.all_serve and bool(self.now)
        if self.scene.before is not None:
            lease = self._want(self.scene.before)
            yield lambda: self._is_served(lease)
        self.faults.at_step(STRUCK)
        yield lambda: bool(self.faults.begun[self.fault.name])
        if self.scene.ends:
            yield lambda: self.is_over(lease)
        for wish in self.scene.after:
            lease = self._want(wish)
            yield partial(self._is_settled, lease, wish)
            if self.is_over(lease) != wish.refused:
                self.violations[f"{lease} was {'refused' if self.is_over(lease) else 'served'}"] = None
        served = [lease for lease in self.wanted if not self.is_over(lease)]
        yield lambda: self.faults.over and self.all_serve
        yield lambda: all(map(self._is_served, served))
        self.mended = self._seconds()
        for lease in served:
            with suppress(ClientError):
                self.site.client(TENANT).post("leases", lease, "stop")
        yield lambda: super(InfrastructureRun, self).over and not self._quarantined()

    def _is_settled(self, lease: str, wish: Wish) -> bool:
        return self.is_over(lease) or (not wish.refused and self._is_served(lease))

    def _want(self, wish: Wish) -> str:
        lease = f"{TENANT}:{len(self.wanted) + 1}"
        asked = {"units": wish.units, "until": self.now + 2 * wish.term, "term": wish.term}
        words = f"{wish.units} servers of the image {wish.image}"
        configuration = {"image.id": wish.image}
        self.demand(self.site.client(TENANT), lease, words, **asked, configuration=configuration)
        return lease

    def _is_served(self, lease: str) -> bool:
        """Returns whether all servers of a lease answer, and its holder knows of none that is lost."""
        row = self.rows.get(lease)
        if row is None or row["state"] not in SERVING or row["data"]["lease_lost"] or self._since:
            return False
        return bool(len(row["data"]["lease_units"]) == row["data"]["ticket_units"])

    def _quarantined(self) -> list[str]:
        """The units that the site does not give to leases."""
        try:
            rows = self.site.client(SITE).get("units")
        except ClientError:
            return ["?"]
        return [row["unit"] for row in rows if row["state"] == "failed"]

    def _seconds(self) -> float:
        return round(time.time() - self.struck, 1) if self.struck else 0.0

    def observe(self) -> None:
        super().observe()
        if not self.struck:
            return
        if any(" answers " in words for words in self._since):
            self.outage = (self.outage or (self._seconds(), 0.0))[0], self._seconds()
        for lease, row in self.rows.items():
            data = row["data"]
            lost = f", without {_names(data['lease_lost'])}" if data["lease_lost"] else ""
            words = f"{row['state']} with {_names(data['lease_units'])}{lost}"
            if row["over"]:
                words = f"over{': ' + str(data['reason'])[:200] if data.get('reason') else ''}"
            if self._said.get(lease) != words:
                self._said[lease] = words
                self.saw.append((self._seconds(), f"{lease} is {words}"))

    # What has come of it

    def notices(self) -> list[tuple[float, str, str]]:
        """Returns who has noticed something, after how many seconds, and the words."""
        found = []
        for actor, log in (
            (SITE, self.site.folder / f"{SITE}.log"),
            *((name, self.agents.folder / f"{name}.log") for name in self.agents.hosts),
        ):
            for line in log.read_text(errors="replace").splitlines() if log.exists() else ():
                with suppress(ValueError, LookupError):
                    said = json.loads(line)
                    after = datetime.fromisoformat(said["time"]).timestamp() - self.struck
                    if after < 0:
                        continue
                    for logger, words, agent, site in NOTICES:
                        if said["logger"] == logger and words in said["message"]:
                            found.append((round(after, 1), site if actor == SITE else agent, said["message"][:300]))
                            break
        return sorted(found)

    def _violated(self, verifiers: Sequence[FleetVerifier]) -> Iterator[tuple[float, str, str]]:
        """The properties that are violated, with the second of the first one's last event, and whose fault it is."""
        for verifier in verifiers:
            for violation in verifier.result.violations:
                place = violation.events[-1]
                words = f"`{violation.of}` is violated by event {place[1]} of {place[0]}; {violation.blame}"
                if (after := round(verifier.moments[place] * TICK_SECONDS - self.struck, 1)) >= 0:
                    yield after, BY_PROPERTY, words
                if violation.blame is None or violation.blame.culprit != "infrastructure":
                    self.violations[f"{violation.of} is blamed on {violation.blame}"] = None

    def record(self, verifiers: Sequence[FleetVerifier]) -> dict[str, Any]:
        """Returns what came of it."""
        notices = self.notices()
        summary = self.summary(verifiers)
        if BY_PROPERTY in self.fault.noticed:
            # A clock that is off is what properties of time speak of: so it is noticed, and the rest has to hold.
            summary["findings"] = [one for verifier in verifiers for one in verifier.complaints_where(clocks=False)]
            notices += self._violated(verifiers)
        if not {*self.fault.noticed} & {by for _, by, _ in notices}:
            self.violations[f"it was not noticed by {' or '.join(self.fault.noticed)}"] = None
        if missing := self.faults.result():
            self.violations[f"the failure has not happened: {missing}"] = None
        first = {by: (after, words) for after, by, words in reversed(notices)}
        by_time = sorted(first.items(), key=lambda one: one[1])
        return {
            "name": self.fault.name,
            "noticed": [{"by": by, "seconds": after, "words": words} for by, (after, words) in by_time],
            "outage": self.outage,
            "mended": self.mended,
            "saw": self.saw,
            "evidence": self.failures.evidence,
            **summary,
            "violations": [*self.violations],
        }


class HostFailures:
    """The kinds of failures; each strikes the host of a run that is its victim.

    Attributes:
        evidence: what shows that it was real, in words.
    """

    def __init__(self, run: InfrastructureRun) -> None:
        self.run, self.hosts, self.host = run, run.hosts, run.victim
        self.evidence = ""
        self._servers: dict[str, subprocess.Popen[Any]] = {}

    @property
    def kinds(self) -> Mapping[str, Kind]:
        return {name: getattr(self, name) for name in SCENES}

    def _strike(self, words: str) -> None:
        self.run.struck = time.time()
        self.run.say(words)

    # The power of a host

    def _halt(self) -> None:
        self.run.supervisors[1].held.add(self.host)
        self.hosts.halt(self.host)

    def _boot(self, read_only: bool = False) -> None:
        self.hosts.boot(self.host, read_only)
        self.share(self.host)
        self.run.supervisors[1].held.discard(self.host)

    def host_reboots(self, rig: Rig, fault: ProcessFault) -> FaultScript:
        yield Until.DUE
        servers = len([*self.run.servers()])
        self._strike(f"{self.host} loses power")
        self._halt()
        self.evidence = f"{servers - len([*self.run.servers()])} of {servers} servers ended with it"
        yield Until.MENDED
        self._boot()
        return ""

    def host_read_only(self, rig: Rig, fault: ProcessFault) -> FaultScript:
        yield Until.DUE
        self._strike(f"the disk of {self.host} has an error")
        self.hosts.fail_disk(self.host)
        self._halt()
        self._boot(read_only=True)
        options = self.hosts.do(self.host, "findmnt", "-n", "-o", "FSTYPE,OPTIONS", self.hosts.disk(self.host))
        self.evidence = f"the kernel says of its disk: {options.strip()}"
        yield Until.MENDED
        self._halt()
        self.hosts.mend_disk(self.host)
        self._boot()
        yield Until.END
        return "" if "cannot start" in self.run.agents.log(self.host) else "its agent has started"

    # Network file systems

    def share(self, name: str) -> None:
        """Mounts the network file system on a host, where it can be had."""
        if self.run.scene.needs.get("bindfs"):
            self._servers[name] = self.hosts.share(name, self.run.exports, self.run.store)

    def mount_gone(self, rig: Rig, fault: ProcessFault) -> FaultScript:
        yield Until.DUE
        self._strike(f"what serves {self.run.store.name} on {self.host} is killed")
        _end(self._servers[self.host])
        self.evidence = self._says(str(self.run.store))
        yield Until.MENDED
        self.hosts.do(self.host, "umount", "-l", self.run.store)
        self.share(self.host)
        return ""

    def mount_hangs(self, rig: Rig, fault: ProcessFault) -> FaultScript:
        yield Until.DUE
        self._strike(f"what serves {self.run.store.name} on {self.host} is stopped")
        stopped = _members(self._servers[self.host])
        for seen in stopped[1:]:  # the first is what it was entered by, which stops with it, and goes on before it
            processes.send(seen, signal.SIGSTOP)
        self.evidence = self._says(str(self.run.store))
        yield Until.MENDED
        for seen in stopped:
            processes.send(seen, signal.SIGCONT)
        return ""

    def _says(self, folder: str) -> str:
        """Returns the words of a program of the host about a folder."""
        words = [*self.hosts.within(self.host), "timeout", "--signal=KILL", "1", "ls", folder]
        ended = subprocess.run(words, capture_output=True, text=True, check=False)
        return f"`ls` of it: {ended.stderr.strip()[-150:] or f'killed after a second (code {ended.returncode})'}"

    # Memory and programs

    def out_of_memory(self, rig: Rig, fault: ProcessFault) -> FaultScript:
        yield Until.DUE
        group = self.hosts.memory(self.host)
        before = killed_for_memory(group)
        used = int((group / "memory.usage_in_bytes").read_text())
        self._strike(f"the memory of {self.host} is short")
        self.hosts.limit_memory(self.host, used + SPARE_BYTES)
        command = [*self.hosts.daemon(self.host), sys.executable, "-I", "-S", "-c", TAKES.format(HOGS, HOG_BYTES)]
        hog = subprocess.Popen(command, start_new_session=True)
        yield Until.MENDED
        _end(hog)
        self.hosts.limit_memory(self.host, -1)
        killed = killed_for_memory(group) - before
        self.evidence = f"the kernel has killed {killed} processes of the group (`oom_kill`)"
        yield Until.END
        return "" if killed else "the kernel has killed nobody"

    def server_out_of_memory(self, rig: Rig, fault: ProcessFault) -> FaultScript:
        yield Until.DUE
        own = self.hosts.disk(self.host) / "host" / OWN / "units"
        group = next(MEMORY.glob(named(own, "*", "cgroup")))
        server, others = group / CONTAINER, group / "others"
        for pid in (server / "cgroup.procs").read_text().split():
            Path(f"/proc/{pid}/oom_score_adj").write_text("1000")
        before = killed_for_memory(server)
        others.mkdir()
        self._strike(f"the memory of a server on {self.host} is short")
        enter = ["sh", "-c", 'echo $$ > "$0"/cgroup.procs && exec "$@"', str(others)]
        subprocess.run([*enter, sys.executable, "-I", "-S", "-c", TOO_MUCH], check=False)
        killed = killed_for_memory(server) - before
        self.evidence = f"the kernel has killed {killed} process of its control group (`oom_kill`)"
        cgroups.remove(str(others.relative_to(MEMORY)))
        yield Until.MENDED
        return "" if killed else "the kernel has not killed it"

    def handler_hangs(self, rig: Rig, fault: ProcessFault) -> FaultScript:
        yield Until.DUE
        hangs = self.run.base / "hangs"
        hangs.write_text(HANGS)
        hangs.chmod(0o755)
        runtime = str(Path(shutil.which("runc", path=PATH) or "runc").resolve())
        self._strike(f"runc hangs on {self.host}")
        self.hosts.do(self.host, "mount", "--bind", hangs, runtime)
        self.evidence = f"{runtime} of the host: {HANGS.split(chr(10))[1]}"
        yield Until.MENDED
        self.hosts.do(self.host, "umount", runtime)
        return ""

    def image_store_full(self, rig: Rig, fault: ProcessFault) -> FaultScript:
        yield Until.DUE
        filler = self.hosts.disk(self.host) / self.hosts.scratch / "filler"
        self._strike(f"the image store of {self.host} is full")
        words = [*self.hosts.within(self.host), "dd", "if=/dev/zero", f"of={filler}", "bs=64k"]
        self.evidence = subprocess.run(words, capture_output=True, text=True, check=False).stderr.splitlines()[0]
        yield Until.MENDED
        self.hosts.do(self.host, "rm", filler)
        yield Until.END
        return "" if "No space left" in self.run.agents.log(self.host) else "no image was unpacked meanwhile"

    def image_fails(self, rig: Rig, fault: ProcessFault) -> FaultScript:
        yield Until.DUE
        self._strike("an image without its program is asked for")
        return ""

    # Networks and clocks

    def address_taken(self, rig: Rig, fault: ProcessFault) -> FaultScript:
        yield Until.DUE
        other, address = self.hosts.names[1], self.hosts.address(self.host)
        self._strike(f"{other} takes the address of {self.host}")
        self.hosts.do(other, "ip", "address", "add", f"{address}/32", "dev", "eth0")
        words = ["busybox", "arping", "-U", "-I", "eth0", "-c", "1000", address]
        announcing = subprocess.Popen(
            [*self.hosts.within(other), *words], stdout=subprocess.DEVNULL, start_new_session=True
        )
        time.sleep(0.5)
        taken = self._at(address)
        self.evidence = f"{address} is at {taken}, the interface of {other}"
        yield Until.MENDED
        _end(announcing)
        self.hosts.do(other, "ip", "address", "delete", f"{address}/32", "dev", "eth0")
        subprocess.run(["ip", "neighbour", "flush", "dev", self.hosts.bridge], check=True)
        yield Until.END
        mine = json.loads(self.hosts.do(other, "ip", "-j", "link", "show", "eth0"))[0]["address"]
        return "" if taken == mine else f"its address stayed at {taken}"

    def _at(self, address: str) -> str:
        """The interface at which this machine reaches an address."""
        words = ["ip", "-j", "neighbour", "show", address]
        found = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout or "[]")
        return str(found[0].get("lladdr", "nowhere")) if found else "nowhere"

    def clock_jumps(self, rig: Rig, fault: ProcessFault) -> FaultScript:
        yield Until.DUE
        assert isinstance(self.run.site, FailingSite)
        clock = self.run.site.clock
        assert clock is not None
        self._strike(f"the clock of {SITE} is set {JUMP_SECONDS} s ahead")
        clock.set(JUMP_SECONDS)
        self.evidence = "libfaketime, whose file says so"
        yield Until.MENDED
        clock.set(0)
        return ""


def lacking(fault: str) -> str:
    """Returns why a failure cannot be made real on this machine; empty where it can."""
    for program, package in SCENES[fault].needs.items():
        if shutil.which(program, path=PATH) is None:
            return f"{program} is missing, which the package {package} brings"
    if fault == "clock_jumps" and not JumpingClock.LIBRARIES:
        return "libfaketime is missing, which the package faketime brings"
    if fault in ("out_of_memory", "server_out_of_memory") and not (MEMORY / "memory.limit_in_bytes").exists():
        return "the machine has no memory controller of version 1"
    return ""


def play(name: str, base: Path, hosts: Hosts, say: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """Plays a failure; returns what came of it.

    Args:
        name: of the failure.
        base: the folder of all.
        hosts: two, which are up.
        say: takes what happens, for people.
    """
    run = InfrastructureRun(base, hosts, infrastructure()[name], say)
    with run.rig:
        run.prepare()
        with run.agents, run.site:
            verifiers = [FleetVerifier(one) for one in (run.site, run.agents)]
            run.run()
            for verifier in verifiers:
                verifier.end()
            return run.record(verifiers)


def _names(units: Sequence[Any]) -> str:
    return ", ".join(f"unit-{str(unit).partition('[')[2].rstrip(']') or unit}" for unit in units) or "no unit"


def _members(leader: subprocess.Popen[Any]) -> list[processes.ProcessSnapshot]:
    """The processes of a session, also those that are on a host."""
    found = [one for one in processes.everyone() if leader.pid in (one.session, one.pid) and not one.gone]
    return sorted(found, key=lambda one: one.pid != leader.pid)


def _end(leader: subprocess.Popen[Any]) -> None:
    """Kills the processes of a session."""
    for seen in _members(leader):
        processes.send(seen, signal.SIGKILL)
    leader.wait()
