"""Processes are known by more than their number."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

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


def test_a_process_that_has_ended_is_gone_before_its_parent_has_waited() -> None:
    with subprocess.Popen(["true"]) as child:
        deadline = time.monotonic() + 10
        while not (seen := processes.look(child.pid)) or not seen.gone:
            assert seen is not None
            assert time.monotonic() < deadline
            time.sleep(0.002)
        assert (seen.parent, seen.session) == (os.getpid(), os.getsid(0))
    assert processes.look(child.pid) is None


def test_a_process_may_have_any_name(tmp_path: Path) -> None:
    """The kernel shows it in brackets, before the numbers that are looked for."""
    name = tmp_path / "a) Z 0 (b) 7"
    name.symlink_to(shutil.which("sleep") or "")
    with subprocess.Popen([name, "600"], start_new_session=True) as child:
        try:
            seen = processes.look(child.pid)
            assert seen is not None
            assert (seen.parent, seen.session, seen.gone) == (os.getpid(), child.pid, False)
            assert seen in list(processes.everyone())
            assert processes.look(os.getpid()) in list(processes.everyone())
        finally:
            child.kill()


def test_nothing_is_known_of_a_process_that_is_not_there() -> None:
    with subprocess.Popen(["true"]) as child:
        pass
    assert processes.look(child.pid) is None
    assert not processes.carries(child.pid, b"PATH=")
    assert not processes.holds(child.pid, 0, 0)
    assert not processes.send(processes.ProcessSnapshot(child.pid, 1, 1, 1, False), signal.SIGKILL)


def test_a_signal_leaves_no_open_file() -> None:
    with subprocess.Popen(["sleep", "600"]) as child:
        try:
            seen = processes.look(child.pid)
            assert seen is not None
            before = len(os.listdir("/proc/self/fd"))
            for number in (signal.SIGSTOP, signal.SIGCONT):
                assert processes.send(seen, number)
                assert not processes.send(dataclasses.replace(seen, start=seen.start + 1), number)
            assert len(os.listdir("/proc/self/fd")) == before
        finally:
            child.kill()
