"""Two actors of a small system whose message has a thousand named members, and what is sent between them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from leasehold.faults.simulation.clock import SimulatedClock
from leasehold.faults.simulation.network import PacketOutcome, PacketRule, SimulatedNetwork, SimulatedTransport
from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.environment import ActorOptions, Backoff, Environment
from leasehold.impl.core.core import Program
from leasehold.impl.core.work import Record
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.trust import Identity, Trust, add
from leasehold.impl.store.memory import Disk, MemoryStore
from leasehold.impl.store.store import RecordKey
from leasehold.impl.transport.limits import LIMITS
from leasehold.impl.transport.transport import Reply
from tests.systems import TESTS

FILES = TESTS / "impl/actor/systems/estate"

ROLES = {"alice": "owner", "bob": "owner", "clerk": "keeper"}
KEYS = {name: PrivateKey.generate() for name in ROLES}
RUN, OWNER, KEEPER = "alice:1", "owner", "keeper"


def trust() -> Trust:
    found = Trust()
    for name, role in ROLES.items():
        found = add(found, name, role, KEYS[name].public, f"memory:{name}")
    return found


def properties(number: int, size: int = 4000) -> dict[str, Any]:
    """Returns what is said of a plot, of about so many bytes."""
    words = f"plot {number} " * (size // 10)
    return {"host": f"plot-{number}.example", "address": f"10.0.{number >> 8}.{number & 255}", "about": words[:size]}


@dataclass
class Estate:
    """The actors, and the frames that were sent.

    Attributes:
        rule: what becomes of a frame; None: it comes.
    """

    program: Program
    disks: dict[str, Disk] = field(default_factory=lambda: {name: Disk() for name in ROLES})
    actors: dict[str, Actor] = field(default_factory=dict)
    sent: list[tuple[str, str, bytes]] = field(default_factory=list)
    rule: PacketRule | None = None

    def __post_init__(self) -> None:
        self.network, self.clock = SimulatedNetwork(0, LIMITS, self._carry, tells_losses=True), SimulatedClock()

    def _carry(self, source: str, target: str, frame: bytes) -> PacketOutcome:
        self.sent.append((source, target, frame))
        return PacketOutcome() if self.rule is None else self.rule(source, target, frame)

    async def start(self, *names: str) -> None:
        for name in names:
            identity, peers = Identity(name, KEYS[name], trust()), {"keeper": "clerk"}
            options = ActorOptions(seed=0, backoff=Backoff(first=0.01, longest=0.1))
            self.actors[name] = Actor(
                identity,
                self.program,
                (ROLES[name],),
                MemoryStore(self.disks[name]),
                SimulatedTransport(self.network, name),
                self.clock,
                Environment(peers=peers),
                options,
            )
            await self.actors[name].start()

    async def restart(self, name: str) -> None:
        await self.actors[name].kill()
        self.disks[name].crash()
        await self.start(name)

    async def put(self, values: dict[int, Any], run: str = RUN) -> None:
        """The owner has plots, and says nothing yet."""
        owner = self.actors[run.partition(":")[0]]
        first = [] if RecordKey(run, OWNER) in owner.table.instances else [values.popitem()]
        for who, what in first:
            await owner.begin(run, OWNER, "put", {"who": f"plot[{who}]", "what": what}, {"keeper": "clerk"})
        await asyncio.gather(
            *(owner.tell(run, OWNER, "put", {"who": f"plot[{who}]", "what": what}) for who, what in values.items())
        )

    async def offer(self, run: str = RUN) -> list[bytes]:
        """The owner tells what there is; returns the frames that were sent to the keeper until it was taken."""
        before = len(self.sent)
        await self.actors[run.partition(":")[0]].tell(run, OWNER, "offer")
        await self.settle(run)
        return [frame for _, target, frame in self.sent[before:] if target == "memory:clerk"]

    async def settle(self, run: str = RUN) -> None:
        """Until the keeper has answered."""
        async with asyncio.timeout(60):
            while self.record(run, OWNER)[0] != "home":
                await asyncio.sleep(0.001)

    def record(self, run: str, machine: str) -> Record:
        actor = self.actors["clerk" if machine == KEEPER else run.partition(":")[0]]
        return actor.table.instances[RecordKey(run, machine)].record

    def values(self, run: str, machine: str) -> dict[str, Any]:
        """Returns what a machine knows."""
        actor = self.actors["clerk" if machine == KEEPER else run.partition(":")[0]]
        held = actor.table.instances[RecordKey(run, machine)]
        return held.core.view(held.record)

    def same(self, run: str = RUN) -> bool:
        """Returns whether the keeper knows what the owner says."""
        return self.values(run, KEEPER) == self.values(run, OWNER)

    async def receive(self, *frames: bytes) -> list[Reply]:
        """Frames come to the keeper."""
        return [await self.actors["clerk"].receive(frame) for frame in frames]


def size(frames: Sequence[bytes]) -> int:
    return sum(map(len, frames))


@asynccontextmanager
async def estate(program: Program) -> AsyncIterator[Estate]:
    found = Estate(program)
    await found.start(*ROLES)
    try:
        yield found
    finally:
        for actor in found.actors.values():
            await actor.kill()
