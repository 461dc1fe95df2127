"""The actors of a system in one process: their names, keys and trust, and the network, disks and clocks below them.

Theory of operation. Everything is real but the distance: compiled cores, signed messages, stores, policies. There is an
actor for each that the system declares, and one for each machine of a role that no actor plays, as in the explorer.
Keys and all that is left to chance come from a seed, and time moves by hand. A crash loses what an actor has in memory,
lets nothing more out of it, and keeps its disk.

Which loop drives them is not said here. `SystemCluster` (cluster.py) is for coroutines, on whichever loop runs them:
asyncio's, where stores or transports are real, or a virtual one. `Embedded` (embedded.py) is for a test that is no
coroutine. `Simulation` (simulation.py) brings a virtual loop, and is driven from outside of it, step by step.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from leasehold.faults.simulation.clock import SimulatedClock, TrueTime
from leasehold.faults.simulation.network import SCHEME, SimulatedNetwork, SimulatedTransport
from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.environment import ActorOptions, Environment
from leasehold.impl.actor.table import BELOW, MachineInstance
from leasehold.impl.core.core import Program
from leasehold.impl.events.lines import write_lines
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.trust import Identity, Trust, add, readdress
from leasehold.impl.store.memory import Disk, MemoryStore
from leasehold.impl.store.store import RecordKey, Store
from leasehold.impl.transport.transport import Transport

A = TypeVar("A", bound=Actor)


class LocalSystem(Generic[A]):
    """The actors of a system in one process.

    Args:
        program: the compiled system.
        players: by machine, the actor that plays it.
        network: between the actors.
        actor: makes an incarnation of an actor.
        seed: of keys.
        store: makes the store of an actor, the same one again after a restart; left out: in memory, on `disks`.
        transport: makes the transport of an actor; left out: over `network`.

    Attributes:
        actors: those that were started, by name.
        roles: by actor, the roles that it plays, without subsidiary ones.
        time: true time; `clocks` has the clock of each actor.
        disks: by actor, its disk.
    """

    def __init__(
        self,
        program: Program,
        players: Mapping[str, str],
        network: SimulatedNetwork,
        actor: Callable[..., A],
        seed: int,
        store: Callable[[str], Store] | None,
        transport: Callable[[str], Transport] | None = None,
    ) -> None:
        self.program, self.players, self.network, self.seed = program, dict(players), network, seed
        self.time = TrueTime()
        self.actors: dict[str, A] = {}
        self.roles: dict[str, tuple[str, ...]] = {}
        self.disks: dict[str, Disk] = {}
        self.clocks: dict[str, SimulatedClock] = {}
        self._actor = actor
        self._store = store or (lambda name: MemoryStore(self.disks[name]))
        self._transport = transport or (lambda name: SimulatedTransport(self.network, name))
        self._simulates_network, self._simulates_stores = transport is None, store is None
        self._identities: dict[str, Identity] = {}
        roles = program.roles_of(self.players)
        for name in dict.fromkeys(self.players.values()):
            self._introduce(name, roles[name])

    @property
    def trust(self) -> Trust:
        """The trust set of those that were not given another: all trust each other."""
        return next((identity.trust for identity in self._identities.values()), Trust())

    def _introduce(self, name: str, roles: tuple[str, ...]) -> None:
        """Gives an actor a key, a disk and a clock; all others trust it."""
        key, address = _key(self.seed, name), SCHEME + name if self._simulates_network else ""
        trust = add(self.trust, name, ",".join(roles), key.public, address)
        self.roles[name], self.disks[name], self.clocks[name] = roles, Disk(), SimulatedClock(self.time)
        self._identities[name] = Identity(name, key, trust)
        for identity in self._identities.values():
            identity.trust = trust

    def _join(self, machine: str, name: str) -> str:
        """Introduces an actor that plays a machine of a dynamic role; returns its name."""
        core, number = self.program.machines[machine]
        name = name or f"{core.role}-{number}"
        self.players[machine] = name
        self._introduce(name, (core.role,))
        return name

    def _options(self, name: str) -> ActorOptions:
        """The options of one incarnation of an actor."""
        raise NotImplementedError

    def _environment(self, name: str) -> Environment:
        """The policies and handlers of one incarnation of an actor."""
        raise NotImplementedError

    def _incarnation(self, name: str) -> A:
        """An incarnation of an actor, which is not started yet."""
        return self._actor(
            self._identities[name],
            self.program,
            self.roles[name],
            self._store(name),
            self._transport(name),
            self.clocks[name],
            self._environment(name),
            self._options(name),
        )

    async def _start(self, name: str) -> A:
        """Starts an actor, which recovers what its disk has."""
        actor = self.actors[name] = self._incarnation(name)
        self._publish(name, await actor.start())
        return actor

    def _publish(self, name: str, address: str) -> None:
        """All learn where an actor is reached: of some transports that is known only once it listens."""
        before = after = Trust()  # most share one trust set
        for identity in self._identities.values():
            if identity.trust is not before:
                before = identity.trust
                after = before if before.actors[name].address == address else readdress(before, name, address)
            identity.trust = after

    def _cut_off(self, name: str, actor: A) -> None:
        """Nothing more gets out of an actor that dies, and its disk keeps what was committed."""
        if isinstance(actor.transport, SimulatedTransport):
            actor.transport.die()
        self.disks[name].crash()

    def key(self, run: str, machine: str) -> RecordKey:
        """The key of a machine of a run, or of one that belongs to its actor."""
        return RecordKey(BELOW if self.program.machines[machine][0].of_actor else run, machine)

    def held(self, run: str, machine: str) -> MachineInstance | None:
        """A machine of a run; None where its actor has none, or is not there."""
        actor = self.actors.get(self.program.player_of(machine, self.players))
        return None if actor is None else actor.table.instances.get(self.key(run, machine))

    def events(self) -> dict[str, list[bytes]]:
        """Returns, by actor, its chain: the bytes of each event that it has committed."""
        return {name: disk.chain() for name, disk in self.disks.items()}

    def log(self, name: str) -> list[bytes]:
        """The events of an actor as the lines of a file, with a signed end; without events where its disk has none."""
        return [*write_lines(name, self.events()[name], self.clocks[name].wall(), key=self._identities[name].key)]


def _key(seed: int, name: str) -> PrivateKey:
    return PrivateKey(Ed25519PrivateKey.from_private_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()))
