"""A unit is a VLAN of the switch: a number of a table that all share, and a file among those that the switch reads."""

import fcntl
import json
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree

TABLE = Path("vlans.json")
NUMBERS = range(100, 200)
VERB, UNIT = os.environ["LEASEHOLD_VERB"], os.environ["LEASEHOLD_UNIT"]
FOLDER = Path("units") / UNIT
CONFIGURATION = Path("switch.d") / f"{UNIT}.conf"


@contextmanager
def locked():
    with open("vlans.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def load():
    return json.loads(TABLE.read_text()) if TABLE.exists() else {}


def write(path, text, new):
    """Write a file such that under its name there is the old or the new one."""
    new.write_text(text)
    new.replace(path)


def take():
    """The unit's number, a new one if it has none yet."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    noted = FOLDER / "vlan"
    with locked():
        table = load()
        if not noted.exists() or table.get(noted.read_text()) != UNIT:
            number = next(str(number) for number in NUMBERS if str(number) not in table)
            table[number] = UNIT
            write(TABLE, json.dumps(table, indent=1), Path("vlans.json.new"))
            write(noted, number, FOLDER / "vlan.new")
    return noted.read_text()


def give_back():
    noted = FOLDER / "vlan"
    if noted.exists():
        number = noted.read_text()
        with locked():
            table = load()
            if table.get(number) == UNIT:
                del table[number]
                write(TABLE, json.dumps(table, indent=1), Path("vlans.json.new"))


if VERB in ("setup", "modify"):
    number = take()
    rate = (json.loads(os.environ.get("LEASEHOLD_PROPERTIES") or "{}") or {}).get("rate", "100Mbit")
    CONFIGURATION.parent.mkdir(exist_ok=True)
    write(CONFIGURATION, f"vlan {number}\nrate {rate}\n", FOLDER / "conf.new")
    print(json.dumps({"properties": {"vlan": int(number)}}))
elif VERB == "teardown":
    CONFIGURATION.unlink(missing_ok=True)
    give_back()
    if FOLDER.exists():
        rmtree(FOLDER)
elif VERB == "probe":
    sys.exit(0 if CONFIGURATION.exists() and (FOLDER / "vlan").exists() else 1)
