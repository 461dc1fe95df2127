"""A site whose units are servers on several hosts: the hosts, what is asked for, and a judge who looks from outside.

Theory of operation. Each host is a network namespace with an address of its own, in which its agent runs and its
servers have their network; so nothing of one host is reached at another. Each server is a container with a page that
says which unit it is and for which lease. The judge fetches pages over the servers' own addresses, and asks the kernel
what there is; of actors it asks only what their holder says. While a holder says that its lease is active, and its
term lasts:

1. each of its units answers, at the address that the holder was told, with that unit and that lease;
2. no server runs for a lease that is over.

At the end no server, mount or link is left. What differs counts when it is seen for as long as a repair may take, as
units are lost.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import shutil
import signal
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from leasehold.checker.recovery.processes.verifier import FleetVerifier
from leasehold.impl.agent import package
from leasehold.impl.agent.fleet import CONTROLLER, AgentFleet
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.lease.fleet import SITE, TENANT, Fleet
from leasehold.impl.processes.supervisor import Died, Supervisor
from leasehold.impl.server.client import ClientError

NEEDS = {"runc": "runc", "ip": "iproute2", "nsenter": "util-linux", "busybox": "busybox-static"}
NETWORK, PORT = "10.90.{net}.{host}", 8470
SERVERS = "10.91.0.0/24"  # the servers of a host, which no other host reaches
UNITS_OF_HOST, TERMS, TOGETHER = 2, (60, 80), 2  # ticks
PATIENCE_SECONDS, LOOK_SECONDS = 180.0, 0.3
SERVING = ("active", "extending_ticket", "active_ticketed", "extending_lease")


class HostsUnavailable(Exception):
    """The demo cannot run here. The message says what is missing, and which package brings it."""


def require() -> None:
    """Checks whether hosts can be made here.

    Raises:
        Unavailable: they cannot.
    """
    if os.geteuid():
        raise HostsUnavailable("hosts are network namespaces, which root alone can make; run it as root")
    for program, brought in NEEDS.items():
        if shutil.which(program) is None:
            raise HostsUnavailable(f"{program} is missing, which the package {brought} brings")


class Hosts:
    """Network namespaces that are joined by a bridge.

    Args:
        names: of the hosts.
        key: a few letters that no other hosts of this machine have.
    """

    def __init__(self, names: Sequence[str], key: str) -> None:
        self.names, self._key = [*names], key
        self._net = int(hashlib.sha256(key.encode()).hexdigest(), 16) % 250 + 1
        self.bridge = f"lh{key}"

    def address(self, name: str = "") -> str:
        """The address of a host, or of this machine among them."""
        return NETWORK.format(net=self._net, host=self.names.index(name) + 1 if name else 254)

    def namespace(self, name: str) -> str:
        """The network namespace of a host."""
        return f"lh{self._key}-{name}"

    def within(self, name: str) -> list[str]:
        """The words before a command that runs on a host."""
        return ["nsenter", f"--net=/run/netns/{self.namespace(name)}", "--"]

    def __enter__(self) -> Hosts:
        _run("ip", "link", "add", self.bridge, "type", "bridge")
        _run("ip", "address", "add", f"{self.address()}/24", "dev", self.bridge)
        _run("ip", "link", "set", self.bridge, "up")
        for name in self.names:
            link, space = f"v{self._key}{self.names.index(name)}", self.namespace(name)
            _run("ip", "netns", "add", space)
            _run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", space)
            _run("ip", "link", "set", link, "master", self.bridge, "up")
            _run("ip", "-n", space, "address", "add", f"{self.address(name)}/24", "dev", "eth0")
            _run("ip", "-n", space, "link", "set", "eth0", "up")
            _run("ip", "-n", space, "link", "set", "lo", "up")
        return self

    def __exit__(self, *error: object) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", self.namespace(name)], check=False, capture_output=True)
        subprocess.run(["ip", "link", "delete", self.bridge], check=False, capture_output=True)


class HostFleet(AgentFleet):
    """A controller on this machine, and agents on hosts."""

    def __init__(self, folder: Path, hosts: Hosts, repository: Path, tick_seconds: float) -> None:
        super().__init__(folder, hosts.names, repository, tick_seconds, probing={"every_seconds": 1, "patience": 2})
        self.on = hosts
        self.addresses = {name: f"http://{hosts.address(name)}:{PORT}" for name in hosts.names}
        self.addresses[CONTROLLER] = f"http://{hosts.address()}:{PORT}"

    def start(self, name: str) -> None:
        """Starts an actor, an agent on its host."""
        if name in self.hosts:
            self.prefix[name] = self.on.within(name)
        super().start(name)


class HostsSite(Fleet):
    """The lease's actors, whose site has its units on hosts by turns."""

    def __init__(self, folder: Path, agents: AgentFleet, tick_seconds: float) -> None:
        self.hosts = agents.hosts
        units, more = UNITS_OF_HOST * len(self.hosts), {"probing": {"every_seconds": 1, "patience": 1}}
        settings = {"lazy_close": False, "handler_limit": 600}
        super().__init__(folder, units, tick_seconds, handler=agents.handler(), more=more, settings=settings)

    def host_of(self, unit: int) -> str:
        """The host of a unit."""
        return self.hosts[unit % len(self.hosts)]

    def _plugs(self, name: str) -> dict[str, Any]:
        plugs = super()._plugs(name)
        if name == SITE:
            units = [{"name": f"unit-{n}", "properties": {"host": self.host_of(n)}} for n in range(self.units)]
            plugs["inventory"] = {"units": units}
        return plugs


