"""What a handler may answer, and the wait for an end that comes soon."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from leasehold.impl.handlers.handler import FACTS, UNIT_NAME, Done, HandlerAction, checked, ended


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


GOOD: list[Done] = [
    Done(True),
    Done(False, "no disk", {"at": "rack 4"}),
    Done(True, "x", {"a": [1, None, True, 2**63 - 1, {"b": ""}]}),
    Done(True, "x", {"a": "y" * (FACTS - 6)}),  # with the marks of a mapping, a name and a text, as much as may be
]


@pytest.mark.parametrize("done", GOOD, ids=lambda done: str(done)[:40])
def test_what_can_be_kept_comes_out_as_it_was(done: Done) -> None:
    assert checked(done) == done


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (None, "which is no Done"),
        (True, "which is no Done"),
        ((True, "well", {}), "which is no Done"),
        (Done("yes"), "which is no Done"),  # type: ignore[arg-type]
        (Done(1), "which is no Done"),  # type: ignore[arg-type]
        (Done(True, None), "which is no Done"),  # type: ignore[arg-type]
        (Done(True, b"well"), "which is no Done"),  # type: ignore[arg-type]
        (Done(True, "", None), "its facts"),  # type: ignore[arg-type]
        (Done(True, "", [1]), "its facts are a list"),  # type: ignore[arg-type]
        (Done(True, "", "up"), "its facts are a str"),  # type: ignore[arg-type]
        (Done(True, "", {"a": object()}), "cannot be kept"),
        (Done(True, "", {"a": {1, 2}}), "cannot be kept"),
        (Done(True, "", {1: 2}), "cannot be kept"),  # type: ignore[dict-item]
        (Done(True, "", {"a": 10**30}), "cannot be kept"),
        (Done(True, "", {"a": "\ud800"}), "cannot be kept"),
        (Done(True, "", {"a": "y" * (FACTS - 5)}), f"of {FACTS + 1} bytes; a mapping of {FACTS} can be kept"),
    ],
    ids=lambda value: str(value)[:40].encode(errors="replace").decode(),
)
def test_what_cannot_be_kept_is_a_failure_with_its_reason(result: object, words: str) -> None:
    done = checked(result)
    assert (done.well, done.facts) == (False, {})
    assert words in done.words


def test_facts_that_lie_too_deep_are_a_failure() -> None:
    assert not checked(Done(True, "", nested(100_000))).well


def test_facts_have_a_bound_that_is_known() -> None:
    assert FACTS == 65_536


def test_words_that_no_text_can_hold_are_kept_as_far_as_they_can() -> None:
    assert checked(Done(True, "no \ud800 disk")) == Done(True, "no ? disk")


@pytest.mark.parametrize("name", ["u", "0", "A-1_b.c", "x" * 64])
def test_names_that_a_directory_may_have(name: str) -> None:
    assert UNIT_NAME.fullmatch(name)


@pytest.mark.parametrize("name", ["", ".", "..", ".a", "-a", "_a", "a/b", "a b", "a\n", "a\0", "x" * 65, "ä"])
def test_names_that_no_directory_may_have(name: str) -> None:
    assert not UNIT_NAME.fullmatch(name)


def test_an_action_is_on_its_unit_or_else_on_its_lease() -> None:
    assert HandlerAction("setup", "l", "u", 1, {}).on == "u"
    assert HandlerAction("join", "l", "", 1, {}).on == "l"


@pytest.mark.real_time
async def test_an_end_is_waited_for_however_often_the_wait_is_cancelled() -> None:
    end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(ended(end))
    for _ in range(3):
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        waiting.cancel()
    await asyncio.sleep(0)
    assert not waiting.done()
    end.set_result(None)
    await waiting
    await ended(end)
