"""Messages between machines by number, and what is kept of their senders; tests/impl/attacks has those of the lease."""

from __future__ import annotations

from dataclasses import replace as with_changes
from typing import Any

import pytest
from msgspec.structs import replace

from leasehold.faults.simulation.clock import SimulatedClock
from leasehold.faults.simulation.lease import Cluster
from leasehold.faults.simulation.network import SimulatedNetwork, SimulatedTransport
from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.environment import ActorError, ActorOptions, Environment
from leasehold.impl.actor.messages import (
    ADDRESS,
    EPOCH,
    EnvelopeCodec,
    Heard,
    Outgoing,
    SealedMessage,
    answer_to,
    check_origin,
)
from leasehold.impl.actor.table import MachineTable
from leasehold.impl.core.core import Program
from leasehold.impl.core.work import SendWork
from leasehold.impl.identity.envelope import Envelope, open_frame, seal
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.signed import (
    Forged,
    Malformed,
    Misdirected,
    OlderStore,
    OtherSpecification,
    Refusal,
    Unauthorised,
    UnknownSender,
)
from leasehold.impl.identity.trust import Identity, Trust, add
from leasehold.impl.lease.fleet import BROKER, SITE, TENANT
from leasehold.impl.notices import Consumed, Kind, Notice
from leasehold.impl.store.memory import MemoryStore
from leasehold.impl.store.store import RecordKey
from leasehold.impl.transport.transport import Delivery
from tests.impl.actor.alone import program_of
from tests.systems import TESTS

TWINS = TESTS / "impl/actor/systems/twins"
KEYS = {name: PrivateKey.generate() for name in ("ann", "bob", "bert", "carl")}
KINDS = {"ann": "asker", "bob": "answerer", "bert": "answerer", "carl": "chief"}


@pytest.fixture(scope="module")
def twins() -> Program:
    return program_of(TWINS)


def trust() -> Trust:
    found = Trust()
    for name, kind in KINDS.items():
        found = add(found, name, kind, KEYS[name].public, f"memory:{name}")
    return found


def codec(program: Program, name: str, ticks: float = 0) -> EnvelopeCodec:
    return EnvelopeCodec(program, Identity(name, KEYS[name], trust()), None, ticks)


def a_message(program: Program, number: int = 1, task: str = "say") -> Envelope:
    """Returns what a machine of ann's says, as it is sent."""
    core, ann = program.roles["asker"], codec(program, "ann")
    ann.address, ann.store, ann.epoch, ann.began, ann.commits = "memory:ann", "s1", 3, 20, 21
    machine = MachineTable(program, frozenset({"asker"})).new(RecordKey("ann:1", f"asker[{number}]"), core, number)
    record, outcome = core.step(machine.record, ("go", (), -1, 0, -1), 0)
    machine.record = record
    (send,) = (piece for piece in outcome.work if isinstance(piece, SendWork) and piece.task == task)
    peer = "bob" if task == "say" else "carl"
    machine.peers[send.neighbour] = peer
    (sealed,) = ann.seal([Outgoing(machine, send, send.fields(record), 7)])
    assert isinstance(sealed, SealedMessage)
    assert sealed.pages == {}
    return open_frame(sealed.frame, trust(), peer)


