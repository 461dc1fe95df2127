"""A store whose disk is full goes on for as long as its reserve lasts, and says so; then it stops, as ever."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from leasehold.checker.recovery.processes.resources import TmpfsDisk, Unavailable
from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.server.client import ClientError
from leasehold.impl.store import sqlite
from leasehold.impl.store.owned import OwnedStore
from leasehold.impl.store.sqlite import DiskReserve, SqliteStore
from leasehold.impl.store.store import Batch, RecordKey, StoreError
from tests.impl.server.test_control import listening


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[TmpfsDisk]:
    try:
        made = TmpfsDisk(tmp_path)
    except Unavailable as missing:
        pytest.skip(str(missing))
    yield made
    made.unmount()


def batch(number: int) -> Batch:
    return Batch({RecordKey(f"a:{number % 7}", "unit"): b"x" * 500}, events=(b"e" * 100,))


@pytest.mark.real_time
async def test_a_full_disk_leaves_commits_to_end_leases_with(
    disk: TmpfsDisk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sqlite, "LOOK_SECONDS", 0.0)

    store = SqliteStore(disk.path / "a.db")
    await store.open("site")
    for number in range(20):
        await store.commit(batch(number))
    assert not store.low
    disk.fill()
    for number in range(30):
        await store.commit(batch(number))
    assert store.low

    async def use_up() -> None:
        for number in range(10_000):
            await store.commit(batch(number))

    with pytest.raises(StoreError, match="the disk is full"):
        await use_up()
    disk.empty()
    await store.open("site")
    assert (await store.event_range()).last >= 50
    await store.commit(batch(1))
    assert not store.low
    await store.close()
    said = [record.getMessage() for record in caplog.records]
    assert any("the disk is full, and the reserve is used to end leases; free some space" in words for words in said)


def written_by_another_process(path: Path, commits: int, *, closed: bool) -> None:
    """Leaves a store as a process does that has ended, or that was killed."""
    child = os.fork()
    if not child:
        code = 1
        with suppress(BaseException):

            async def story() -> None:
                store = SqliteStore(path)
                await store.open("site")
                for number in range(commits):
                    await store.commit(batch(number))
                if closed:
                    await store.close()

            asyncio.run(story())
            code = 0
        os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("closed", [False, True], ids=["killed", "closed"])
@pytest.mark.parametrize("commits", [1, 5, 60, 400, 1500])
@pytest.mark.real_time
async def test_a_store_is_opened_on_a_full_disk_and_ends_leases(disk: TmpfsDisk, commits: int, closed: bool) -> None:
    """Whatever it has left in its log: an actor that restarts while a unit has filled the disk has its reserve, too."""
    path = disk.path / "a.db"
    written_by_another_process(path, commits, closed=closed)
    disk.fill()

    store = SqliteStore(path)
    await store.open("site")
    assert (await store.event_range()).last == commits
    for number in range(20):
        await store.commit(batch(number))
    low = store.low  # not where the log, once moved, has left enough
    await store.close()

    again = SqliteStore(path)  # what was given up is given up for the next process, too
    with suppress(StoreError):  # the rest of the reserve may not be enough to open it
        await again.open("site")
        assert again.low or not low
    await again.close()
    disk.empty()
    await again.open("site")
    await again.commit(batch(1))
    assert not again.low
    assert (await again.event_range()).last == commits + 21
    await again.close()


@pytest.mark.real_time
async def test_the_log_is_no_longer_than_the_reserve_can_move(disk: TmpfsDisk) -> None:
    """A log that fits beside the file and not into it could not be opened again, whoever frees space."""

    store = SqliteStore(disk.path / "a.db")
    await store.open("site")
    longest = 0
    for number in range(1500):
        await store.commit(batch(number))
        longest = max(longest, os.stat(f"{store.path}-wal").st_size)
    assert 0 < longest < DiskReserve(Path(f"{store.path}.reserve")).held
    await store.close()


def test_the_reserve_comes_back_when_there_is_space_again(disk: TmpfsDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "LOOK_SECONDS", 0.0)
    kept = DiskReserve(disk.path / "a.reserve")
    assert kept.take()
    size = os.stat(kept.path).st_blocks
    assert size > 100
    disk.fill()
    assert kept.give_up()
    assert not kept.give_up()
    kept.take_again()
    assert kept.used
    disk.empty()
    kept.take_again()
    assert not kept.used
    assert os.stat(kept.path).st_blocks >= size // 2


@pytest.mark.real_time
async def test_space_is_found_again_where_nothing_is_committed(
    disk: TmpfsDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An actor whose disk was full refuses new leases until it is not, and may have no other work meanwhile."""
    monkeypatch.setattr(sqlite, "LOOK_SECONDS", 0.0)
    store = SqliteStore(disk.path / "a.db")
    await store.open("site")
    disk.fill()
    for number in range(30):
        await store.commit(batch(number))
    assert store.low
    disk.empty()
    assert not store.low
    await store.close()


@pytest.mark.real_time
async def test_while_a_disk_is_full_leases_end_and_none_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Cluster() as c, listening(c.tenant, c.system, tmp_path / "a.sock") as ask:
        lease = await c.lease(1, until=50)
        full = [c.tenant.store]
        monkeypatch.setattr(OwnedStore, "low", property(lambda store: store in full))
        for what, given in (
            (("demand",), {"units": 1, "until": 50, "term": 10}),
            (("leases", lease, "flex"), {"units": 2}),
            (("leases", lease, "prolong"), {"until": 70}),
        ):
            with pytest.raises(ClientError, match="store is full: leases end, and none begins; free some space"):
                await ask("post", *what, **given)
        assert (await ask("get", "about"))["low"]
        await ask("post", "leases", lease, "tell", event="close")
        await c.settle()
        assert c.state(lease)[0] == "closed"
        full[:] = [c.site.store]
        late = (await ask("post", "demand", units=1, until=50, term=10))["lease"]
        await c.settle()
        assert c.state(late)[0] != "active"
        full.clear()
        async with asyncio.timeout(30):
            while c.state(late)[0] != "active":
                await asyncio.sleep(0.1)
