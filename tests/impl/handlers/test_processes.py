"""Processes are known by more than their number."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import time

from leasehold.impl.handlers import processes


def test_a_signal_goes_to_the_process_that_was_seen_or_to_none() -> None:
    with subprocess.Popen(["sleep", "600"]) as child:
        try:
            seen = processes.look(child.pid)
            assert seen is not None
            assert (seen.parent, seen.session, seen.gone) == (os.getpid(), os.getsid(0), False)
            assert not processes.send(dataclasses.replace(seen, start=seen.start - 1), signal.SIGKILL)
            assert child.poll() is None
            assert processes.send(seen, signal.SIGKILL)
            assert child.wait() == -signal.SIGKILL
            assert not processes.send(seen, signal.SIGKILL)
            assert processes.look(child.pid) is None
        finally:
            child.kill()


def test_what_a_process_carries_and_holds() -> None:
    me = os.getpid()
    read, write = os.pipe()
    try:
        file = os.fstat(read)
        assert processes.holds(me, file.st_dev, file.st_ino)
    finally:
        os.close(read)
        os.close(write)
    assert not processes.holds(me, file.st_dev, file.st_ino)
    with subprocess.Popen(["sleep", "600"], env={"MARK": "12"}) as child:
        try:
            # The kernel shows it a moment after the program has begun.
            assert any(processes.carries(child.pid, b"MARK=12") or time.sleep(0.01) for _ in range(100))
            assert not processes.carries(child.pid, b"MARK=1")
        finally:
            child.kill()
