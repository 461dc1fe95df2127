"""Actors in one process, with a clock that is moved by hand: for tests, simulations and benchmarks.

Everything is real but the distance: compiled cores, signed messages, stores, policies. A crash loses an actor's memory
and keeps its disk.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Self

from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.environment import ActorOptions, Environment
from leasehold.impl.actor.table import BELOW, MachineInstance
from leasehold.impl.clock import HandClock
from leasehold.impl.core.core import Program
from leasehold.impl.events.lines import write_lines
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.trust import Identity, Trust, add, readdress
from leasehold.impl.store.memory import Disk, MemoryStore
from leasehold.impl.store.store import RecordKey, Store
from leasehold.impl.transport.memory import Hand, MemoryTransport, Network
from leasehold.impl.transport.transport import Transport


class SystemCluster:
    """The actors of a system in one process: one for each declared actor, and for each machine that none plays.

    Args:
        program: the compiled system.
        hand: what the network does to frames.
        store: makes the store of an actor; the same one again after a restart. Left out: in memory.
        options: of the actors.
        transport: makes the transport of an actor; left out: in memory, over `network`.
        environment: makes the policies and handlers of an actor; left out: it has none.
        players: for each machine the actor that plays it; left out: as the system declares.

    Attributes:
        actors: those that run, by name.
    """

    def __init__(
        self, program: Program, hand: Hand | None = None, store: Callable[[str], Store] | None = None,
        options: ActorOptions | None = None, transport: Callable[[str], Transport] | None = None,
        environment: Callable[[str], Environment] | None = None, players: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.program, self.players = program, dict(players or program.players)
        self.clock, self.network = HandClock(), Network(hand)
        self.options = options or ActorOptions(seed=0, reopen_pause=0.01)
        names = dict.fromkeys(self.players.values())
        self.disks = {name: Disk() for name in names}
        self._store = store or (lambda name: MemoryStore(self.disks[name]))
        self._transport = transport or (lambda name: MemoryTransport(self.network, name))
        self._made = environment or (lambda name: Environment())
        self._in_memory, self._in_own_stores = transport is None, store is None
        self._identities: dict[str, Identity] = {}
        for name, roles in program.roles_of(self.players).items():
            self._introduce(name, roles)
        self.actors: dict[str, Actor] = {}

    def _introduce(self, name: str, roles: tuple[str, ...]) -> None:
        """An actor has a key, and all others trust it."""
        key, address = PrivateKey.generate(), f"memory:{name}" if self._in_memory else ""
        trust = next((identity.trust for identity in self._identities.values()), Trust())
        trust = add(trust, name, ",".join(roles), key.public, address)
        self._identities[name] = Identity(name, key, trust)
        for identity in self._identities.values():
            identity.trust = trust

    def roles(self, name: str) -> tuple[str, ...]:
        """The roles that an actor plays."""
        return self._identities[name].trust.actors[name].roles

    async def __aenter__(self) -> Self:
        for name in self.disks:
            await self.start(name)
        return self

    async def __aexit__(self, *error: object) -> None:
        for actor in self.actors.values():
            await actor.stop()

    async def start(self, name: str) -> Actor:
        """Starts an actor, which recovers what its store has."""
        actor = self.actors[name] = Actor(
            self._identities[name], self.program, self.roles(name), self._store(name), self._transport(name),
            self.clock, self._environment(name), self.options,
        )  # fmt: skip
        self._publish(name, await actor.start())
        return actor

    async def join(self, machine: str, name: str = "") -> Actor:
        """A machine of a dynamic role joins, played by an actor of its own while the others run."""
        core, number = self.program.machines[machine]
        name = name or f"{core.role}-{number}"
        self.players[machine] = name
        self.disks[name] = Disk()
        self._introduce(name, (core.role,))
        return await self.start(name)

    def _environment(self, name: str) -> Environment:
        return replace(self._made(name), peers=self.players)

    def _publish(self, name: str, address: str) -> None:
        """All learn where an actor is reached: of some transports that is known only once it listens."""
        before = after = Trust()  # most share one trust set
        for identity in self._identities.values():
            if identity.trust is not before:
                before = identity.trust
                after = before if before.actors[name].address == address else readdress(before, name, address)
            identity.trust = after

    async def kill(self, name: str) -> None:
        """Ends an actor as a power cut would: its memory is lost, its disk keeps what was committed.

        Where the actor has a store of the caller's, its file or connection is let go, as a process that ends does.
        """
        await self.actors[name].kill()
        if not self._in_own_stores:
            await self.actors[name].store.close()
        self.disks[name].crash()

    def log(self, name: str) -> list[bytes]:
        """The events of an actor as the lines of a file, with a signed end; without events where its disk has none."""
        disk = self.disks[name]
        bodies = [disk.events[at] for at in sorted(disk.events)]
        return [*write_lines(name, bodies, round(time.time(), 3), key=self._identities[name].key)]

    def key(self, run: str, machine: str) -> RecordKey:
        """The key of a machine of a run, or of one that belongs to its actor."""
        return RecordKey(BELOW if self.program.machines[machine][0].of_actor else run, machine)

    def host(self, machine: str) -> Actor:
        """The actor that plays a machine."""
        return self.actors[self.program.player_of(machine, self.players)]

    def held(self, run: str, machine: str) -> MachineInstance | None:
        """A machine of a run; None where its actor has none."""
        return self.host(machine).table.instances.get(self.key(run, machine))

    async def settle(self, turns: int = 2_000) -> None:
        """Waits until nothing is left to do at this time; looked at twice, as work changes hands between two turns."""
        quiet = 0
        for _ in range(turns):
            for _ in range(5):
                await asyncio.sleep(0)
            idle = all(actor.idle for actor in self.actors.values()) and not self.network.busy
            quiet = quiet + 1 if idle else 0
            if quiet == 2:
                return
        raise TimeoutError("the cluster does not come to rest")

    async def advance(self, ticks: int = 1) -> None:
        """Moves the clock, tick by tick, and waits each time until nothing is left to do."""
        for _ in range(ticks):
            await self.clock.advance()
            await self.settle()