@pytest.mark.parametrize("number", [0, 1])
def test_a_machine_speaks_to_the_one_of_its_own_number(twins: Program, number: int) -> None:
    envelope = a_message(twins, number)
    assert (envelope.sending_machine, envelope.receiving_machine) == (f"asker[{number}]", f"answerer[{number}]")
    assert (envelope.message, envelope.number, envelope.epoch, envelope.lease) == ("ask", 7, 3, "ann:1")
    assert (envelope.store, envelope.began, envelope.commits) == ("s1", 20, 21)
    assert (envelope.sender, envelope.receiver, envelope.reply_to) == ("ann", "bob", "memory:ann")
    assert (envelope.fields, envelope.credential) == ({"tone": "green", "seen": ["red", "green"]}, None)
    core = twins.roles["answerer"]
    assert codec(twins, "bob").event(envelope, core, number) == (
        "ask",
        ("green", frozenset({"red", "green"})),
        0,
        7,
        -1,
    )
    with pytest.raises(Malformed, match=rf"asker\[{number}\] is no neighbour of answerer\[{1 - number}\]"):
        codec(twins, "bob").event(envelope, core, 1 - number)
    report = a_message(twins, number, "rep")
    assert report.receiving_machine == "chief"
    event = codec(twins, "carl").event(report, twins.roles["chief"], 0)
    assert event == ("report", (), twins.roles["chief"].neighbours.index(("asker", number)), 7, -1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"message": "nonsense"}, r"asker\[1\] sends no nonsense to answerer"),
        ({"message": "report"}, r"asker\[1\] sends no report to answerer"),
        ({"message": "tell"}, r"asker\[1\] sends no tell to answerer"),
        ({"sending_machine": "asker[2]"}, r"asker\[2\] sends no ask to answerer"),
        ({"sending_machine": "asker"}, "asker sends no ask to answerer"),
        ({"sending_machine": "answerer[1]"}, r"answerer\[1\] sends no ask to answerer"),
        ({"sending_machine": "chief"}, "chief sends no ask to answerer"),
        ({"fields": {"tone": "green"}}, "ask: field `seen` is missing"),
        ({"fields": {"tone": "green", "seen": [], "more": 1}}, "ask: there is no field 'more'"),
        ({"fields": {"tone": "green", "seen": ["blue"]}}, "ask: field `seen`: 'blue' is none of"),
    ],
)
def test_what_is_no_message_of_a_neighbour_is_malformed(twins: Program, changes: dict[str, Any], words: str) -> None:
    envelope = replace(a_message(twins), **changes)
    with pytest.raises(Malformed, match=words):
        codec(twins, "bob").event(envelope, twins.roles["answerer"], 1)


def test_who_does_not_agree_with_the_sender_says_in_what(twins: Program) -> None:
    """It is proven who has said it all the same, and the sender may say it again when they agree."""

    def refused(program: Program, changes: dict[str, Any], ticks: float = 0) -> Refusal:
        with pytest.raises(Refusal) as caught:
            codec(program, "bob", ticks).open(seal(replace(a_message(twins), **changes), KEYS["ann"]))
        return caught.value

    other = with_changes(twins, digest="cd" * 32)
    for refusal, kind, words in (
        (refused(twins, {"system": "lease"}), Unauthorised, "serves the system twins, not lease"),
        (refused(twins, {"sending_machine": "answerer[1]"}), Unauthorised, "cannot speak for"),
        (refused(twins, {"digest": twins.agreement + ".2"}), OtherSpecification, "ann has ticks of another length"),
        (refused(twins, {"digest": twins.digest + ".1"}), OtherSpecification, "ann has other constants of twins"),
        (refused(twins, {}, ticks=2.0), OtherSpecification, "ann has other constants|ticks of another length"),
        (refused(other, {}), OtherSpecification, f"specification {'cd' * 6}, and ann {twins.digest[:12]}; upgrade"),
    ):
        assert type(refusal) is kind
        assert any(part in refusal.reason for part in words.split("|"))
        assert refusal.proven == "ann"
    opened = codec(twins, "bob").open(seal(a_message(twins), KEYS["ann"]))
    assert opened == (a_message(twins), KEYS["ann"].public.fingerprint)
    assert [codec(twins, "bob", ticks).agreement for ticks in (0, 2.0, 0.5)] == [
        twins.agreement,
        f"{twins.agreement}.2",
        f"{twins.agreement}.0.5",
    ]


@pytest.mark.parametrize(
    ("lease", "sender", "refused"),
    [
        ("ann:1", "ann", None),
        ("bob:1", "bob", None),
        ("bob:1", "bert", Refusal),  # who is of bob's kind
        ("ann:1", "bob", Refusal),  # who answers her, and begins nothing for her without her word
        ("dora:1", "ann", UnknownSender),
        ("ann", "ann", Refusal),
        ("ann:0", "ann", Refusal),
        (":1", "ann", Refusal),
    ],
)
def test_nobody_begins_a_lease_in_the_name_of_one_of_its_kind(
    twins: Program, lease: str, sender: str, refused: type[Refusal] | None
) -> None:
    envelope = replace(a_message(twins), lease=lease, sender=sender)
    if refused is None:
        check_origin(envelope, trust(), ("asker", "answerer"))
    else:
        with pytest.raises(refused):
            check_origin(envelope, trust(), ("asker", "answerer"))


def test_who_was_refused_hears_whether_to_say_it_again() -> None:
    answers = {
        OtherSpecification: Delivery.BUSY,
        UnknownSender: Delivery.UNTRUSTED,
        Forged: Delivery.UNTRUSTED,
        OlderStore: Delivery.UNTRUSTED,
        Misdirected: Delivery.BUSY,  # another has its address at the moment
        Malformed: Delivery.REFUSED,
        Unauthorised: Delivery.REFUSED,
        Refusal: Delivery.REFUSED,
    }
    assert {kind: answer_to(kind("no")) for kind in answers} == answers


