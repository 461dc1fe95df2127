"""Two tenants, two brokers and two sites, stopped at the moment at which a message of a kind comes to its receiver.

The receiver would take it now. So whatever is wrong with it is the reason why it does not.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
from msgspec.structs import replace

from leasehold.faults.simulation.clock import SimulatedClock
from leasehold.faults.simulation.network import PacketOutcome, SimulatedNetwork, SimulatedTransport
from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.environment import ActorOptions
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.core.core import Program
from leasehold.impl.events.event import StepEvent, read
from leasehold.impl.handlers.handler import NullHandler
from leasehold.impl.identity.envelope import Envelope, seal
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.trust import Identity, Trust, add
from leasehold.impl.lease.environment import lease_environment
from leasehold.impl.lease.inventory import Inventory
from leasehold.impl.store.memory import Disk, MemoryStore
from leasehold.impl.store.store import RecordKey
from leasehold.impl.transport.limits import LIMITS
from tests.systems import load

ALICE, BOB, BROKER, RIVAL, NORTH, SOUTH = "alice", "bob", "broker", "rival", "north", "south"
ROLES = {
    ALICE: "service_manager",
    BOB: "service_manager",
    BROKER: "broker",
    RIVAL: "broker",
    NORTH: "authority",
    SOUTH: "authority",
}
OTHER = {ALICE: BOB, BOB: ALICE, BROKER: RIVAL, RIVAL: BROKER, NORTH: SOUTH, SOUTH: NORTH}
LEASE, HIS = "alice:1", "bob:1"
UNITS = 4
NOT_SENT = PacketOutcome(())


@cache
def program() -> Program:
    return compile_system(load("lease", {"max_units": UNITS}))


def envelope_of(frame: bytes) -> Envelope:
    """The envelope of a genuine frame."""
    return msgspec.json.decode(frame.partition(b"\n")[2], type=Envelope)


@dataclass
class Scene:
    """The moment.

    Attributes:
        trust: of all actors, at the beginning.
        frame, envelope: the genuine message that comes.
        keys: of the actors, and of a stranger whom nobody trusts.
        tickets: by lease, all that its broker has issued so far.
    """

    actors: dict[str, Actor]
    keys: dict[str, PrivateKey]
    trust: Trust
    frame: bytes
    envelope: Envelope
    tickets: dict[str, list[str]]

    @property
    def receiver(self) -> Actor:
        return self.actors[self.envelope.receiver]

    def sealed(self, by: str = "", **changes: Any) -> bytes:
        """The message with some changes, well signed by its sender or by another."""
        altered = replace(self.envelope, **changes)
        return seal(altered, self.keys[by or altered.sender])

    def snapshot(self) -> Any:
        """All that an actor knows and keeps: nothing may change there."""
        actor = self.receiver
        disk: Disk = actor.store.disk  # type: ignore[attr-defined]
        rows = {key: actor.rows.write(instance) for key, instance in actor.table.instances.items()}
        return rows, dict(actor.table.metadata), dict(disk.records), dict(disk.metadata), dict(disk.events)

    def stepped(self) -> set[RecordKey]:
        """The machines of which the receiver's events say that they have stepped, and which it has no record of."""
        events = map(read, self.receiver.store.disk.events.values())  # type: ignore[attr-defined]
        stepped = {RecordKey(e.step.lease, e.step.machine) for e in events if isinstance(e, StepEvent)}
        return stepped - set(self.receiver.table.instances)


class _Stage:
    """Runs the actors until a message of a kind, about Alice's lease, comes to its receiver."""

    def __init__(self, message: str) -> None:
        self.message, self.found = message, b""
        self.network, self.clock = SimulatedNetwork(0, LIMITS, self._rule, tells_losses=True), SimulatedClock()
        self.keys = {name: PrivateKey.generate() for name in (*ROLES, "stranger")}
        self.tickets: dict[str, list[str]] = {}
        self.actors: dict[str, Actor] = {}
        self.trust = Trust()

    def _rule(self, source: str, target: str, frame: bytes) -> PacketOutcome:
        envelope = envelope_of(frame)
        ticket = envelope.credential
        if (
            ticket is not None
            and ticket.startswith("lht1.")
            and ticket not in self.tickets.setdefault(envelope.lease, [])
        ):
            self.tickets[envelope.lease].append(ticket)
        if self.found:
            return NOT_SENT
        if envelope.message == self.message and envelope.lease == LEASE and self._worth(envelope):
            self.found = frame
            return NOT_SENT
        return PacketOutcome()

    def _worth(self, envelope: Envelope) -> bool:
        """The first answer of a broker or site may say no more than that it has begun."""
        return envelope.fields.get("units", 1) not in (0, [])

    async def start(self) -> None:
        for name, role in ROLES.items():
            self.trust = add(self.trust, name, role, self.keys[name].public, f"memory:{name}")
        inventory = Inventory.parse({"units": [{"name": f"unit-{n}"} for n in range(UNITS)]})
        player = {"service_manager": ALICE, "broker": BROKER, "authority": NORTH}
        for name, role in ROLES.items():
            identity = Identity(name, self.keys[name], self.trust)
            environment = lease_environment(program(), identity, (role,), player, inventory, lambda _: NullHandler())
            self.actors[name] = Actor(
                identity,
                program(),
                (role,),
                MemoryStore(Disk()),
                SimulatedTransport(self.network, name),
                self.clock,
                environment,
                ActorOptions(seed=0),
            )
            await self.actors[name].start()

    async def until_found(self) -> None:
        for name, lease in ((BOB, HIS), (ALICE, LEASE)):
            shrinks = name == ALICE and self.message == "shrunk"
            await self.actors[name].command("service_manager", "demand", lease, 2 if shrinks else 1, 60, 10)
            await self._settle()
            if shrinks:
                await self.actors[name].command("service_manager", "flex", lease, 1)
        for _ in range(70):
            if self.found:
                return
            if self.clock.now() == 12:
                await self.actors[ALICE].tell(LEASE, "service_manager", "close")
            await self.clock.time.elapse()
            await self._settle()

    async def _settle(self) -> None:
        for _ in range(200):
            await asyncio.sleep(0)


@asynccontextmanager
async def scene(message: str) -> AsyncIterator[Scene]:
    """The moment at which a message of this kind comes to its receiver, about Alice's lease."""
    stage = _Stage(message)
    await stage.start()
    try:
        await stage.until_found()
        assert stage.found, f"no {message} was sent"
        yield Scene(stage.actors, stage.keys, stage.trust, stage.found, envelope_of(stage.found), stage.tickets)
    finally:
        for actor in stage.actors.values():
            await actor.kill()
