"""`leasehold serve`: which options go with which page, and the address of the operations page."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from leasehold.checker.explore import explore
from leasehold.cli.serve import serve
from leasehold.reports.json_report import dumps, json_report
from tests.systems import load

CONFIGURATION = "{name: chief, store: 'sqlite:chief.db', listen: 'http://127.0.0.1:1', key: k, trust: t, system: lease}"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "Missing argument 'SYSTEM'; or, with --actors, the places of running actors"),
        (["lease", "running"], "it takes one SYSTEM, and not lease, running; the places of actors go with --actors"),
        (["lease", "--audit", "a"], "--audit goes with --actors"),
        (["--actors", "--set", "a=1"], "--set is about a walk through a SYSTEM, and --actors shows running actors"),
        (["--actors", "--faults", "crash=1"], "--faults is about a walk"),
        (["--actors", "--from", "x"], "--from is about a walk"),
        (["--actors", "--property", "x"], "--property is about a walk"),
        (["--actors", "--lease", "x"], "--lease is about a walk"),
        (["--actors", "--no-explore"], "--no-explore is about a walk"),
        (["--actors", "--memory", "1G"], "--memory is about a walk"),
        (["--actors", "--time", "1"], "--time is about a walk"),
        (["--actors", "--audit", "missing/a"], "--audit missing/a: No such file or directory"),
        (["--actors", "missing"], "there is nothing at missing"),
    ],
)
def test_each_page_refuses_what_belongs_to_the_other(
    words: list[str], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(serve, words)
    assert result.exit_code == 2
    assert why in result.output


@pytest.mark.long
def test_the_address_of_the_operations_page_is_printed_with_its_token(tmp_path: Path) -> None:
    (tmp_path / "chief.yaml").write_text(CONFIGURATION)
    command = [sys.executable, "-m", "leasehold", "serve", "--actors", str(tmp_path), "--port", "0"]
    with subprocess.Popen([*command, "--audit", str(tmp_path / "audit")], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.fullmatch(
            r"leasehold: operations of chief at (http://127\.0\.0\.1:\d+/)(\?token=[\w-]{43}) \(Ctrl-C ends it\)\n",
            process.stdout.readline(),
        )
        assert found is not None
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(found[1], timeout=20)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert (tmp_path / "audit").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["no_such_system"], "LH703"),
        (["two_phase_commit", "--faults", "crsh=1"], "did you mean crash?"),
        (["two_phase_commit", "--faults", "byzantine=participan"], "did you mean `participant`?"),
        (["two_phase_commit", "--property", "agreement"], "say where in --from the walk begins"),
        (["two_phase_commit", "--from", "explored.json", "--property", "agrement"], "did you mean agreement?"),
        (["two_phase_commit", "--from", "explored.json", "--lease", "x"], "--lease is about events"),
        (["two_phase_commit", "--from", "broken.json"], "cannot be read"),
        (["two_phase_commit", "--set", "participants=x"], "LH7"),
    ],
)
def test_a_walk_that_cannot_begin_says_why(
    words: list[str], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is served, with the nearest name."""
    monkeypatch.chdir(tmp_path)
    result = explore(load("two_phase_commit", {"participants": 1}))
    broken = [replace(p, verdict="violated") if p.name == "agreement" else p for p in result.properties]
    path = result.path_to(result.cells[0])
    reported = replace(result, properties=tuple(replace(p, path=path) for p in broken))
    Path("explored.json").write_text(dumps(json_report(reported)))
    Path("broken.json").write_text("{")
    done = CliRunner().invoke(serve, [*words, "--port", "0"])
    assert done.exit_code == 2
    assert why in done.output
