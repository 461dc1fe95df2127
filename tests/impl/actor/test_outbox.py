"""The messages under way: when each is sent, sent again, given up, and what is remembered of it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import AsyncIterator

import pytest

from leasehold.impl.actor.environment import Backoff
from leasehold.impl.actor.outbox import Outbox, PendingSend
from leasehold.impl.store.store import RecordKey
from leasehold.impl.transport.transport import Delivery, Receive, Reply

KEY, OTHER = RecordKey("tenant:1", "service_manager"), RecordKey("tenant:2", "service_manager")
BACKOFF = Backoff(first=1.0, longest=20.0, ask_again=100.0)
TAKEN, BUSY, UNREACHABLE, REFUSED, UNTRUSTED = (
    Reply(answer, answer.value)
    for answer in (Delivery.TAKEN, Delivery.BUSY, Delivery.UNREACHABLE, Delivery.REFUSED, Delivery.UNTRUSTED)
)


class Line:
    """A transport whose answers are given one after the other, the last one for ever."""

    def __init__(self, *answers: Reply, seconds: float = 0.0) -> None:
        self.answers, self.seconds = list(answers), seconds
        self.sent: list[tuple[float, str, bytes]] = []

    async def start(self, receive: Receive) -> str:
        return "line"

    async def send(self, address: str, frame: bytes) -> Reply:
        self.sent.append((asyncio.get_running_loop().time(), address, frame))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        await asyncio.sleep(self.seconds)
        return answer

    async def close(self) -> None:
        pass

    @property
    def pauses(self) -> list[float]:
        """From the end of each sending to the next."""
        times = [at for at, _, _ in self.sent]
        return [b - a - self.seconds for a, b in itertools.pairwise(times)]


def message(
    body: bytes = b"hello", neighbour: int = 0, key: RecordKey = KEY, last: bool = False, ordered: bool = False
) -> PendingSend:
    return PendingSend(key, neighbour, 1, "redeem", "site", body, last, ordered)


@contextlib.asynccontextmanager
async def sending(line: Line, refused: list[str] | None = None, seed: int = 0) -> AsyncIterator[tuple[Outbox, Line]]:
    heard: list[str] = [] if refused is None else refused
    outbox = Outbox(
        line,
        lambda peer: f"at {peer}",
        lambda pending, reason: heard.append(f"{pending.message}: {reason}"),
        lambda pending: heard.append(f"{pending.message} was taken"),
        BACKOFF,
        random.Random(seed),
    )
    yield outbox, line
    await outbox.close()


def between(pauses: list[float], whole: list[float]) -> bool:
    return len(pauses) >= len(whole) and all(w / 2 <= p <= w for p, w in zip(pauses, whole, strict=False))


@pytest.mark.parametrize("answer", [BUSY, UNREACHABLE])
@pytest.mark.parametrize("seed", range(5))
async def test_what_nobody_takes_is_sent_again_after_pauses_that_double_up_to_a_limit(answer: Reply, seed: int) -> None:
    async with sending(Line(answer), seed=seed) as (outbox, line):
        pending = message()
        outbox.post(pending)
        await asyncio.sleep(90)
        assert between(line.pauses, [1, 2, 4, 8, 16, 20, 20])
        assert len(set(line.pauses)) == len(line.pauses)  # never the same: many actors would come at once
        assert {sent[1:] for sent in line.sent} == {("at site", b"hello")}
        assert (pending.tries, pending.times, pending.reason) == (len(line.sent), len(line.sent), answer.reason)


async def test_a_request_that_was_taken_is_said_again_ever_more_rarely() -> None:
    """And after pauses that begin anew where nobody takes it."""
    async with sending(Line(BUSY, BUSY, TAKEN, BUSY, BUSY, TAKEN)) as (outbox, line):
        outbox.backoff = Backoff(first=1.0, longest=20.0, ask_again=10.0)
        outbox.post(message())
        await asyncio.sleep(50)
        assert between(line.pauses, [1, 2, 10, 1, 2])
        await asyncio.sleep(3000)
        assert between(line.pauses[5:], [20, 40, 80, 160, 320, 640, 640])
        assert len(outbox) == 1


@pytest.mark.parametrize("waiting", [16, 64, 10_000])
async def test_the_more_requests_wait_at_a_peer_the_more_rarely_each_is_said_again(waiting: int) -> None:
    async with sending(Line(TAKEN)) as (outbox, line):
        for n in range(waiting):
            outbox.post(message(key=RecordKey(f"tenant:{n}", "service_manager")))
        await asyncio.sleep(1)
        assert len(line.sent) == waiting
        last = outbox.of(RecordKey(f"tenant:{waiting - 1}", "service_manager"))[0]
        assert last.again is not None
        pause = last.again.when() - asyncio.get_running_loop().time() + 1
        assert 50 <= pause / max(1, waiting / 16) <= 100
        await asyncio.sleep(600)
        assert len(line.sent) - waiting < 600 / 100 * 16 * 8  # the rate of the first 16, and some more while few wait


async def test_a_request_counts_once_however_often_it_is_said() -> None:
    async with sending(Line(TAKEN)) as (outbox, line):
        outbox.backoff = Backoff(first=1.0, longest=20.0, ask_again=1.0)
        for n in range(200):
            outbox.post(message(key=RecordKey(f"tenant:{n}", "service_manager")))
        await asyncio.sleep(64 * 12)
        line.sent.clear()
        await asyncio.sleep(64)
        assert len(line.sent) >= 200


async def test_a_message_that_is_dropped_on_its_way_is_waited_for_no_more() -> None:
    async with sending(Line(TAKEN, seconds=10)) as (outbox, _):
        outbox.post(message())
        await asyncio.sleep(1)
        assert outbox.sending
        outbox.forget(KEY)
        assert not outbox.sending


async def test_a_request_that_is_over_slows_no_other_down() -> None:
    async with sending(Line(TAKEN)) as (outbox, line):
        for n in range(64):
            outbox.post(message(key=RecordKey(f"tenant:{n}", "service_manager")))
        await asyncio.sleep(1)
        for n in range(64):
            outbox.forget(RecordKey(f"tenant:{n}", "service_manager"))
        line.sent.clear()
        outbox.post(message())
        await asyncio.sleep(150)
        assert between(line.pauses, [100])


async def test_the_last_word_is_said_until_it_is_taken() -> None:
    async with sending(Line(BUSY, TAKEN)) as (outbox, line):
        outbox.post(message(last=True))
        await asyncio.sleep(1000)
        assert between(line.pauses, [1])
        assert (len(line.sent), len(outbox), bool(outbox)) == (2, 0, False)


async def test_what_is_refused_is_not_said_again_and_the_reason_is_kept() -> None:
    heard: list[str] = []
    async with sending(Line(REFUSED), heard) as (outbox, line):
        outbox.post(message())
        await asyncio.sleep(1000)
        assert (len(line.sent), len(outbox), heard) == (1, 0, ["redeem: refused"])
        assert outbox.refusals == {KEY: ("redeem", "refused")}
        outbox.forget(OTHER)
        assert KEY in outbox.refusals
        outbox.forget(KEY)
        assert outbox.refusals == {}


async def test_who_is_not_trusted_says_so_once_and_tries_again_after_the_longest_pause() -> None:
    heard: list[str] = []
    async with sending(Line(UNTRUSTED), heard) as (outbox, line):
        outbox.post(message())
        await asyncio.sleep(59)
        assert between(line.pauses, [20, 20])
        assert (heard, outbox.refusals) == (["redeem: untrusted"], {KEY: ("redeem", "untrusted")})


async def test_a_peer_without_an_address_is_looked_for_again() -> None:
    line, known = Line(TAKEN), [""]
    outbox = Outbox(line, lambda peer: known[0], lambda *_: None, lambda *_: None, BACKOFF, random.Random(0))
    pending = message(last=True)
    outbox.post(pending)
    await asyncio.sleep(5)
    assert (line.sent, pending.reason) == ([], "no address")
    known[0] = "here"
    await asyncio.sleep(10)
    assert [address for _, address, _ in line.sent] == ["here"]
    assert not outbox


@pytest.mark.parametrize(
    ("answers", "on_their_way"),
    [((BUSY,), 1), ((UNREACHABLE,), 1), ((UNREACHABLE, TAKEN), 0), ((TAKEN,), 0), ((UNTRUSTED,), 0), ((REFUSED,), 0)],
)
@pytest.mark.parametrize("ordered", [False, True])
async def test_a_message_is_on_its_way_until_it_is_taken_or_refused(
    answers: tuple[Reply, ...], on_their_way: int, ordered: bool
) -> None:
    async with sending(Line(*answers)) as (outbox, _):
        outbox.post(message(ordered=ordered))
        assert outbox.on_their_way() == {"site": 1}
        await asyncio.sleep(30)
        assert outbox.on_their_way() == ({"site": 1} if on_their_way else {})


@pytest.mark.parametrize("seconds", [0.0, 4.0])
async def test_a_newer_message_takes_the_place_of_the_one_before_it(seconds: float) -> None:
    """Also of one that waits to be sent again, and of one whose answer is still to come."""
    async with sending(Line(BUSY, seconds=seconds)) as (outbox, line):
        outbox.post(message(b"first"))
        await asyncio.sleep(line.seconds / 2 if line.seconds else 0.1)
        outbox.post(message(b"second"))
        outbox.post(message(b"beside it", neighbour=1))
        outbox.post(message(b"of another", key=OTHER))
        await asyncio.sleep(30)
        bodies = [body for _, _, body in line.sent]
        assert bodies.count(b"first") == 1
        assert all(bodies.count(body) > 1 for body in (b"second", b"beside it", b"of another"))
        assert {pending.body for pending in outbox.of(KEY)} == {b"second", b"beside it"}
        assert (len(outbox), [p.body for p in outbox.of(OTHER)]) == (3, [b"of another"])


async def test_a_late_answer_is_no_answer_to_the_message_after_it() -> None:
    async with sending(Line(TAKEN, seconds=4.5)) as (outbox, _):
        outbox.post(message(b"first", last=True))
        await asyncio.sleep(1)
        outbox.post(message(b"second", last=True))
        await asyncio.sleep(4)  # the first is taken now
        assert [pending.body for pending in outbox.of(KEY)] == [b"second"]
        await asyncio.sleep(1)
        assert not outbox


async def test_a_state_keeps_only_what_it_says() -> None:
    async with sending(Line(UNREACHABLE)) as (outbox, line):
        for neighbour in range(3):
            outbox.post(message(bytes([neighbour]), neighbour))
        outbox.post(message(b"other", key=OTHER))
        outbox.keep(KEY, frozenset({1}))
        assert [p.neighbour for p in outbox.of(KEY)] == [1]
        await asyncio.sleep(0.01)
        line.sent.clear()
        await asyncio.sleep(30)
        assert {body for _, _, body in line.sent} == {b"\x01", b"other"}
        outbox.drop(KEY, 7)  # nothing is under way there
        outbox.forget(KEY)
        assert (outbox.of(KEY), len(outbox)) == ((), 1)


async def test_a_message_counts_as_being_sent_until_its_first_answer() -> None:
    async with sending(Line(BUSY, seconds=3.0)) as (outbox, line):
        assert not outbox.sending
        outbox.post(message())
        assert outbox.sending
        await asyncio.sleep(2.9)
        assert outbox.sending
        await asyncio.sleep(0.2)
        assert not outbox.sending
        await asyncio.sleep(2)  # it is sent again
        assert (len(line.sent), outbox.sending) == (2, False)


async def test_nothing_is_said_after_the_end() -> None:
    async with sending(Line(BUSY, seconds=2.0)) as (outbox, line):
        outbox.post(message(b"waits"))
        outbox.post(message(b"on its way", neighbour=1))
        await asyncio.sleep(5)
        said = len(line.sent)
        await outbox.close()
        assert len(outbox) == 0
        outbox.post(message(b"too late"))
        await asyncio.sleep(1000)
        assert (len(line.sent), len(outbox)) == (said, 0)


async def test_an_end_waits_until_nothing_is_being_sent() -> None:
    ended: list[str] = []

    class Slow(Line):
        async def send(self, address: str, frame: bytes) -> Reply:
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                await asyncio.sleep(1)
                ended.append("sent")
                raise
            return TAKEN

    outbox = Outbox(Slow(TAKEN), lambda peer: "there", lambda *_: None, lambda *_: None, BACKOFF, random.Random(0))
    outbox.post(message())
    await asyncio.sleep(1)
    await outbox.close()
    assert ended == ["sent"]


async def test_a_peer_that_is_there_again_hears_at_once_what_waits_for_it() -> None:
    """Each message once, in place of the next time; what is on its way, and what is for others, is left alone."""
    async with sending(Line(BUSY, seconds=0.2)) as (outbox, line):
        messages = [message(b"0"), message(b"1", key=OTHER), message(b"2", neighbour=1)]
        messages[2].peer = "east"
        for pending in messages:
            outbox.post(pending)
        outbox.hurry("site")
        await asyncio.sleep(0.3)
        assert [body for _, _, body in line.sent] == [b"0", b"1", b"2"], "they were on their way"
        before = asyncio.get_running_loop().time()
        outbox.hurry("site")
        outbox.hurry("nobody")
        await asyncio.sleep(0)
        assert [(at, body) for at, _, body in line.sent[3:]] == [(before, b"0"), (before, b"1")]
        assert [pending.times for pending in messages] == [2, 2, 1]
        outbox.hurry("site")
        await asyncio.sleep(30)
        for body, count in ((b"0", 6), (b"1", 6), (b"2", 6)):
            times = [at for at, _, said in line.sent if said == body]
            assert abs(len(times) - count) <= 1
            assert all(later - at > 0.3 for at, later in itertools.pairwise(times[2:])), "one timer each"


async def test_a_message_of_a_session_is_said_until_it_is_taken_whatever_the_state_says() -> None:
    """A refusal is told once, and the message is said again after the longest pause; that it was taken is told."""
    heard: list[str] = []
    async with sending(Line(REFUSED), heard) as (outbox, line):
        outbox.post(message(ordered=True))
        outbox.post(message(b"of the state", neighbour=1))
        outbox.keep(KEY, frozenset())
        assert [pending.body for pending in outbox.of(KEY)] == [b"hello"]
        await asyncio.sleep(59)
        line.sent = [sent for sent in line.sent if sent[2] == b"hello"]
        assert between(line.pauses, [20, 20])
        assert heard == ["redeem: refused"]
        line.answers = [TAKEN]
        await asyncio.sleep(20)
        assert (heard, bool(outbox)) == (["redeem: refused", "redeem was taken"], False)
        said = len(line.sent)
        await asyncio.sleep(500)
        assert len(line.sent) == said


async def test_a_refusal_is_told_once_in_a_row() -> None:
    """A message that was busy or refused in between makes no new row; one that was taken does."""
    heard: list[str] = []
    answers = [UNTRUSTED, BUSY, UNTRUSTED, TAKEN, UNTRUSTED, UNREACHABLE]
    async with sending(Line(*answers), heard) as (outbox, _):
        pending, seen = message(), []
        outbox.backoff = Backoff(first=1.0, longest=20.0, ask_again=1.0)
        outbox.post(pending)
        for count in range(1, len(answers) + 1):
            while pending.times < count or pending.again is None:
                await asyncio.sleep(0.1)
            seen.append((pending.reason, pending.refused, pending.tries, pending.taken))
        assert seen == [
            ("untrusted", True, 1, 0),
            ("busy", False, 2, 0),
            ("untrusted", True, 3, 0),
            ("taken", False, 0, 1),
            ("untrusted", True, 1, 1),
            ("unreachable", False, 2, 1),
        ]
        assert heard == ["redeem: untrusted"] * 2


@pytest.mark.parametrize("seed", range(5))
async def test_the_requests_that_wait_at_a_peer_are_counted_as_they_are(seed: int) -> None:
    """Whatever is posted, taken, replaced, dropped or forgotten, in any order."""
    chance = random.Random(seed)
    async with sending(Line(TAKEN), seed=seed) as (outbox, line):
        outbox.backoff = Backoff(first=0.5, longest=2.0, ask_again=2.0)
        for _ in range(150):
            line.answers = [chance.choice((TAKEN, TAKEN, BUSY, UNTRUSTED, REFUSED))]
            key, neighbour = RecordKey(f"tenant:{chance.randint(1, 6)}", "broker"), chance.randrange(2)
            match chance.randrange(6):
                case 0:
                    outbox.forget(key)
                case 1:
                    outbox.drop(key, neighbour)
                case 2:
                    outbox.keep(key, frozenset({neighbour}))
                case _:
                    pending = message(key=key, neighbour=neighbour, last=chance.random() < 0.2)
                    pending.peer = chance.choice(("site", "east"))
                    outbox.post(pending)
            await asyncio.sleep(chance.choice((0.0, 0.3, 1.1)))
            there = list(outbox._each())
            for peer in ("site", "east"):
                assert outbox._waiting[peer] == sum(p.taken > 0 for p in there if p.peer == peer)
            assert outbox._fresh <= set(there)
            assert len(outbox) == len(there)
            assert all(outbox._all.values()), "nothing is kept of a machine without messages"


async def test_a_peer_that_is_there_again_hears_at_once_what_waits_for_it_and_nobody_else_does() -> None:
    """Only messages that wait to be sent again are hurried: none that is on its way, and each once."""
    async with sending(Line(BUSY, seconds=0.45)) as (outbox, line):
        outbox._address_of = lambda peer: peer
        for number, peer in enumerate(("site", "site", "broker")):
            pending = message(b"%d" % number, key=RecordKey(f"tenant:{number}", "service_manager"))
            pending.peer = peer
            outbox.post(pending)
        outbox.hurry("site")  # they are on their way for the first time
        await asyncio.sleep(0.2)
        outbox.hurry("site")
        await asyncio.sleep(0.2)
        assert [sent[2] for sent in line.sent] == [b"0", b"1", b"2"]
        await asyncio.sleep(0.5)  # all of them wait: at least 0.5 s
        now = asyncio.get_running_loop().time()
        for _ in range(3):
            outbox.hurry("site")
        await asyncio.sleep(0.2)
        outbox.hurry("site")  # on their way again
        await asyncio.sleep(0.2)
        assert [sent[2] for sent in line.sent if sent[0] == now] == [b"0", b"1"]
        assert [sent[2] for sent in line.sent if sent[1] == "site"] == [b"0", b"1"] * 2


@pytest.mark.parametrize("said", [frozenset(), frozenset({0}), frozenset({1}), frozenset({0, 1, 2, 3})])
async def test_messages_of_a_session_outlive_their_state(said: frozenset[int]) -> None:
    """A state that is left keeps the messages of sessions, and of others those to the neighbours that it names."""
    async with sending(Line(BUSY)) as (outbox, _):
        for neighbour in range(4):
            outbox.post(message(neighbour=neighbour, ordered=neighbour >= 2))
            outbox.post(message(neighbour=neighbour, ordered=neighbour >= 2, key=OTHER))
        outbox.keep(KEY, said)
        assert {pending.neighbour for pending in outbox.of(KEY)} == said | {2, 3}
        assert len(outbox.of(OTHER)) == 4


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("answer", [TAKEN, BUSY, UNREACHABLE, REFUSED, UNTRUSTED], ids=lambda reply: reply.answer.value)
async def test_fates_of_a_message_by_its_kind_and_answer(answer: Reply, ordered: bool, last: bool) -> None:
    """After the first answer a message is done, or comes again after the pause of its kind; who hears of it."""
    heard: list[str] = []
    kept = not ((answer is TAKEN and (ordered or last)) or (answer is REFUSED and not ordered))
    pause = {TAKEN: BACKOFF.ask_again, BUSY: 1.0, UNREACHABLE: 1.0, REFUSED: 20.0, UNTRUSTED: 20.0}[answer]
    async with sending(Line(answer), heard) as (outbox, line):
        outbox.post(message(ordered=ordered, last=last))
        await asyncio.sleep(0.1)
        assert [pending.neighbour for pending in outbox.of(KEY)] == ([0] if kept else [])
        refused = answer in (REFUSED, UNTRUSTED)
        assert outbox.refusals == ({KEY: ("redeem", answer.reason)} if refused else {})
        assert outbox.on_their_way() == ({"site": 1} if answer in (BUSY, UNREACHABLE) else {})
        first = [f"redeem: {answer.reason}"] if refused else ["redeem was taken"] if answer is TAKEN and ordered else []
        assert heard == first
        await asyncio.sleep(pause)
        assert len(line.sent) >= 2 if kept else len(line.sent) == 1
        assert between(line.pauses, [pause] if kept else [])
        assert heard == first  # it is said once


async def test_after_the_end_nothing_is_left_of_any_message() -> None:
    """An end with messages that are on their way, taken and waiting leaves none in any count."""
    async with sending(Line(TAKEN, TAKEN, BUSY, UNREACHABLE, BUSY, seconds=0.1)) as (outbox, line):
        for number in range(4):
            outbox.post(message(key=RecordKey(f"tenant:{number}", "service_manager")))
        await asyncio.sleep(0.5)
        outbox.post(message(key=OTHER, neighbour=3))
        await asyncio.sleep(0)
        assert outbox.sending
        await outbox.close()
        assert (len(outbox), bool(outbox), outbox.sending, +outbox.on_their_way()) == (0, False, False, {})
        assert not +outbox._waiting
        outbox.hurry("site")
        await asyncio.sleep(1000)
        assert len(line.sent) == 5
