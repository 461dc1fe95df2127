"""A unit is an address at the loopback interface, out of a pool that all units share (addresses.json)."""

import fcntl
import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

TABLE = Path("addresses.json")
POOL = [f"10.92.0.{number}" for number in range(2, 250)]
VERB, UNIT = os.environ["LEASEHOLD_VERB"], os.environ["LEASEHOLD_UNIT"]
NAMES = Path("names")


def tool(*words):
    """Run a program, which has the unit's lock as long as it is at work."""
    return subprocess.run(words, check=True, close_fds=False, stdout=subprocess.PIPE, text=True).stdout


@contextmanager
def locked():
    with open("addresses.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def load():
    return json.loads(TABLE.read_text()) if TABLE.exists() else {}


def save(table):
    with TABLE.open("w") as file:
        json.dump(table, file, indent=1)


def mine(table):
    return next((address for address, unit in table.items() if unit == UNIT), None)


def is_set(address):
    return f" {address}/32 " in tool("ip", "-o", "-4", "address", "show", "dev", "lo")


def name():
    """Write the name under which the holder wants to have it."""
    NAMES.mkdir(exist_ok=True)
    wanted = (json.loads(os.environ.get("LEASEHOLD_PROPERTIES") or "{}") or {}).get("name", UNIT)
    new = NAMES / f".{UNIT}.new"
    new.write_text(f"{wanted}\n")
    new.replace(NAMES / UNIT)


if VERB in ("setup", "modify"):
    with locked():
        table = load()
        address = mine(table)
        if address is None:
            address = next(address for address in POOL if address not in table)
            table[address] = UNIT
            save(table)
    tool("ip", "address", "replace", f"{address}/32", "dev", "lo")
    name()
    print(json.dumps({"properties": {"address": address}}))
elif VERB == "teardown":
    with locked():
        table = load()
        address = mine(table)
        if address is not None:
            if is_set(address):
                tool("ip", "address", "delete", f"{address}/32", "dev", "lo")
            del table[address]
            save(table)
    (NAMES / f".{UNIT}.new").unlink(missing_ok=True)
    (NAMES / UNIT).unlink(missing_ok=True)
elif VERB == "probe":
    try:
        with locked():
            address = mine(load())
        up = address is not None and is_set(address)
    except Exception as error:  # 1 would say that it is gone
        sys.exit(print(error, file=sys.stderr) or 4)
    sys.exit(0 if up else 1)
