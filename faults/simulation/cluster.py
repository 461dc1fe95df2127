"""Actors in one process for coroutines, on whichever loop runs them: for tests and benchmarks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Self

from leasehold.faults.simulation.network import PacketRule, SimulatedNetwork
from leasehold.faults.simulation.system import LocalSystem
from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.environment import ActorOptions, Environment
from leasehold.impl.core.core import Program
from leasehold.impl.store.store import Store
from leasehold.impl.transport.limits import LIMITS
from leasehold.impl.transport.transport import Transport


class SystemCluster(LocalSystem[Actor]):
    """The actors of a system in one process, started by `async with`.

    Args:
        program: the compiled system.
        rule: returns what the network does to each packet; left out: its `conditions` do, which are without faults.
        store: makes the store of an actor; the same one again after a restart. Left out: in memory.
        options: of the actors.
        transport: makes the transport of an actor; left out: over `network`.
        environment: makes the policies and handlers of an actor; left out: it has none.
        players: for each machine the actor that plays it; left out: as the system declares.
        seed: of keys and of the network.
    """

    def __init__(
        self,
        program: Program,
        rule: PacketRule | None = None,
        store: Callable[[str], Store] | None = None,
        options: ActorOptions | None = None,
        transport: Callable[[str], Transport] | None = None,
        environment: Callable[[str], Environment] | None = None,
        players: Mapping[str, str] | None = None,
        seed: int = 0,
    ) -> None:
        network = SimulatedNetwork(seed, LIMITS, rule, tells_losses=True)  # nobody waits for what time takes away
        super().__init__(program, players or program.players, network, Actor, seed, store, transport)
        self.options = options or ActorOptions(seed=0, reopen_pause=0.01)
        self._made = environment or (lambda name: Environment())

    async def __aenter__(self) -> Self:
        for name in self.roles:
            await self.start(name)
        return self

    async def __aexit__(self, *error: object) -> None:
        for actor in self.actors.values():
            await actor.stop()

    async def start(self, name: str) -> Actor:
        """Starts an actor, which recovers what its store has."""
        return await self._start(name)

    async def join(self, machine: str, name: str = "") -> Actor:
        """A machine of a dynamic role joins, played by an actor of its own while the others run."""
        return await self.start(self._join(machine, name))

    def _options(self, name: str) -> ActorOptions:
        return self.options

    def _environment(self, name: str) -> Environment:
        return replace(self._made(name), peers=self.players)

    async def kill(self, name: str) -> None:
        """Ends an actor as a power cut would: its memory is lost, its disk keeps what was committed.

        Where the actor has a store of the caller's, its file or connection is let go, as a process that ends does.
        """
        actor = self.actors[name]
        self._cut_off(name, actor)
        await actor.kill()
        if not self._simulates_stores:
            await actor.store.close()

    def host(self, machine: str) -> Actor:
        """The actor that plays a machine."""
        return self.actors[self.program.player_of(machine, self.players)]

    async def settle(self, turns: int = 2_000) -> None:
        """Waits until nothing is left to do at this time; looked at twice, as work changes hands between two turns.

        Raises:
            TimeoutError: that does not come.
        """
        quiet = 0
        for _ in range(turns):
            for _ in range(5):
                await asyncio.sleep(0)
            await self.network.arrivals()
            idle = all(actor.idle for actor in self.actors.values()) and not self.network.busy
            quiet = quiet + 1 if idle else 0
            if quiet == 2:
                return
        raise TimeoutError("the cluster does not come to rest")

    async def advance(self, ticks: int = 1) -> None:
        """Time passes, tick by tick; waits each time until nothing is left to do."""
        for _ in range(ticks):
            await self.time.elapse()
            await self.settle()
