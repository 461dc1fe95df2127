"""Starts all of it on this machine, until Ctrl-C: `python start.py FOLDER [HOST:PORT]`; goes on where FOLDER was left.

The actors are those of `leasehold demo`, with the handlers of this example.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from leasehold.impl.lease.fleet import Fleet

HERE = Path(__file__).resolve().parent
UNITS = 4
LEAVE_TICKS = 80  # 40 s; a member is drained for 30 s (`WEB_DRAIN_SECONDS`)


def main(folder: Path, listen: str) -> None:
    """Runs the load balancer and the actors, and starts the load balancer again when it dies."""
    unit, member = ([sys.executable, str(HERE / name)] for name in ("unit.py", "member.py"))
    environment = {"WEB_DIRECTORY": str(folder)}
    site = {"setup": unit, "modify": unit, "teardown": unit, "probe": unit}
    holder = {"join": member, "modify": member, "leave": member}
    fleet = Fleet(
        folder / "actors",
        UNITS,
        more={"probing": {"every_seconds": 1, "patience": 2}},
        handler={"name": "command", "directory": "units", "environment": environment, **site},
        guest={"name": "command", "directory": "members", "environment": environment, **holder},
        settings={"leave_limit": LEAVE_TICKS},
    )
    with fleet:
        print(f"http://{listen} is served; try, in another terminal:")
        print(f"  export LEASEHOLD_AT={folder / 'actors'}")
        print("  leasehold demand --units 3 --until 1h --term 5m")
        while True:
            subprocess.run([sys.executable, str(HERE / "balancer.py"), str(folder), listen], check=False)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        main(Path(sys.argv[1]).resolve(), sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1:8080")
