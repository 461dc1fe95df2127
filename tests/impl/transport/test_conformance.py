"""What every transport does, whatever it is made of (the paper's section 4.2: at least once, in any order)."""

import asyncio
from dataclasses import replace

import pytest

from leasehold.impl.actor.kept_values import KeptPages, ValueSender, lacks
from leasehold.impl.identity.envelope import Envelope
from leasehold.impl.identity.pages import Lacking, cut, names_of
from leasehold.impl.transport.limits import LIMITS
from leasehold.impl.transport.transport import Delivery, Reply, TransportError
from tests.impl.transport.conftest import GatedReceiver

pytestmark = pytest.mark.real_time

SMALL = replace(LIMITS, parcel=1000, body=4000)


async def test_a_frame_is_delivered_and_answered(world, receiver):
    async with world.closing():
        _, there = await world.start("there", receiver)
        here, _ = await world.start("here", receiver)
        for frame in (b"hello", bytes(range(256)), b"\n"):
            assert await here.send(there, frame) == Reply(Delivery.TAKEN)
        assert receiver.got == [b"hello", bytes(range(256)), b"\n"]


async def test_two_actors_answer_each_other_and_an_actor_itself(world, receiver):
    async with world.closing():
        one, first = await world.start("one", receiver)
        other, second = await world.start("other", receiver)
        replies = await asyncio.gather(one.send(second, b"a"), other.send(first, b"b"), one.send(first, b"c"))
        assert [r.answer for r in replies] == [Delivery.TAKEN] * 3
        assert sorted(receiver.got) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("answer", list(Delivery))
async def test_the_receivers_answer_comes_with_its_reason(world, receiver, answer):
    receiver.answer = Reply(answer, "because of «this»")
    async with world.closing():
        _, there = await world.start("there", receiver)
        here, _ = await world.start("here", receiver)
        assert await here.send(there, b"x") == Reply(answer, "because of «this»")


async def test_an_error_of_the_receiver_is_unreachable_and_the_transport_goes_on(world, receiver, caplog):
    def answer(frame):
        if frame == b"bad":
            raise ValueError("a mistake in the receiver")
        return Reply(Delivery.TAKEN)

    receiver.answer = answer
    async with world.closing():
        _, there = await world.start("there", receiver)
        here, _ = await world.start("here", receiver)
        replies = await asyncio.gather(*(here.send(there, p) for p in (b"good", b"bad", b"fine")))
        assert [r.answer for r in replies] == [Delivery.TAKEN, Delivery.UNREACHABLE, Delivery.TAKEN]
        assert "mistake" not in replies[1].reason, "what went wrong inside is for our log alone"
        assert (await here.send(there, b"again")).answer is Delivery.TAKEN
    (told,) = [r for r in caplog.records if "a mistake in the receiver" in r.getMessage()]
    assert told.name == "leasehold.impl.transport.reception"
    assert told.exc_info


async def test_a_receiver_that_never_answers_holds_up_nobody_else(world, receiver):
    async def receive(frame):
        if frame == b"stuck":
            await asyncio.Event().wait()
        return await receiver(frame)

    async with world.closing():
        limits = replace(LIMITS, answer_seconds=0.2, close_seconds=0.1)
        _, there = await world.start("there", receive, limits)
        here, _ = await world.start("here", receiver, limits)
        replies = await asyncio.gather(*(here.send(there, p) for p in (b"a", b"stuck", b"b")))
        assert [r.answer for r in replies] == [Delivery.TAKEN, Delivery.UNREACHABLE, Delivery.TAKEN]


async def test_a_receiver_that_is_gone_is_unreachable_until_it_comes_back(world, receiver):
    async with world.closing():
        there, address = await world.start("there", receiver)
        here, _ = await world.start("here", receiver)
        assert (await here.send(address, b"1")).answer is Delivery.TAKEN
        await there.close()
        assert (await here.send(address, b"2")).answer is Delivery.UNREACHABLE
        _, again = await world.start("there", receiver)
        assert again == address
        assert (await here.send(address, b"3")).answer is Delivery.TAKEN
        assert receiver.got == [b"1", b"3"]


