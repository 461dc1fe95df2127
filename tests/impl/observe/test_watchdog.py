"""A loop that stands still is said, counted, and shown to whoever asks for the actor's health."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from leasehold.impl.actor.environment import ActorOptions
from leasehold.impl.lease.fleet import SITE
from leasehold.impl.observe.watch import Watch, watch
from leasehold.impl.observe.watchdog import Watchdog
from leasehold.impl.store.memory import MemoryStore
from leasehold.impl.store.store import Batch, StoreError
from tests.impl.observe.test_watch import free_port
from tests.waiting import until

LIMIT = 0.2


class Disk:
    """What the site's store does with a commit."""

    def __init__(self) -> None:
        self.full, self.free = False, asyncio.Event()
        self.free.set()


@asynccontextmanager
async def site(watched: Any) -> AsyncIterator[tuple[Any, Watch, Disk, str]]:
    """A cluster, the watch of its site, its disk, and where its health is asked for."""
    disk, watches = Disk(), dict[str, Watch]()

    class Held(MemoryStore):
        async def commit(self, batch: Batch) -> None:
            await disk.free.wait()
            if disk.full:
                raise StoreError("no space left on the disk")
            await super().commit(batch)

    cluster = watched(
        lambda actor: watches.update({actor.identity.name: watch(actor)}),
        store=lambda name: (Held if name == SITE else MemoryStore)(cluster.disks[name]),
        options=ActorOptions(seed=0, reopen_pause=0.01),
    )
    async with cluster as c:
        seen = watches[SITE]
        seen.watchdog.limit = LIMIT
        seen.watchdog.start()
        place = f"127.0.0.1:{free_port()}"
        end = await seen.serve(place)
        yield c, seen, disk, place
        await end()
        seen.close()


async def asked(place: str, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as client, client.get(f"http://{place}/{path}") as answer:
        return answer.status, (await answer.text()).strip()


def blocks_everything() -> None:
    time.sleep(5 * LIMIT)


@pytest.mark.real_time
async def test_a_blocked_event_loop_is_said_with_its_stack(watched: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "leasehold.watchdog")
    async with site(watched) as (_, seen, _, place):
        await asyncio.sleep(2 * LIMIT)
        assert seen.watchdog.stalls == 0
        asyncio.get_running_loop().call_soon(blocks_everything)
        await until(lambda: "goes on, after" in caplog.text)
        assert seen.watchdog.stalls == 1
        assert await asked(place, "healthz") == (200, "ok")
        assert b"leasehold_loop_stalls_total 1.0" in seen.metrics.render()
    said = [record.getMessage() for record in caplog.records if record.name == "leasehold.watchdog"]
    assert said[0].startswith("the loop of site is blocked, for 0.")
    assert "in blocks_everything" in said[0]
    assert len(said) == 2


@pytest.mark.real_time
async def test_a_turn_that_does_not_end_is_said_once_with_what_it_awaits(
    watched: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "leasehold.watchdog")
    async with site(watched) as (c, seen, disk, place):
        disk.free.clear()
        await c.tenant.command("service_manager", "demand", "tenant:1", 1, 30, 10)
        await until(lambda: seen.watchdog.stalls)
        status, words = await asked(place, "healthz")
        assert (status, words[:34]) == (503, "the loop of site has stood still f")
        assert (await asked(place, "readyz"))[0] == 503
        assert b"\nleasehold_loop_stalled_seconds 0.0\n" not in seen.metrics.render()
        await asyncio.sleep(2 * LIMIT)
        assert seen.watchdog.stalls == 1
        disk.free.set()
        await until(lambda: not seen.watchdog.stalled_seconds)
        assert await asked(place, "healthz") == await asked(place, "readyz") == (200, "ok")
    said = [record.getMessage() for record in caplog.records if record.name == "leasehold.watchdog"]
    assert len(said) == 1
    assert "makes a turn that does not end" in said[0]
    assert "await self._take_turn()" in said[0]
    assert "await disk.free.wait()" in said[0]


@pytest.mark.real_time
async def test_a_store_that_has_failed_is_not_ready_and_needs_no_new_process(watched: Any) -> None:
    async with site(watched) as (c, seen, disk, place):
        disk.full = True
        await c.tenant.command("service_manager", "demand", "tenant:1", 1, 30, 10)
        await until(lambda: not c.site.running)
        assert await asked(place, "healthz") == (200, "ok")
        status, words = await asked(place, "readyz")
        if not c.site.running:  # it tries again and again, and for a moment it runs
            assert (status, words) == (503, "site takes no steps, as it recovers or its store has failed")
        disk.full = False
        await until(lambda: c.site.running)
        assert await asked(place, "readyz") == (200, "ok")
        assert seen.watchdog.stalls == 0


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize("still", [None, 0.5, 1.5])
def test_only_a_turn_of_an_actor_that_runs_stands_still(running: bool, still: float | None) -> None:
    """The turn in which a store has failed does not end, and is the actor's own affair."""
    began = None if still is None else time.monotonic() - still
    actor: Any = SimpleNamespace(running=running, queue=SimpleNamespace(turn_began=began))
    assert bool(Watchdog(actor, limit=1.0).stalled_seconds) is (running and still == 1.5)
