"""Sequences: as words, as files, and what they come to."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.checker.handlers.sequence import (
    FRESH,
    HandlerFault,
    HandlerStep,
    Replay,
    Sequence,
    read_replay,
    write_replay,
)
from leasehold.impl.handlers.handler import HandlerError

VERBS = ("setup", "modify", "teardown")
STEPS = (
    HandlerStep("setup", others=(1,)),
    HandlerStep("setup", fault=HandlerFault("kill", "actor", "mkdir", 2)),
    HandlerStep("setup", fault=HandlerFault("error", call="write", nth=11, errno="ENOSPC")),
    HandlerStep("modify", 1, fault=HandlerFault("cancel", at=0.25)),
    HandlerStep("setup", beside="teardown"),
    HandlerStep("setup", old=True),
    HandlerStep("lose", 1),
)


def test_each_step_is_told_in_words() -> None:
    assert [str(step) for step in STEPS] == [
        "setup of units 0, 1",
        "setup of unit 0, killed at its 2nd mkdir (the actor alone, whose tools go on)",
        "setup of unit 0, whose 11th write fails with ENOSPC",
        "modify of unit 1, cancelled at 25% of its time",
        "setup of unit 0, beside teardown with the next number",
        "setup of unit 0 with an old number",
        "the processes of unit 1 are killed",
    ]


def test_the_last_action_says_what_is_wanted() -> None:
    found = [*Sequence(STEPS).vectors(3)]
    assert found[0] == ("setup", "setup", FRESH)
    assert found[3] == ("setup", "modify", FRESH)
    assert found[4] == found[6] == ("teardown", "modify", FRESH)


def test_a_sequence_is_kept_in_a_file(tmp_path: Path) -> None:
    replay = Replay(handler="./a.sh", digest="d", verbs=VERBS, units=2, data={"size": 2}, found="leak", steps=STEPS)
    write_replay(tmp_path / "one.yaml", replay)
    assert read_replay(tmp_path / "one.yaml") == replay


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[1]", "it is no sequence of the harness"),
        ("handler: a\ndigest: b\nverbs: [c]\nunits: 1\nsteps: [{verb: c, fault: {kind: burn}}]", "Invalid enum value"),
        (
            "handler: a\ndigest: b\nverbs: [c]\nunits: 1\nsteps: [{verb: c, fault: {kind: kill, call: 'a;b'}}]",
            "matching",
        ),
        ("handler: a\ndigest: b\nverbs: [c]\nunits: 1\nstep: []", "unknown field `step`"),
        ("{", "is no YAML"),
    ],
)
def test_a_file_that_is_none_says_why(content: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(content)
    with pytest.raises(HandlerError, match=words):
        read_replay(tmp_path / "one.yaml")


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (HandlerStep("setpu"), "step 1: the handler has no 'setpu'; did you mean setup?"),
        (HandlerStep("setup", beside="burn"), "step 1: the handler has no 'burn'"),
        (HandlerStep("setup", 2), "step 1: there are 2 units, from 0 on, and none is 2"),
    ],
)
def test_a_sequence_that_does_not_fit_says_why(step: HandlerStep, words: str) -> None:
    with pytest.raises(HandlerError) as caught:
        Sequence((step,)).check(VERBS, 2)
    assert words in str(caught.value)