def server_package(folder: Path) -> Path:
    """Writes a package whose units are servers: each a container with a network and limits, and a page."""
    root = folder.with_name("root")
    for name in ("bin", "proc", "sys", "dev", "etc", "tmp", "www"):
        (root / name).mkdir(parents=True, exist_ok=True)
    shutil.copy(shutil.which("busybox") or "busybox", root / "bin" / "busybox")
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(folder / "image.tar.gz", "w:gz", compresslevel=1) as archive:
        archive.add(root, ".")
    shutil.rmtree(root)
    digest = hashlib.sha256((folder / "image.tar.gz").read_bytes()).hexdigest()
    handler = {
        "name": "composed",
        "directory": "{own}/units",
        "images": {"server": {"archive": "{package}/image.tar.gz", "digest": f"sha256:{digest}"}},
        "parts": [
            {"network": {"bridge": "servers", "subnet": SERVERS}},
            {"cgroup": {"memory": "64MiB", "processes": 32}},
            {
                "container": {
                    "image": "server",
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


class HostsRun:
    """A run of leases on hosts, in which actors, agents and units are killed.

    Args:
        base: the folder of all.
        hosts: that are there.
        seed: of all choices.
        leases: in all; more, as long as actors are still to be killed.
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
        self.base, self.hosts, self.leases, self.within, self.say = base, hosts, leases, within, say
        self.chance = random.Random(seed)
        self.agents = HostFleet(base / "agents", hosts, base / "packages", 0.5)
        self._publish()
        self.site = HostsSite(base / "lease", self.agents, 0.5)
        self.supervisors = [Supervisor(self.site, 0.5), Supervisor(self.agents, 0.5)]
        self.wanted: list[str] = []
        self.served: set[str] = set()
        self.violations: dict[str, None] = {}
        self.kills = self.lost = 0
        self.rows: dict[str, dict[str, Any]] = {}
        self.now = 0
        self._since: dict[str, float] = {}  # of what differs, when it was seen first
        actors = [(s, name) for s, one in enumerate(self.supervisors) for name in one.fleet.roles]
        self.victims = self.chance.sample(actors, len(actors)) if crash else []
        self.to_lose = 2 * len(hosts.names) if lose else 0
        self._next_ask = self._next_kill = self._next_loss = 0.0
        self.began = time.monotonic()

    def _publish(self) -> None:
        key = self.base / "agents" / f"{CONTROLLER}.key"
        key.parent.mkdir(parents=True, exist_ok=True)
        PrivateKey.generate().save(key)
        folder = server_package(self.base / "servers")
        manifest = package.publish(folder, self.base / "packages", CONTROLLER, PrivateKey.load(key))
        package.use(self.base / "packages", manifest.number)

    def run(self) -> None:
        """Goes on until all is over, or nothing has changed for three minutes."""
        moved, before = time.monotonic(), ""
        while not self._over():
            self._step()
            seen = repr([(lease, row["state"]) for lease, row in self.rows.items()])
            moved, before = (moved, before) if seen == before and not self.victims else (time.monotonic(), seen)
            if time.monotonic() - moved > PATIENCE_SECONDS:
                self.violations["nothing goes on any more"] = None
                break
            time.sleep(LOOK_SECONDS)

    def _over(self) -> bool:
        if len(self.wanted) < self.leases or self.victims or self.to_lose:
            return False
        serve = all(one.all_serve for one in self.supervisors)
        return serve and not self._open() and all(row["over"] for row in self._of(SITE).values()) and not self._down()

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

    def _open(self) -> list[str]:
        return [lease for lease in self.wanted if not (self.rows.get(lease) or {}).get("over")]

    def _step(self) -> None:
        for supervisor in self.supervisors:
            for change in supervisor.attend():
                self.say(f"{change.actor} {'has died' if isinstance(change, Died) else 'is back'}")
        self._look()
        now = time.monotonic()
        more = len(self.wanted) < self.leases or self.victims or self.to_lose
        if more and len(self._open()) < TOGETHER and now >= self._next_ask and self.now:
            self._ask()
            self._next_ask = now + self.chance.uniform(0.5, 2.0)
        serve = all(one.all_serve for one in self.supervisors)
        if self.victims and self._open() and serve and now >= self._next_kill:
            which, victim = self.victims.pop()
            self.supervisors[which].fleet.kill(victim)
            self.kills += 1
            self.say(f"{victim} is killed")
            self._next_kill = now + self.chance.uniform(2.0, 4.0)
        if self.to_lose and serve and now >= self._next_loss and (servers := [*self.servers()]):
            name, pid = self.chance.choice(sorted(servers))
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self.to_lose, self.lost = self.to_lose - 1, self.lost + 1
                self.say(f"the server {name} is killed")
            self._next_loss = now + self.chance.uniform(3.0, 6.0)

    def _ask(self) -> None:
        lease, term = f"{TENANT}:{len(self.wanted) + 1}", self.chance.choice(TERMS)
        asked = {"units": self.chance.randint(1, len(self.hosts.names)), "until": self.now + 2 * term, "term": term}
        with contextlib.suppress(ClientError):
            self.site.client(TENANT).post("demand", lease=lease, **asked)
            self.wanted.append(lease)
            self.say(f"{lease}: {asked['units']} servers")

    # The judge

    def _look(self) -> None:
        client = self.site.client(TENANT)
        try:
            self.now = client.get("about")["now"]
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
        fetch = [*self.hosts.within(host), "busybox", "nc", "-w", "2", address, "80"]
        asked = f"GET / HTTP/1.0\r\nHost: {address}\r\n\r\n"
        answer = subprocess.run(fetch, input=asked.encode(), capture_output=True, check=False).stdout
        return answer.partition(b"\r\n\r\n")[2].decode(errors="replace").strip()

    def servers(self) -> Iterator[tuple[str, int]]:
        """The servers that run: the unit and the lease of each, by its page, and its first process."""
        for process in Path("/proc").iterdir():
            if process.name.isdecimal():
                with contextlib.suppress(OSError):
                    words = (process / "cmdline").read_bytes().split(b"\0")
                    if words[:2] == [b"/bin/busybox", b"httpd"] and self._ours(process):
                        yield (process / "root/www/index.html").read_text().strip(), int(process.name)

    def _ours(self, process: Path) -> bool:
        mine = str(self.base).encode()
        return any(mine in line for line in (process / "mountinfo").read_bytes().splitlines())

    def left(self) -> list[str]:
        """The remains on the hosts, as the kernel has them."""
        base = str(self.base.resolve())
        mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines() if base in line]
        links = []
        for name in self.hosts.names:
            words = _run("ip", "-n", self.hosts.namespace(name), "-br", "link").splitlines()
            own = ("lo", "eth0", "servers")
            links += [f"{line.split()[0]} on {name}" for line in words if line.split()[0].partition("@")[0] not in own]
        return sorted([*(f"server {name}" for name, _ in self.servers()), *mounts, *links])

    def summary(self, verifiers: Sequence[FleetVerifier] = ()) -> dict[str, Any]:
        """Returns what came of it; what verifiers of the fleets have found are its findings."""
        return {
            "leases": len(self.wanted),
            "served": len(self.served),
            "kills": self.kills,
            "lost": self.lost,
            "violations": [*self.violations],
            "findings": [complaint for verifier in verifiers for complaint in verifier.complaints],
            "leaked": self.left(),
            "seconds": round(time.monotonic() - self.began, 1),
        }


def _run(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout
