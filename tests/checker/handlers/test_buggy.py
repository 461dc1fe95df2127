"""Handlers with one mistake each, as people make them: the harness finds each, by its kind (paper, section 5.2)."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from leasehold.checker.handlers.harness import Options, Tried, play_again, verify_handler
from leasehold.checker.handlers.sequence import FindingKind, read_replay, write_replay
from leasehold.checker.handlers.target import target_of

BUGGY = {path.stem: path for path in sorted(Path(__file__).with_name("buggy").iterdir()) if path.suffix != ".pyc"}
BUGGY.pop("__pycache__", None)
SEED = 1
FIRST = ("create_fails_twice", "loop_device_left", "process_lives_on")  # found by the first sequences

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("strace") is None, reason="needs root, for worlds of their own, and strace"
)


def head(name: str) -> str:
    return BUGGY[name].read_text()


def words(name: str, key: str) -> tuple[str, ...]:
    """The words of a key in the head of a handler, such as `Kind: left_over, past_lease.`"""
    found = re.search(rf"{key}: ([\w, ]+)\.", head(name))
    return tuple(found[1].split(", ")) if found else ()


def tried(name: str, folder: Path, *, sequences: int = 300, seconds: float = 240) -> Tried:
    shutil.copy(BUGGY[name], folder)
    given = ":".join([str(folder / BUGGY[name].name), *words(name, "Class")])
    return verify_handler(target_of(given), Options(sequences, seconds, SEED, skip=words(name, "Skip")))


def check(name: str, folder: Path) -> None:
    result = tried(name, folder)
    assert not result.broken
    found = [failure.finding.kind for failure in result.failures]
    assert {*found} & {*words(name, "Kind")}, (found, [str(f.steps) for f in result.failures])
    assert not result.passed
    failure = result.failures[0]
    assert failure.finding.words
    file = folder / "again.yaml"
    write_replay(file, result.replay(failure))
    replay = read_replay(file)
    assert replay.steps == failure.steps.steps
    if failure.shows == (0, 0):  # undisturbed actions have shown it
        (again,) = play_again(replay, target_of(replay.handler), Options(units=replay.units))
        assert [finding.kind for finding in again.findings] == [failure.finding.kind]


@pytest.mark.parametrize("name", FIRST)
def test_a_mistake_of_the_first_kind_of_sequences_is_found(name: str, tmp_path: Path) -> None:
    check(name, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (n % 3 > 0)) for n, name in enumerate(sorted({*BUGGY} - {*FIRST}))],
)
def test_a_mistake_is_found_by_its_kind(name: str, tmp_path: Path) -> None:
    check(name, tmp_path)


def test_each_kind_of_fault_has_a_handler_that_shows_it() -> None:
    named = {kind for name in BUGGY for kind in words(name, "Kind")}
    assert {*FindingKind} - named == {FindingKind.FAILS}, (
        "that one needs no handler of its own: an action fails at once"
    )
    assert len(BUGGY) >= 15


@pytest.mark.long
def test_a_failure_is_played_again_and_not_after_it_was_mended(tmp_path: Path) -> None:
    result = tried("create_fails_twice", tmp_path)
    (failure,) = result.failures
    assert str(failure.steps) == "setup of unit 0; setup of unit 0"
    assert failure.shows == (3, 3)
    replay = result.replay(failure)
    options = Options(units=replay.units)
    (again,) = play_again(replay, target_of(replay.handler), options)
    assert [finding.kind for finding in again.findings] == ["not_repeatable"]
    script = tmp_path / "create_fails_twice.sh"
    script.write_text(script.read_text().replace('mkdir "rooms', 'mkdir -p "rooms'))
    mended = target_of(replay.handler)
    assert mended.digest != replay.digest
    (again,) = play_again(replay, mended, options)
    assert again.findings == []
