"""A guest that is a member of a cluster: what the holder does on one unit (join, modify, leave), as one command.

Theory of operation. The cluster is a backend of HAProxy. *Join* adds the unit, at the address that its site has told,
and waits until HAProxy has checked that it is up. *Leave* lets no new request to it, waits until no request is left,
and takes it out; only then does the holder tell the site that it gives the unit back. So nobody's request is cut off.

Every action may be begun again, from wherever the last one came to: HAProxy is asked anew in each turn. Members are
also written to a folder, from which balancer.py starts HAProxy with all of them, as HAProxy itself forgets those that
were added. `modify`, which every extension of the lease does, joins again, so a member that HAProxy has forgotten all
the same is back then.

The command is told what to do by LEASEHOLD_VERB and the JSON on its standard input. WEB_DIRECTORY has the members, and
HAProxy's socket; WEB_DRAIN_SECONDS is the time after which requests that do not end are cut off.
"""

from __future__ import annotations

import csv
import json
import os
import socket
import sys
import time
from pathlib import Path

BACKEND = "members"
CHECKS = "check inter 200ms fastinter 100ms rise 1 fall 2"
JOIN_SECONDS, REMOVE_SECONDS = 20.0, 5.0
PAUSE_SECONDS = 0.05
QUIET_LOOKS = 2  # in a row: a request that has just been given to the server may not be counted yet


class HaproxyMembers:
    """The members, at HAProxy and in the folder."""

    def __init__(self, directory: Path) -> None:
        self.socket, self.members = directory / "admin.sock", directory / "members"

    def say(self, words: str) -> str:
        """HAProxy's answer to a command.

        Raises:
            OSError: it is not there.
        """
        with socket.socket(socket.AF_UNIX) as admin:
            admin.settimeout(5)
            admin.connect(str(self.socket))
            admin.sendall(words.encode() + b"\n")
            parts = list(iter(lambda: admin.recv(1 << 16), b""))
        return b"".join(parts).decode().strip()

    def look(self, name: str) -> dict[str, str] | None:
        """HAProxy's figures of a member; None where it has no such member."""
        rows = csv.DictReader(self.say("show stat").removeprefix("# ").splitlines())
        return next((row for row in rows if row["pxname"] == BACKEND and row["svname"] == name), None)

    def join(self, name: str, address: str) -> None:
        """Makes a member of a server, and waits until it is up.

        Raises:
            RuntimeError: it does not come up in time.
        """
        self.members.mkdir(parents=True, exist_ok=True)
        fresh = self.members / f".{name}"
        fresh.write_text(f"server {name} {address} {CHECKS}\n")
        fresh.replace(self.members / name)
        deadline, seen = time.monotonic() + JOIN_SECONDS, "HAProxy is not there"
        while time.monotonic() < deadline:
            try:
                found = self.look(name)
                if found is not None and self._is_up(found, address):
                    return
                self._add(name, address, found)
                seen = f"it is {found['status']}, {found['check_status']}" if found else "it was not taken"
            except OSError:
                pass  # HAProxy may be starting
            time.sleep(PAUSE_SECONDS)
        raise RuntimeError(f"{name} at {address} is no member yet after {JOIN_SECONDS:g} s: {seen}")

    @staticmethod
    def _is_up(found: dict[str, str], address: str) -> bool:
        checked = found["check_status"].removeprefix("* ").endswith("OK")  # with a star, while it is checked anew
        return found["addr"] == address and found["status"].startswith("UP") and checked

    def _add(self, name: str, address: str, found: dict[str, str] | None) -> None:
        """What is missing for it to become a member. It gets no request before the first check has ended well."""
        server, (host, _, port) = f"{BACKEND}/{name}", address.rpartition(":")
        if found is None:
            self.say(f"add server {server} {address} {CHECKS}")
            self.say(f"enable health {server}")
            self.say(f"set server {server} health down")
        elif found["addr"] != address:
            self.say(f"set server {server} state maint")
            self.say(f"set server {server} addr {host} port {port}")
            self.say(f"set server {server} health down")
        if found is None or found["status"].startswith(("MAINT", "DRAIN")) or found["addr"] != address:
            self.say(f"set server {server} state ready")

    def leave(self, name: str, drain_seconds: float) -> str:
        """Takes a member out when no request is left at it; returns what happened."""
        (self.members / name).unlink(missing_ok=True)
        deadline, quiet, server = time.monotonic() + drain_seconds, 0, f"{BACKEND}/{name}"
        cut = False
        try:
            while quiet < QUIET_LOOKS and not cut:
                self.say(f"set server {server} state drain")
                found = self.look(name)
                if found is None:
                    return "it is no member"
                quiet = quiet + 1 if int(found["scur"]) == int(found["qcur"]) == 0 else 0
                cut = time.monotonic() >= deadline and not quiet
                time.sleep(PAUSE_SECONDS)
            self._remove(server, name)
        except OSError:
            return "HAProxy is not there, and will start without it"
        return f"cut off after {drain_seconds:g} s" if cut else "no request was left"

    def _remove(self, server: str, name: str) -> None:
        """Takes it out; HAProxy waits until its last connection has been closed."""
        self.say(f"set server {server} state maint")
        self.say(f"shutdown sessions server {server}")
        deadline = time.monotonic() + REMOVE_SECONDS
        while self.look(name) is not None and time.monotonic() < deadline:
            self.say(f"del server {server}")
            time.sleep(PAUSE_SECONDS)


def main() -> None:
    """Does what the actor asks for."""
    action = json.load(sys.stdin)
    told, verb = action["properties"], action["verb"]
    members = HaproxyMembers(Path(os.environ["WEB_DIRECTORY"]))
    name = f"{told['site']}.{told['name']}"
    if verb == "leave":
        print(f"{name}: {members.leave(name, float(os.environ.get('WEB_DRAIN_SECONDS', '30')))}")
    else:
        members.join(name, told["address"])
        print(f"{name} is a member at {told['address']}")


if __name__ == "__main__":
    try:
        main()
    except (KeyError, RuntimeError) as error:
        sys.exit(f"{error}" if isinstance(error, RuntimeError) else f"the site has not told {error} of this unit")
