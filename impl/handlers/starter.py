"""The program that becomes a unit: the process handler starts it, and it executes the unit's command.

Theory of operation: see process.py. This program imports nothing of leasehold, so that it starts fast. Its first
process ends at once, so that the second has no parent here and outlives the actor. The second begins a session, checks
that its action is still the newest, writes down its number and start, takes its limits and becomes the command. Errors
are written to standard output, which closes when the command runs.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import sys
from contextlib import suppress
from typing import Any

LIMITS = {
    "cpu_seconds": resource.RLIMIT_CPU,
    "memory_bytes": resource.RLIMIT_AS,
    "files": resource.RLIMIT_NOFILE,
    "processes": resource.RLIMIT_NPROC,
    "file_bytes": resource.RLIMIT_FSIZE,
}


LACKS = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ENOSPC, errno.EDQUOT}
LACK = "the system lacks something at the moment: "  # with which a report of it begins
LACKING = 75  # the exit code where this program cannot even begin, EX_TEMPFAIL of sysexits.h


def point(name: str) -> None:
    """A point at which a test may let this process die: the step of that name has been done."""


def main() -> None:
    job = json.load(sys.stdin)
    try:
        if os.fork():
            os._exit(0)
    except OSError as e:
        print(f"{LACK}{e}", file=sys.stderr)
        os._exit(LACKING)
    os.setsid()
    report = os.dup(1)  # closes when the command begins
    point("session")
    try:
        become(job)
    except Exception as e:
        with suppress(OSError):  # the actor that asked may have died
            lack = LACK if isinstance(e, OSError) and e.errno in LACKS else ""
            os.write(report, f"{lack}{type(e).__name__}: {e}".encode()[:4000])
    os._exit(1)


def become(job: dict[str, Any]) -> None:
    """Becomes the command; returns by an exception only."""
    # Whoever acts on the unit writes what is wanted first, and looks then whether somebody lives there. So either it
    # finds this process, which holds the lock, or this process finds that it is not wanted any more.
    with open(job["wanted"]) as file:
        wanted = json.load(file)["number"]
    if wanted != job["number"]:
        raise RuntimeError(f"action {job['number']} was overtaken by action {wanted}")
    point("wanted")
    os.chdir(job["work"])
    nothing = os.open(os.devnull, os.O_RDONLY)
    log = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    with open("/proc/self/stat", "rb") as stat:
        start = int(stat.read().rpartition(b") ")[2].split()[19])
    birth = {"pid": os.getpid(), "start": start, **job["birth"]}
    fresh = f"{job['file']}.{os.getpid()}"
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as written:
        json.dump(birth, written)
        written.flush()
        os.fsync(written.fileno())  # else it may be there after a power failure, and empty
    os.replace(fresh, job["file"])
    point("born")
    try:
        for group in job["cgroups"]:
            with open(group, "w") as members:
                members.write("0")
        os.umask(0o077)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)  # Python ignores them, and a command would inherit that
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_NOFILE, tuple(job["nofile"]))
        for name, value in job["limits"].items():
            resource.setrlimit(LIMITS[name], (value, value))
        os.execvpe(job["command"][0], job["command"], dict(os.environ))
    except BaseException:
        os.unlink(job["file"])
        raise


if __name__ == "__main__":
    main()
