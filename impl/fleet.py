"""A service manager, a broker and a site as three processes of this machine: for the demo, tests and benchmarks.

Everything is as in production: `leasehold run` with configurations, key files and a trust set in one folder, which
anybody may look at. A folder that was used before goes on where it was.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import yaml

from leasehold.impl.handlers import processes
from leasehold.impl.handlers.place import Place
from leasehold.impl.identity import trust_file
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.trust import Trust, add
from leasehold.impl.server.client import Client, ClientError
from leasehold.impl.words import choices

TENANT, BROKER, SITE = "tenant", "broker", "site"
ROLES: Mapping[str, str] = {TENANT: "service_manager", BROKER: "broker", SITE: "authority"}
START_LIMIT_SECONDS = 60.0
HANDLER_SECONDS = 30.0  # after which the machines give a handler up


class ProcessHandle(Protocol):
    """A process, as subprocess.Popen has it."""

    pid: int
    returncode: int | None

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def terminate(self) -> None: ...

    def kill(self) -> None: ...


class FleetError(Exception):
    """An actor did not start; its last words are in the message."""


class Fleet:
    """Three actors as processes.

    Args:
        folder: where they keep everything.
        units: of the site.
        tick_seconds: of the clock.
        store: the URL of an actor's store, by its name; left out: SQLite in the folder.
        handler: of the site's units; left out: each unit is a process group.
        more: further keys of every configuration.
    """

    def __init__(
        self, folder: Path, units: int = 6, tick_seconds: float = 0.5, store: Callable[[str], str] | None = None,
        handler: Mapping[str, Any] | str | None = None, more: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.folder, self.units, self.tick_seconds = folder, units, tick_seconds
        self._store = store or (lambda name: f"sqlite:{name}.db")
        self._handler = handler or {"name": "process", "directory": "units"}
        self._more = dict(more or {})
        self.processes: dict[str, ProcessHandle] = {}

    def __enter__(self) -> Fleet:
        self.prepare()
        try:
            for name in ROLES:
                self.start(name)
            for name in ROLES:
                self.await_ready(name)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    # Files

    def prepare(self) -> None:
        """Writes keys, trust set and configurations, where they are not there yet."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        ports = dict(zip(ROLES, free_ports(len(ROLES)), strict=True))
        keys = {name: self._key(name) for name in ROLES}
        if not (self.folder / "trust.yaml").exists():
            trust = Trust()
            for name, role in ROLES.items():
                trust = add(trust, name, role, keys[name].public, f"http://127.0.0.1:{ports[name]}")
            trust_file.save(self.folder / "trust.yaml", trust)
        trust = trust_file.load(self.folder / "trust.yaml")
        for name in ROLES:
            file = self.folder / f"{name}.yaml"
            if not file.exists():
                file.write_text(yaml.safe_dump(self._config(name, trust.find(name).address), sort_keys=False))

    def _key(self, name: str) -> PrivateKey:
        file = self.folder / f"{name}.key"
        if not file.exists():
            PrivateKey.generate().save(file)
        return PrivateKey.load(file)

    def _config(self, name: str, address: str) -> dict[str, Any]:
        config: dict[str, Any] = {
            "name": name,
            "store": self._store(name),
            "listen": address,
            "key": f"{name}.key",
            "trust": "trust.yaml",
            "settings": {"max_units": self.units, "handler_limit": round(HANDLER_SECONDS / self.tick_seconds)},
            "clock": {"tick_seconds": self.tick_seconds},
            "log": {"form": "json"},
            "reopen_pause_seconds": 0.2,
            **self._more,
        }
        if name != TENANT:
            config["inventory"] = {"units": [{"name": "unit", "count": self.units}]}
        if name != BROKER:
            config["handler"] = self._handler if name == SITE else None
        return config

    # Processes

    def start(self, name: str) -> None:
        """Starts an actor; does not wait for it."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", "leasehold", "run", ROLES[name], "--config", str(self.folder / f"{name}.yaml")],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def await_ready(self, name: str, limit_seconds: float = START_LIMIT_SECONDS) -> dict[str, Any]:
        """Waits until an actor serves; answers what it says of itself.

        Raises:
            FleetError: it has ended, or does not come up.
        """
        deadline = time.monotonic() + limit_seconds
        while True:
            about = self.about(name)
            if about is not None and about["running"]:
                return about
            ended = self.processes[name].poll()
            if ended is not None or time.monotonic() > deadline:
                how = "does not answer" if ended is None else f"has ended with exit code {ended}"
                raise FleetError(f"{name} {how}; its last words: {self.last_words(name)}")
            time.sleep(0.02)

    def about(self, name: str) -> dict[str, Any] | None:
        """What an actor says of itself; None where it does not answer."""
        try:
            found: dict[str, Any] = self.client(name).get("about")
        except ClientError:
            return None
        return found

    def client(self, name: str) -> Client:
        """Talks to an actor."""
        return Client(self.folder / f"{name}.sock")

    def last_words(self, name: str) -> str:
        """The end of an actor's log."""
        with contextlib.suppress(OSError):
            lines = (self.folder / f"{name}.log").read_text(errors="replace")[-4000:].strip().splitlines()
            return " | ".join(lines[-3:]) or "none"
        return "none"

    def kill(self, name: str) -> None:
        """Ends an actor as `kill -9` does."""
        process = self.processes[check_actor(name)]
        process.kill()
        process.wait()

    def stop(self) -> None:
        """Ends all actors gracefully; units that run go on."""
        for process in self.processes.values():
            if process.poll() is None:
                process.terminate()
        for process in self.processes.values():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def unit_places(self) -> list[Place]:
        """The folders of all units that there are or were, by name."""
        folder = self.folder / "units"
        return [Place(path) for path in sorted(folder.iterdir()) if path.is_dir()] if folder.is_dir() else []

    def unit_processes(self) -> list[processes.Seen]:
        """The processes of all units."""
        return [member for place in self.unit_places() for member in place.members(thorough=True)]

    def end_units(self) -> None:
        """Ends the processes of all units: for who throws the folder away."""
        for member in self.unit_processes():
            processes.send(member, signal.SIGKILL)


def check_actor(name: str) -> str:
    """The name of one of the three.

    Raises:
        ValueError: it is none.
    """
    if name not in ROLES:
        raise ValueError(f"there is no actor {name!r}{choices(name, list(ROLES))}")
    return name


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
