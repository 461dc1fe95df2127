"""A pytest plugin: real actors of any system for a test.

    def test_my_election(leasehold_system):
        ring = leasehold_system("examples/ring")
        ring.tell("node[1]", "enter", after="node[0]")
        ring.crash("node-0")
        assert ring.state("node[1]") == "idle"

    def test_my_service(leasehold_cluster):
        lease = leasehold_cluster.lease(units=2, until=30)
        leasehold_cluster.crash("site")
        assert leasehold_cluster.state(lease)["service_manager"] == "active"

The actors run in the test's own process, with a clock that the test moves, and nothing waits for real time. With
`pytest --leasehold-cluster=processes`, or for one test `@pytest.mark.leasehold_cluster(processes=True)`, the same test
has processes with SQLite files, HTTP and units that are processes, in real time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import pytest

if TYPE_CHECKING:
    from leasehold.impl.cluster import Cluster, SystemCluster  # noqa: F401  the first is the argument of a base class
    from leasehold.impl.process_cluster import ProcessCluster, ProcessSystem

AnyCluster: TypeAlias = "EmbeddedCluster | ProcessCluster"
AnySystem: TypeAlias = "EmbeddedSystem | ProcessSystem"
T = TypeVar("T")
C = TypeVar("C", bound="SystemCluster")


class Embedded(Generic[C]):
    """Actors in the test's process, driven by a test that is no coroutine."""

    def __init__(self, cluster: C) -> None:
        self._loop = asyncio.new_event_loop()
        self.cluster = cluster
        self._run(cluster.__aenter__())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)

    def _settled(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Asks for something, and waits until nothing is left to do."""

        async def work() -> T:
            found = await ask()
            await self.cluster.settle()
            return found

        return self._run(work())

    @property
    def now(self) -> int:
        """The clock."""
        return self.cluster.clock.now()

    def advance(self, ticks: int = 1) -> None:
        """Moves the clock; comes back when nothing is left to do at that time."""
        self._run(self.cluster.advance(ticks))

    def crash(self, actor: str, restart: bool = True) -> None:
        """Ends an actor as a power cut would, and starts it again."""
        from leasehold.impl.fleet import check_actor

        self._run(self.cluster.kill(check_actor(actor, list(self.cluster.disks))))
        if restart:
            self.restart(actor)

    def restart(self, actor: str) -> None:
        """Starts an actor that was crashed."""

        async def start() -> None:
            await self.cluster.start(actor)
            for other in self.cluster.actors.values():  # a test does not wait for their pauses
                other.outbox.hurry(actor)

        self._settled(start)

    def stop(self) -> None:
        """Ends all actors."""
        self._run(self.cluster.__aexit__())
        self._loop.close()


class EmbeddedSystem(Embedded["SystemCluster"]):
    """The actors of any system: for each declared actor one, and for each machine that none plays.

    Args:
        system: a shipped system, or the folder of one.
        settings: constants of the specification.
        options: of `SystemCluster`.
    """

    def __init__(self, system: str, settings: Mapping[str, Any] | None = None, **options: Any) -> None:
        from leasehold.impl.cluster import SystemCluster
        from leasehold.impl.compiler.program import compile_system
        from leasehold.spec import load

        super().__init__(SystemCluster(compile_system(load(system, settings)), **options))
        self._last = self.cluster.program.only_run

    def begin(self, machine: str, event: str, /, **fields: Any) -> str:
        """A client begins a run at a machine; returns its name."""
        actor = self.cluster.actors[self.cluster.players[machine]]
        self._last = actor.table.new_name(actor.identity.name)
        self._settled(lambda: actor.begin(self._last, machine, event, fields, self.cluster.players))
        return self._last

    def tell(self, machine: str, event: str, /, run: str | None = None, **fields: Any) -> None:
        """A client's event for a machine; of the last run that was begun, where none is named."""
        actor = self.cluster.actors[self.cluster.players[machine]]
        self._settled(lambda: actor.tell(run or self._last, machine, event, fields))

    def state(self, machine: str, run: str | None = None) -> str | None:
        """The state of a machine; None where its actor has none, or is down."""
        held = self.cluster.held(run or self._last, machine)
        return None if held is None or not self._runs_now(machine) else held.state

    def data(self, machine: str, run: str | None = None) -> dict[str, Any]:
        """The fields of a machine."""
        held = self.cluster.held(run or self._last, machine)
        if held is None or not self._runs_now(machine):
            raise LookupError(f"no {machine} of {run or self._last} is there")
        from leasehold.impl.core.values import to_plain

        kinds = {field.name: field.type for field in held.core.fields}
        return {name: to_plain(kinds[name], value) for name, value in held.core.view(held.record).items()}

    def _runs_now(self, machine: str) -> bool:
        return self.cluster.actors[self.cluster.players[machine]].running


class EmbeddedCluster(Embedded["Cluster"]):
    """A service manager (`tenant`), a broker and a site."""

    def __init__(self, units: int = 4, **options: Any) -> None:
        from leasehold.impl.cluster import Cluster

        super().__init__(Cluster(units, **options))

    def lease(self, units: int, until: int, term: int = 10) -> str:
        """Asks for units until a time, renewed in terms of so many ticks; returns the name of the lease."""
        return self._run(self.cluster.lease(units, until, term))

    def flex(self, lease: str, units: int) -> None:
        """Wants another number of units, as soon as the lease can be extended."""
        self._settled(lambda: self.cluster.tenant.command("service_manager", "flex", lease, units, soon=True))

    def close(self, lease: str) -> None:
        """Ends a lease, in whatever state it is."""
        self._settled(lambda: self.cluster.tenant.tell(lease, "service_manager", "close"))

    def state(self, lease: str) -> dict[str, str | None]:
        """The state of the lease's machine at each role; None where it has none."""
        from leasehold.impl.fleet import ROLES

        return dict(zip(ROLES.values(), self.cluster.state(lease), strict=True))

    def units(self) -> set[str]:
        """The units of the site that are up."""
        up: set[str] = self.cluster.handler.world.on()
        return up


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--leasehold-cluster", choices=("embedded", "processes"), default="embedded",
        help="what leasehold_cluster is: actors in this process with a hand-moved clock, or three processes",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "leasehold_cluster(units=4, processes=False, **options): what the fixture leasehold_cluster is"
    )


