"""Statements of docs/howto/horizon.md, tried: the claims that end with time, and those that are stated around it."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.checker.explore import Exploration, explore
from leasehold.spec import load
from tests.systems import edited, files_of, write

WATCHMAN = files_of("tutorial/systems/watchman")
TOO_MUCH = (
    ("when: watchman.state == resting and watchman.due <= last\n", "when: watchman.state == resting\n"),
    ("time_is_over: now == last and watchman.due > last", "never: false"),
)
HINT = "; a timer of watchman would be due at {}, after the horizon (docs/howto/horizon.md)"


def explored(folder: Path, files: dict[str, str], last: int) -> Exploration:
    return explore(load(write(folder, files), {"last": last}))


@pytest.mark.parametrize("last", [3, 4, 7, 10])
def test_what_is_stated_around_the_end_of_time_holds(last: int, tmp_path: Path) -> None:
    found = explored(tmp_path / "watchman", WATCHMAN, last)
    assert {p.name: p.verdict for p in found.properties} == {
        "a_round_comes": "exhausted",
        "a_round_is_in_time": "exhausted",
        "deadlock_free": "exhausted",
    }
    assert found.vacuous == ()


@pytest.mark.parametrize("last", [4, 7, 10])
def test_an_artefact_moves_with_the_horizon_and_is_told(last: int, tmp_path: Path) -> None:
    found = explored(tmp_path / "watchman", edited(WATCHMAN, *TOO_MUCH), last)
    broken = {p.name: p for p in found.properties if p.verdict == "violated"}
    assert broken.keys() == {"a_round_comes", "deadlock_free"}
    for result in broken.values():
        assert result.path is not None
        assert result.path.final.now == last
        assert result.reason.endswith(HINT.format(result.path.final.data["watchman.due"]))


def test_a_run_that_no_timer_would_end_has_no_such_hint(tmp_path: Path) -> None:
    """A watchman who may look again and again never comes to rest, however much time there is."""
    files = edited(
        WATCHMAN,
        ("events: {walked: The round is over.}", "events: {walked: The round is over., look: He looks.}"),
        ("      walked: {to", "      look: {stay: true}\n      walked: {to"),
        ("[walked]}", "[walked, look]}"),
        ("when: watchman.state == resting and watchman.due <= last", "when: watchman.state == walking"),
        ("leads_to: watchman.state == walking", "leads_to: watchman.state == resting"),
    )
    found = explored(tmp_path / "watchman", files, 4)
    broken = next(p for p in found.properties if p.name == "a_round_comes")
    assert broken.verdict == "violated"
    assert broken.path is not None
    assert broken.path.final.now == 4
    assert "horizon" not in broken.reason
