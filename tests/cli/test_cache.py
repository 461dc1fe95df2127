"""`leasehold cache`: what is kept is listed with its size, and removed where that is asked for."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from leasehold.checker.explore import Checkpointing, Limits, explore
from leasehold.checker.host.cache import LIMIT_VARIABLE, VARIABLE, write_whole
from leasehold.cli.main import cli
from tests.systems import load

CUT_SHORT = Limits(seconds=0.2, keeping=Checkpointing())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with two proofs and a checkpoint."""
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    for name in ("one", "two"):
        write_whole(tmp_path / "proofs" / f"{name}.json", bytes(1500))
    left = explore(load("lease"), CUT_SHORT, engine="packed")
    assert left.checkpoint
    return tmp_path


def run(*words: str) -> Result:
    done = CliRunner().invoke(cli, ["cache", *words])
    assert done.exit_code == 0, done.output
    return done


def test_what_is_kept_is_listed(folder: Path) -> None:
    told = run().output
    assert told.startswith(f"{folder}: ")
    assert "  proofs: 2 files, 3.0 KB\n" in told
    assert "  checkpoints: 1 file, " in told
    assert "     lease  " in told
    found = json.loads(run("--json").output)
    assert sorted(file["kind"] for file in found["files"]) == ["checkpoints", "proofs", "proofs"]
    assert sum(Path(file["file"]).stat().st_size == file["bytes"] for file in found["files"]) == 3


@pytest.mark.parametrize(
    ("kinds", "left"),
    [(["proofs"], 1), (["checkpoints"], 2), (["mutants"], 3), (["proofs", "checkpoints"], 0), (["all"], 0)],
)
def test_what_is_named_is_removed_and_nothing_else(kinds: list[str], left: int, folder: Path) -> None:
    words = [word for kind in kinds for word in ("--remove", kind)]
    assert len(json.loads(run(*words, "--json").output)["files"]) == left
    assert len([file for file in folder.rglob("*") if file.is_file()]) == left


def test_a_checkpoint_larger_than_the_cache_may_be_is_left_elsewhere(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LIMIT_VARIABLE, "2000")
    system = load("lease")
    found = explore(system, CUT_SHORT, engine="packed")
    assert not found.checkpoint
    assert "and the cache may have 2,000 (LEASEHOLD_CACHE_LIMIT); --checkpoint FILE keeps it elsewhere" in (
        found.why_incomplete
    )
    place = folder / "elsewhere.npz"
    kept = replace(CUT_SHORT, keeping=Checkpointing(place))
    assert explore(system, kept, engine="packed").checkpoint == str(place)
