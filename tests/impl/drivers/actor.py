"""A process that does one action of a composed unit, and dies where it is told to.

    python -m tests.impl.drivers.actor < JOBS

Each line of the jobs is a JSON object: `config`, `action`, and `die_at`, the number of the point at which the process
kills itself (0: it lives). For each a process is forked, so that nothing but the machine outlives an action; its result
is printed as a line: `{"points": [...], "died": ..., "done": ...}`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from typing import Any

from leasehold.impl.policy import plugins
from tests.impl.drivers.machine import action


def act(job: dict[str, Any]) -> dict[str, Any]:
    """Does an action in this process; returns what became of it, if it lives."""
    points: list[str] = []

    def at(point: str) -> None:
        points.append(point)
        if len(points) == job.get("die_at"):
            os.kill(os.getpid(), signal.SIGKILL)

    settings = {name: value for name, value in job["config"].items() if name != "name"}
    if job.get("counts", True):
        settings["at"] = at
    handler = plugins.make("handler", job["config"].get("name", "composed"), settings)
    try:
        done = handler.do(action(**job["action"]), threading.Event())
        return {"points": points, "done": done.well, "words": done.words}
    except Exception as error:
        return {"points": points, "done": False, "words": f"{type(error).__name__}: {error}"}


def main() -> None:
    for line in sys.stdin:
        job = json.loads(line)
        read, write = os.pipe()
        child = os.fork()
        if not child:
            os.close(read)
            with os.fdopen(write, "w") as told:
                told.write(json.dumps(act(job)))
                told.flush()
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as hearing:
            result = hearing.read()
        _, status = os.waitpid(child, 0)
        print(json.dumps({"died": os.waitstatus_to_exitcode(status), **json.loads(result or "{}")}), flush=True)


if __name__ == "__main__":
    main()
