"""Ctrl-C at moments at which nobody searches: what is known is said, and the exit code is 130."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from leasehold.cli.main import cli

WORDS = ["explore", "two_phase_commit", "--set", "participants=1", "--faults", "crash=1"]


def press(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "where",
    [
        "leasehold.checker.crash.convergence.convergence",
        "leasehold.cli.search.explore_with_progress@2",
    ],
)
def test_while_convergence_is_decided(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, _, second = where.partition("@")
    if second:
        from leasehold.cli import search

        calls = iter([search.explore_with_progress, press])
        monkeypatch.setattr(place, lambda *args, **more: next(calls)(*args, **more))
    else:
        monkeypatch.setattr(place, press)
    done = CliRunner().invoke(cli, WORDS)
    assert done.exit_code == 130
    assert "not checked whether it stabilises: interrupted" in done.output
    assert re.search(r"^holds \(18\) +agreement", done.output, re.MULTILINE)


def test_before_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.cli.explore.load", press)
    done = CliRunner().invoke(cli, WORDS)
    assert (done.exit_code, done.output) == (130, "interrupted\n")


def test_before_faults_are_explored(monkeypatch: pytest.MonkeyPatch) -> None:
    """`crash` explores without faults first."""
    from leasehold.checker.explore.packed import PackedSearch

    monkeypatch.setattr(PackedSearch, "_search", press)
    done = CliRunner().invoke(cli, ["crash", *WORDS[1:], "--engine", "packed"])
    assert done.exit_code == 130
    words = r"before it was decided: \d+ states without faults, nothing violated so far; the same begins anew\n"
    assert re.search(f"{words}$", done.output)


def test_a_proof_is_told_as_far_as_it_has_come(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """After induction, what that has proved; before it has ended nothing is."""
    from leasehold.checker.prove.prover import Strategies

    monkeypatch.setenv("LEASEHOLD_CACHE", str(tmp_path))
    outbox = ["prove", str(Path(__file__).parents[2] / "examples" / "outbox"), "--fresh", "--jobs", "1"]
    monkeypatch.setattr(Strategies, "antecedents", press)
    done = CliRunner().invoke(cli, outbox)
    assert done.exit_code == 130
    assert re.search(r"^never_twice +always +proved", done.output, re.MULTILINE)
    assert "interrupted: what was proved so far is above; nothing of it is kept" in done.output
    assert not [*tmp_path.rglob("*.json")]
    monkeypatch.setattr("leasehold.checker.prove.prover.induct", press)
    done = CliRunner().invoke(cli, outbox)
    assert done.exit_code == 130
    assert "interrupted before it was decided: induction proves nothing before its last round" in done.output
