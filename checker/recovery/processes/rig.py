"""A fleet of processes with all around it that can fail: stores, disks, connections, networks.

Who drives processes uses it: `leasehold demo`, `up --crash`, the campaign of cases with real processes, chaos runs. The
supervisor starts who has died, scripts of faults (faults.py) work on the surroundings. They are made before the actors
are configured, as those are told where their stores are, and where the others are reached.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from leasehold.checker.recovery.processes.links import Links
from leasehold.checker.recovery.processes.proxy import TcpProxy
from leasehold.checker.recovery.processes.resources import PORTS, TmpfsDisk
from leasehold.checker.recovery.processes.servers import SERVERS, Server
from leasehold.impl.processes.fleet import SystemFleet
from leasehold.impl.processes.supervisor import Supervisor

# In the log of an actor whose store fails, or would but for its reserve.
STORE_FAILED = ("stops taking steps", "the disk is full, and the reserve is used")


class Rig(AbstractContextManager["Rig"]):
    """The surroundings of a fleet that is not configured yet; the end of the context ends them.

    Args:
        fleet: its actors talk over HTTP, and have files as stores, unless a server is named.
        folder: where disks and data of servers are made.
        server: the kind of the server of all stores, or of all messages.
        supervisor: of the fleet; left out: one that starts at once who has died.
        say: takes what happens, for people.

    Attributes:
        parted: messages between actors go through proxies, so that a partition can cut them off.
        links: those proxies, once the actors are configured.
        paused: actors that are stopped.
        hurt: actors whose disk is full, or read-only.
        may_end: actors that may end by themselves, as their faults make them.
        points: how often each actor was told to kill itself at a point.
        counts: the points or system calls that each actor has passed, where they are listed.

    Raises:
        Unavailable: this machine has not what it takes.
    """

    def __init__(
        self,
        fleet: SystemFleet,
        folder: Path,
        server: str = "",
        supervisor: Supervisor | None = None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.fleet, self.folder, self.say = fleet, folder, say
        self.supervisor = supervisor or Supervisor(fleet)
        self.parted = False
        self.links: Links | None = None
        self.paused: set[str] = set()
        self.hurt: set[str] = set()
        self.may_end: set[str] = set()
        self.points: Counter[str] = Counter()
        self.counts: dict[str, Counter[str]] = {}
        self.ends = ExitStack()
        self._disks: dict[str, TmpfsDisk] = {}
        self._wires: dict[str, TcpProxy] = {}
        self._to_store: dict[str, TcpProxy] = {}
        for name in fleet.roles:
            fleet.listens[name] = fleet.addresses[name] = f"http://127.0.0.1:{PORTS.take()}"
        self._server = SERVERS[server](folder) if server else None
        if self._server is not None:
            self.ends.callback(self._server.kill)
            self._server.connect(fleet)

    def __enter__(self) -> Rig:
        """Starts the server; what fails from now on, `__exit__` ends."""
        try:
            if self._server is not None:
                self._server.start()
        except BaseException:
            self.ends.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.ends.close()

    def prepare(self) -> None:
        """Configures the actors, once all surroundings are there that faults need."""
        if self.parted:
            self.links = Links(self.fleet)
            self.ends.callback(self.links.close)
        self.fleet.prepare()

    @property
    def server(self) -> Server:
        """The server of all stores, or of all messages."""
        assert self._server is not None
        return self._server

    def disk(self, actor: str, make: type[TmpfsDisk] = TmpfsDisk) -> TmpfsDisk:
        """A small disk on which an actor has its store."""
        if actor not in self._disks:
            folder = self.folder / f"disk-{actor}"
            folder.mkdir(exist_ok=True)
            disk = self._disks[actor] = make(folder)
            self.ends.callback(disk.unmount)
            self.fleet.stores[actor] = f"sqlite:{disk.path}/store.db"
        return self._disks[actor]

    def wire(self, actor: str) -> TcpProxy:
        """A proxy through which others reach an actor; its own messages go past it."""
        if actor not in self._wires:
            listens = self.fleet.listens[actor]
            proxy = self._wires[actor] = self._proxy(int(listens.rpartition(":")[2]))
            address = self.fleet.addresses[actor] = f"http://127.0.0.1:{proxy.port}"
            self.fleet.listens[actor] = {"listen": listens, "advertise": address}
        return self._wires[actor]

    def to_store(self, actor: str) -> TcpProxy:
        """A proxy through which an actor reaches its store."""
        if actor not in self._to_store:
            proxy = self._to_store[actor] = self._proxy(self.server.port)
            self.fleet.stores[actor] = self.server.url(proxy.port)
        return self._to_store[actor]

    def _proxy(self, port: int) -> TcpProxy:
        proxy = TcpProxy(port)
        self.ends.callback(proxy.close)
        return proxy

    def store_failed(self, *actors: str) -> str:
        """Empty where one of these actors has noticed that its store failed."""
        noticed = any(text in self.fleet.log(name) for name in actors for text in STORE_FAILED)
        return "" if noticed else "nothing was committed while the store failed"
