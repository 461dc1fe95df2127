"""Messages with large values between real actors, and the pages that are kept and said."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from leasehold.faults.simulation.network import PacketOutcome
from leasehold.impl.actor import kept_values
from leasehold.impl.actor.kept_values import ROUNDS, WANTED, KeptPages, ValueSender
from leasehold.impl.actor.ready import Tell
from leasehold.impl.core.core import Program
from leasehold.impl.identity import pages
from leasehold.impl.identity.envelope import Envelope
from leasehold.impl.identity.pages import Lacking, cut, frame_of, names_of
from leasehold.impl.identity.signed import Malformed, Refusal, TooLarge
from leasehold.impl.notices import Kind, Notice
from leasehold.impl.store.store import RecordKey
from leasehold.impl.transport.transport import Delivery, Receive, Reply
from tests.impl.actor.alone import program_of
from tests.impl.actor.estate import FILES, KEEPER, OWNER, RUN, estate, properties, size
from tests.impl.virtual import virtual

MANY = 1000


@pytest.fixture(scope="module")
def program() -> Program:
    return program_of(FILES)


def envelopes(frames: list[bytes]) -> list[bytes]:
    return [frame for frame in frames if not frame.startswith(pages.START)]


async def test_a_message_about_a_thousand_units_is_small_but_for_what_its_receiver_lacks(program: Program) -> None:
    async with estate(program) as e:
        await e.put({n: properties(n) for n in range(MANY)})
        first = await e.offer()
        assert e.same()
        assert len(e.values(RUN, KEEPER)["plots"]) == MANY
        assert 3_500_000 < size(first) < 3_900_000  # the values themselves have 3.6 MB
        assert len(first) < 1.2 * MANY
        assert max(map(len, first)) < 16_384
        assert len(envelopes(first)) == 2
        again = await e.offer()
        assert (len(again), size(again) < 1000) == (1, True)
        await e.put({MANY: properties(MANY)})
        extended = await e.offer()
        assert e.same()
        assert len(e.values(RUN, KEEPER)["plots"]) == MANY + 1
        assert size(extended) < 8400  # 4,000 of which are the new unit's own properties
        assert len(envelopes(extended)) == 2
        await e.restart("alice")  # who knows no more what she has said
        assert size(await e.offer()) < 1000


async def test_a_receiver_that_has_restarted_asks_again(program: Program) -> None:
    async with estate(program) as e:
        await e.put({n: properties(n, 200) for n in range(100)})
        first = await e.offer()
        await e.restart("clerk")
        assert e.same()  # the record has them, and the values are kept in memory only
        assert e.actors["clerk"].codec.kept.used == 0
        again = await e.offer()
        assert e.same()
        pages_of = [sorted(frame for frame in some if frame.startswith(pages.START)) for some in (first, again)]
        assert pages_of[0] == pages_of[1] != []


async def test_subscribers_and_credentials_see_whole_values(program: Program) -> None:
    async with estate(program) as e:
        seen: list[Any] = []

        def subscriber(notice: Notice) -> None:
            if notice.kind in (Kind.RECEIVE, Kind.SEND) and notice.name == "tell":
                seen.append(notice.data["fields"]["note"])

        for actor in e.actors.values():
            actor.notices.subscribe(subscriber)
        await e.put({0: 1})
        await e.actors["alice"].tell(RUN, OWNER, "remark", {"note": "x" * 5000})
        await e.offer()
        assert seen == ["x" * 5000] * 2


@pytest.mark.parametrize("seed", range(6))
async def test_the_network_may_lose_and_repeat_and_hold_back_every_frame(program: Program, seed: int) -> None:
    async with estate(program) as e:
        rng = random.Random(seed)
        e.rule = lambda source, target, frame: PacketOutcome(
            tuple(rng.randrange(4) / 1000 for _ in range(rng.choice([0, 1, 1, 1, 2]))), rng.random() < 0.8
        )
        await e.put({n: properties(n, 300) for n in range(20)})
        for n in range(20, 24):
            await e.put({n: properties(n, 3000)})
            await e.offer()
            assert e.same()


async def test_values_that_are_lacked_in_the_middle_come_later(program: Program) -> None:
    """The receiver dies while they come."""
    async with estate(program) as e:
        await e.put({n: properties(n, 3000) for n in range(200)})
        e.rule = lambda source, target, frame: PacketOutcome((0,) if len(e.sent) < 120 else ())
        await e.actors["alice"].tell(RUN, OWNER, "offer")
        while len(e.sent) < 130:
            await asyncio.sleep(0.001)
        assert RecordKey(RUN, KEEPER) not in e.actors["clerk"].table.instances
        assert not e.disks["clerk"].records
        await e.restart("clerk")
        e.rule = None
        await e.settle()
        assert e.same()


async def test_a_message_that_is_replaced_is_sent_no_more(program: Program) -> None:
    async with estate(program) as e:
        await e.put({n: properties(n, 3000) for n in range(200)})
        owner = e.actors["alice"]

        def rule(source: str, target: str, frame: bytes) -> PacketOutcome:
            if len(e.sent) == 20:
                owner.queue.put_quietly(Tell(RecordKey(RUN, OWNER), "offer", {}))
            return PacketOutcome((0.002,))

        e.rule = rule
        await owner.tell(RUN, OWNER, "offer")
        await e.settle()
        assert e.same()
        heads = [frame.split(b"\n")[1] for _, target, frame in e.sent if not frame.startswith(pages.START)]
        numbers = [b'"number":2' in body for body in heads if b'"tell"' in body]
        assert numbers == sorted(numbers)  # the first was not sent again after the second


async def test_many_messages_to_one_peer_have_room_there(program: Program) -> None:
    """One after the other, so each has room where all have not."""
    async with estate(program) as e:
        e.actors["clerk"].codec.kept.room = 100_000
        for run in range(1, 6):
            await e.put({n: properties(100 * run + n, 3000) for n in range(25)}, f"alice:{run}")
        await asyncio.gather(*(e.actors["alice"].tell(f"alice:{run}", OWNER, "offer") for run in range(1, 6)))
        for run in range(1, 6):
            await e.settle(f"alice:{run}")
            assert e.same(f"alice:{run}")
        assert e.actors["clerk"].codec.kept.used <= 100_000
        assert len(e.sent) < 400


# The pages that are kept


def an_envelope(owner: str = "alice", **values: bytes) -> Envelope:
    return Envelope(
        version=1,
        system="estate",
        digest="d",
        sender=owner,
        receiver="clerk",
        lease="alice:1",
        sending_machine=OWNER,
        receiving_machine=KEEPER,
        message="tell",
        number=1,
        epoch=1,
        fields={},
        values={name: names_of((first,)) for name, first in values.items()},
    )


def teach(kept: KeptPages, owner: str, value: Any) -> bytes:
    """Somebody says a value."""
    first, found = cut(owner, value)
    waiting = [first]
    with pytest.raises(Lacking):
        kept.whole(an_envelope(owner, note=first))
    while waiting:
        reply = kept.take(frame_of(owner, found[waiting.pop()]))
        assert reply.answer in (Delivery.TAKEN, Delivery.LACKS)
        waiting += pages.named_by(reply.reason)
    assert kept.whole(an_envelope(owner, note=first)) == {"note": value}
    return first


def test_what_one_has_said_is_not_another_s_to_name() -> None:
    kept = KeptPages()
    first = teach(kept, "alice", "x" * 3000)
    with pytest.raises(Lacking):
        kept.whole(an_envelope("bob", note=first))
    (body,) = cut("alice", "x" * 3000)[1].values()
    for owner in ("bob", "carol"):
        with pytest.raises(Refusal, match="nobody waits"):
            kept.take(frame_of(owner, body))
    assert kept.whole(an_envelope(note=first)) == {"note": "x" * 3000}


def test_only_what_is_waited_for_is_taken_and_what_is_here_may_come_again() -> None:
    kept = KeptPages()
    first, found = cut("alice", "x" * 3000)
    frame = frame_of("alice", found[first])
    with pytest.raises(Refusal, match="nobody waits"):
        kept.take(frame)
    assert kept.used == 0
    teach(kept, "alice", "x" * 3000)
    assert kept.take(frame) == Reply(Delivery.TAKEN)
    assert kept.used == len(found[first])


def test_who_says_much_takes_nobody_s_room() -> None:
    kept = KeptPages(room=100_000)
    hers = teach(kept, "alice", "x" * 40_000)
    his = [teach(kept, "bob", chr(64 + n) * 9_000) for n in range(40)]
    assert kept.used <= 100_000
    assert kept.whole(an_envelope(note=hers)) == {"note": "x" * 40_000}
    for n, first in enumerate(his[-4:], 36):
        assert kept.whole(an_envelope("bob", note=first)) == {"note": chr(64 + n) * 9_000}
    with pytest.raises(Lacking):
        kept.whole(an_envelope("bob", note=his[0]))


def test_what_was_named_last_is_kept_longest() -> None:
    kept = KeptPages(room=25_000)
    a, b = teach(kept, "alice", "a" * 10_000), teach(kept, "alice", "b" * 10_000)
    kept.whole(an_envelope(note=a))
    teach(kept, "alice", "c" * 10_000)
    assert kept.whole(an_envelope(note=a)) == {"note": "a" * 10_000}
    with pytest.raises(Lacking):
        kept.whole(an_envelope(note=b))


def test_what_is_waited_for_is_bounded() -> None:
    kept = KeptPages()
    named = [cut("alice", f"{n} " * 1000) for n in range(WANTED + 1)]
    for first, _ in named:
        with pytest.raises(Lacking):
            kept.whole(an_envelope(note=first))
    with pytest.raises(Refusal, match="nobody waits"):
        kept.take(frame_of("alice", named[0][1][named[0][0]]))
    assert kept.take(frame_of("alice", named[1][1][named[1][0]])).answer is Delivery.TAKEN


def test_the_values_of_a_message_share_the_room_of_one() -> None:
    kept = KeptPages()
    value = ["x" * 60_000 + str(n) for n in range(100)]
    first = teach(kept, "alice", value)
    with pytest.raises(TooLarge):
        kept.whole(an_envelope(note=first, plots=first))


def test_a_value_is_plain_data_that_a_message_may_hold() -> None:
    deep: Any = []
    for _ in range(17):
        deep = [deep]
    for value, words in (
        (["x" * 70_000], "has 70000 characters"),
        ([deep, "x" * 2000], "lies deeper than 16"),
        ([b"x" * 31, "y" * 2000], "holds a bytes"),
        ([float("nan"), "y" * 2000], "a number that is none"),
        ([2**63, "y" * 2000], "beyond"),
    ):
        kept = KeptPages()
        body = pages._encode([pages.VALUE, value])
        first = pages.digest("alice", body)
        with pytest.raises(Lacking):
            kept.whole(an_envelope(note=first))
        kept.take(frame_of("alice", body))
        with pytest.raises(Malformed, match=words):
            kept.whole(an_envelope(note=first))


# Saying them


class Answers:
    """A transport whose peer answers as a function says, of the frame and how many came before it."""

    def __init__(self, answer: Callable[[bytes, int], Reply]) -> None:
        self.answer, self.frames = answer, list[bytes]()
        self.at_once = self.most = 0

    async def start(self, receive: Receive) -> str:
        return "there"

    async def send(self, address: str, frame: bytes) -> Reply:
        self.frames.append(frame)
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(0.01)
        self.at_once -= 1
        return self.answer(frame, len(self.frames) - 1)

    async def close(self) -> None:
        pass


VALUE = [{"n": n, "words": f"{n} " * 100} for n in range(300)]
FIRST, OWN = cut("alice", VALUE)
MESSAGE = b"leasehold1 and so on"


def sent(
    answer: Callable[[bytes, int], Reply], reply: Reply, going_on: Callable[[], bool] = lambda: True
) -> tuple[Reply, Answers]:
    transport = Answers(answer)

    async def run() -> Reply:
        return await ValueSender(transport, "alice").send("there", MESSAGE, OWN, reply, going_on)

    return virtual(run()), transport


def lacking(*digests: bytes) -> Reply:
    return Reply(Delivery.LACKS, names_of(digests))


def test_pages_are_said_to_who_lacks_them_and_then_the_message() -> None:
    kept = KeptPages()

    def answer(frame: bytes, number: int) -> Reply:
        if frame != MESSAGE:
            return kept.take(frame)
        return Reply(Delivery.TAKEN) if kept.whole(an_envelope(note=FIRST)) == {"note": VALUE} else Reply(Delivery.BUSY)

    with pytest.raises(Lacking) as caught:
        kept.whole(an_envelope(note=FIRST))
    reply, line = sent(answer, kept_values.lacks(caught.value))
    assert reply == Reply(Delivery.TAKEN)
    assert sorted(line.frames[:-1]) == sorted(frame_of("alice", body) for body in OWN.values())
    assert line.frames[-1] == MESSAGE
    assert 1 < line.most <= pages.NAMED


async def test_one_message_s_values_are_said_at_a_time() -> None:
    """The next one asks once more what is lacked: it may be less by then."""
    kept = KeptPages()

    def answer(frame: bytes, number: int) -> Reply:
        if frame != MESSAGE:
            return kept.take(frame)
        try:
            kept.whole(an_envelope(note=FIRST))
        except Lacking as more:
            return kept_values.lacks(more)
        return Reply(Delivery.TAKEN)

    line = Answers(answer)
    sender = ValueSender(line, "alice")
    first = await line.send("there", MESSAGE)
    assert first.answer is Delivery.LACKS
    each = (sender.send("there", MESSAGE, OWN, first, lambda: True) for _ in range(5))
    assert set(await asyncio.gather(*each)) == {Reply(Delivery.TAKEN)}
    assert len(line.frames) == 1 + len(OWN) + 5
    assert not sender._turns


def test_a_message_that_is_not_to_be_sent_any_more_is_given_up_between_rounds() -> None:
    reply, line = sent(lambda frame, n: lacking(FIRST), lacking(FIRST), lambda: False)
    assert (reply.answer, line.frames) == (Delivery.UNREACHABLE, [])


def test_a_receiver_that_lacks_them_however_often_is_busy() -> None:
    """Each page is said at most once a round, and there are so many rounds."""
    reply, line = sent(lambda frame, n: lacking(FIRST, *list(OWN)[:5]), lacking(FIRST))
    assert reply.answer is Delivery.BUSY
    assert line.frames.count(MESSAGE) == ROUNDS
    assert max(map(line.frames.count, line.frames)) <= ROUNDS


async def test_an_answer_that_names_what_is_lacked_says_who_has_proven_to_have_asked(program: Program) -> None:
    """Replies to a message, whether it is taken, lacks values or comes again, tell its transport whose it is."""
    async with estate(program) as e:
        await e.put({1: properties(1)})
        frames = await e.offer()
        message = next(frame for frame in frames if not frame.startswith(pages.START))
        assert [(r.answer, r.proven) for r in await e.receive(message)] == [(Delivery.TAKEN, "alice")]
        await e.restart("clerk")
        (reply,) = await e.receive(message)
        assert (reply.answer, reply.proven) == (Delivery.LACKS, "alice")
