"""The receiving end: limits, refusals and their payers, errors of the receiver, and the close."""

import asyncio
from dataclasses import replace

import pytest

from leasehold.impl.transport.limits import LIMITS, Connection
from leasehold.impl.transport.reception import Reception
from leasehold.impl.transport.transport import Delivery, Reply

STRICT = replace(LIMITS, refusals=3, refusals_per_second=0.1, parcel=10)
REPLIES = {
    b"good": Reply(Delivery.TAKEN, "", "tenant"),
    b"x" * 10: Reply(Delivery.TAKEN, "", "tenant"),
    b"bad": Reply(Delivery.REFUSED, "no", "tenant"),
    b"forged": Reply(Delivery.REFUSED, "forged"),
    b"unknown": Reply(Delivery.UNTRUSTED, "unknown"),
    b"busy": Reply(Delivery.BUSY, "later"),
    b"lost": Reply(Delivery.UNREACHABLE, "no store"),
}


class Received:
    """A receiver of a few frames, on the clock of the loop."""

    def __init__(self, limits=STRICT):
        self.got, self.gate = [], asyncio.Event()
        self.ends = []
        self.reception = Reception(self._receive, limits, asyncio.get_running_loop().time)

    async def _receive(self, frame):
        self.got.append(frame)
        if frame == b"raise":
            raise ValueError
        if frame.startswith(b"wait"):
            try:
                await self.gate.wait()
            finally:
                self.ends.append(frame)
            return Reply(Delivery.TAKEN)
        return REPLIES.get(frame)

    async def answers(self, *frames, over=None):
        connection = Connection("192.0.2.1", tried=True) if over is None else over
        return [reply.answer.value for reply in await self.reception.take_all(frames, connection)]

    def waits(self, address="192.0.2.1", proven=""):
        return self.reception.wait(Connection(address, proven, tried=True))


async def test_only_refusals_are_counted_and_each_is_its_signers_or_its_addresses():
    r = Received()
    for frame in (b"good", b"busy", b"lost") * 5:
        await r.answers(frame)
    assert (r.waits(), r.waits("", "tenant")) == (0, 0)
    assert await r.answers(b"bad", b"bad") == ["refused"] * 2
    assert await r.answers(b"forged", b"unknown") == ["refused", "untrusted"]
    assert (r.waits(), r.waits("", "tenant")) == (0, 0)
    assert await r.answers(b"bad") == ["refused"]
    assert await r.answers(b"forged") == ["refused"]
    assert (r.waits(), r.waits("", "tenant")) == (pytest.approx(10), pytest.approx(10))
    assert (r.waits("192.0.2.2"), r.waits("", "other"), r.waits("tenant")) == (0, 0, 0)
    await asyncio.sleep(9.9)
    assert await r.answers(b"good") == ["busy"]
    await asyncio.sleep(0.2)
    assert await r.answers(b"good") == ["taken"]


async def test_a_connection_pays_for_the_actor_that_it_has_proven_last():
    r = Received()
    proven = Connection("192.0.2.1")
    assert await r.answers(b"good", over=proven) == ["taken"]
    assert proven.proven == "tenant"
    assert await r.answers(b"forged", b"forged", b"forged", over=proven) == ["refused"] * 3
    assert proven.proven == "tenant", "a frame of nobody takes nothing away"
    assert (r.waits(), r.waits("", "tenant")) == (0, pytest.approx(10))
    assert await r.answers(b"good", over=proven) == ["busy"]
    assert await r.answers(b"good", over=Connection("192.0.2.1")) == ["taken"]


async def test_a_frame_that_is_too_large_is_refused_and_counted_and_not_received():
    r = Received()
    assert await r.answers(b"x" * 10) == ["taken"]
    r.got.clear()
    assert await r.answers(b"x" * 11, b"x" * 11, b"good", b"x" * 11) == ["refused", "refused", "taken", "refused"]
    assert r.got == [b"good"]
    assert r.waits() > 0
    assert (await r.reception.take(b"good", "192.0.2.1")).answer is Delivery.BUSY
    assert (await r.reception.take(b"good", "192.0.2.2")).answer is Delivery.TAKEN


async def test_a_new_connection_of_an_address_that_has_to_wait_may_try_one_frame():
    r = Received()
    await r.answers(b"forged", b"forged", b"forged")
    new = Connection("192.0.2.1")
    assert r.reception.wait(new) == 0
    assert await r.answers(b"forged", b"good", over=new) == ["refused", "busy"]
    assert r.reception.wait(new) > 0
    fresh = Connection("192.0.2.2")
    assert await r.answers(*[b"lost"] * 5, over=fresh) == ["unreachable"] * 5
    assert not fresh.tried, "who need not wait has not used it up"


