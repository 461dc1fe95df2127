"""Running `leasehold` as a user does, in a process of its own."""

import contextlib
import functools
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leasehold.cli.main import cli, main
from tests.systems import files_of, write

Run = Callable[..., subprocess.CompletedProcess[str]]

LIGHT = files_of("cli/systems/light")


_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload([f"leasehold.cli.{verb.partition(':')[0]}" for verb in cli.places.values()])


def _main(words: tuple[str, ...], folder: Path, environment: dict[str, str], output: Path) -> None:
    """In the process of a command: as `python -m leasehold` there, with that environment, each stream to a file."""
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        stream.flush()
        os.dup2(os.open(output / str(number), os.O_WRONLY | os.O_CREAT, 0o600), number)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    if "coverage" in sys.modules:  # what was forked knows no test
        from tests.mutation import contexts

        contexts.follow_environment()
    sys.argv = ["leasehold", *words]
    main()


def command(*words: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs `leasehold` in a process of its own, forked from one that has imported all verbs: that takes a second.

    No output has a traceback.
    """
    with tempfile.TemporaryDirectory() as output:
        process = _processes.Process(target=_main, args=(words, cwd, {**os.environ, **environment}, Path(output)))
        process.start()
        process.join(120)
        if process.exitcode is None:
            process.kill()
            raise subprocess.TimeoutExpired(words, 120)
        out, err = ((Path(output) / number).read_text() for number in "12")
        done = subprocess.CompletedProcess(words, process.exitcode, out, err)
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    return done


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs `leasehold` in an empty folder; no output has a traceback."""
    return functools.partial(command, cwd=tmp_path)


@pytest.fixture
def light(tmp_path: Path) -> Path:
    """A folder with a small system that holds, `light` in the folder that `run` runs in."""
    return write(tmp_path / "light", LIGHT)


def hear_ctrl_c() -> None:
    """In a process that is about to begin: Ctrl-C is not ignored, as it is by what a shell runs in the background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def interrupted(*words: str, cwd: Path, once: str = " waiting") -> subprocess.CompletedProcess[str]:
    """Runs `leasehold` on a terminal, and presses Ctrl-C once it says how far its search, or what else, has come.

    As a terminal does, it sends that to all its processes.
    """
    screen, terminal = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "leasehold", *words],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=terminal,
        text=True,
        preexec_fn=hear_ctrl_c,
        start_new_session=True,
    ) as process:
        os.close(terminal)
        shown = b""
        while once.encode() not in shown:
            shown += os.read(screen, 4096)
        os.killpg(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    with contextlib.suppress(OSError):  # the other end is closed
        while more := os.read(screen, 4096):
            shown += more
    os.close(screen)
    assert "Traceback" not in out + shown.decode()
    return subprocess.CompletedProcess(words, process.returncode, out, shown.decode())


def descendants(pid: int) -> set[int]:
    """The processes below one, as /proc has them."""
    found: set[int] = set()
    with contextlib.suppress(OSError):
        for child in map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
            found |= {child, *descendants(child)}
    return found


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def as_json(done: subprocess.CompletedProcess[str]) -> Any:
    """Returns what a command printed, which must be one JSON value and nothing else.

    That a search has found a violation is told at once, beside it.
    """
    assert [line for line in done.stderr.splitlines() if " is violated" not in line] == []
    return json.loads(done.stdout)
