"""Private servers of a case: PostgreSQL, MariaDB and NATS, each with its data in a folder that goes with the case."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from leasehold.checker.recovery.processes.resources import PORTS, Unavailable, program, run_program
from leasehold.impl.handlers import processes
from leasehold.impl.processes.fleet import SystemFleet

UP_SECONDS, SETUP_SECONDS = 30.0, 120.0


class Server:
    """A server program with a folder of its own.

    Args:
        folder: of the case; the template of the data lies beside it, and is made once.

    Raises:
        Unavailable: a program of it, or its driver, is not installed.
    """

    kind: ClassVar[str] = ""
    programs: ClassVar[tuple[str, ...]] = ()
    driver: ClassVar[str] = ""
    messages: ClassVar[bool] = False  # it carries messages, and keeps nothing
    users: ClassVar[tuple[str, ...]] = ()  # root becomes the first that exists; empty: root stays
    _making: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, folder: Path) -> None:
        self.places = {name: program(name) for name in self.programs}
        if importlib.util.find_spec(self.driver) is None:
            raise Unavailable(f"the Python package {self.driver} is not installed")
        self.port = PORTS.take()
        self.data = folder / self.kind
        known = {user.pw_name: user.pw_uid for user in pwd.getpwall()} if os.geteuid() == 0 else {}
        self.user = next((known[name] for name in self.users if name in known), None)
        self._log = folder / f"{self.kind}.log"
        self._process: subprocess.Popen[bytes] | None = None
        template = folder.parent / f"template-{self.kind}"
        with self._making:
            if not template.exists():
                try:
                    self._make(template)
                except Unavailable:
                    shutil.rmtree(template, ignore_errors=True)
                    raise
        run_program("cp", "-a", str(template), str(self.data), limit_seconds=SETUP_SECONDS)

    @property
    def running(self) -> bool:
        return self._process is not None

    def connect(self, fleet: SystemFleet) -> None:
        """Has all actors of a fleet that is not configured yet use the server."""
        fleet.stores.update(dict.fromkeys(fleet.roles, self.url(self.port)))

    def url(self, port: int) -> str:
        """The store's URL, at a port that leads here; for NATS the address."""
        raise NotImplementedError

    def _command(self) -> Sequence[str]:
        raise NotImplementedError

    def _make(self, template: Path) -> None:
        template.mkdir()

    def terminate(self) -> None:
        """The server ends the connections of all its clients."""
        raise NotImplementedError

    def start(self) -> None:
        """Starts it, and waits until it listens.

        Raises:
            Unavailable: it does not come up.
        """
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                user=self.user,
                cwd="/",
                extra_groups=None if self.user is None else [],
            )
        deadline = time.monotonic() + UP_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            time.sleep(0.02)
        tail = self._log.read_text(errors="replace")[-300:].strip()
        raise Unavailable(f"{self.kind} does not come up: {tail}")

    def kill(self) -> None:
        """Ends it, and all of its processes, as `kill -9` and a machine that goes down do."""
        if self._process is None:
            return
        below = [seen for seen in processes.everyone() if seen.parent == self._process.pid]
        self._process.kill()
        self._process.wait()
        for seen in below:
            processes.send(seen, signal.SIGKILL)
        while any(
            now is not None and now.start == seen.start and not now.gone
            for seen in below
            if (now := processes.look(seen.pid)) is not None
        ):
            time.sleep(0.005)
        self._process = None


class Postgresql(Server):
    """With fsync, as in production."""

    kind, programs, driver = "postgresql", ("initdb", "postgres", "psql"), "psycopg"
    users = ("postgres", "nobody")

    def url(self, port: int) -> str:
        return f"postgresql://postgres@127.0.0.1:{port}/postgres"

    def _make(self, template: Path) -> None:
        template.mkdir(mode=0o700)
        if self.user is not None:
            os.chown(template, self.user, -1)
        arguments = ["-U", "postgres", "-A", "trust", "--no-sync", "--no-instructions", "-E", "UTF8", "--locale=C"]
        run_program("initdb", "-D", str(template), *arguments, limit_seconds=SETUP_SECONDS, user=self.user)

    def _command(self) -> Sequence[str]:
        options = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            "shared_buffers": "16MB",
            "max_connections": 20,
        }
        arguments = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        return [self.places["postgres"], "-D", str(self.data), *arguments]

    def terminate(self) -> None:
        query = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        run_program("psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-c", query)


class Mariadb(Server):
    """With its log flushed at each commit, as in production."""

    kind, programs, driver = "mariadb", ("mariadb-install-db", "mariadbd", "mariadb"), "aiomysql"

    def url(self, port: int) -> str:
        return f"mariadb://root@127.0.0.1:{port}/leasehold"

    def _make(self, template: Path) -> None:
        run_program(
            "mariadb-install-db",
            "--no-defaults",
            f"--datadir={template}",
            "--skip-test-db",
            "--auth-root-authentication-method=normal",
            "--skip-name-resolve",
            *self._root(),
            limit_seconds=SETUP_SECONDS,
        )
        (template / "first.sql").write_text("CREATE DATABASE IF NOT EXISTS leasehold;\n")

    @staticmethod
    def _root() -> list[str]:
        return ["--user=root"] if os.geteuid() == 0 else []

    def _command(self) -> Sequence[str]:
        return [
            self.places["mariadbd"],
            "--no-defaults",
            *self._root(),
            f"--datadir={self.data}",
            f"--port={self.port}",
            f"--socket={self.data}/socket",
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
            f"--init-file={self.data}/first.sql",
            "--innodb-buffer-pool-size=8M",
            "--innodb-flush-log-at-trx-commit=1",
            f"--pid-file={self.data}/pid",
        ]

    def terminate(self) -> None:
        arguments = f"--no-defaults -h 127.0.0.1 -P {self.port} -u root -N -B -f -e".split()
        query = partial(run_program, "mariadb", *arguments)
        for number in query("SELECT id FROM information_schema.processlist WHERE db = 'leasehold'").split():
            with contextlib.suppress(Unavailable):  # it has just ended by itself
                query(f"KILL CONNECTION {int(number)}")


class Nats(Server):
    """The message broker; it keeps nothing."""

    kind, programs, driver = "nats", ("nats-server",), "nats"
    messages = True

    def url(self, port: int) -> str:
        return f"nats://127.0.0.1:{port}/leasehold"

    def connect(self, fleet: SystemFleet) -> None:
        for name in fleet.roles:
            fleet.listens[name] = fleet.addresses[name] = f"{self.url(self.port)}.{name}"

    def _command(self) -> Sequence[str]:
        return [self.places["nats-server"], "-a", "127.0.0.1", "-p", str(self.port)]


SERVERS: Mapping[str, type[Server]] = {server.kind: server for server in (Postgresql, Mariadb, Nats)}