# What is kept of a sender


async def test_a_message_of_an_incarnation_that_is_over_is_refused_for_ever() -> None:
    """Also by a receiver that has started again: what it has heard of is in its store."""

    frames: list[bytes] = []
    async with Cluster() as c:
        carry = c.network.carry

        async def keep(source: str, target: str, frame: bytes, *more: Any) -> Any:
            if (source, target) == (f"memory:{TENANT}", f"memory:{BROKER}"):
                frames.append(frame)
            return await carry(source, target, frame, *more)

        c.network.carry = keep  # type: ignore[method-assign]
        await c.lease(1, until=60, term=60)
        old = frames[0]
        words = c.disks[BROKER].metadata
        assert (Heard.of(words[EPOCH + TENANT]).epoch, words[ADDRESS + TENANT]) == (1, b"memory:tenant")
        assert (await c.broker.receive(old)).answer is Delivery.TAKEN  # once more, of the same incarnation
        await c.kill(TENANT)
        await c.start(TENANT)
        await c.lease(1, until=60, term=60, name="tenant:5")
        assert Heard.of(words[EPOCH + TENANT]).epoch == 2
        for _ in range(2):
            reply = await c.broker.receive(old)
            assert reply.answer is Delivery.REFUSED
            assert reply.reason == "tenant has a newer incarnation (2, not 1)"
            assert reply.proven == TENANT
            await c.kill(BROKER)
            await c.start(BROKER)
        assert Heard.of(words[EPOCH + TENANT]).epoch == 2


HEARD = Heard(5, "s1", 50, 60, "ab")


@pytest.mark.parametrize(
    ("said", "refused"),
    [
        ((5, "s1", 50), None),
        ((6, "s1", 60), None),
        ((9, "s1", 61), None),
        ((4, "s1", 40), Refusal),
        ((5, "s1", 49), OlderStore),
        ((5, "s1", 51), OlderStore),
        ((5, "s1", 60), OlderStore),
        ((6, "s1", 59), OlderStore),
        ((6, "s1", 50), OlderStore),
        ((5, "s2", 50), OlderStore),
        ((6, "s2", 60), OlderStore),
        ((4, "s2", 60), OlderStore),
    ],
)
def test_which_stores_are_older(twins: Program, said: tuple[int, str, int], refused: type[Refusal] | None) -> None:
    epoch, store, began = said
    envelope = replace(a_message(twins), epoch=epoch, store=store, began=began, commits=began + 9)
    for heard in (HEARD, Heard.of(bytes(HEARD))):
        if refused is None:
            heard.check(envelope)
        else:
            with pytest.raises(refused) as caught:
                heard.check(envelope)
            assert type(caught.value) is refused
    Heard.of(None).check(envelope)
    if epoch >= 5:
        Heard.of(b"5").check(envelope)  # as an earlier version has kept it


async def test_where_a_peer_is_reached() -> None:
    """Where the operator says; else where it last said that it is, which is kept."""

    async with Cluster() as c:
        await c.lease(1, until=60, term=60)
        whole = c.broker.identity.trust
        unnamed = Trust({**whole.actors, TENANT: with_changes(whole.actors[TENANT], address="")})
        for words, said in ((b"memory:moved", "memory:moved"), (None, "")):
            for store in (c.broker.table.metadata, c.disks[BROKER].metadata):
                if words is None:
                    del store[ADDRESS + TENANT]
                else:
                    store[ADDRESS + TENANT] = words
            address = c.broker.messages.address_of
            assert (address(TENANT), address("nobody")) == ("memory:tenant", "")
            c.broker.identity.trust = unnamed
            assert address(TENANT) == said
            c.broker.identity.trust = whole


