"""Long work is never silent, and says nothing on the standard output."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress

import pytest
from click.testing import CliRunner

from leasehold.cli import progress
from leasehold.cli.main import cli
from leasehold.cli.progress import Status

COMMIT = ("two_phase_commit", "--set", "participants=2")


@pytest.mark.long
@pytest.mark.parametrize(
    "words",
    [
        ("explore", *COMMIT),
        ("crash", *COMMIT, "--faults", "crash=1"),
        ("check", *COMMIT),
        ("mutate", *COMMIT, "--sample", "3", "--jobs", "1"),
        ("prove", *COMMIT, "--jobs", "1"),
        ("crash", "random", "lease", "--runs", "20", "--jobs", "1"),
    ],
)
def test_into_a_pipe_goes_a_line_at_times(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PIPE_SECONDS", 0.01)
    done = CliRunner().invoke(cli, [*words, "--json"])
    assert done.stdout.startswith("{")
    lines = done.stderr.splitlines()
    assert lines
    assert all(re.match(r"leasehold: \d+ s  \S", line) for line in lines)


def test_a_part_that_reports_nothing_is_not_silent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "PIPE_SECONDS", 0.01)
    with Status("putting edges in order"):
        time.sleep(0.1)
    assert "leasehold: 0 s  putting edges in order\n" in capsys.readouterr().err


def test_on_a_terminal_the_words_fit_and_are_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    screen, terminal = os.openpty()
    with os.fdopen(terminal, "w") as stream:
        monkeypatch.setattr("sys.stderr", stream)
        monkeypatch.setenv("COLUMNS", "40")
        with Status() as status:
            status.show("1,000 states", "10 waiting", "depth 3", "200 states/s")
    shown = b""
    with suppress(OSError):  # the other end is closed, and all is read
        while more := os.read(screen, 4096):
            shown += more
    os.close(screen)
    assert shown.decode() == "\r\x1b[2K0 s  1,000 states  10 waiting  depth 3\r\x1b[2K"


def test_what_symmetry_will_do_is_said_first() -> None:
    words = ["explore", "two_phase_commit", "--set", "participants=2", "--symmetry", "--only", "agreement"]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0
    assert result.stderr.startswith("leasehold: symmetry of participant: one state is visited for each orbit")
