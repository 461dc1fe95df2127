"""What a turn sends to one actor, and the tickets that it issues, share signatures; each stands for itself."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import defaultdict
from typing import Any

import pytest

from leasehold.faults.simulation.lease import Cluster
from leasehold.faults.simulation.network import PacketOutcome
from leasehold.impl.actor.environment import ActorOptions
from leasehold.impl.identity.envelope import open_frame
from leasehold.impl.identity.keys import unbase64
from leasehold.impl.lease.credentials import AUTHORITY
from leasehold.impl.lease.ticket import read_ticket
from leasehold.impl.store.store import RecordKey
from tests.impl.virtual import virtual

COUNT = 40


class Heard:
    """The frames between the actors of a cluster, by sender and receiver."""

    def __init__(self) -> None:
        self.frames: dict[tuple[str, str], list[bytes]] = defaultdict(list)

    def __call__(self, sender: str, receiver: str, frame: bytes) -> PacketOutcome:
        self.frames[sender.removeprefix("memory:"), receiver.removeprefix("memory:")].append(frame)
        return PacketOutcome()


def ed25519(signature: str) -> bytes:
    """The Ed25519 signature in a signature, which others may share."""
    found = unbase64(signature)
    assert found is not None
    return found[:64]


def test_what_goes_to_one_actor_in_a_turn_shares_a_signature() -> None:
    virtual(_many_at_once())


async def _many_at_once() -> None:
    heard = Heard()
    async with Cluster(units=COUNT, rule=heard) as c:
        leases = await asyncio.gather(*(c.lease(1, until=100) for _ in range(COUNT)))
        await c.settle()
        assert {c.state(lease) for lease in leases} == {("active", "ticketed", "active")}
        trusts = {actor.identity.name: actor.identity.trust for actor in (c.tenant, c.broker, c.site)}
    assert len(heard.frames) == 4
    for (sender, receiver), frames in heard.frames.items():
        assert len(frames) >= COUNT
        signatures = {ed25519(frame.split(b"\n")[0].split()[2].decode()) for frame in frames}
        assert len(signatures) < len(frames) / 4, f"{sender} to {receiver}"
        for frame in reversed(frames):  # each by itself, in any order
            assert open_frame(frame, trusts[receiver], receiver).sender == sender
    tickets = [ticket_of(frame) for frame in heard.frames["broker", "tenant"]]
    assert len({ed25519(text.split(".")[2]) for text in tickets}) < COUNT / 4
    for text in tickets:
        assert read_ticket(text, trusts["site"]).issuer == "broker"


def ticket_of(frame: bytes) -> str:
    body: dict[str, Any] = json.loads(frame.split(b"\n", 1)[1])
    return str(body["ticket"])


async def test_a_credential_that_came_with_a_duplicate_outlives_a_restart() -> None:
    """Nobody was known to play the site when the request came first; it comes again, as nothing has answered it."""
    async with Cluster(units=2, options=ActorOptions(seed=0)) as c:
        c.broker.codec.credentials.peers = {}  # type: ignore[union-attr]
        lease = await c.lease(1, until=100)
        key = RecordKey(lease, "broker")
        assert AUTHORITY not in c.broker.table.instances[key].metadata
        c.broker.codec.credentials.peers = {"authority": "site"}  # type: ignore[union-attr]
        await asyncio.sleep(60)  # the request comes again
        assert c.broker.table.instances[key].metadata[AUTHORITY] == "site"
        await c.kill("broker")
        await c.start("broker")
        assert c.broker.table.instances[key].metadata[AUTHORITY] == "site"


def test_a_message_that_cannot_be_written_keeps_no_other_back(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.CRITICAL):
        virtual(_one_cannot_be_written())


async def _one_cannot_be_written() -> None:
    async with Cluster(units=3) as c:
        issue, broken = c.broker.codec.credentials.issue, set[str]()  # type: ignore[union-attr]

        def fails(requests: Any) -> Any:
            if any(request.lease in broken for request in requests):
                raise RuntimeError("unforeseen")
            return issue(requests)

        c.broker.codec.credentials.issue = fails  # type: ignore[union-attr, method-assign]
        wished = [c.lease(1, until=100, name=f"tenant:{n}") for n in (1, 2, 3)]
        broken.add("tenant:2")
        await asyncio.gather(*wished)
        await c.settle()
        assert [c.state(f"tenant:{n}")[0] for n in (1, 2, 3)] == ["active", "ticketing", "active"]
