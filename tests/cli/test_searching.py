"""Sizes, times, budgets and results, as the verbs that explore take them and tell them."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import click
import pytest

from leasehold.checker.explore import Limits, Progress
from leasehold.cli.common import Exit
from leasehold.cli.search import (
    SearchProgress,
    _bytes,
    _seconds,
    exit_code,
    explore_with_progress,
    parse_budget,
)
from leasehold.cli.sources import PlayedStretch, PlayedSystem, stretch_titles
from leasehold.reports.commands import replay_command
from tests.systems import load

NOBODY: Any = cast(Any, None)


@pytest.mark.parametrize(
    ("words", "size"),
    [
        ("1", 1),
        ("800", 800),
        ("800M", 800_000_000),
        ("16G", 16_000_000_000),
        ("1K", 1_000),
        ("2T", 2 * 10**12),
        ("1.5k", 1_500),
        (" 3 MB ", 3_000_000),
        ("4MiB", 4_000_000),
        ("5gb", 5_000_000_000),
        ("7B", 7),
        ("1.9", 1),
    ],
)
def test_a_size_of_memory(words: str, size: int) -> None:
    assert _bytes(NOBODY, NOBODY, words) == size
    assert _bytes(NOBODY, NOBODY, None) is None


@pytest.mark.parametrize("words", ["", "0", "0.9", "0G", "-1", "M", "1P", "1 000", "1e3", "16 G B", "1GG", "x" * 99])
def test_a_word_that_is_no_size_is_refused(words: str) -> None:
    with pytest.raises(click.BadParameter) as refused:
        _bytes(NOBODY, NOBODY, words)
    assert str(refused.value) == f"{words[:60]!r} is no size of memory; write one such as 800M or 16G"


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        ("1", 1),
        ("90", 90),
        ("90s", 90),
        ("10m", 600),
        ("2h", 7200),
        ("1.5m", 90),
        (" 3 s ", 3),
        ("0.1", 0.1),
        ("999999999", 999_999_999),
    ],
)
def test_a_time_of_a_search(words: str, seconds: float) -> None:
    assert _seconds(NOBODY, NOBODY, words) == seconds
    assert _seconds(NOBODY, NOBODY, None) is None


@pytest.mark.parametrize("words", ["", "0", "0.0h", "-1", "s", "1d", "1 0", "1e3", "1000000000", "1m30s", "x" * 99])
def test_a_word_that_is_no_time_of_a_search_is_refused(words: str) -> None:
    with pytest.raises(click.BadParameter) as refused:
        _seconds(NOBODY, NOBODY, words)
    assert str(refused.value) == f"{words[:60]!r} is no time; write one such as 90s, 10m or 2h"


@pytest.mark.parametrize(
    ("settings", "options", "words"),
    [
        ({}, (), []),
        ({"participants": 2}, (), ["--set", "participants=2"]),
        ({"participants": 2}, ("--faults", "crash=1, a=2"), ["--set", "participants=2", "--faults", "crash=1, a=2"]),
    ],
)
def test_a_path_is_replayed_with_the_constants_that_are_not_as_declared(
    settings: dict[str, int], options: tuple[str, ...], words: list[str]
) -> None:
    model = load("two_phase_commit", settings)
    assert "participants" in model.constants
    line = replay_command(model, "my system", "agree on it", options)
    head, tail = ["leasehold", "explore", "my system"], ["--only", "agree on it", "--show", "agree on it"]
    assert shlex.split(line) == [*head, *words, *tail]


@pytest.mark.parametrize("holds", [True, False])
@pytest.mark.parametrize("interrupted", [True, False])
def test_a_violation_counts_before_an_interruption(holds: bool, interrupted: bool) -> None:
    code = exit_code(cast(Any, SimpleNamespace(holds=holds, interrupted=interrupted)))
    assert code == (Exit.VIOLATED if not holds else Exit.INTERRUPTED if interrupted else Exit.HOLDS)


def test_limits_and_faults_are_those_of_the_search() -> None:
    model = load("two_phase_commit", {"participants": 1})
    few = explore_with_progress(model, Limits(states=7))
    assert (few.complete, few.distinct < 20) == (False, True)
    whole = explore_with_progress(model, engine="reference")
    faulty = explore_with_progress(model, budget=parse_budget(model, "duplicate=1", "--faults"), engine="reference")
    assert (whole.engine, whole.complete, whole.distinct < faulty.distinct) == ("reference", True, True)
    two = load("two_phase_commit", {"participants": 2})
    asymmetric = [bool(explore_with_progress(two, symmetry=asked).why_asymmetric) for asked in (False, True)]
    assert asymmetric == [False, True], "why it cannot be used is said where it was asked for"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("crush=1", "--faults: "),
        ("crash=-1", "--faults: "),
        ("byzantine=participent", "--faults: two_phase_commit has no role 'participent'"),
    ],
)
def test_a_budget_that_is_none_is_refused_with_its_option(words: str, why: str) -> None:
    model = load("two_phase_commit")
    with pytest.raises(click.UsageError) as refused:
        parse_budget(model, words, "--faults")
    assert str(refused.value).startswith(why)
    assert parse_budget(model, "byzantine=participant", "--faults").byzantine == "participant"
    assert parse_budget(model, "crash=2", "--faults") != parse_budget(model, "crash=1", "--faults")


def test_progress_says_how_far_a_search_has_come() -> None:
    shown: list[tuple[str, ...]] = []
    said: list[str] = []
    status = SimpleNamespace(show=lambda *words: shown.append(words), say=said.append)
    tell = SearchProgress(cast(Any, status), "first", expected=["known"])
    some = Progress(12_000, 50_000, 3_400, 5, 2.0, 7_600_000)
    tell(some)
    tell(replace(some, waiting=1, grows=False, violated=("agreement", "known"), depth=6, disk_bytes=2_000_000))
    tell(replace(some, violated=("agreement", "known"), phase="building the graph"))
    tell(Progress(0, 0, 1, 0, 0.0, 0))
    rest = ("depth 5", "6,000 states/s", "8 MB")
    assert shown == [
        ("first", "searching", "12,000 states", "3,400 waiting (growing)", *rest),
        (
            *(
                "first",
                "1 violated",
                "searching",
                "12,000 states",
                "1 waiting (shrinking)",
                "depth 6",
                "6,000 states/s",
            ),
            *("8 MB", "2 MB on disk"),
        ),
        ("first", "1 violated", "building the graph", "12,000 states", *rest),
        ("first", "searching", "0 states", "1 waiting (growing)", "depth 0", "0 states/s", "0 MB"),
    ]
    assert said == ["agreement is violated  first"]


def test_stretches_are_titled_by_what_differs_between_them() -> None:
    """A title has the constants that are not the same in all, and each actor's events; the last one has no end."""
    model = load("two_phase_commit")

    def stretch(constants: dict[str, Any], **within: range) -> PlayedStretch:
        return PlayedStretch(PlayedSystem("x", constants, model), {}, within)

    assert stretch_titles(
        [
            stretch({"a": 1, "b": 2, "c": 3}, site=range(1, 5), broker=range(1, 9)),
            stretch({"a": 1, "b": 5}, site=range(5, sys.maxsize), broker=range(9, 10)),
        ]
    ) == [
        "two_phase_commit with b=2, c=3: events of broker from 1 to 8, site from 1 to 4",
        "two_phase_commit with b=5: events of broker from 9 to 9, site from 5",
    ]
