"""Questions of actors about what can be had at others: over the transport, of known peers, changing nothing."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest

from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.actor import queries
from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.environment import ActorError
from leasehold.impl.identity import query as q
from leasehold.impl.identity.keys import PrivateKey, Purpose
from leasehold.impl.identity.query import Query, QueryAnswer
from leasehold.impl.identity.trust import revoke
from leasehold.impl.transport.transport import Delivery, Reply

TENANT, BROKER, SITE = "tenant", "broker", "site"
STRANGER = PrivateKey.generate()


def question(**other: Any) -> Query:
    return Query(**{"version": 1, "sender": TENANT, "receiver": BROKER, "number": "n1", **other})


def content(units: int = 2) -> dict[str, Any]:
    entry = {"type": "unit", "units": units, "free": [{"from": 0, "until": 9, "units": units}]}
    return {"now": 3, "answers": {"broker": {"inventory": [entry]}}}


def records(*actors: Actor) -> list[Any]:
    """All that actors keep, and how often they have committed."""
    kept = [{key: (one.record, dict(one.metadata)) for key, one in a.table.instances.items()} for a in actors]
    return [*kept, *(dict(a.table.metadata) for a in actors), *(a.codec.commits for a in actors)]


async def test_a_holder_asks_a_broker_and_a_site_and_no_record_changes() -> None:
    async with Cluster(3) as c:
        await c.lease(2, until=8)
        before = records(c.tenant, c.broker, c.site)
        for peer, role in ((BROKER, "broker"), (SITE, "authority")):
            said = await c.tenant.queries.ask(peer)
            (entry,) = said["answers"][role]["inventory"]
            assert (said["name"], said["now"], entry["type"], entry["units"]) == (peer, c.tenant.clock.now(), "unit", 3)
            assert entry["free"][0]["units"] == 1
        assert (await c.broker.queries.ask(TENANT))["answers"] == {}, "it has nothing to give"
        assert (await c.tenant.queries.ask(BROKER, "tape"))["answers"]["broker"]["inventory"] == []
        assert records(c.tenant, c.broker, c.site) == before


async def test_who_is_not_known_is_not_asked_and_who_cannot_be_reached_is_named() -> None:
    async with Cluster(1) as c:
        with pytest.raises(ActorError, match="no actor 'broke' is trusted; did you mean broker"):
            await c.tenant.queries.ask("broke")
        await c.broker.kill()
        with pytest.raises(ActorError, match="broker does not answer"):
            await c.tenant.queries.ask(BROKER)


WRONG: list[tuple[str, Delivery, str, Callable[[PrivateKey], bytes]]] = [
    ("a stranger's", Delivery.UNTRUSTED, "no actor", lambda key: q.seal_query(question(sender="mallory"), STRANGER)),
    ("signed by a stranger", Delivery.UNTRUSTED, "signature|key", lambda key: q.seal_query(question(), STRANGER)),
    ("for another", Delivery.REFUSED, "is for 'site'", lambda key: q.seal_query(question(receiver=SITE), key)),
    ("changed on its way", Delivery.UNTRUSTED, "signature", lambda key: swapped(key, Purpose.QUERY, "n2")),
    ("signed as an answer", Delivery.UNTRUSTED, "signature", lambda key: swapped(key, Purpose.ANSWER, "n1")),
    ("signed as a message", Delivery.UNTRUSTED, "signature", lambda key: swapped(key, Purpose.ENVELOPE, "n1")),
    ("no text", Delivery.REFUSED, "no signed text", lambda key: b"lhq1.\xff"),
    ("no signed text", Delivery.REFUSED, "form of a query", lambda key: b"lhq1.a.b.c"),
    ("too long", Delivery.REFUSED, "characters", lambda key: b"lhq1." + b"a" * 70_000),
    ("an answer that nobody asked", Delivery.REFUSED, "was not asked", lambda key: q.seal_answer(answer("n9"), key)),
]


def answer(number: str, **other: Any) -> QueryAnswer:
    said = {"version": 1, "sender": TENANT, "receiver": BROKER, "number": number, "content": content(), **other}
    return QueryAnswer(**said)


def swapped(key: PrivateKey, purpose: Purpose, number: str) -> bytes:
    """A question with this number, and a signature for a purpose over the one with the number n1."""
    genuine, other = (q.seal_query(question(number=n), key).decode().split(".") for n in ("n1", number))
    signature = q.signed.base64_of(key.sign(purpose, q.signed.unbase64(genuine[3]) or b""))
    return ".".join([*genuine[:2], signature, other[3]]).encode()


async def test_a_question_with_anything_wrong_is_refused_and_not_answered() -> None:
    async with Cluster(1) as c:
        sent = sent_by(c.broker)
        before = records(c.broker)
        for words, expected, reason, make in WRONG:
            reply = await c.broker.receive(make(c.tenant.identity.key))
            assert reply.answer is expected, (words, reply)
            assert re.search(reason, reply.reason), (words, reply)
        own = c.tenant.identity.key.public.fingerprint
        c.broker.identity.trust = revoke(c.broker.identity.trust, TENANT, own)
        reply = await c.broker.receive(q.seal_query(question(), c.tenant.identity.key))
        assert reply.answer is Delivery.UNTRUSTED, "its key is revoked"
        await c.settle()
        assert (sent, records(c.broker)) == ([], before)


def sent_by(actor: Actor) -> list[bytes]:
    """The answers that an actor sends from now on."""
    sent: list[bytes] = []
    send = actor.transport.send

    async def watched(address: str, frame: bytes) -> Reply:
        if q.is_answer(frame):
            sent.append(frame)
        return await send(address, frame)

    actor.transport.send = watched  # type: ignore[method-assign]
    return sent


async def test_a_question_that_is_played_again_is_answered_once_and_costs_its_sender_nothing() -> None:
    async with Cluster(1) as c:
        sent, frame = sent_by(c.broker), q.seal_query(question(), c.tenant.identity.key)
        for _ in range(100):
            assert (await c.broker.receive(frame)).answer is Delivery.TAKEN
        await c.tenant.queries.ask(BROKER)
        assert len(sent) == 2


async def test_who_asks_too_often_waits_and_others_are_answered() -> None:
    reasons: set[str] = set()
    async with Cluster(1) as c:

        async def often(asker: Actor, most: int) -> int:
            for n in range(most):
                try:
                    await asker.queries.ask(BROKER)
                except ActorError as error:
                    reasons.add(str(error))
                    return n
            return most

        assert queries.QUERIES_AT_ONCE <= await often(c.tenant, 200) < 40
        assert await often(c.site, 10) == 10
        await asyncio.sleep(1.0)
        assert 5 <= await often(c.tenant, 200) < 20
        assert reasons == {"broker does not answer: broker answers 5 queries a second; ask later"}


async def test_all_together_are_answered_so_often_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "_ALL_AT_ONCE", 3.0)
    async with Cluster(1) as c:
        for asker in (c.tenant, c.site, c.site):
            await asker.queries.ask(BROKER)
        with pytest.raises(ActorError, match="ask later"):
            await c.tenant.queries.ask(BROKER)


async def test_an_answer_counts_of_whom_it_was_asked_and_once() -> None:
    """Others that know the number say nothing in its place; nor does one who was asked say what is no answer."""
    async with Cluster(1) as c:
        genuine: list[bytes] = []
        send = c.broker.transport.send

        async def watched(address: str, frame: bytes) -> Reply:
            said = q.open_answer(frame, c.tenant.identity.trust, TENANT)
            genuine.append(frame)
            forged = QueryAnswer(version=1, sender=SITE, receiver=TENANT, number=said.number, content=content(9))
            reply = await c.tenant.receive(q.seal_answer(forged, c.site.identity.key))
            assert (reply.answer, reply.reason) == (Delivery.REFUSED, "site was not asked this")
            nonsense = QueryAnswer(
                version=1, sender=BROKER, receiver=TENANT, number=said.number, content={"now": 1, "answers": {"b": []}}
            )
            reply = await c.tenant.receive(q.seal_answer(nonsense, c.broker.identity.key))
            assert reply.answer is Delivery.REFUSED
            assert "none about what can be had" in reply.reason
            return await send(address, frame)

        c.broker.transport.send = watched  # type: ignore[method-assign]
        said = await c.tenant.queries.ask(BROKER)
        assert said["answers"]["broker"]["inventory"][0]["units"] == 1
        (frame,) = genuine
        assert (await c.tenant.receive(frame)).answer is Delivery.REFUSED, "it was answered already"


async def test_no_answer_is_waited_for_so_long_and_no_longer() -> None:
    async with Cluster(1) as c:
        sent = sent_by(c.broker)
        c.broker.transport.send = _lost  # type: ignore[method-assign]
        with pytest.raises(ActorError, match="broker has not answered within 10 seconds"):
            await c.tenant.queries.ask(BROKER)
        assert sent == []
        asked = asyncio.create_task(c.tenant.queries.ask(BROKER))
        await asyncio.sleep(1)
        await c.tenant.stop()
        with pytest.raises(ActorError, match="the actor has ended"):
            await asked


async def _lost(address: str, frame: bytes) -> Reply:
    return Reply(Delivery.UNREACHABLE)


async def test_an_answer_that_is_too_large_says_so() -> None:
    async with Cluster(1) as c:
        policy = c.broker.environment.policies["broker"]
        large = {"inventory": [{"type": f"t{n % 2}", "units": n, "free": [], "site": "s" * 50} for n in range(900)]}
        policy.query = lambda now: {"inventory": list(large["inventory"])}  # type: ignore[attr-defined]
        with pytest.raises(ActorError, match="broker: the answer is too large; ask for one type of units"):
            await c.tenant.queries.ask(BROKER)
        assert len((await c.tenant.queries.ask(BROKER, "t1"))["answers"]["broker"]["inventory"]) == 450


async def test_so_many_questions_wait_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "_OPEN", 2)
    async with Cluster(1) as c:
        c.broker.transport.send = _lost  # type: ignore[method-assign]
        asked = [asyncio.create_task(c.tenant.queries.ask(BROKER)) for _ in range(2)]
        await asyncio.sleep(1)
        with pytest.raises(ActorError, match="2 questions wait for their answers already"):
            await c.tenant.queries.ask(BROKER)
        assert {type(e) for e in await asyncio.gather(*asked, return_exceptions=True)} == {ActorError}
