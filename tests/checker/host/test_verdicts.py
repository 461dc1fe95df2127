"""The last verdicts on a system's properties, as runs have left them."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from leasehold.checker.host.cache import VARIABLE
from leasehold.checker.host.verdicts import kept_verdicts
from leasehold.cli.main import cli
from leasehold.spec import load
from tests.cli.conftest import LIGHT
from tests.systems import write


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "light", LIGHT)


def run(*words: str) -> None:
    CliRunner().invoke(cli, [*words], catch_exceptions=False)


def test_the_verdicts_of_each_verb_are_kept_with_the_digest_of_the_text(folder: Path) -> None:
    for verb in ("explore", "check"):
        run(verb, str(folder))
    check, explore = kept_verdicts(folder)
    assert (check.verb, explore.verb) == ("check", "explore")
    assert check.digest == explore.digest == load(folder).digest
    assert check.verdicts["can_be_bright"] == "witnessed"
    assert check.made >= explore.made > 0


def test_a_proof_is_kept_with_its_options(folder: Path) -> None:
    write(folder, {"invariants.yaml": "properties: {lit: {always: light.state == dark or light.state == bright}}"})
    run("prove", str(folder), "--no-faults")
    (kept,) = kept_verdicts(folder)
    assert (kept.verb, kept.setting, kept.verdicts) == ("prove", "--no-faults", {"lit": "proved"})


def test_a_run_replaces_one_of_the_same_setting(folder: Path) -> None:
    run("explore", str(folder))
    write(folder, {"invariants.yaml": "properties: {can_be_bright: {sometimes: light.state == bright and false}}"})
    run("explore", str(folder))
    run("explore", str(folder), "--faults", "crash=1")
    assert [(k.setting, k.verdicts["can_be_bright"]) for k in kept_verdicts(folder)] == [
        ("--faults crash=1", "violated"),
        ("", "violated"),
    ]


def test_a_run_about_fewer_properties_leaves_the_others(folder: Path) -> None:
    more = "properties: {lit: {always: true}, dull: {sometimes: light.state == dark}}"
    write(folder, {"invariants.yaml": more})
    run("explore", str(folder))
    run("explore", str(folder), "--only", "lit")
    newest, before = kept_verdicts(folder)
    assert "dull" not in newest.verdicts
    assert "dull" in before.verdicts


def test_without_a_cache_nothing_is_kept_and_nothing_fails(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "/dev/null")
    run("explore", str(folder))
    assert kept_verdicts(folder) == []