async def test_as_many_frames_are_received_at_once_as_the_limit_allows():
    r = Received(replace(STRICT, receiving=2))
    first = asyncio.create_task(r.answers(b"wait 1", b"wait 2", b"wait 3"))
    await asyncio.sleep(1)
    assert r.got == [b"wait 1", b"wait 2"]
    assert await r.answers(b"good") == ["busy"]
    assert r.waits() == 0, "to be busy is no refusal"
    r.gate.set()
    assert await first == ["taken", "taken", "busy"]
    assert await r.answers(b"good") == ["taken"]


async def test_a_frame_without_an_answer_in_time_is_unreachable_and_goes_on():
    r = Received()
    now = asyncio.get_running_loop().time
    began = now()
    assert await r.answers(b"good", b"wait") == ["taken", "unreachable"]
    assert now() - began == pytest.approx(STRICT.answer_seconds)
    assert r.ends == []
    r.gate.set()
    await asyncio.sleep(0.1)
    assert r.ends == [b"wait"]


async def test_a_sender_that_gives_up_cancels_nothing():
    r = Received()
    sender = asyncio.create_task(r.answers(b"wait"))
    await asyncio.sleep(1)
    sender.cancel()
    await asyncio.sleep(1)
    assert (sender.cancelled(), r.ends) == (True, [])
    r.gate.set()
    await r.reception.close()
    assert r.ends == [b"wait"]


async def test_whatever_goes_wrong_is_in_the_log_once(caplog):
    """A refusal with its address and reason, an error with its cause; and what is late, or too much at once."""

    r = Received(replace(STRICT, receiving=1))
    for frames, words in (
        ((b"good",), []),
        ((b"forged",), ["192.0.2.1", "forged"]),
        ((b"x" * 11,), ["192.0.2.1", "11 bytes"]),
        ((b"raise",), ["ValueError"]),
        ((b"good", b"good"), ["1 frames"]),
        ((b"wait",), ["10 seconds"]),
    ):
        caplog.clear()
        await r.answers(*frames)
        said = [record.getMessage() for record in caplog.records]
        assert len(said) == bool(words), said
        assert all(word in said[0] for word in words), said
    await r.reception.close()


async def test_a_close_waits_a_moment_for_what_is_being_received_and_then_cancels_it():
    r = Received(replace(STRICT, close_seconds=2))
    answer = asyncio.create_task(r.answers(b"wait"))
    await asyncio.sleep(1)
    began = asyncio.get_running_loop().time()
    closing = asyncio.create_task(r.reception.close())
    await asyncio.sleep(1)
    assert (r.reception.closing, closing.done(), r.ends) == (True, False, [])
    assert await r.answers(b"good") == ["unreachable"]
    assert r.got == [b"wait"], "nothing is taken from now on"
    await closing
    assert asyncio.get_running_loop().time() - began == pytest.approx(2)
    assert r.ends == [b"wait"]
    assert await answer == ["unreachable"]
    await r.reception.close()


async def test_a_close_without_anything_under_way_is_over_at_once():
    r = Received()
    assert await r.answers(b"good") == ["taken"]
    began = asyncio.get_running_loop().time()
    await r.reception.close()
    assert asyncio.get_running_loop().time() == began


@pytest.mark.real_time
async def test_a_receiver_that_answers_no_reply_is_reported_to_the_loop():
    """That is a mistake of ours, and not the sender's."""
    told = []

    r = Received()
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context["exception"]))
    assert await r.answers(b"good", b"nothing") == ["taken", "unreachable"]
    assert r.waits() == 0
    assert await r.answers(b"good") == ["taken"]
    assert [type(error) for error in told] == [TypeError]


async def test_a_frame_that_takes_longer_than_anybody_waits_is_received_to_its_end():
    """Its sender hears nothing in time, and sends it again; what is under way, a commit perhaps, is not broken off."""

    r = Received(replace(STRICT, answer_seconds=1))
    assert await r.answers(b"wait", b"good") == ["unreachable", "taken"]
    await asyncio.sleep(10)
    assert r.ends == []
    r.gate.set()
    await asyncio.sleep(0.1)
    assert r.ends == [b"wait"]
    assert not r.reception._running
