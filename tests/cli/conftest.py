"""Running `leasehold` as a user does, in a process of its own."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

LIGHT = {
    "system.yaml": "system: light\nroles: {light: {}}\nenvironment: {press: {to: light}}\n",
    "roles/light.yaml": (
        "role: light\nevents: {press: Somebody presses the button.}\n"
        "states:\n  dark: {initial: true, on: {press: {to: bright}}}\n  bright: {on: {press: {to: dark}}}\n"
    ),
    "invariants.yaml": "properties: {can_be_bright: {sometimes: light.state == bright}}\n",
}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs `leasehold` in an empty folder; no output has a traceback."""

    def go(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "leasehold", *words], cwd=tmp_path, text=True, capture_output=True, timeout=120,
            env={**os.environ, **environment}, check=False,
        )  # fmt: skip
        assert "Traceback" not in done.stdout + done.stderr, done.stderr
        return done

    return go


@pytest.fixture
def light(tmp_path: Path) -> Path:
    """A folder with a small system that holds, `light` in the folder that `run` runs in."""
    return write(tmp_path / "light", LIGHT)


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def hear_ctrl_c() -> None:
    """In a process that is about to begin: Ctrl-C is not ignored, as it is by what a shell runs in the background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def interrupted(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs `leasehold` on a terminal, and presses Ctrl-C once it says how far its search has come.

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
        while b" waiting" not in shown:
            shown += os.read(screen, 4096)
        os.killpg(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    with contextlib.suppress(OSError):  # the other end is closed
        while more := os.read(screen, 4096):
            shown += more
    os.close(screen)
    assert "Traceback" not in out + shown.decode()
    return subprocess.CompletedProcess(words, process.returncode, out, shown.decode())


def as_json(done: subprocess.CompletedProcess[str]) -> Any:
    """What a command printed, which must be one JSON value and nothing else."""
    assert done.stderr == ""
    return json.loads(done.stdout)
