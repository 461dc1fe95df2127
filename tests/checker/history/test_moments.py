"""Consistent cuts: each has the causes of all its events, and no more than was asked for and they need."""

from __future__ import annotations

import pytest

from leasehold.checker.explain.explanation import frontier_of
from leasehold.checker.history.moments import Moments, NoSuchMoment
from leasehold.impl.events.event import ROOT, MachineRecord, MachineStep, ReceivedMessage, StepEvent


def step(
    actor: str, position: int, now: int, sent: dict[str, int] | None = None, received: tuple[str, int] | None = None
) -> StepEvent:
    """An event of the machine that is named as its actor."""
    of = None if received is None else ReceivedMessage(received[0], received[0], received[1])
    taken = MachineStep("a:1", actor, "go", MachineRecord("s", {}, position, sent or {}), "s", received=of)
    return StepEvent(
        position=position,
        before=ROOT,
        actor=actor,
        epoch=1,
        spec="",
        now=now,
        time=now + 0.5,
        commit=position,
        step=taken,
    )


# a sends 1 and 2 to b; b takes 2 and sends 1 to c, whose clock is late, and a's is early.
CHAINS = {
    "a": [step("a", 1, 5, {"b": 1}), step("a", 2, 9, {"b": 2}), step("a", 3, 10, {"b": 2})],
    "b": [step("b", 1, 5), step("b", 2, 6, {"c": 1}, ("a", 2)), step("b", 3, 7, {"c": 1})],
    "c": [step("c", 4, 1, {}), step("c", 5, 2, {}, ("b", 1)), step("c", 6, 3)],
}


@pytest.mark.parametrize(
    ("words", "cut"),
    [
        ("c:4", {"a": 0, "b": 0, "c": 4}),
        ("c:5", {"a": 2, "b": 2, "c": 5}),
        ("b:1", {"a": 0, "b": 1, "c": 3}),
        ("b:2", {"a": 2, "b": 2, "c": 3}),
        ("1", {"a": 0, "b": 0, "c": 4}),
        ("2", {"a": 2, "b": 2, "c": 5}),  # what c has taken by then was sent, whatever the clocks of a and b say
        ("5", {"a": 2, "b": 2, "c": 6}),
        ("9", {"a": 2, "b": 3, "c": 6}),
        (None, {"a": 3, "b": 3, "c": 6}),
        ("1970-01-01T00:00:01.5+00:00", {"a": 0, "b": 0, "c": 4}),
        ("0", {"a": 0, "b": 0, "c": 3}),
    ],
)
def test_a_moment_is_a_consistent_cut(words: str | None, cut: dict[str, int]) -> None:
    moments = Moments(CHAINS)
    assert frontier_of(moments, words)[0] == cut
    assert {name: len(events) for name, events in moments.before(cut).items()} == {
        "a": cut["a"],
        "b": cut["b"],
        "c": cut["c"] - 3,
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("c:3", "c has no event 3 here: it has events 4 to 6"),
        ("a:4", "a has no event 4 here: it has events 1 to 3"),
        ("d:1", "'d:1' is no moment; give a tick such as 120"),
        ("soon", "'soon' is no moment; give a tick such as 120"),
    ],
)
def test_what_is_no_moment(words: str, said: str) -> None:
    with pytest.raises(NoSuchMoment) as raised:
        frontier_of(Moments(CHAINS), words)
    assert str(raised.value).startswith(said)
