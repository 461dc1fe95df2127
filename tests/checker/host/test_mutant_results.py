"""The results of mutants that are kept: which campaigns' they are, and what they say of transitions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from leasehold.checker.host.cache import VARIABLE
from leasehold.checker.host.mutant_results import BATTERY, MOST_BYTES, Missed, keep, kept
from leasehold.spec.language.load import load
from leasehold.spec.language.model import System
from tests.cli.conftest import LIGHT
from tests.systems import write

DARK, BRIGHT = "light/dark#press", "light/bright#press"
RESULTS = {f"drop_transition {DARK}": "killed", f"swap_target {DARK} -> dark": "survives"}


@pytest.fixture
def light(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    return write(tmp_path / "light", LIGHT)


def files(folder: Path) -> list[Path]:
    return sorted((folder.parent / "cache").rglob("*.json"))


@pytest.mark.parametrize(
    ("results", "missed"),
    [
        ({}, None),
        ({"drop_update light.n": "survives"}, None),  # of no transition
        ({f"drop_transition {DARK}": "killed"}, Missed(1, {})),
        (RESULTS, Missed(1, {DARK: (f"swap_target {DARK} -> dark",)})),
        (
            {
                **{f"{word} {DARK}": word for word in ("killed", "refused", "equivalent", "unseen", "survives")},
                f"drop_transition {BRIGHT}": "explained",
            },
            Missed(2, {DARK: (f"unseen {DARK}", f"survives {DARK}"), BRIGHT: (f"drop_transition {BRIGHT}",)}),
        ),
    ],
)
def test_what_no_property_finds_is_told_by_transition(
    results: Mapping[str, str], missed: Missed | None, light: Path
) -> None:
    system = load(light)
    keep(light, system, results)
    assert kept(light, system) == missed
    assert len(files(light)) == bool(results)


def test_later_results_stand_beside_earlier_ones_or_in_their_place(light: Path) -> None:
    system = load(light)
    for results in (RESULTS, {f"drop_transition {BRIGHT}": "unseen", f"swap_target {DARK} -> dark": "killed"}):
        keep(light, system, results)
    assert kept(light, system) == Missed(2, {BRIGHT: (f"drop_transition {BRIGHT}",)})


def another_system(light: Path) -> System:
    return load(write(light, {"invariants.yaml": LIGHT["invariants.yaml"].replace("bright}", "dark}")}))


def another_battery(light: Path) -> System:
    return load(write(light, {BATTERY: "trials: [{}]\n"}))


@pytest.mark.parametrize("changed", [another_system, another_battery])
def test_results_are_of_one_system_and_its_battery(light: Path, changed: Callable[[Path], System]) -> None:
    before = load(light)
    keep(light, before, RESULTS)
    assert kept(light, changed(light)) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[1]",
        b'{"results": {"a": 1}}',
        b'{"results": ' * 5000,
        b"\xff",
        json.dumps({"results": RESULTS, "more": 1}).encode(),
        json.dumps({"results": RESULTS}).encode().ljust(MOST_BYTES + 1),
    ],
)
def test_a_file_that_is_not_ours_is_as_none(content: bytes, light: Path) -> None:
    """Also one that is too long to be read, though it says nothing wrong; the cache is optional."""
    system = load(light)
    keep(light, system, RESULTS)
    (file,) = files(light)
    file.write_bytes(content)
    assert kept(light, system) is None


def test_a_file_of_the_most_bytes_is_read(light: Path) -> None:
    system = load(light)
    keep(light, system, RESULTS)
    (file,) = files(light)
    file.write_bytes(file.read_bytes().ljust(MOST_BYTES))
    assert kept(light, system) is not None


def test_a_cache_that_cannot_be_written_keeps_nothing_and_says_nothing(
    light: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (light.parent / "cache").write_text("a file")
    keep(light, load(light), RESULTS)
    assert kept(light, load(light)) is None
