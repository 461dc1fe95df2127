"""Actors in one process for coroutines, on whichever loop runs them: for tests and benchmarks.

With a schedule (schedule.py), actors crash, and messages are lost, while they work. Whoever waits until they are at
rest starts those that have crashed, and has said again at once, not after a pause, what was lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Self

from leasehold.faults.simulation.network import SCHEME, PacketRule, SimulatedNetwork
from leasehold.faults.simulation.schedule import Schedule
from leasehold.faults.simulation.system import LocalSystem
from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.environment import ActorOptions, Environment
from leasehold.impl.core.core import Program
from leasehold.impl.events.event import StepEvent, read
from leasehold.impl.notices import Notice, SimulatedCrash
from leasehold.impl.store.store import RecordKey, Store
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
        schedule: of messages and faults; with one, the network and all stores are simulated.
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
        schedule: Schedule | None = None,
    ) -> None:
        if schedule is not None:
            given = {"rule": rule, "store": store, "transport": transport}
            if taken := [name for name, value in given.items() if value is not None]:
                raise ValueError(
                    f"under a schedule {' and '.join(taken)} cannot be given: it has the network and stores"
                )
            rule = schedule.rule
        network = SimulatedNetwork(seed, LIMITS, rule, tells_losses=True)  # nobody waits for what time takes away
        super().__init__(program, players or program.players, network, Actor, seed, store, transport)
        self.schedule, self._fallen = schedule, dict[str, asyncio.Task[None]]()
        if schedule is not None:
            network.heard.append(schedule.hear_packet)
        self.options = options or ActorOptions(seed=0, reopen_pause=0.01)
        self._made = environment or (lambda name: Environment())

    async def __aenter__(self) -> Self:
        for name in self.roles:
            await self.start(name)
        return self

    async def __aexit__(self, *error: object) -> None:
        if self.schedule is not None:
            self.schedule.end()
        for actor in self.actors.values():
            await actor.stop()

    async def start(self, name: str) -> Actor:
        """Starts an actor, which recovers what its store has; one that its schedule crashes meanwhile, once more."""
        while True:
            try:
                return await self._start(name)
            except SimulatedCrash:
                await self._fallen.pop(name)

    async def restart(self, name: str) -> None:
        """Starts an actor that was there before, and has all say at once what waits for it."""
        await self.start(name)
        for other in self.actors.values():  # nobody waits for their pauses
            other.outbox.hurry(name)

    async def join(self, machine: str, name: str = "") -> Actor:
        """A machine of a dynamic role joins, played by an actor of its own while the others run."""
        return await self.start(self._join(machine, name))

    def part(self, links: Iterable[tuple[str, str]]) -> Callable[[], None]:
        """Lets no packet pass from some actors to others; returns what heals it.

        Raises:
            ValueError: the network is not simulated.
        """
        if not self._simulates_network:
            raise ValueError("these actors have a transport of their own, which cannot be cut; leave `transport` out")
        return self.network.part(links)

    def _incarnation(self, name: str) -> Actor:
        actor = super()._incarnation(name)
        if self.schedule is not None:
            actor.notices.subscribe(partial(self._strike, name, actor, self.schedule))
        return actor

    def _strike(self, name: str, actor: Actor, schedule: Schedule, notice: Notice) -> None:
        """Crashes an actor where its schedule says so; what is left of it does nothing more."""
        if name not in self._fallen:
            if not schedule.crashes_at(notice):
                return
            self._cut_off(name, actor)
            self._fallen[name] = asyncio.get_running_loop().create_task(actor.kill())
        raise SimulatedCrash

    async def revive(self) -> bool:
        """Starts the actors that the schedule has crashed; returns whether there were any."""
        fallen = list(self._fallen)
        for name in fallen:
            await self._fallen.pop(name)
            await self.restart(name)
        return bool(fallen)

    async def _catch_up(self) -> bool:
        """Does what the schedule has left to do; returns whether there was anything.

        A message that was lost, or whose receiver crashed, is on its way until it is said again.
        """
        if self.schedule is None:
            return False
        busy = await self.revive()
        up = {name: actor for name, actor in self.actors.items() if actor.running}
        for name, actor in up.items():
            for peer in actor.outbox.on_their_way():
                if peer in up and (SCHEME + name, SCHEME + peer) not in self.network.cut:
                    actor.outbox.hurry(peer)
                    busy = True
        return busy

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

    def has_taken(self, actor: str, key: RecordKey, event: str, after: int) -> bool:
        """Returns whether a machine has taken a client's event, by the events of its actor after so many."""
        events = map(read, self.disks[actor].chain()[after:])
        steps = (one.step for one in events if isinstance(one, StepEvent))
        return any((s.machine, s.event, s.cause) == (key.machine, event, "client") for s in steps)

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
            quiet = quiet + 1 if idle and not await self._catch_up() else 0
            if quiet == 2:
                return
        raise TimeoutError("the cluster does not come to rest")

    async def advance(self, ticks: int = 1) -> None:
        """Time passes, tick by tick; waits each time until nothing is left to do."""
        for _ in range(ticks):
            await self.time.elapse()
            await self.settle()
