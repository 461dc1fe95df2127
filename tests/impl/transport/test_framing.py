"""Frames and replies as bytes."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.impl.identity.pages import NAMED, names_of
from leasehold.impl.transport.framing import LARGEST_REPLY, FrameError, pack, pack_replies, unpack, unpack_replies
from leasehold.impl.transport.transport import Delivery, Reply


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=10))
def test_frames_come_out_as_they_went_in(frames):
    assert unpack(pack(frames), 10) == frames


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=5), st.data())
def test_a_body_that_is_cut_off_is_no_body(frames, data):
    body = pack(frames)
    cut = data.draw(st.integers(0, len(body) - 1))
    try:
        assert unpack(body[:cut], 10) == frames[: len(unpack(body[:cut], 10))], "a cut between frames is seen as fewer"
    except FrameError:
        return


@given(st.binary(max_size=60))
def test_any_bytes_are_frames_or_an_error(content):
    with contextlib.suppress(FrameError):
        assert pack(unpack(content, 100)) == content


def test_too_many_frames_are_none():
    assert len(unpack(pack([b""] * 3), 3)) == 3
    with pytest.raises(FrameError, match="more than 3"):
        unpack(pack([b""] * 4), 3)
    with pytest.raises(FrameError, match="no frame"):
        unpack(b"", 3)


@given(st.lists(st.builds(Reply, st.sampled_from(Delivery), st.text(st.characters(exclude_categories=["C", "Z"])))))
def test_replies_come_out_as_they_went_in(replies):
    assert unpack_replies(pack_replies(replies), len(replies)) == replies


@pytest.mark.parametrize("answer", list(Delivery))
def test_an_answer_without_a_reason_is_that_answer(answer):
    assert unpack_replies(pack_replies([Reply(answer)]), 1) == [Reply(answer)]


@given(st.text(min_size=1, max_size=2000))
def test_a_reason_is_one_line_of_bounded_length(reason):
    content = pack_replies([Reply(Delivery.REFUSED, reason)])
    assert len(content) <= LARGEST_REPLY
    (reply,) = unpack_replies(content, 1)
    assert reply.reason.isprintable()
    assert len(reply.reason) <= 500


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("x" * 500, "x" * 500),
        ("x" * 501, "x" * 500),
        ("\n" * 500, " " * 500),
        ("\0" * 501, " " * 500),
        ("a\tb\u200bc", "a b c"),
        ("\U0001f600" * 501, "\U0001f600" * 500),
    ],
    ids=lambda text: f"{len(text)} of {text[0]!a}",
)
def test_a_reason_is_cut_at_500_characters_at_both_ends(reason: str, shown: str) -> None:
    assert unpack_replies(pack_replies([Reply(Delivery.REFUSED, reason)]), 1) == [Reply(Delivery.REFUSED, shown)]
    plain = json.dumps([["refused", reason]]).encode()  # another end may tidy nothing
    assert unpack_replies(plain, 1) == [Reply(Delivery.REFUSED, shown)]
    assert len(pack_replies([Reply(Delivery.REFUSED, reason)])) <= LARGEST_REPLY


def test_an_answer_names_all_digests_that_a_receiver_lacks_at_once() -> None:
    reply = Reply(Delivery.LACKS, names_of([bytes([n]) * 32 for n in range(NAMED)]))
    content = pack_replies([reply])
    assert len(content) < LARGEST_REPLY
    assert unpack_replies(content, 1) == [reply]
    longer = Reply(Delivery.LACKS, "x" * 5000)
    assert unpack_replies(pack_replies([longer]), 1) == [Reply(Delivery.LACKS, "x" * 3000)]


@given(st.binary(max_size=60), st.integers(0, 3))
def test_any_bytes_are_replies_or_an_error(content, count):
    with contextlib.suppress(FrameError):
        assert len(unpack_replies(content, count)) == count


@pytest.mark.parametrize(
    "content",
    [
        b"[]",
        b"{}",
        b'[["taken"]]',
        b'[["gone",""]]',
        b'[["taken",""],["taken",""]]',
        b"[" * 5000,
        b'[["refused","\xff"]]',
    ],
)
def test_what_is_no_reply_is_an_error(content):
    with pytest.raises(FrameError):
        unpack_replies(content, 1)
