"""A pytest plugin: a cluster of real actors for a test that needs leases.

    def test_my_service(leasehold_cluster):
        lease = leasehold_cluster.lease(units=2, until=30)
        leasehold_cluster.crash("site")
        assert leasehold_cluster.state(lease)["service_manager"] == "active"

The actors run in the test's own process, with a clock that the test moves; nothing waits for real time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from leasehold.impl.cluster import Cluster

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

    @property
    def now(self) -> int:
        """The clock."""
        return self.cluster.clock.now()

    def lease(self, units: int, until: int, term: int = 10) -> str:
        """Asks for units until a time, renewed in terms of so many ticks; answers the lease's name."""
        return self._run(self.cluster.lease(units, until, term))

    def flex(self, lease: str, units: int) -> None:
        """Wants another number of units, as soon as the lease can be extended."""
        self._run(self._flex(lease, units))

    async def _flex(self, lease: str, units: int) -> None:
        await self.cluster.tenant.wish("service_manager", lambda p, now: p.flex(lease, units, now=now, soon=True))
        await self.cluster.settle()

    def close(self, lease: str) -> None:
        """Ends a lease, in whatever state it is."""
        self._run(self._close(lease))

    async def _close(self, lease: str) -> None:
        await self.cluster.tenant.tell(lease, "service_manager", "close")
        await self.cluster.settle()

    def advance(self, ticks: int = 1) -> None:
        """Moves the clock; comes back when nothing is left to do at that time."""
        self._run(self.cluster.advance(ticks))

    def crash(self, actor: str, restart: bool = True) -> None:
        """Ends an actor (`tenant`, `broker`, `site`) as a power cut would, and starts it again."""
        self._run(self.cluster.kill(actor))
        if restart:
            self.restart(actor)

    def restart(self, actor: str) -> None:
        """Starts an actor that was crashed."""
        self._run(self._again(actor))

    async def _again(self, actor: str) -> None:
        await self.cluster.start(actor)
        await self.cluster.settle()

    def state(self, lease: str) -> dict[str, str | None]:
        """The state of the lease's machine at each role; None where it has none."""
        return dict(zip(("service_manager", "broker", "authority"), self.cluster.state(lease), strict=True))

    def units(self) -> set[str]:
        """The units of the site that are up."""
        up: set[str] = self.cluster.handler.world.on()
        return up

    def stop(self) -> None:
        """Ends all actors."""
        self._run(self.cluster.__aexit__())
        self._loop.close()


@pytest.fixture
def leasehold_cluster() -> Iterator[EmbeddedCluster]:
    """A service manager, a broker and a site of four units, with a clock that the test moves."""
    cluster = EmbeddedCluster()
    yield cluster
    cluster.stop()


@pytest.fixture
def leasehold_cluster_of() -> Iterator[Any]:
    """Makes clusters of other sizes: `leasehold_cluster_of(units=6)`."""
    made: list[EmbeddedCluster] = []

    def make(units: int, **options: Any) -> EmbeddedCluster:
        made.append(EmbeddedCluster(units, **options))
        return made[-1]

    yield make
    for cluster in made:
        cluster.stop()
