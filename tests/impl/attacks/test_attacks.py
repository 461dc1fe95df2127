"""Every kind of message of the lease with everything that can be wrong with it, at real actors."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace

import pytest

from leasehold.faults.simulation.network import SimulatedTransport
from leasehold.impl.actor.kept_values import ROUNDS
from leasehold.impl.core.core import Program
from leasehold.impl.identity import pages
from leasehold.impl.identity.trust import Trust
from leasehold.impl.store.store import RecordKey
from leasehold.impl.transport.transport import Delivery, Reply
from tests.impl.actor.alone import program_of
from tests.impl.actor.estate import FILES, KEEPER, OWNER, RUN, estate, properties
from tests.impl.attacks.attacks import Attack
from tests.impl.attacks.scene import LEASE, SOUTH, Scene, program, scene
from tests.impl.attacks.values import ANSWERS, ATTACKS, ONCE, Answer
from tests.impl.virtual import virtual

MESSAGES = tuple(program().messages)


@pytest.mark.parametrize("message", MESSAGES)
def test_what_is_wrong_is_refused_with_the_reason_and_changes_nothing(message: str) -> None:
    """One after the other at one receiver, which takes the genuine message after them all."""
    attacks = [attack for attack in ATTACKS if attack.of(message)]
    assert len(attacks) > 40
    assert virtual(_attacked(message, attacks)) == []


async def _attacked(message: str, attacks: list[Attack]) -> list[str]:
    """Each attack that does not go as it should; one that has to prepare the receiver leaves it to no other."""
    found = []
    while attacks:
        async with scene(message) as s:
            genuine = s.snapshot()
            while attacks and s.snapshot() == genuine:
                attack = attacks.pop()
                s.receiver.identity.trust = s.trust
                frame, before = attack.make(s), s.snapshot()
                reply = await s.receiver.receive(frame)
                if (reply.answer, s.snapshot()) != (attack.answer, before) or not re.search(
                    attack.reason, reply.reason
                ):
                    found.append(f"{attack.name}: {reply}{' changes something' * (s.snapshot() != before)}")
            if s.snapshot() == genuine:
                s.receiver.identity.trust = s.trust
                reply = await s.receiver.receive(s.frame)
                assert reply.answer is Delivery.TAKEN, reply
                assert s.stepped() == set()  # what was refused is no event of the next commit either
    return found


@pytest.mark.parametrize("message", MESSAGES)
async def test_the_genuine_message_is_taken_at_that_moment(message: str) -> None:
    """Else the attacks would show nothing."""

    async with scene(message) as s:
        before = s.snapshot()
        reply = await s.receiver.receive(s.frame)
        assert reply.answer is Delivery.TAKEN
        assert s.snapshot() != before


async def test_a_ticket_is_redeemed_by_one_machine_of_the_site() -> None:
    """A machine has one name, and a role as many as the specification says: each would redeem the ticket once."""

    async def story(s: Scene) -> None:
        assert (await s.receiver.receive(s.frame)).answer is Delivery.TAKEN
        for name in ("authority[0]", "authority[1]", "authority[00]"):
            reply = await s.receiver.receive(s.sealed(receiving_machine=name))
            assert reply == Reply(Delivery.REFUSED, f"this actor has no machine {name}", "alice")
        assert [key.machine for key in s.receiver.table.instances if key.lease == "alice:1"] == ["authority"]

    async with scene("redeem") as s:
        await story(s)


@pytest.mark.parametrize("message", MESSAGES)
async def test_a_refused_message_takes_nobody_s_place(message: str) -> None:
    """An actor of the right role that nobody has heard of yet speaks out of turn; then the right one speaks."""

    async with scene(message) as s:
        held = s.receiver.table.instances
        peers = {key: list(instance.peers) for key, instance in held.items()}
        for attack in ATTACKS:
            if attack.about in ("sender", "role", "origin") and attack.of(message):
                assert (await s.receiver.receive(attack.make(s))).answer is not Delivery.TAKEN
                s.receiver.identity.trust = s.trust
        assert {key: list(instance.peers) for key, instance in held.items()} == peers
        assert (await s.receiver.receive(s.frame)).answer is Delivery.TAKEN


async def test_who_is_refused_does_not_become_the_neighbour_that_nobody_has_heard_of() -> None:
    """Else any actor of the role could keep the right one away, or make its numbers old."""

    async with scene("update_ticket") as s:
        held = s.receiver.table.instances[RecordKey(LEASE, "service_manager")]
        slot = next(n for n, (role, _) in enumerate(held.core.neighbours) if role == "authority")
        held.peers[slot] = ""
        record = held.record
        frame = s.sealed(
            by=SOUTH,
            sender=SOUTH,
            sending_machine="authority",
            message="update_lease",
            number=9,
            fields={"units": [1], "lost": [], "renewed": [], "end": 10, "properties": [0] * 4, "reason": 0},
            credential=None,
        )
        reply = await s.receiver.receive(frame)
        assert reply.reason == "service_manager refuses update_lease: no lease was asked for"
        assert (held.peers[slot], held.record) == ("", record)


async def test_the_newest_incarnation_is_remembered_in_the_store_and_its_address() -> None:
    async with scene("extend_ticket") as s:
        number = s.envelope.number
        later = {"epoch": 5, "began": 50, "commits": 60}
        said = (await s.receiver.receive(s.sealed(**later, reply_to="memory:elsewhere"))).answer
        assert said is Delivery.TAKEN
        for epoch in (1, 4):
            reply = await s.receiver.receive(s.sealed(epoch=epoch, number=number + 1))
            assert reply.reason == f"alice has a newer incarnation (5, not {epoch})"
        kept = s.receiver.store.disk.metadata  # type: ignore[attr-defined]
        heard = f"5 {s.envelope.store} 50 60 {s.keys['alice'].public.fingerprint}".encode()
        assert (kept["epoch of alice"], kept["address of alice"]) == (heard, b"memory:elsewhere")
        trusted = s.trust.actors["alice"]
        s.receiver.identity.trust = Trust({**s.trust.actors, "alice": replace(trusted, address="")})
        assert s.receiver.messages.address_of("alice") == "memory:elsewhere"
        assert s.receiver.messages.address_of("nobody") == ""
        s.receiver.identity.trust = s.trust
        assert s.receiver.messages.address_of("alice") == "memory:alice"  # the operator's word counts
        assert (await s.receiver.receive(s.sealed(**later, number=number + 1))).answer is Delivery.TAKEN


@pytest.fixture(scope="module")
def estate_program() -> Program:
    return program_of(FILES)


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.words)
async def test_a_wrong_answer_to_a_message_with_large_values_changes_nothing(
    answer: Answer, estate_program: Program
) -> None:
    """The sender says nothing but this message and its values, not without end, and the right answer comes to it."""

    async with estate(estate_program) as e:
        await e.put({0: "x"}, "bob:1")
        await e.put({n: properties(n, 300) for n in range(100)})
        alice, before = e.actors["alice"], len(e.sent)
        forging = True

        async def forged(address: str, frame: bytes) -> Reply:
            if not forging:
                return await SimulatedTransport.send(alice.transport, address, frame)
            e.sent.append(("memory:alice", address, frame))
            (pending,) = alice.outbox.of(RecordKey(RUN, OWNER))
            return answer.answer(dict(pending.pages), frame.startswith(pages.START))

        alice.transport.send = forged  # type: ignore[method-assign]
        await alice.tell(RUN, OWNER, "offer")
        (pending,) = alice.outbox.of(RecordKey(RUN, OWNER))
        while pending.tries < 3:
            await asyncio.sleep(0.001)
        frames = [frame for _, _, frame in e.sent[before:]]
        mine = {pages.frame_of("alice", body) for body in pending.pages.values()}
        assert set(frames) <= {pending.body, *mine}
        assert (answer.sent == ONCE) == (set(frames) == {pending.body})
        assert len(frames) <= 4 * ROUNDS * (len(mine) + 1)
        assert e.record(RUN, OWNER)[0] == "telling"
        assert RecordKey(RUN, KEEPER) not in e.actors["clerk"].table.instances
        forging = False
        await e.settle()
        assert e.same()
