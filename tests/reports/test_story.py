"""The story of a lease for people: which entries share a line, which have none, and how many lines there are."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from typing import Any

import pytest

from leasehold.checker.explain.story import StoryEntry
from leasehold.reports.story import BEGINNING, END, story_lines
from tests.reports.samples import story

ENTRY = StoryEntry(
    "site",
    7,
    3,
    60.0,
    "step",
    "unit[1]",
    "idle",
    "busy",
    "go",
    "handler",
    {"a": 1},
    "broker",
    5,
    "unit/idle#go",
    "",
    True,
    "done",
    ("x to y",),
    ("handler.join",),
    False,
)
OTHERS: dict[str, Any] = {
    "actor": "tenant",
    "position": 8,
    "now": 4,
    "time": 61.0,
    "kind": "found",
    "machine": "unit[2]",
    "source": "off",
    "state": "on",
    "event": "stop",
    "cause": "client",
    "fields": {"a": 2},
    "sender": "tenant",
    "number": 6,
    "transition": "unit/idle#go.2",
    "reason": "why",
    "well": False,
    "words": "more",
    "sends": ("z to y",),
    "starts": ("policy.p",),
    "driven": True,
}
# None of them is in the line's words: a message that is taken has a sender, so no other cause, and no reason.
TOGETHER = {"position", "time", "transition", "well", "number", "driven", "cause", "reason"}


def test_each_field_has_a_case() -> None:
    assert OTHERS.keys() == {f.name for f in fields(StoryEntry)}


@pytest.mark.parametrize("name", OTHERS)
def test_entries_that_differ_in_what_is_told_have_lines_of_their_own(name: str) -> None:
    """Those of several machines of a role that do the same share one, unless they have received numbered messages."""
    other = replace(ENTRY, **{name: OTHERS[name]})
    assert len(story_lines([ENTRY, other])) == (1 if name in TOGETHER else 2)
    plain, numbered = replace(ENTRY, number=0, machine="unit[2]"), replace(ENTRY, machine="unit[2]")
    (line,) = story_lines([replace(ENTRY, number=0), plain, replace(plain, machine="unit[3]", position=9)])
    assert "site:7-9" in line
    assert "unit[1], unit[2], unit[3] idle -> busy" in line
    assert len(story_lines([ENTRY, numbered])) == 2
    assert len(story_lines([ENTRY, replace(ENTRY, event="else"), ENTRY])) == 3  # only neighbours
    answered, left = replace(ENTRY, sender=""), replace(ENTRY, transition="")
    assert len(story_lines([answered, replace(answered, well=False)])) == 2
    assert len(story_lines([answered, replace(answered, cause="client")])) == 2
    assert len(story_lines([left, replace(left, reason="why")], whole=True)) == 2
    assert len(story_lines([answered, replace(answered, fields={"a": 0, "b": {}, "c": []})])) == 2
    assert (
        len(story_lines([answered, replace(answered, fields={"a": 1, "b": {}, "c": []})])) == 1
    )  # as these say nothing


@pytest.mark.parametrize("count", [1, BEGINNING + END, BEGINNING + END + 1, BEGINNING + END + 2, 200])
def test_a_long_story_has_its_beginning_and_its_end(count: int) -> None:
    entries = [replace(ENTRY, position=n, now=n, event=f"event_{n}") for n in range(count)]
    whole, short = story_lines(entries, whole=True), story_lines(entries)
    assert len(whole) == count
    if count <= BEGINNING + END + 1:
        assert short == whole
    else:
        assert [*short[:BEGINNING], *short[-END:]] == [*whole[:BEGINNING], *whole[-END:]]
        (words,) = short[BEGINNING:-END]
        assert words == f"... {count - BEGINNING - END} lines more; --all prints them"


def test_what_changes_nothing_is_told_in_the_whole_story_alone() -> None:
    """A step without a transition, unless somebody decided it or it has failed."""
    told = {"policy", "client", "probe"}
    for cause in ("timer", "policy", "client", "probe", "handler", "subsidiary", ""):
        ignored = replace(ENTRY, transition="", cause=cause, reason="late")
        assert len(story_lines([ignored])) == (cause in told)
        assert len(story_lines([ignored], whole=True)) == len(story_lines([replace(ignored, well=False)])) == 1
    every = story_lines(story(), whole=True)
    assert len(every) == len(story_lines(story())) + 1
    assert len({re.search("site:|other", line).start() for line in every}) == 1  # type: ignore[union-attr]


def test_the_day_is_told_where_there_are_several() -> None:
    later = replace(ENTRY, time=86_400.0, event="stop")
    assert [line.split()[2] for line in story_lines([ENTRY, later])] == ["1970-01-01", "1970-01-02"]
    assert [line.split()[2] for line in story_lines([ENTRY, replace(later, time=90.0)])] == ["00:01:00", "00:01:30"]
    tens = [ENTRY, replace(later, now=10)]
    assert [line[:8] for line in story_lines(tens)] == [" tick 3 ", "tick 10 "]
