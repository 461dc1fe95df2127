"""Worker processes and Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys

from leasehold.checker.host.workers import deaf_children

BLOCKED = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))"


def started() -> str:
    return subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True, check=True).stdout.strip()


def test_a_process_that_is_started_in_the_block_never_hears_ctrl_c() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    assert started() == "False"
    with deaf_children():
        assert started() == "True"
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