def _make(config: pytest.Config, units: int = 4, processes: bool | None = None, **options: Any) -> AnyCluster:
    if not _in_processes(config, processes):
        return EmbeddedCluster(units, **options)
    from leasehold.impl.process_cluster import ProcessCluster

    return ProcessCluster(units, **options)


def _in_processes(config: pytest.Config, processes: bool | None) -> bool:
    return config.getoption("--leasehold-cluster") == "processes" if processes is None else processes


@pytest.fixture
def leasehold_cluster(request: pytest.FixtureRequest) -> Iterator[AnyCluster]:
    """A service manager, a broker and a site of four units; the marker of the same name says otherwise."""
    marker = request.node.get_closest_marker("leasehold_cluster")
    cluster = _make(request.config, **(marker.kwargs if marker else {}))
    yield cluster
    cluster.stop()


@pytest.fixture
def leasehold_cluster_of(request: pytest.FixtureRequest) -> Iterator[Callable[..., AnyCluster]]:
    """Makes clusters: `leasehold_cluster_of(units=6)`, `leasehold_cluster_of(units=2, processes=True)`."""
    made: list[AnyCluster] = []

    def make(units: int, **options: Any) -> AnyCluster:
        made.append(_make(request.config, units, **options))
        return made[-1]

    yield make
    for cluster in made:
        cluster.stop()


@pytest.fixture
def leasehold_system(request: pytest.FixtureRequest) -> Iterator[Callable[..., AnySystem]]:
    """Makes the actors of any system: `leasehold_system("examples/ring", {"nodes": 3})`.

    Its arguments are those of `EmbeddedSystem`, or with `processes=True` of `ProcessSystem`.
    """
    made: list[AnySystem] = []
    marker = request.node.get_closest_marker("leasehold_cluster")
    asked = marker.kwargs.get("processes") if marker else None

    def make(
        system: str, settings: Mapping[str, Any] | None = None, processes: bool | None = asked, **options: Any
    ) -> AnySystem:
        if not _in_processes(request.config, processes):
            made.append(EmbeddedSystem(str(system), settings, **options))
        else:
            from leasehold.impl.process_cluster import ProcessSystem

            made.append(ProcessSystem(str(system), settings, **options))
        return made[-1]

    yield make
    for system in made:
        system.stop()
