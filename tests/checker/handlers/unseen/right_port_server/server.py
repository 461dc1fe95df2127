"""A unit is a web server of a folder, at a port that it has for itself in a table of all units."""

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

TABLE = Path("ports.json")
VERB, UNIT = os.environ["LEASEHOLD_VERB"], os.environ["LEASEHOLD_UNIT"]
FOLDER = Path("units") / UNIT


@contextmanager
def table():
    """The units' ports, for one action at a time; what is changed is written as a whole."""
    with open("ports.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ports = json.loads(TABLE.read_text()) if TABLE.exists() else {}
        before = dict(ports)
        yield ports
        if ports != before:
            new = Path("ports.json.new")
            new.write_text(json.dumps(ports, indent=1))
            new.replace(TABLE)


def processes():
    """Those whose working folder is the unit's, whoever has started them."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.path.samefile(process / "cwd", FOLDER):
                found.append(int(process.name))
    return found


def answers(port):
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=2):
        return bool(processes())
    return False


if VERB in ("setup", "modify"):
    text = str((json.loads(os.environ.get("LEASEHOLD_PROPERTIES") or "{}") or {}).get("motd", "hello"))
    with table() as ports:
        if UNIT not in ports:
            ports[UNIT] = next(port for port in range(21500, 21600) if port not in ports.values())
        port = ports[UNIT]
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "motd.new").write_text(f"{text}\n")
    (FOLDER / "motd.new").replace(FOLDER / "motd")
    if not processes():
        quiet = subprocess.DEVNULL
        command = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(port)]
        # Locks are not for what stays: close_fds, which is the default.
        subprocess.Popen(command, cwd=FOLDER, start_new_session=True, stdin=quiet, stdout=quiet, stderr=quiet)
    deadline = time.monotonic() + 15
    while not answers(port):
        if time.monotonic() > deadline:
            sys.exit(f"nobody answers at port {port}")
        time.sleep(0.05)
    print(json.dumps({"properties": {"port": port}}))
elif VERB == "teardown":
    while alive := processes():
        for process in alive:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.02)
    if FOLDER.exists():
        shutil.rmtree(FOLDER)
    with table() as ports:  # the last, as nobody has the port any more
        ports.pop(UNIT, None)
elif VERB == "probe":
    port = json.loads(TABLE.read_text()).get(UNIT) if TABLE.exists() else None
    sys.exit(0 if port is not None and answers(port) else 1)
