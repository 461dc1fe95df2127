"""A rule of the network: what it loses, delays, doubles and reorders; and a crash, which nothing hides."""

import asyncio
from dataclasses import replace

import pytest

from leasehold.faults.simulation.network import (
    NO_FAULTS,
    NetworkConditions,
    PacketOutcome,
    SimulatedNetwork,
    SimulatedTransport,
)
from leasehold.impl.transport.limits import LIMITS
from leasehold.impl.transport.transport import Delivery, Reply, TransportError
from tests.impl.virtual import virtual


def network_of(rule=None):
    return SimulatedNetwork(0, LIMITS, rule, tells_losses=True)


async def settled(network):
    while network.busy:
        await network.arrivals()
        await asyncio.sleep(0)


def conversation(rule, count=20, conditions=NO_FAULTS, seed=0):
    """Sends numbers one after the other without waiting; answers what came, and the replies."""
    got = []

    async def receive(frame):
        got.append(int(frame))
        return Reply(Delivery.TAKEN)

    async def talk():
        network = SimulatedNetwork(seed, LIMITS, rule, tells_losses=True)
        network.conditions = conditions
        here, there = SimulatedTransport(network, "here"), SimulatedTransport(network, "there")
        await here.start(receive)
        address = await there.start(receive)
        replies = await asyncio.gather(*(here.send(address, str(i).encode()) for i in range(count)))
        await settled(network)
        await here.close()
        await there.close()
        return [r.answer for r in replies]

    return got, virtual(talk())


def test_without_a_hand_each_frame_comes_once_and_in_order():
    got, answers = conversation(None)
    assert got == list(range(20))
    assert set(answers) == {Delivery.TAKEN}


def test_a_lost_frame_is_unreachable_and_does_not_come():
    got, answers = conversation(lambda source, target, frame: PacketOutcome(()) if frame == b"7" else PacketOutcome())
    assert got == [i for i in range(20) if i != 7]
    assert [i for i, a in enumerate(answers) if a is Delivery.UNREACHABLE] == [7]


def test_a_lost_answer_is_unreachable_although_the_frame_came():
    got, answers = conversation(lambda source, target, frame: PacketOutcome(answered=frame != b"7"))
    assert 7 in got
    assert [i for i, a in enumerate(answers) if a is Delivery.UNREACHABLE] == [7]


def test_a_doubled_frame_comes_twice_and_the_sender_need_not_wait_for_the_second():
    got, answers = conversation(
        lambda source, target, frame: PacketOutcome((0, 0.05)) if frame == b"7" else PacketOutcome()
    )
    assert got == [*range(20), 7]
    assert set(answers) == {Delivery.TAKEN}


def test_a_delayed_frame_is_overtaken():
    got, _ = conversation(lambda source, target, frame: PacketOutcome((0.03,)) if frame == b"0" else PacketOutcome())
    assert got == [*range(1, 20), 0]


def test_the_hand_knows_who_sends_to_whom():
    seen = set()

    def rule(source, target, frame):
        seen.add((source, target))
        return PacketOutcome()

    conversation(rule)
    assert seen == {("memory:here", "memory:there")}


@pytest.mark.real_time
async def test_who_leaves_takes_nobody_elses_place_and_a_network_is_busy_while_copies_are_under_way():
    async def receive(frame):
        return Reply(Delivery.TAKEN)

    network = network_of(lambda source, target, frame: PacketOutcome((0, 0.03)))
    here, there = SimulatedTransport(network, "here"), SimulatedTransport(network, "there")
    await here.start(receive)
    address = await there.start(receive)
    with pytest.raises(TransportError, match="in use"):
        await (second := SimulatedTransport(network, "there")).start(receive)
    await second.close()
    second.die()
    assert not network.busy
    assert (await here.send(address, b"x")).answer is Delivery.TAKEN
    assert network.busy
    await settled(network)
    assert not network.busy
    await there.close()
    assert (await here.send(address, b"x")).answer is Delivery.UNREACHABLE
    await here.close()


async def test_a_send_ends_at_its_limit_and_the_frame_is_still_carried():
    """The answer takes longer than the sender waits: nobody knows, so it is sent again; it is not lost by that."""
    got = []

    async def receive(frame):
        await asyncio.sleep(20)
        got.append(frame)
        return Reply(Delivery.TAKEN)

    network = SimulatedNetwork(limits=replace(LIMITS, send_seconds=15, answer_seconds=100))
    here, there = SimulatedTransport(network, "here"), SimulatedTransport(network, "there")
    await here.start(receive)
    address = await there.start(receive)
    began = asyncio.get_running_loop().time()
    assert (await here.send(address, b"x")).answer is Delivery.UNREACHABLE
    assert asyncio.get_running_loop().time() - began == pytest.approx(15)
    assert got == []
    await asyncio.sleep(6)
    assert got == [b"x"]
    await here.close()
    await there.close()


@pytest.mark.real_time
async def test_a_sender_that_gives_up_stops_no_frame_on_its_way():
    got = []

    async def receive(frame):
        got.append(frame)
        return Reply(Delivery.TAKEN)

    network = network_of(lambda source, target, frame: PacketOutcome((0.03, 0.04)))
    here, there = SimulatedTransport(network, "here"), SimulatedTransport(network, "there")
    await here.start(receive)
    address = await there.start(receive)
    send = asyncio.create_task(here.send(address, b"x"))
    for _ in range(5):
        await asyncio.sleep(0)
    send.cancel()
    await asyncio.wait([send])
    assert got == []
    await settled(network)
    assert got == [b"x", b"x"]
    await here.close()
    await there.close()


def test_the_same_seed_does_the_same_harm():
    def weather(seed):
        return conversation(None, 100, NetworkConditions(0.2, 0.3, 0.1, 0.009), seed)

    assert weather(4) == weather(4)
    assert weather(4) != weather(5)
    got, answers = weather(4)
    assert len(set(got)) < 100
    assert len(got) > len(set(got))
    assert got != sorted(got)
    assert answers.count(Delivery.UNREACHABLE) > 100 - len(set(got)), "some that came were not answered"


class Crash(BaseException):
    """A simulated crash, which is no Exception."""


@pytest.mark.real_time
async def test_a_crash_of_the_receiver_is_told_to_the_loop_and_not_to_the_sender():
    told = []

    async def receive(frame):
        raise Crash

    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context["exception"]))
    network = network_of()
    here, there = SimulatedTransport(network, "here"), SimulatedTransport(network, "there")
    address = await there.start(receive)
    assert (await here.send(address, b"x")).answer is Delivery.UNREACHABLE
    await there.close()
    assert [type(e) for e in told] == [Crash]
