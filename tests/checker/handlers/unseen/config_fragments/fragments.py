"""A unit is a backend of the proxy: a fragment of its own, and all of them together in proxy.conf."""

import fcntl
import json
import os
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

FRAGMENTS, WHOLE = Path("fragments"), Path("proxy.conf")
VERB, UNIT = os.environ["LEASEHOLD_VERB"], os.environ["LEASEHOLD_UNIT"]
FRAGMENT = FRAGMENTS / f"{UNIT}.conf"


@contextmanager
def locked():
    with open("proxy.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def write(path, text):
    """Write a file such that under its name there is the old or the new one."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".new-", delete=False) as file:
        try:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), 0o644)
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def put_together():
    parts = [path.read_text() for path in sorted(FRAGMENTS.glob("*.conf"))]
    write(WHOLE, "# made from fragments/*.conf\n" + "".join(parts))


if VERB in ("setup", "modify"):
    properties = json.loads(os.environ.get("LEASEHOLD_PROPERTIES") or "{}") or {}
    weight = int(properties.get("weight", 1))
    FRAGMENTS.mkdir(exist_ok=True)
    with locked():
        write(FRAGMENT, f"backend {UNIT} weight {weight}\n")
        put_together()
    print(json.dumps({"properties": {"weight": weight}}))
elif VERB == "teardown":
    FRAGMENTS.mkdir(exist_ok=True)
    with locked():
        FRAGMENT.unlink(missing_ok=True)
        put_together()
elif VERB == "probe":
    try:
        line = f"backend {UNIT} weight "
        up = FRAGMENT.exists() and any(known.startswith(line) for known in WHOLE.read_text().splitlines())
    except FileNotFoundError:
        up = False
    sys.exit(0 if up else 1)
