"""A unit is a network namespace with an address at a veth pair; the addresses are in a table that all units share."""

import fcntl
import hashlib
import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

TABLE = Path("addresses.json")
POOL = [f"10.95.0.{number}" for number in range(2, 250)]
VERB, UNIT = os.environ["LEASEHOLD_VERB"], os.environ["LEASEHOLD_UNIT"]
DIGEST = hashlib.sha1(f"{Path.cwd()} {UNIT}".encode()).hexdigest()[:8]
SPACE, OUTER, INNER = f"net-{DIGEST}", f"no{DIGEST}", f"ni{DIGEST}"
NAMED = Path("/run/netns") / SPACE


def ip(*words):
    """Run ip, which has the unit's lock as long as it is at work."""
    ran = subprocess.run(["ip", *words], check=True, close_fds=False, stdout=subprocess.PIPE, text=True)
    return ran.stdout


@contextmanager
def locked():
    with open("addresses.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def load():
    return json.loads(TABLE.read_text()) if TABLE.exists() else {}


def save(table):
    new = Path("addresses.json.new")  # under the lock there is one
    new.write_text(json.dumps(table, indent=1))
    new.replace(TABLE)


def mine(table):
    return next((address for address, unit in table.items() if unit == UNIT), None)


def is_mounted():
    return any(line.split()[1] == str(NAMED) for line in Path("/proc/self/mounts").read_text().splitlines())


if VERB in ("setup", "modify"):
    mtu = str(int((json.loads(os.environ.get("LEASEHOLD_PROPERTIES") or "{}") or {}).get("mtu", 1400)))
    with locked():
        table = load()
        address = mine(table)
        if address is None:
            address = next(address for address in POOL if address not in table)
            table[address] = UNIT
            save(table)
    if not is_mounted():
        if NAMED.exists():  # half of one, of an attempt that was killed
            ip("netns", "delete", SPACE)
        ip("netns", "add", SPACE)
    if not Path("/sys/class/net", OUTER).exists():
        ip("link", "add", OUTER, "type", "veth", "peer", "name", INNER, "netns", SPACE)
    ip("-n", SPACE, "address", "replace", f"{address}/24", "dev", INNER)
    ip("-n", SPACE, "link", "set", INNER, "mtu", mtu, "up")
    ip("link", "set", OUTER, "mtu", mtu, "up")
    print(json.dumps({"properties": {"address": address, "namespace": SPACE}}))
elif VERB == "teardown":
    if Path("/sys/class/net", OUTER).exists():
        ip("link", "delete", OUTER)
    if NAMED.exists():
        ip("netns", "delete", SPACE)
    with locked():  # the address is free when nobody has it any more
        table = load()
        if mine(table) is not None:
            del table[mine(table)]
            save(table)
elif VERB == "probe":
    if not is_mounted() or not Path("/sys/class/net", OUTER).exists():
        sys.exit(1)
    try:
        address = mine(load())
        up = address is not None and f" {address}/24 " in ip("-n", SPACE, "-o", "address", "show", "dev", INNER)
    except Exception as error:  # 1 would say that it is gone
        sys.exit(print(error, file=sys.stderr) or 4)
    sys.exit(0 if up else 1)
