"""Kind: made_twice. Skip: old_action, last_action. Between the look and the start another incarnation may start one."""

import os
import signal
import subprocess
from pathlib import Path

from leasehold.impl.policy.functions import task


def alive(pid):
    try:
        return b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


@task
def setup(action):
    room = Path("rooms", action.unit)
    room.mkdir(parents=True, exist_ok=True)
    file = room / "pid"
    if file.exists() and alive(file.read_text()):
        return
    begun = subprocess.Popen(["sleep", "infinity"], cwd=room, start_new_session=True)
    file.write_text(str(begun.pid))


@task
def teardown(action):
    room = Path("rooms", action.unit)
    file = room / "pid"
    if file.exists() and alive(file.read_text()):
        os.kill(int(file.read_text()), signal.SIGKILL)
    for left in room.glob("*"):
        left.unlink()
    if room.exists():
        room.rmdir()
