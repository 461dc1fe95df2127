"""What is sent into a channel with a capacity comes after the receipt that made room, whatever the clocks say."""

from __future__ import annotations

from collections import deque

import pytest

from leasehold.checker.explain.moments import Moments
from leasehold.checker.verify.causal import CausalMerge
from leasehold.impl.events.event import AnyEvent, MachineRecord, MachineStep, ReceivedMessage, SentMessage, StepEvent

LANE = {"ask": 1}


def event(actor: str, position: int, machine: str, time: float, sends: int = 0, receives: int = 0) -> StepEvent:
    received = ReceivedMessage("a", "left", receives) if receives else None
    step = MachineStep(
        lease="left:1", machine=machine, event="ask" if receives else "go", source="x",
        record=MachineRecord("x", {}, position, {"b": sends} if sends else {}, {"a": receives} if receives else {}, {}),
        received=received, sends=(SentMessage("b", sends, "ask", {}, "right"),) if sends else (),
    )  # fmt: skip
    return StepEvent(
        position=position, before="", actor=actor, epoch=1, spec="", now=0, time=time, commit=position, step=step
    )


LEFT = [event("left", n, "a", 0.0, sends=n) for n in (1, 2, 3)]
RIGHT = [event("right", n, "b", 9.0, receives=n) for n in (1, 2, 3)]
TURNS = [("left", 1), ("right", 1), ("left", 2), ("right", 2), ("left", 3), ("right", 3)]


def order(merge: CausalMerge) -> list[tuple[str, int]]:
    for actor in merge.actors:
        merge.close(actor)
    found = [(e.actor, e.position) for e in merge.ready()]
    assert not merge.faults
    return found


def merged(capacities: dict[str, int]) -> CausalMerge:
    merge = CausalMerge(["left", "right"], capacities=capacities)
    merge.add("left", LEFT)
    merge.add("right", RIGHT)
    return merge


@pytest.mark.parametrize(("capacity", "expected"), [
    (1, TURNS), (2, [TURNS[0], TURNS[2], TURNS[1], TURNS[4], TURNS[3], TURNS[5]]),
    (3, [("left", n) for n in (1, 2, 3)] + [("right", n) for n in (1, 2, 3)]),
])  # fmt: skip
def test_as_many_are_on_their_way_as_have_room(capacity: int, expected: list[tuple[str, int]]) -> None:
    assert order(merged({"ask": capacity})) == expected


def test_one_that_goes_on_knows_what_waits() -> None:
    merge = CausalMerge(["left", "right"], lambda run: {("a", "b"): 1}, LANE)
    left: deque[AnyEvent] = deque(LEFT[1:])
    merge.resume("left", 1, 3, left)
    merge.resume("right", 1, 3, RIGHT)
    assert order(merge) == TURNS[1:]


def test_nobody_waits_for_what_is_dropped() -> None:
    merge = CausalMerge(["left", "right", "other"], capacities=LANE)
    merge.add("left", LEFT)
    merge.add("right", RIGHT)
    merge.add("other", [event("other", 1, "c", 5.0)])
    merge.drop("right")
    assert order(merge) == [("left", 1), ("left", 2), ("left", 3), ("other", 1)]


@pytest.mark.parametrize(("capacity", "receipts"), [(1, 2), (2, 1), (3, 0)])
def test_the_cut_of_a_step_has_the_receipt_that_made_room(capacity: int, receipts: int) -> None:
    moments = Moments({"left": LEFT, "right": RIGHT}, {"ask": capacity})
    assert moments.of_event("left", 3) == {"left": 3, "right": receipts}