@pytest.mark.parametrize("consumed", [False, True])
async def test_what_is_refused_or_consumed_has_changed_nothing(consumed: bool) -> None:
    """Nothing is begun by it, and neither its number is kept, nor who has said it, nor where from."""

    async with Cluster() as c:
        lease = await c.lease(1, until=60, term=60)

        def consume(notice: Notice) -> None:
            if notice.kind is Kind.RECEIVE and consumed:
                raise Consumed

        c.broker.notices.subscribe(consume)
        key = RecordKey(lease, "broker")
        held = c.broker.table.instances[key]
        before = (held.record, list(held.peers), dict(held.metadata), dict(c.disks[BROKER].records))
        words, commits = dict(c.broker.table.metadata), c.broker.counts["commits"]
        fields = {"units": 1, "start": 0, "end": 9, "type": "", "properties": {}}
        envelope = Envelope(
            version=1,
            system="lease",
            digest=c.tenant.codec.agreement,
            sender=TENANT,
            receiver=BROKER,
            lease=lease,
            sending_machine="service_manager",
            receiving_machine="broker",
            message="ticket",
            number=50,
            epoch=9,
            fields=fields,
            reply_to="memory:evil",
            store=c.tenant.codec.store,
            began=99,
        )
        extended = {"units": 1, "end": 9, "properties": {}}
        unheard = {
            "lease": "tenant:7",
            "message": "extend_ticket",
            "fields": extended,
        }  # of a lease that is not there
        for changes in ({}, unheard) if consumed else (unheard,):
            frame = seal(replace(envelope, **changes), c.tenant.identity.key)
            reply = await c.broker.receive(frame)
            assert reply.answer is (Delivery.UNREACHABLE if consumed else Delivery.REFUSED)
            assert reply.proven == TENANT
            assert (held.record, held.peers, held.metadata, c.disks[BROKER].records) == before
            assert (c.broker.table.metadata, c.broker.counts["commits"]) == (words, commits)
            assert list(c.broker.table.instances) == [key]


async def test_a_message_for_a_machine_that_the_actor_does_not_play_is_refused() -> None:
    async with Cluster() as c:
        lease = await c.lease(1, until=60, term=60)
        held = c.site.table.instances[RecordKey(lease, "authority")]
        before, refused = dict(c.disks[SITE].records), list[str]()
        c.site.notices.subscribe(
            lambda notice: refused.append(notice.data["reason"]) if notice.kind is Kind.REFUSED else None
        )
        for machine in ("unit[0]", "broker", "service_manager", "authority[0]", "nobody"):
            envelope = Envelope(
                version=1,
                system="lease",
                digest=c.tenant.codec.agreement,
                sender=TENANT,
                receiver=SITE,
                lease=lease,
                sending_machine="service_manager",
                receiving_machine=machine,
                message="close",
                number=50,
                epoch=1,
                fields={},
                reply_to=None,
                store=c.tenant.codec.store,
            )
            reply = await c.site.receive(seal(envelope, c.tenant.identity.key))
            assert reply.answer is Delivery.REFUSED
            assert f"this actor has no machine {machine}" in reply.reason
        assert (held.state, c.disks[SITE].records) == ("active", before)
        assert c.site.counts["messages refused"] == len(refused) == 5
        assert len(set(refused)) == 5
        with pytest.raises(ActorError, match="no machine broker"):
            await c.site.begin("tenant:9", "broker", "close", {}, {})


async def test_to_a_neighbour_that_nobody_has_heard_of_nothing_is_sent(twins: Program) -> None:
    """A machine that a message has begun knows who has sent it, and no other; when one is heard, it is told."""

    identity, network = Identity("ann", KEYS["ann"], trust()), SimulatedNetwork()
    program = with_changes(twins, begun_by=("answerer",))
    actor = Actor(
        identity,
        program,
        ("asker",),
        MemoryStore(),
        SimulatedTransport(network, "ann"),
        SimulatedClock(),
        Environment(),
        ActorOptions(seed=0),
    )
    await actor.start()
    told = Envelope(
        version=1,
        system="twins",
        digest=actor.codec.agreement,
        sender="bob",
        receiver="ann",
        lease="bob:1",
        sending_machine="answerer[1]",
        receiving_machine="asker[1]",
        message="tell",
        number=1,
        epoch=1,
        fields={},
        reply_to=None,
    )
    assert (await actor.receive(seal(told, KEYS["bob"]))).answer is Delivery.TAKEN
    said = list[Notice]()
    actor.notices.subscribe(lambda notice: said.append(notice) if notice.kind is Kind.SEND else None)
    await actor.tell("bob:1", "asker[1]", "go")
    assert [(notice.name, notice.data["to"]) for notice in said] == [("ask", "bob")]
    (pending,) = actor.outbox.of(RecordKey("bob:1", "asker[1]"))
    assert (pending.message, pending.peer) == ("ask", "bob")
    held = actor.table.instances[RecordKey("bob:1", "asker[1]")]
    assert sorted(held.peers) == ["", "bob"]
    other = replace(told, sender="bert", number=9)  # who is not her answerer
    reply = await actor.receive(seal(other, KEYS["bert"]))
    assert (reply.answer, reply.reason) == (Delivery.REFUSED, "answerer[1] of bob:1 is not played by bert")
    await actor.stop()
