"""Actors whose real stores fail under them: they stop, say so, and go on through recovery when the store is back."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from leasehold.faults.simulation.lease import Cluster
from leasehold.faults.simulation.loop import VirtualLoop
from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.environment import ActorError, ActorOptions, Backoff
from leasehold.impl.lease.fleet import BROKER, SITE, TENANT
from leasehold.impl.notices import Kind, Notice
from leasehold.impl.store.memory import MemoryStore
from leasehold.impl.store.store import RecordKey, Store
from tests.impl.actor.test_actor import commit_a_word
from tests.impl.store.conftest import _place
from tests.impl.wire import Wire, wire_to

ROLES = {TENANT: "service_manager", BROKER: "broker", SITE: "authority"}
PORTS = {"sqlite": 0, "postgresql": 5432, "mariadb": 3306}
OPTIONS = ActorOptions(seed=0, reopen_pause=0.05, backoff=Backoff(first=0.01, longest=0.05, ask_again=0.2))
NAMES = pytest.mark.parametrize("name", [TENANT, BROKER, SITE])


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    made = _place(request.param, tmp_path)
    yield made
    made.remove()


class Failure:
    """What happens to the store of an actor, and what ends it."""

    def __init__(self, place: Any, wire: Wire) -> None:
        self.place, self.wire = place, wire
        self.limit = resource.getrlimit(resource.RLIMIT_FSIZE)

    def store(self) -> Store:
        found: Store = self.place.store()
        return found

    async def begin(self, store: Any) -> None: ...

    async def end(self) -> None: ...


class NoRoom(Failure):
    """No file may be larger than a kilobyte: what a full file system does, for one process, without privileges."""

    async def begin(self, store: Any) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, self.limit[1]))

    async def end(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self.limit)


class EndedByTheServer(Failure):
    """`pg_terminate_backend`, `KILL CONNECTION`; the server takes new ones."""

    async def begin(self, store: Any) -> None:
        await self.place.fail(store)


class Cut(Failure):
    """The connection breaks, and no new one comes through."""

    def store(self) -> Store:
        found: Store = self.place.store(port=self.wire.port)
        return found

    async def begin(self, store: Any) -> None:
        self.wire.cut()

    async def end(self) -> None:
        await self.wire.mend()


async def soon(true: Callable[[], Any], limit_seconds: float = 15.0) -> None:
    async with asyncio.timeout(limit_seconds):
        while not true():
            await asyncio.sleep(0.002)


def records(actor: Actor) -> dict[RecordKey, bytes]:
    return {key: actor.rows.write(held) for key, held in actor.table.instances.items()}


def end_of(c: Cluster, lease: str) -> int:
    """The time at which a lease ends, as its site has it."""
    held = c.site.table.instances[RecordKey(lease, "authority")]
    found: int = held.core.view(held.record)["end"]
    return found


async def tick_to(c: Cluster, now: int) -> None:
    """Moves the clock, and lets those that run do what is to be done at each time."""
    while c.time.now < now:
        await c.time.elapse()
        for _ in range(2):
            await asyncio.sleep(0.01)
            await soon(lambda: all(actor.idle for actor in c.actors.values()))


async def fails_and_comes_back(c: Cluster, name: str, failure: Failure, stores: dict[str, Any]) -> None:
    """An actor's store fails when a lease is to be extended."""
    active, closed = ("active", "ticketed", "active"), ("closed", "closed", "closed")
    await c.tenant.command("service_manager", "demand", "tenant:1", 2, 25, 10)
    await soon(lambda: c.state("tenant:1") == active)
    await tick_to(c, 7)
    actor, units = c.actors[name], c.handler.world.on()
    assert (end_of(c, "tenant:1"), len(units)) == (12, 2)
    before, epoch, told = records(actor), actor.epoch, list[Notice]()
    recovered: list[dict[RecordKey, bytes]] = []
    outage: list[Kind] = []

    def hear(notice: Notice) -> None:
        told.append(notice)
        if actor.epoch == epoch and any(n.kind is Kind.STOPPED for n in told):
            outage.append(notice.kind)
        if notice.kind is Kind.RECOVERED:
            recovered.append(records(actor))

    actor.notices.subscribe(hear)
    await failure.begin(stores[name])
    try:
        second = c.tenant.command("service_manager", "demand", "tenant:2", 1, 25, 20)
        if name == TENANT:
            with pytest.raises(ActorError, match="could not be committed"):
                await second
        else:
            await second
        await soon(lambda: any(n.kind is Kind.STOPPED for n in told))
        if type(failure) is not EndedByTheServer:
            await tick_to(c, 8)  # at which the lease is to be extended
            await asyncio.sleep(5 * OPTIONS.reopen_pause)
            assert not actor.running
            assert not recovered
        assert c.handler.world.on() == units
    finally:
        await failure.end()
    await soon(lambda: actor.running)
    assert outage == [Kind.STOPPED]  # until the store was its own again it did nothing
    (stopped,) = [n for n in told if n.kind is Kind.STOPPED]
    assert str(failure.place.kind if failure.place.kind != "sqlite" else failure.place.path) in stopped.data["reason"]
    assert {key: recovered[0].get(key) for key in before} == before
    extended = lambda: c.state("tenant:1") == active and end_of(c, "tenant:1") == 22  # noqa: E731
    if name == SITE and c.time.now >= 8:
        await soon(extended)  # or the next tick would find its handlers late
    await tick_to(c, 9)
    await soon(extended)
    if name != TENANT:
        await soon(lambda: c.state("tenant:2") == active)
    assert units <= c.handler.world.on()
    await tick_to(c, 19)
    await soon(lambda: c.state("tenant:1") == active and end_of(c, "tenant:1") == 27)
    await tick_to(c, 30)
    await soon(lambda: c.state("tenant:1") == closed)
    assert c.state("tenant:2") == ((None, None, None) if name == TENANT else closed)
    assert c.handler.world.on() == set()
    assert not c.handler.world.overlaps


