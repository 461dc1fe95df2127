"""Running `leasehold` as a user does, in a process of its own."""

import json
import os
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


def as_json(done: subprocess.CompletedProcess[str]) -> Any:
    """What a command printed, which must be one JSON value and nothing else."""
    assert done.stderr == ""
    return json.loads(done.stdout)
