"""The control socket of an actor: whom it lets begin what, and what becomes of it when the store or the actor goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from leasehold.faults.simulation.clock import SimulatedClock
from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.actor.actor import Actor
from leasehold.impl.clock import ActorClock, FileClock, RealClock
from leasehold.impl.server.client import Client, ClientError
from leasehold.impl.server.control import ControlSocket
from leasehold.impl.server.views import Views
from leasehold.impl.store.memory import Disk, MemoryStore
from leasehold.spec import System
from tests.impl.actor.alone import alone, program_of
from tests.impl.actor.test_timers import PAIR
from tests.systems import load


@asynccontextmanager
async def listening(actor: Actor, system: System, path: Path) -> AsyncIterator[Any]:
    """Asks the actor by its socket: `await ask("get", "leases")`."""
    control = ControlSocket(actor, Views(actor, system, 1.0))
    await control.start(path)

    async def ask(how: str, *place: str, **given: Any) -> Any:
        return await asyncio.to_thread(getattr(Client(path), how), *place, **given)

    try:
        yield ask
    finally:
        await control.close()


@pytest.mark.parametrize(
    ("lease", "taken"),
    [("tenant:7", True), ("broker:7", False), ("tenant:0", False), ("tenant", False), ("tenants:7", False)],
)
@pytest.mark.real_time
async def test_what_a_client_begins_is_named_after_the_actor(tmp_path: Path, lease: str, taken: bool) -> None:
    """Another name is refused before anything is kept: a demand of it would never begin."""

    async with Cluster() as c, listening(c.tenant, c.system, tmp_path / "a.sock") as ask:
        asked = ask("post", "demand", units=1, until=50, term=10, lease=lease)
        if taken:
            assert await asked == {"lease": lease}
            await c.settle()
            assert c.state(lease)[0] == "active"
        else:
            with pytest.raises(ClientError, match="what begins here is named tenant:NUMBER"):
                await asked
            assert (c.wish(lease), list(c.disks["tenant"].records)) == (None, [])
            assert (await ask("post", "demand", units=1, until=50, term=10))["lease"] == "tenant:1"


@pytest.mark.real_time
async def test_the_scalpel_recovers_every_machine_of_a_lease(tmp_path: Path) -> None:
    program = program_of(PAIR)
    recovered: list[tuple[str, str]] = []
    actor = alone(program, "early", MemoryStore(Disk()), {}, SimulatedClock(), "late")
    await actor.start()
    for machine in ("early", "late[0]", "late[1]"):
        await actor.begin("own:1", machine, "go", {}, {})
    await actor.begin("own:2", "early", "go", {}, {})
    recover = actor.recover
    actor.recover = lambda *key: recovered.append(key) or recover(*key)  # type: ignore[method-assign, func-returns-value]
    async with listening(actor, load(PAIR), tmp_path / "a.sock") as ask:
        found = await ask("post", "leases", "own:1", "recover")
        assert sorted(found["recovered"]) == ["early", "late[0]", "late[1]"]
        with pytest.raises(ClientError, match="there is no lease or run own:3 here"):
            await ask("post", "leases", "own:3", "recover")
    await actor.stop()
    assert sorted(recovered) == [("own:1", machine) for machine in ("early", "late[0]", "late[1]")]


@pytest.mark.real_time
async def test_while_the_store_is_broken_nobody_is_kept_waiting(tmp_path: Path) -> None:
    async with Cluster() as c, listening(c.tenant, c.system, tmp_path / "a.sock") as ask:
        lease = await c.lease(1, until=50)
        c.tenant.running = False
        assert not (await ask("get", "about"))["running"]
        for how, place, given in (
            ("get", ("leases",), {}),
            ("get", ("leases", lease), {}),
            ("get", ("states",), {}),
            ("post", ("demand",), {"units": 1, "until": 50, "term": 10}),
            ("post", ("leases", lease, "tell"), {"event": "close"}),
        ):
            with pytest.raises(ClientError, match="takes no steps at the moment, as its store has failed"):
                await ask(how, *place, **given)
        c.tenant.running = True
        assert len(await ask("get", "leases")) == 1


@pytest.mark.real_time
async def test_an_actor_removes_its_own_socket_and_no_other_one(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    async with Cluster() as c:
        async with listening(c.tenant, c.system, path):
            assert path.is_socket()
        assert not path.exists()
        async with listening(c.tenant, c.system, path):
            path.unlink()  # the next life of the actor does so, where it takes this one for dead
            async with listening(c.tenant, c.system, tmp_path / "b.sock"):
                (tmp_path / "b.sock").rename(path)
                before = path.stat().st_ino
        assert path.stat().st_ino == before


@pytest.mark.real_time
@pytest.mark.parametrize("real", [True, False])
async def test_nobody_moves_the_clock_of_an_actor_whose_time_is_real(real: bool, tmp_path: Path) -> None:
    file = tmp_path / "clock"
    file.write_text("7")
    clock: ActorClock = RealClock() if real else FileClock(file)
    actor = alone(program_of(PAIR), "early", MemoryStore(Disk()), {}, clock, "late")
    await actor.start()
    async with listening(actor, load(PAIR), tmp_path / "a.sock") as ask:
        before = (await ask("get", "about"))["now"]
        file.write_text("9")
        if real:
            with pytest.raises(ClientError, match=r"the time of own is real, and nobody moves it; only an actor with"):
                await ask("post", "clock")
            assert (await ask("get", "about"))["now"] - before in (0, 1)
        else:
            assert await ask("post", "clock") == {"now": 9}
            assert (await ask("get", "about"))["now"] == 9
            file.write_text("8")
            with pytest.raises(ClientError, match=r"clock\.file: .* has tick 8, which is before 9"):
                await ask("post", "clock")
    await actor.stop()
