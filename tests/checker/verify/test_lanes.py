"""Lanes that are replayed from numbers, against the explorer's channels, which know ranks alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from leasehold.checker.explore import channels
from leasehold.checker.verify.lanes import ReplayedLane
from leasehold.spec import load

MAILBOX = load("lease").channels["to_broker"]


@given(st.lists(st.tuples(st.sampled_from(["send", "skip", "receive"]), st.integers(0, 5))))
def test_a_replayed_mailbox_is_that_of_the_explorer(acts: list[tuple[str, int]]) -> None:
    lane, content, number = ReplayedLane(MAILBOX), channels.empty("mailbox"), 0
    for act, which in acts:
        if act == "send":
            number += 1
            lane.send(number, "ab"[which % 2], (number,))
            content = channels.put("mailbox", None, content, "ab"[which % 2], (number,))
        elif act == "skip":  # a number whose message is not known
            number += 1
            lane.found(newest=number)
            content = channels.number("mailbox", None, content, "a", ())
        elif content[1]:
            at = which % len(content[1])
            lane.receive(content[1][at][2][0])
            content = channels.take("mailbox", content, at)
        assert lane.content() == content


@given(st.lists(st.tuples(st.sampled_from(["send", "receive"]), st.integers(0, 9))))
def test_what_was_not_received_may_still_be_taken(acts: list[tuple[str, int]]) -> None:
    """Also where its sender has moved on from it; then nothing else changes."""
    lane, sent, newest = ReplayedLane(MAILBOX), {}, 0
    for act, which in acts:
        if act == "send":
            newest += 1
            sent[newest] = newest, "ab"[which % 2], (newest,)
            lane.send(*sent[newest])
        elif sent:
            number = sorted(sent)[which % len(sent)]
            before = list(lane.waiting)
            assert lane.late(number) == (sent[number] not in before)
            assert lane.waiting == sorted({*before, sent[number]})
            assert not lane.late(number)
            lane.receive(number)
            sent = {at: message for at, message in sent.items() if at > number}
