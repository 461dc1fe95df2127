"""Worker processes of a verb end with the process that leads them, whatever ends that."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import descendants, is_alive

COMMANDS = {
    "mutate": ("mutate", "three_phase_commit", "--jobs", "2"),
    "crash random": ("crash", "random", "lease", "--runs", "100000", "--jobs", "2"),
    "prove": ("prove", "lease", "--fresh", "--jobs", "2"),
}
SECONDS = 60


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="reads /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("name", COMMANDS)
def test_workers_end_with_their_parent(name: str, number: signal.Signals, tmp_path: Path) -> None:
    """SIGTERM ends it as Ctrl-C does, with 130; at SIGKILL it can do nothing."""
    command = [sys.executable, "-m", "leasehold", *COMMANDS[name]]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + SECONDS
        while len(workers := working(process.pid)) < 2 and time.monotonic() < until and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(number)
        out, err = process.communicate(timeout=SECONDS)
    assert len(workers) >= 2
    assert process.returncode == (130 if number == signal.SIGTERM else -number), (out, err)
    assert "Traceback" not in out
    # A worker that is just being started, to which its parent did not say all, may report that.
    assert all("in spawn_main" in one for one in err.split("Traceback (most recent call last)")[1:]), err
    while (left := [pid for pid in workers if is_alive(pid)]) and time.monotonic() < until:
        time.sleep(0.05)
    assert not left


def working(pid: int) -> set[int]:
    """The processes below one that have taken a second of processor time: they are past their beginning."""
    return {child for child in descendants(pid) if ticks(child) >= 100}


def ticks(pid: int) -> int:
    """Processor time of a process in hundredths of a second, as Linux counts it; 0 if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])
