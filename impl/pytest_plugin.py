"""A pytest plugin: a cluster of real actors for a test that needs leases.

    def test_my_service(leasehold_cluster):
        lease = leasehold_cluster.lease(units=2, until=30)
        leasehold_cluster.crash("site")
        assert leasehold_cluster.state(lease)["service_manager"] == "active"

The actors run in the test's own process, with a clock that the test moves, and nothing waits for real time. With
`pytest --leasehold-cluster=processes`, or for one test `@pytest.mark.leasehold_cluster(processes=True)`, the same test
has three processes with SQLite files, HTTP and units that are processes, in real time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import pytest

if TYPE_CHECKING:
    from leasehold.impl.cluster import Cluster
    from leasehold.impl.fleet import ProcessCluster

AnyCluster: TypeAlias = "EmbeddedCluster | ProcessCluster"
T = TypeVar("T")


class EmbeddedCluster:
    """A service manager (`tenant`), a broker and a site, driven by a test that is no coroutine."""

    def __init__(self, units: int = 4, **options: Any) -> None:
        from leasehold.impl.cluster import Cluster

        self._loop = asyncio.new_event_loop()
        self.cluster: Cluster = Cluster(units, **options)
        self._run(self.cluster.__aenter__())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)

    def _settled(self, ask: Callable[[], Awaitable[Any]]) -> None:
        """Asks for something, and waits until nothing is left to do."""

        async def work() -> None:
            await ask()
            await self.cluster.settle()

        self._run(work())

    @property
    def now(self) -> int:
        """The clock."""
        return self.cluster.clock.now()

    def lease(self, units: int, until: int, term: int = 10) -> str:
        """Asks for units until a time, renewed in terms of so many ticks; returns the name of the lease."""
        return self._run(self.cluster.lease(units, until, term))

    def flex(self, lease: str, units: int) -> None:
        """Wants another number of units, as soon as the lease can be extended."""
        self._settled(lambda: self.cluster.tenant.command("service_manager", "flex", lease, units, soon=True))

    def close(self, lease: str) -> None:
        """Ends a lease, in whatever state it is."""
        self._settled(lambda: self.cluster.tenant.tell(lease, "service_manager", "close"))

    def advance(self, ticks: int = 1) -> None:
        """Moves the clock; comes back when nothing is left to do at that time."""
        self._run(self.cluster.advance(ticks))

    def crash(self, actor: str, restart: bool = True) -> None:
        """Ends an actor (`tenant`, `broker`, `site`) as a power cut would, and starts it again."""
        from leasehold.impl.fleet import check_actor

        self._run(self.cluster.kill(check_actor(actor)))
        if restart:
            self.restart(actor)

    def restart(self, actor: str) -> None:
        """Starts an actor that was crashed."""
        self._settled(lambda: self.cluster.start(actor))

    def state(self, lease: str) -> dict[str, str | None]:
        """The state of the lease's machine at each role; None where it has none."""
        from leasehold.impl.fleet import ROLES

        return dict(zip(ROLES.values(), self.cluster.state(lease), strict=True))

    def units(self) -> set[str]:
        """The units of the site that are up."""
        up: set[str] = self.cluster.handler.world.on()
        return up

    def stop(self) -> None:
        """Ends all actors."""
        self._run(self.cluster.__aexit__())
        self._loop.close()


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
    if processes is None:
        processes = config.getoption("--leasehold-cluster") == "processes"
    if not processes:
        return EmbeddedCluster(units, **options)
    from leasehold.impl.fleet import ProcessCluster

    return ProcessCluster(units, **options)


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