def play(place: Any, name: str, kind: type[Failure]) -> None:
    stores: dict[str, Any] = {}

    async def story() -> None:
        async with wire_to(PORTS[place.kind]) as wire:
            failure = kind(place, wire)
            await failure.end()

            def store(of: str) -> Store:
                stores[of] = failure.store() if of == name else MemoryStore()
                return stores[of]

            async with asyncio.timeout(60), Cluster(store=store, options=OPTIONS) as c:
                await fails_and_comes_back(c, name, failure, stores)

    asyncio.run(story())


@NAMES
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_no_room_on_the_disk(place: Any, name: str) -> None:
    play(place, name, NoRoom)


@NAMES
@pytest.mark.parametrize("place", ["postgresql", "mariadb"], indirect=True)
def test_a_connection_that_the_server_ends(place: Any, name: str) -> None:
    play(place, name, EndedByTheServer)


@NAMES
@pytest.mark.parametrize("place", ["postgresql", "mariadb"], indirect=True)
def test_a_server_that_is_away_for_a_while(place: Any, name: str) -> None:
    play(place, name, Cut)


@pytest.mark.long
@NAMES
@pytest.mark.parametrize("place", ["postgresql", "mariadb"], indirect=True)
@pytest.mark.real_time
async def test_a_store_that_another_copy_has_taken(place: Any, name: str) -> None:
    """While the other one has it the actor does nothing; when it is free again the actor goes on with what is there."""
    stores: dict[str, Any] = {}

    def store(of: str) -> Store:
        stores[of] = place.store(patience=0.5) if of == name else MemoryStore()
        return stores[of]

    async with Cluster(store=store, options=OPTIONS) as c:
        actor = c.actors[name]
        await c.tenant.command("service_manager", "demand", "tenant:1", 1, 30, 25)
        await soon(lambda: c.state("tenant:1") == ("active", "ticketed", "active"))
        await tick_to(c, 1)
        before, heir = records(actor), place.store()
        await place.fail(stores[name])
        assert await heir.open(name) == 2
        with pytest.raises(ActorError, match="could not be committed"):
            await commit_a_word(actor)
        await asyncio.sleep(1.0)  # in which it tries to come back at least once
        assert (actor.running, actor.epoch) == (False, 1)
        await heir.close()
        await soon(lambda: actor.running)
        assert (actor.epoch, records(actor)) == (3, before)
        await tick_to(c, 35)
        await soon(lambda: c.state("tenant:1") == ("closed", "closed", "closed"))


class _Odd(MemoryStore):
    """A store whose driver raises what no table knows, once at each of some steps."""

    def __init__(self, faults: set[str]) -> None:
        super().__init__()
        self.faults = faults

    def _fault(self, step: str) -> None:
        if step in self.faults:
            self.faults.remove(step)
            raise RuntimeError(f"the driver stumbles at {step}")

    async def _take(self, owner: str) -> int:
        self._fault("open")
        return await super()._take(owner)

    async def _page(self, after: RecordKey | None) -> Any:
        self._fault("records")
        return await super()._page(after)

    async def _metadata(self) -> Any:
        self._fault("words")
        return await super()._metadata()

    async def _commit(self, batch: Any) -> None:
        self._fault("commit")
        await super()._commit(batch)


@NAMES
def test_recovery_is_tried_until_it_is_done(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever is raised on the way."""
    faults: set[str] = set()

    async def story() -> None:
        made = lambda of: _Odd(faults) if of == name else MemoryStore()  # noqa: E731
        async with Cluster(store=made, options=OPTIONS) as c:
            actor = c.actors[name]
            lease = await c.lease(1, until=30, term=10)
            before = records(actor)
            faults.update({"open", "records", "words", "commit"})
            with pytest.raises(ActorError, match="the driver stumbles at commit"):
                await commit_a_word(actor)
            await soon(lambda: actor.running)
            assert not faults
            assert (actor.counts["errors"], actor.epoch, records(actor)) == (3, 4, before)
            await c.settle()
            await c.advance(20)
            assert c.state(lease) == ("active", "ticketed", "active")

    VirtualLoop().run(story())  # type: ignore[abstract]
    assert [r.getMessage() for r in caplog.records if "stops taking steps" in r.getMessage()] == [
        f"{name} stops taking steps: the driver stumbles at commit"
    ]