async def test_a_transport_that_was_closed_may_be_started_again(world, receiver):
    async with world.closing():
        there, address = await world.start("there", receiver)
        here, _ = await world.start("here", receiver)
        for frame in (b"1", b"2"):
            for end in (here, there):
                assert (await end.send(address, frame)).answer is Delivery.TAKEN
            await there.close()
            assert (await here.send(address, b"lost")).answer is Delivery.UNREACHABLE
            closed = await there.send(address, b"lost")
            assert (closed.answer, bool(closed.reason)) == (Delivery.UNREACHABLE, True)
            again = await there.start(receiver)
            address = address if world.kind != "http" else again  # any port that is free
            assert again == address
        assert receiver.got == [b"1", b"1", b"2", b"2"]


async def test_what_is_no_address_is_unreachable_and_nothing_is_raised(world, receiver):
    async with world.closing():
        here, _ = await world.start("here", receiver)
        for address in (
            "",
            "x",
            "http://",
            "http://[::1",
            "nats://h",
            "ftp://127.0.0.1:1",
            "memory:nobody",
            "http://h:99999",
            "http://127.0.0.1:1",
            "nats://127.0.0.1:4222/nobody.here",
            "nats://127.0.0.1:4222/a b",
            "http://a\nb:1",
            "\0",
            "http://" + "a" * 64 + ".example:1",
        ):
            reply = await here.send(address, b"x")
            assert reply.answer is Delivery.UNREACHABLE, address
            assert reply.reason


async def test_a_frame_at_the_limit_is_carried_and_one_beyond_it_refused(world, receiver):
    async with world.closing():
        _, there = await world.start("there", receiver)
        here, _ = await world.start("here", receiver)
        assert (await here.send(there, b"x" * LIMITS.parcel)).answer is Delivery.TAKEN
        reply = await here.send(there, b"x" * (LIMITS.parcel + 1))
        assert reply.answer is Delivery.REFUSED
        assert str(LIMITS.parcel) in reply.reason
        assert [len(p) for p in receiver.got] == [LIMITS.parcel]


async def test_a_sender_with_larger_limits_is_refused_by_the_receiver(world, receiver):
    if world.kind == "memory":
        pytest.skip("the members of a memory network have its limits")

    async with world.closing():
        _, there = await world.start("there", receiver, SMALL)
        here, _ = await world.start("here", receiver)
        sizes = (1000, 1001, 900, 5000, 10)
        replies = await asyncio.gather(*(here.send(there, b"x" * size) for size in sizes))
        wanted = [Delivery.TAKEN, Delivery.REFUSED, Delivery.TAKEN, Delivery.REFUSED, Delivery.TAKEN]
        assert [r.answer for r in replies] == wanted
        assert sorted(len(p) for p in receiver.got) == [10, 900, 1000]


async def test_a_thousand_sends_at_once_are_all_answered_each_with_its_own(world, receiver):
    receiver.answer = lambda frame: Reply(Delivery.REFUSED, frame.decode())
    async with world.closing():
        limits = replace(LIMITS, refusals=10_000)
        _, there = await world.start("there", receiver, limits)
        here, _ = await world.start("here", receiver, limits)
        replies = await asyncio.gather(*(here.send(there, str(i).encode()) for i in range(1000)))
        assert [r.reason for r in replies] == [str(i) for i in range(1000)]
        assert len(receiver.got) == 1000


async def test_more_than_can_be_received_at_once_is_busy(world, receiver):
    async with world.closing():
        gate = asyncio.Event()

        async def receive(frame):
            await gate.wait()
            return await receiver(frame)

        limits = replace(LIMITS, receiving=5)
        _, there = await world.start("there", receive, limits)
        here, _ = await world.start("here", receiver, limits)
        sends = [asyncio.create_task(here.send(there, b"x")) for _ in range(8)]
        if world.kind == "http":  # replies to one request come together
            await here.send("http://127.0.0.1:1", b"x")
        else:
            await asyncio.wait(sends, return_when=asyncio.FIRST_COMPLETED)
        gate.set()
        answers = [r.answer for r in await asyncio.gather(*sends)]
        assert answers.count(Delivery.BUSY) == 3
        assert answers.count(Delivery.TAKEN) == 5
        assert (await here.send(there, b"x")).answer is Delivery.TAKEN


