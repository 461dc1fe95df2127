"""A site whose units are servers on several hosts: what is asked for, and a judge who looks from outside.

Theory of operation. On each host (checker/recovery/processes/hosts.py) an agent runs, and its servers: each is a
container with a page that says which unit it is and for which lease. The judge fetches pages over the servers' own
addresses, and asks the kernel what there is; of actors it asks only what their holder says. While a holder says that
its lease is active, and its term lasts:

1. each of its units answers, at the address that the holder was told, with that unit and that lease;
2. no server runs for a lease that is over.

At the end no server, mount or link is left. What differs counts when it is seen for as long as a repair may take, as
units are lost.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import signal
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from leasehold.checker.recovery.lease.processes.unattended import SERVING, UnattendedRun
from leasehold.checker.recovery.processes.hosts import Hosts, HostsUnavailable
from leasehold.checker.recovery.processes.verifier import FleetVerifier
from leasehold.impl.agent import package
from leasehold.impl.agent.fleet import CONTROLLER, AgentFleet
from leasehold.impl.agent.host import OWN
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.lease.fleet import SITE, TENANT, Fleet
from leasehold.impl.server.client import ClientError

NEEDS = {"runc": "runc", "busybox": "busybox-static"}
PORT = 8470
SERVERS = "10.91.0.0/24"  # the servers of a host, which no other host reaches
UNITS_OF_HOST, TERMS = 2, (60, 80)  # ticks
TICK_SECONDS = 0.5
LAYER = re.compile(r"[ ,]upperdir=([^, \n]+)")
IMAGES = "host/own/units/.images"  # on a host's disk


def hosts_of(count: int, key: str, base: Path) -> Hosts:
    """Hosts for servers."""
    return Hosts([f"host{n}" for n in range(1, count + 1)], key, base / "disks", IMAGES)


class HostFleet(AgentFleet):
    """A controller on this machine, and agents on hosts, which have all that they keep on the disk of their host."""

    def __init__(self, folder: Path, hosts: Hosts, repository: Path, more: Mapping[str, Any] | None = None) -> None:
        probing = {"every_seconds": 1, "patience": 2}
        super().__init__(folder, hosts.names, repository, TICK_SECONDS, more={"probing": probing, **(more or {})})
        self.on = hosts
        self.addresses = {name: f"http://{hosts.address(name)}:{PORT}" for name in hosts.names}
        self.addresses[CONTROLLER] = f"http://{hosts.address()}:{PORT}"
        # A host that has taken the address of another answers there, as itself.
        everywhere = f"http://0.0.0.0:{PORT}"
        self.listens = {n: {"listen": everywhere, "advertise": self.addresses[n]} for n in hosts.names}
        self.stores = {name: f"sqlite:{hosts.disk(name)}/agent.db" for name in hosts.names}
        self.directories = {name: str(hosts.disk(name) / "host") for name in hosts.names}

    def start(self, name: str) -> None:
        """Starts an actor, an agent on its host."""
        if name in self.hosts:
            self.prefix[name] = self.on.daemon(name)
        super().start(name)

    def _plugs(self, name: str) -> dict[str, Any]:
        plugs = super()._plugs(name)
        if name in self.hosts:
            units, control = f"{self.directories[name]}/{OWN}/units", str((self.folder / f"{name}.sock").resolve())
            kernel = {"name": "kernel_log", "units": units, "control": control}
            plugs |= {"raises": {"agent": ["lost"]}, "detectors": {"kernel": kernel}}
        return plugs


class HostsSite(Fleet):
    """The lease's actors, whose site has its units on hosts by turns."""

    def __init__(
        self,
        folder: Path,
        agents: AgentFleet,
        settings: Mapping[str, Any] | None = None,
        plugs: Mapping[str, Any] | None = None,
    ) -> None:
        self.hosts, self._more_plugs = agents.hosts, dict(plugs or {})
        units, more = UNITS_OF_HOST * len(self.hosts), {"probing": {"every_seconds": 1, "patience": 1}}
        settings = {"lazy_close": False, "handler_limit": 600, **(settings or {})}
        super().__init__(folder, units, TICK_SECONDS, handler=agents.handler(), more=more, settings=settings)

    def host_of(self, unit: int) -> str:
        """The host of a unit."""
        return self.hosts[unit % len(self.hosts)]

    def _plugs(self, name: str) -> dict[str, Any]:
        plugs = super()._plugs(name)
        if name == SITE:
            units = [{"name": f"unit-{n}", "properties": {"host": self.host_of(n)}} for n in range(self.units)]
            plugs |= {"inventory": {"units": units}, **self._more_plugs}
        return plugs


