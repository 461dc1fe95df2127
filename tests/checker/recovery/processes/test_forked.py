"""Actors that are forked from one process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from leasehold.checker.recovery.processes.forked import ForkedProcess
from leasehold.impl.handlers import processes
from tests.impl.processes.test_fleet import until


def test_a_forked_actor_leads_a_session_and_runs_the_command(tmp_path: Path) -> None:
    """Its words are added to the log, it has the variables that it was given, and its code is the command's."""
    log = tmp_path / "log"
    log.write_text("before\n")
    forked = ForkedProcess(["run", "broker", "--config", str(tmp_path / "none.yaml")], {"HOME": "/nowhere"}, log)
    seen = processes.look(forked.pid)
    assert seen is not None
    assert seen.session == forked.pid
    assert forked.wait() == forked.poll() == forked.returncode == 2
    assert log.read_text().startswith("before\n")
    assert "none.yaml" in log.read_text()
    new = tmp_path / "new"
    assert ForkedProcess(["--version"], {}, new).wait() == 0
    assert new.read_text().startswith("leasehold")
    assert new.stat().st_mode & 0o777 == 0o600


def test_a_forked_actor_is_waited_for_and_ended(tmp_path: Path) -> None:
    """It waits for the end of a file that nobody writes."""
    os.mkfifo(tmp_path / "fifo")
    for end in (signal.SIGKILL, signal.SIGTERM):
        forked = ForkedProcess(["run", "broker", "--config", str(tmp_path / "fifo")], {}, tmp_path / "log")
        assert (forked.poll(), forked.returncode) == (None, None)
        with pytest.raises(subprocess.TimeoutExpired):
            forked.wait(0.01)
        os.kill(forked.pid, end)
        assert (forked.wait(60) == -signal.SIGKILL) == (end is signal.SIGKILL)
        assert forked.returncode


FORKS = """
import sys
from pathlib import Path
from leasehold.checker.recovery.processes.forked import ForkedProcess
if __name__ == "__main__":
    forked = ForkedProcess(["run", "broker", "--config", sys.argv[1]], {}, Path(sys.argv[2]))
    print(forked.pid, flush=True)
    sys.stdin.read()
    import os, signal
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_forked_actor_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "forks.py").write_text(FORKS)
    command = [sys.executable, str(tmp_path / "forks.py"), str(tmp_path / "fifo"), str(tmp_path / "log")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert processes.look(pid) is not None
    until(lambda: (seen := processes.look(pid)) is None or seen.gone)