@pytest.mark.parametrize("who", ["here", "there"])
async def test_a_close_ends_what_is_being_sent_and_received(world, receiver, who):
    async with world.closing():
        come = asyncio.Event()

        async def receive(frame):
            come.set()
            await asyncio.Event().wait()

        limits = replace(LIMITS, close_seconds=0.1)
        ends = {}
        ends["there"], there = await world.start("there", receive, limits)
        ends["here"], _ = await world.start("here", receiver, limits)
        sends = [asyncio.create_task(ends["here"].send(there, b"x")) for _ in range(20)]
        await come.wait()
        await ends[who].close()
        async with asyncio.timeout(5):
            replies = await asyncio.gather(*sends)
        assert {r.answer for r in replies} == {Delivery.UNREACHABLE}
        await ends[who].close()
        if who == "here":
            assert (await ends["here"].send(there, b"x")).answer is Delivery.UNREACHABLE


async def test_what_is_being_received_at_a_close_may_end_within_a_moment(world, receiver):
    async with world.closing():
        receive = GatedReceiver(receiver)
        there, address = await world.start("there", receive)
        here, _ = await world.start("here", receiver)
        send = asyncio.create_task(here.send(address, b"x"))
        await receive.come.wait()
        closing = asyncio.create_task(there.close())
        await asyncio.sleep(0)
        receive.gate.set()
        assert (await send).answer is Delivery.TAKEN
        await closing
        assert receiver.got == [b"x"]


async def test_a_sender_that_gives_up_does_not_stop_what_is_being_received(world, receiver):
    async with world.closing():
        receive = GatedReceiver(receiver)
        _, there = await world.start("there", receive)
        here, _ = await world.start("here", receiver)
        send = asyncio.create_task(here.send(there, b"x"))
        await receive.come.wait()
        send.cancel()
        await asyncio.wait([send])
        assert send.cancelled()
        receive.gate.set()
        assert (await here.send(there, b"y")).answer is Delivery.TAKEN
        assert sorted(receiver.got) == [b"x", b"y"]


async def test_an_address_in_use_is_refused_at_the_start(world, receiver):
    async with world.closing():
        _, address = await world.start("there", receiver)
        with pytest.raises(TransportError, match="in use"):
            await world.start("there", receiver)
        here, _ = await world.start("here", receiver)
        assert (await here.send(address, b"x")).answer is Delivery.TAKEN, "who was there first is not disturbed"


async def test_who_is_refused_too_often_waits_and_costs_the_receiver_nothing(world, receiver, caplog):
    receiver.answer = Reply(Delivery.REFUSED, "forged")
    async with world.closing():
        limits = replace(LIMITS, refusals=20, refusals_per_second=0.001)
        _, there = await world.start("there", receiver, limits)
        here, _ = await world.start("here", receiver, limits)
        answers = [(await here.send(there, b"x")).answer for _ in range(50)]
        assert answers == [Delivery.REFUSED] * 20 + [Delivery.BUSY] * 30
        assert len(receiver.got) == 20
    lines = [r for r in caplog.records if "refused what came from" in r.getMessage()]
    assert 1 <= len(lines) <= 12, "the log has the reason, and is not filled"
    assert "forged" in lines[0].getMessage()


async def test_large_values_go_over_it_part_by_part(world, receiver):
    """Of a thousand units, with all that is said of each."""
    value = [{"unit": n, "words": f"unit {n} " * 50} for n in range(1000)]
    first, own = cut("here", value)
    kept = KeptPages()
    envelope = Envelope(
        version=1,
        system="s",
        digest="d",
        sender="here",
        receiver="there",
        lease="here:1",
        sending_machine="a",
        receiving_machine="b",
        message="m",
        number=1,
        epoch=1,
        fields={},
        values={"units": names_of((first,))},
    )

    async def receive(frame):
        if frame != b"message":
            return kept.take(frame)
        try:
            assert kept.whole(envelope) == {"units": value}
        except Lacking as more:
            return lacks(more)
        return Reply(Delivery.TAKEN)

    async with world.closing():
        _, there = await world.start("there", receive)
        here, _ = await world.start("here", receiver)
        lacked = await here.send(there, b"message")
        assert lacked == Reply(Delivery.LACKS, names_of((first,)))
        assert await ValueSender(here, "here").send(there, b"message", own, lacked, lambda: True) == Reply(
            Delivery.TAKEN
        )
