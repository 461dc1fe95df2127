"""Played logs and counterexamples in words and as JSON: each way in which they may end."""

from __future__ import annotations

from typing import Any

import pytest

from leasehold.checker.recovery.cases.log_case import PlayedLog
from leasehold.checker.recovery.cases.played import PlayedCounterexample
from leasehold.cli.replay import LONGEST, _json, _short, _words

DIFFERENCE: dict[str, tuple[Any, Any]] = {"state": ("idle", "busy"), "n": (None, 3)}


@pytest.mark.parametrize(
    ("played", "words"),
    [
        (PlayedLog(1, 1), ["1 step of the log, and the actors take each as it says"]),
        (PlayedLog(1_200, 1_200), ["1,200 steps of the log, and the actors take each as it says"]),
        (
            PlayedLog(9, 1, "site:4", 7, DIFFERENCE, "it is refused"),
            ["after 1 step the actors differ from the log at site:4, tick 7", "  it is refused",
             "  state: the log has idle", "         the actors busy", "  n: the log has nothing", "     the actors 3"],
        ),
        (PlayedLog(9, 0, "site:1", 0), ["after 0 steps the actors differ from the log at site:1, tick 0"]),
    ],
)  # fmt: skip
def test_a_log_is_told_by_its_steps_or_by_the_first_difference(played: PlayedLog, words: list[str]) -> None:
    assert _words(played) == words
    found = _json(played)
    assert (found["case"], found["steps"], found["same"], found["why"]) == (
        "log",
        played.steps,
        played.same,
        played.why,
    )
    assert (found["differs"], found["at"]) == (bool(played.at), played.at or None)
    assert found["tick"] == (played.tick if played.at else None)
    assert found["difference"] == {n: {"log": log, "actors": own} for n, (log, own) in played.difference.items()}


def counterexample(**fields: Any) -> PlayedCounterexample:
    return PlayedCounterexample(**{"name": "p", "kind": "always", "steps": 2, **fields})


BROKEN = {"broken": frozenset({"q", "p"})}


@pytest.mark.parametrize(
    ("played", "reproduced", "words"),
    [
        (counterexample(unplayed="it has units"), False, ["p: not played: it has units"]),
        (
            counterexample(), False,
            ["p: not reproduced", "  the actors have taken each step, and do not break it"],
        ),
        (counterexample(findings=["a", "b"], **BROKEN), False, ["p: not reproduced", "  a", "  b"]),
        (counterexample(broken=frozenset({"q"})), False,
         ["p: not reproduced", "  the actors have taken each step, and do not break it"]),
        (
            counterexample(**BROKEN, reported=frozenset({"p"})), True,
            ["p: reproduced: the actors have taken 2 steps, with the records of the model",
             "  verify reports it from their events"],
        ),
        (
            counterexample(**BROKEN, reported=frozenset({"q"}), steps=1), True,
            ["p: reproduced: the actors have taken 1 step, with the records of the model",
             "  verify does not see it from their events"],
        ),
        (
            counterexample(**BROKEN, not_asked="it reads true time"), True,
            ["p: reproduced: the actors have taken 2 steps, with the records of the model",
             "  verify cannot tell of it from events: it reads true time"],
        ),
    ],
)  # fmt: skip
def test_a_counterexample_is_told_by_what_became_of_it(
    played: PlayedCounterexample, reproduced: bool, words: list[str]
) -> None:
    assert (played.reproduced, _words(played)) == (reproduced, words)
    assert _json(played) == {
        "case": "counterexample", "property": "p", "steps": played.steps, "reproduced": reproduced,
        "unplayed": played.unplayed, "findings": played.findings, "broken": sorted(played.broken),
        "reported": sorted(played.reported), "not_asked": played.not_asked,
    }  # fmt: skip


def test_a_long_value_is_shortened() -> None:
    assert (_short(None), _short("idle"), _short(3)) == ("nothing", "idle", "3")
    for length in (LONGEST - 1, LONGEST, LONGEST + 1, 5 * LONGEST):
        text = "x" * length
        whole = _short(text)
        assert whole == (text if length <= LONGEST else "x" * (LONGEST - 3) + "...")
        assert len(whole) == min(length, LONGEST)
