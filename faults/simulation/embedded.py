"""The actors of a system in the process of a test that is no coroutine, for integration tests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, Generic, TypeVar

from leasehold.faults.simulation.cluster import SystemCluster
from leasehold.faults.simulation.loop import VirtualLoop
from leasehold.impl.actor.environment import ActorError, Environment
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.core.core import Program
from leasehold.impl.core.values import to_plain
from leasehold.impl.driven import DrivenActors
from leasehold.impl.handlers.handler import Handler, NullHandler
from leasehold.impl.store.store import RecordKey
from leasehold.impl.words import check_name
from leasehold.spec import System, load_for_run
from leasehold.spec.language.model import Call

T = TypeVar("T")
C = TypeVar("C", bound=SystemCluster)


class Embedded(DrivenActors, Generic[C]):
    """Actors in the test's process, driven by a test that is no coroutine.

    Args:
        cluster: not started yet.
        system: of the actors.
        loop: drives them; left out: asyncio's own, on which handlers, stores and policies may be real. On a
            `VirtualLoop`, which a schedule brings, nothing waits for real time, and a run depends on what it is given
            alone.
    """

    def __init__(self, cluster: C, system: System, loop: asyncio.AbstractEventLoop | None = None) -> None:
        if cluster.schedule is not None and loop is None:
            loop = VirtualLoop()  # type: ignore[abstract]
        self._loop = loop or asyncio.new_event_loop()
        self.cluster, self._system = cluster, system
        self._run(cluster.__aenter__())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)

    def _settled(self, ask: Callable[[], Awaitable[Any]], done: Callable[[], bool] = lambda: False) -> None:
        """Asks for something, and waits until nothing is left to do.

        Args:
            ask: asks; again, where its actor has crashed by its schedule.
            done: returns whether what was asked for is durable, though nobody was told.
        """

        async def work() -> None:
            while not done():
                try:
                    await ask()
                    break
                except ActorError:
                    if not await self.cluster.revive():
                        raise
            await self.cluster.settle()

        self._run(work())

    @property
    def system(self) -> System:
        """The specification with its constants."""
        return self._system

    @property
    def program(self) -> Program:
        """The system, compiled."""
        return self.cluster.program

    @property
    def names(self) -> Iterable[str]:
        """The names of the actors."""
        return self.cluster.roles

    @property
    def tick(self) -> int:
        """The tick of the actors' clocks, as their events have it."""
        return self.cluster.time.now

    @property
    def now(self) -> int:
        """The clock."""
        return self.cluster.time.now

    def advance(self, ticks: int = 1) -> None:
        """Moves the clock; comes back when nothing is left to do at that time."""
        self._run(self.cluster.advance(ticks))

    def probe(self, actor: str) -> None:
        """An actor's probes ask for all machines that are up, once; comes back when nothing is left to do."""
        self._settled(self.cluster.actors[check_name("actor", actor, self.cluster.roles)].probes.round)

    def crash(self, actor: str, restart: bool = True) -> None:
        """Ends an actor as a power cut would, and starts it again."""
        self._run(self.cluster.kill(check_name("actor", actor, self.cluster.roles)))
        if restart:
            self.restart(actor)

    def restart(self, actor: str) -> None:
        """Starts an actor that was crashed."""
        self._settled(lambda: self.cluster.restart(check_name("actor", actor, self.cluster.roles)))

    def _part(self, links: frozenset[tuple[str, str]]) -> Callable[[], None]:
        heal = self.cluster.part(links)

        async def join() -> None:
            heal()
            for sender, receiver in links:
                self.cluster.actors[sender].outbox.hurry(receiver)

        return lambda: self._settled(join)

    def _tell(self, actor: str, key: RecordKey, event: str, fields: Mapping[str, Any]) -> None:
        """A client's event for a machine of an actor."""
        cluster, before = self.cluster, len(self.cluster.disks[actor].chain())
        self._settled(
            lambda: cluster.actors[actor].tell(*key, event, fields),
            lambda: cluster.has_taken(actor, key, event, before),
        )

    def logs(self) -> dict[str, list[bytes]]:
        """Returns, by actor, its events as the lines of a file."""
        return {name: self.cluster.log(name) for name in self.cluster.roles}

    def stop(self) -> None:
        """Ends all actors."""
        self._run(self.cluster.__aexit__())
        self._loop.close()


def _null_handlers(system: System) -> dict[str, Handler]:
    """Handlers that do nothing, and succeed, for all that a system calls: those of actors that are processes."""
    tasks = [task for role in system.roles.values() for task in role.tasks.values()]
    targets = [task.target.partition(".") for task in tasks if isinstance(task, Call)]
    return {verb: NullHandler() for kind, _, verb in targets if kind == "handler"}


class EmbeddedSystem(Embedded[SystemCluster]):
    """The actors of any system: for each declared actor one, and for each machine that none plays.

    Args:
        system: a shipped system, the folder of one, or one that is loaded with its constants.
        settings: constants of the specification.
        loop: as `Embedded` takes it.
        options: of `SystemCluster`, its `schedule` among them.
    """

    def __init__(
        self,
        system: str | System,
        settings: Mapping[str, Any] | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        **options: Any,
    ) -> None:
        model = system if isinstance(system, System) else load_for_run(system, settings)
        options = {"environment": lambda name: Environment(handlers=_null_handlers(model)), **options}
        super().__init__(SystemCluster(compile_system(model), **options), model, loop)
        self._last = self.cluster.program.only_run

    def begin(self, machine: str, event: str, /, **fields: Any) -> str:
        """A client begins a run at a machine; returns its name."""
        host, players = self.cluster.host, self.cluster.players
        self._last = run = host(machine).table.new_name(host(machine).identity.name)
        self._settled(
            lambda: host(machine).begin(run, machine, event, fields, players),
            lambda: self.cluster.held(run, machine) is not None,
        )
        return run

    def tell(self, machine: str, event: str, /, run: str | None = None, **fields: Any) -> None:
        """A client's event for a machine; of the last run that was begun, where none is named.

        Where a subsidiary machine, such as `unit[0]`, belongs to its actor, the run is of no interest.
        """
        actor = self.cluster.host(machine).identity.name
        self._tell(actor, self.cluster.key(run or self._last, machine), event, fields)

    def state(self, machine: str, run: str | None = None) -> str | None:
        """The state of a machine; None where its actor has none, or is down."""
        instance = self.cluster.held(run or self._last, machine)
        return None if instance is None or not self._runs_now(machine) else instance.state

    def data(self, machine: str, run: str | None = None) -> dict[str, Any]:
        """The fields of a machine."""
        instance = self.cluster.held(run or self._last, machine)
        if instance is None or not self._runs_now(machine):
            raise LookupError(f"no {machine} of {run or self._last} is there")
        kinds = {field.name: field.type for field in instance.core.fields}
        return {name: to_plain(kinds[name], value) for name, value in instance.core.view(instance.record).items()}

    def _runs_now(self, machine: str) -> bool:
        return self.cluster.host(machine).running
