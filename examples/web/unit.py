"""A unit that is a web server: what the site does to one (setup, modify, teardown, probe), as one command.

Theory of operation. A unit is an nginx with a folder of its own, in which all its processes work; so they are found by
their working directory, whichever of them has died. The first setup takes a free port and writes it into the folder.
Every later one, until the teardown removes the folder, uses the same port, so a unit that has died comes back at its
address. A unit is up if the server at its port says its name.

The command is told what to do by LEASEHOLD_VERB and LEASEHOLD_UNIT; WEB_DIRECTORY has the units' folders.
"""

from __future__ import annotations

import http.client
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

HOST = "127.0.0.1"
START_SECONDS = 15.0
TERM_SECONDS = 2.0  # until SIGKILL
PORTS = 5  # tried, where another process takes one just before the server does
UNKNOWN = 4  # exit code of a failure; of a probe, that it cannot say
DOWNLOAD_BYTES = 64 * 1024  # which take a second

CONFIGURATION = """\
daemon off;
user {user};
pid nginx.pid;
error_log error.log;
worker_processes 1;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path temporary;
    proxy_temp_path temporary;
    fastcgi_temp_path temporary;
    uwsgi_temp_path temporary;
    scgi_temp_path temporary;
    server {{
        listen {host}:{port};
        default_type text/plain;
        location = /unit {{ return 200 "{unit}"; }}
        location / {{ root pages; }}
        location = /download {{ root pages; limit_rate {rate}; }}
    }}
}}
"""


class Unit:
    """A unit, by its persistent name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.folder = (Path(os.environ["WEB_DIRECTORY"]) / "units" / name).resolve()
        self._port = self.folder / "port"

    @property
    def port(self) -> int:
        """Its port; 0 before its setup."""
        return int(self._port.read_text()) if self._port.exists() else 0

    def answers(self) -> bool:
        """Whether the server at its port is this unit.

        Raises:
            OSError: it cannot be known; there is no answer, and no refusal.
        """
        connection = http.client.HTTPConnection(HOST, self.port, timeout=2)
        try:
            connection.request("GET", "/unit")
            return connection.getresponse().read().decode() == self.name
        except (ConnectionError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def runs(self) -> bool:
        """The same, where a server that does not answer is as good as none."""
        try:
            return self.answers()
        except OSError:
            return False

    def processes(self) -> list[int]:
        """All its processes: those that work in its folder."""
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _directory(pid) == self.folder]

    def end(self) -> None:
        """Ends all its processes."""
        began = time.monotonic()
        while found := self.processes():
            late = time.monotonic() - began > TERM_SECONDS
            for pid in found:
                _send(pid, self.folder, signal.SIGKILL if late else signal.SIGTERM)
            time.sleep(0.05)

    def setup(self) -> None:
        """Brings it up; at the port that it had, if it was up before."""
        if self.port and self.processes() and self.runs():
            return
        self.end()
        kept = self.port != 0
        for port in [self.port] if kept else _free_ports():
            self._write(port)
            if self._start():
                return
        raise RuntimeError(f"{self.name} does not come up; its last words: {self._last_words()}")

    def _write(self, port: int) -> None:
        pages = self.folder / "pages"
        pages.mkdir(parents=True, exist_ok=True)
        (pages / "index.html").write_text(f"This is {self.name}.\n")
        (pages / "download").write_bytes(b"." * DOWNLOAD_BYTES)
        user = pwd.getpwuid(os.geteuid()).pw_name
        words = {"user": user, "host": HOST, "port": port, "unit": self.name, "rate": DOWNLOAD_BYTES}
        (self.folder / "nginx.conf").write_text(CONFIGURATION.format(**words))
        self._port.with_suffix(".new").write_text(str(port))
        self._port.with_suffix(".new").replace(self._port)

    def _start(self) -> bool:
        """Starts the server; False where it ends at once."""
        server = subprocess.Popen(
            ["nginx", "-p", f"{self.folder}/", "-c", "nginx.conf", "-e", "error.log"],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + START_SECONDS
        while server.poll() is None and time.monotonic() < deadline:
            if self.runs():
                return True
            time.sleep(0.02)
        self.end()
        return False

    def teardown(self) -> None:
        """Ends it, as a machine is switched off, and removes its folder."""
        self.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _last_words(self) -> str:
        log = self.folder / "error.log"
        return (log.read_text().splitlines() or ["none"])[-1] if log.exists() else "none"


def _directory(pid: int) -> Path | None:
    """The working directory of a process; None where it is gone, or another user's."""
    try:
        return Path(os.readlink(f"/proc/{pid}/cwd"))
    except OSError:
        return None


def _send(pid: int, folder: Path, number: signal.Signals) -> None:
    """Sends a signal, and never to another process that has got the number meanwhile."""
    try:
        held = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if _directory(pid) == folder:
            signal.pidfd_send_signal(held, number)
    except ProcessLookupError:
        pass
    finally:
        os.close(held)


def _free_ports() -> Iterator[int]:
    for _ in range(PORTS):
        with socket.socket() as one:
            one.bind((HOST, 0))
            port = int(one.getsockname()[1])
        yield port


def main() -> int:
    """Does what the actor asks for; a probe returns 0 if the unit is up, and 1 if it is not."""
    unit, verb = Unit(os.environ["LEASEHOLD_UNIT"]), os.environ["LEASEHOLD_VERB"]
    if verb == "probe":
        return 0 if unit.port and unit.answers() else 1
    if verb == "teardown":
        unit.teardown()
        return 0
    unit.setup()
    address = f"{HOST}:{unit.port}"
    print(json.dumps({"address": address, "processes": len(unit.processes()), "properties": {"address": address}}))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, RuntimeError) as error:
        print(error, file=sys.stderr)
        sys.exit(UNKNOWN)