def root_of(folder: Path) -> Path:
    """Makes the root file system of a server."""
    for name in ("bin", "proc", "sys", "dev", "etc", "tmp", "www"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    shutil.copy(shutil.which("busybox") or "busybox", folder / "bin" / "busybox")
    return folder


def packed(root: Path, archive: Path) -> dict[str, str]:
    """Packs a root file system; returns the image, as a package has it."""
    with tarfile.open(archive, "w:gz", compresslevel=1) as file:
        file.add(root, ".")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    return {"archive": f"{{package}}/{archive.name}", "digest": f"sha256:{digest}"}


def server_package(folder: Path, images: Mapping[str, Mapping[str, str]] | None = None) -> Path:
    """Writes a package whose units are servers: each a container with a network and limits, and a page.

    Args:
        folder: of the package.
        images: further ones, among which a holder may choose.
    """
    folder.mkdir(parents=True, exist_ok=True)
    root = root_of(folder.with_name("root"))
    menu = {"server": packed(root, folder / "image.tar.gz"), **(images or {})}
    shutil.rmtree(root)
    handler = {
        "name": "composed",
        "directory": "{own}/units",
        "images": menu,
        "properties": {"image.id": {"from": "holder", "default": "server", "among": [*menu]}},
        "parts": [
            {"network": {"bridge": "servers", "subnet": SERVERS}},
            {"cgroup": {"memory": "64MiB", "processes": 32}},
            {
                "container": {
                    "image": "{image.id}",
                    "command": ["/bin/busybox", "httpd", "-f", "-p", "80", "-h", "/www"],
                    "namespace": "{network.namespace}",
                    "cgroup": "{cgroup.path}",
                    "hostname": "{unit}",
                    "files": {"/www/index.html": "{unit} {lease}"},
                }
            },
        ],
        "tells": {"host.name": "{container.hostname}", "host.privIPAddr": "{network.address}"},
    }
    (folder / package.HANDLER).write_text(yaml.safe_dump(handler, sort_keys=False))
    return folder


class HostsRun(UnattendedRun):
    """A run of leases on hosts, in which actors, agents and units are killed.

    Args:
        base: the folder of all.
        hosts: that are there.
        seed, leases: as `UnattendedRun` takes them.
        crash: each actor, the controller and each agent is killed once.
        lose: units are killed.
        within: seconds in which a unit is repaired or replaced.
        say: takes what happens, for people.
    """

    def __init__(
        self,
        base: Path,
        hosts: Hosts,
        seed: int,
        leases: int,
        crash: bool,
        lose: bool,
        within: float,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.base, self.hosts, self.within = base, hosts, within
        self.agents = self.agents_on(hosts)
        self._publish()
        self.site = self.site_with(self.agents)
        super().__init__([self.site, self.agents], seed, leases, crash, say)
        self.lost = 0
        self.rows: dict[str, dict[str, Any]] = {}
        self._now = 0
        self._since: dict[str, float] = {}  # of what differs, when it was seen first
        self.to_lose = 2 * len(hosts.names) if lose else 0
        self._next_loss = 0.0

    def agents_on(self, hosts: Hosts) -> HostFleet:
        """The agents and their controller."""
        return HostFleet(self.base / "agents", hosts, self.base / "packages")

    def site_with(self, agents: HostFleet) -> HostsSite:
        """The lease's actors."""
        return HostsSite(self.base / "lease", agents)

    def server_package(self) -> Path:
        """Writes the package of the servers."""
        return server_package(self.base / "servers")

    def _publish(self) -> None:
        key = self.base / "agents" / f"{CONTROLLER}.key"
        key.parent.mkdir(parents=True, exist_ok=True)
        PrivateKey.generate().save(key)
        manifest = package.publish(self.server_package(), self.base / "packages", CONTROLLER, PrivateKey.load(key))
        package.use(self.base / "packages", manifest.number)

    @property
    def now(self) -> int:
        return self._now

    @property
    def more(self) -> bool:
        return super().more or bool(self.to_lose)

    @property
    def over(self) -> bool:
        return super().over and all(row["over"] for row in self._of(SITE).values()) and not self._down()

    def is_over(self, lease: str) -> bool:
        return bool((self.rows.get(lease) or {}).get("over"))

    def states(self) -> str:
        return repr([(lease, row["state"]) for lease, row in self.rows.items()])

    def _of(self, actor: str) -> dict[str, Any]:
        try:
            return {row["lease"]: row for row in self.site.client(actor).get("leases")}
        except ClientError:
            return {"": {"over": False}}

    def _down(self) -> list[str]:
        """The units that the controller does not take for torn down."""
        try:
            rows = self.agents.client(CONTROLLER).get("leases")
        except ClientError:
            return ["?"]
        return [row["lease"] for row in rows if row["state"] != "down"]

    def step(self) -> None:
        super().step()
        at = time.monotonic()
        if self.to_lose and self.all_serve and at >= self._next_loss and (servers := [*self.servers()]):
            name, pid = self.chance.choice(sorted(servers))
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self.to_lose, self.lost = self.to_lose - 1, self.lost + 1
                self.say(f"the server {name} is killed")
            self._next_loss = at + self.chance.uniform(3.0, 6.0)

    def ask(self) -> None:
        lease, term = f"{TENANT}:{len(self.wanted) + 1}", self.chance.choice(TERMS)
        units = self.chance.randint(1, len(self.hosts.names))
        asked = {"units": units, "until": self.now + 2 * term, "term": term}
        self.demand(self.site.client(TENANT), lease, f"{units} servers", **asked)

    # The judge

    def observe(self) -> None:
        client = self.site.client(TENANT)
        try:
            self._now = client.get("about")["now"]
            self.rows = {row["lease"]: row for row in client.get("leases")}
        except ClientError:
            return
        differs = dict.fromkeys(self._differs())
        now = time.monotonic()
        self._since = {words: self._since.get(words, now) for words in differs}
        for words, since in self._since.items():
            if now - since > self.within:
                self.violations[words] = None

    def _differs(self) -> Iterator[str]:
        """Yields the differences from what holders were told, in sentences that stay the same while they last."""
        for lease, row in self.rows.items():
            data = row["data"]
            if row["state"] not in SERVING or self.now >= data["lease_end"]:
                continue
            self.served.add(lease)
            for unit in data["lease_units"]:
                number = int(str(unit).partition("[")[2].rstrip("]") or unit)
                told, host = data["unit_properties"][number], self.site.host_of(number)
                address = told.get("host.privIPAddr") if isinstance(told, dict) else None
                page = self._page(host, address) if address else "no address"
                if page != f"unit-{number} {lease}":
                    yield f"unit-{number} of {lease} is at {address} on {host}, and answers {page!r:.60}"
        for name, _ in self.servers():
            if (self.rows.get(name.rpartition(" ")[2]) or {}).get("over"):
                yield f"the server {name} runs, and its lease is over"

    def _page(self, host: str, address: str) -> str:
        try:
            # A server that hangs accepts, and never answers.
            fetch = [*self.hosts.within(host), "timeout", "-s", "KILL", "3", "busybox", "nc", "-w", "2", address, "80"]
        except HostsUnavailable as error:
            return str(error)
        asked = f"GET / HTTP/1.0\r\nHost: {address}\r\n\r\n"
        answer = subprocess.run(fetch, input=asked.encode(), capture_output=True, check=False).stdout
        return answer.partition(b"\r\n\r\n")[2].decode(errors="replace").strip()

    def servers(self) -> Iterator[tuple[str, int]]:
        """The servers that run: the unit and the lease of each, by its page, and its first process."""
        for process in Path("/proc").iterdir():
            if process.name.isdecimal():
                with contextlib.suppress(OSError):
                    words = (process / "cmdline").read_bytes().split(b"\0")
                    if words[:2] == [b"/bin/busybox", b"httpd"] and (page := self._page_of(process)) is not None:
                        yield page.read_text().strip(), int(process.name)

    def _page_of(self, process: Path) -> Path | None:
        """The page of a server on these hosts: what it has written, as its image may hang."""
        layer = LAYER.search((process / "mountinfo").read_text())
        for name in self.hosts.names if layer is not None else ():
            if layer is not None and Path(layer[1]).is_relative_to(self.hosts.disk(name)) and self.hosts.is_up(name):
                return self.hosts.root(name) / layer[1].lstrip("/") / "www/index.html"
        return None

    def left(self) -> list[str]:
        """The remains on the hosts, as the kernel has them."""
        left = [f"server {name}" for name, _ in self.servers()]
        for name in self.hosts.names:
            units = str(self.hosts.disk(name) / "host")
            images = str(self.hosts.disk(name) / self.hosts.scratch)
            left += [m for m in self.hosts.mounts(name) if m.startswith(units) and not m.startswith(images)]
            if self.hosts.is_up(name):
                links = [line.split()[0] for line in self.hosts.do(name, "ip", "-br", "link").splitlines()]
                own = ("lo", "eth0", "servers")
                left += [f"{link} on {name}" for link in links if link.partition("@")[0] not in own]
        return sorted(left)

    def summary(self, verifiers: Sequence[FleetVerifier] = ()) -> dict[str, Any]:
        return {**super().summary(verifiers), "lost": self.lost}
