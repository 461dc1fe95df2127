"""Events in every store: appended and dropped with the records of the same commit, by consecutive positions."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from typing import Any

import pytest

from leasehold.impl.store import owned
from leasehold.impl.store.memory import Disk, MemoryStore
from leasehold.impl.store.store import (
    VALUE_BYTES,
    Batch,
    Broken,
    EventRange,
    Fenced,
    RecordKey,
    Store,
    StoreError,
    Transient,
    Unfit,
    check_batch,
)
from tests.impl.store.conftest import opened

pytestmark = pytest.mark.real_time

ONE = RecordKey("tenant:1", "authority")
DURABLE = pytest.mark.parametrize("place", ["sqlite", "postgresql", "mariadb"], indirect=True)
SHARED = pytest.mark.parametrize("place", ["postgresql", "mariadb"], indirect=True)


async def events(store: Store, after: int = 0, limit: int | None = None) -> list[tuple[int, bytes]]:
    return [item async for item in store.events(after, limit)]


async def test_events_are_there_by_position_with_the_records_of_their_commit(place: Any) -> None:
    async with opened(place) as store:
        assert (await events(store), await store.event_range()) == ([], EventRange(1, 0))
        assert len(await store.event_range()) == 0
        await store.commit(Batch(puts={ONE: b"1"}, events=[b"a", b"\0\xff'\\"]))
        await store.commit(Batch(events=[b"c"]))
        await store.commit(Batch(puts={ONE: b"2"}))
        assert await events(store) == [(1, b"a"), (2, b"\0\xff'\\"), (3, b"c")]
    async with opened(place) as store:
        await store.commit(Batch(events=[b""]))  # goes on behind those that are there
        assert await events(store) == [(1, b"a"), (2, b"\0\xff'\\"), (3, b"c"), (4, b"")]
        assert await events(store, after=2, limit=1) == [(3, b"c")]
        assert await events(store, after=4) == await events(store, limit=0) == []
        assert await store.event_range() == EventRange(1, 4)


async def test_the_oldest_are_dropped_and_the_newest_stays(place: Any) -> None:
    async with opened(place) as store:
        await store.commit(Batch(events=[b"1", b"2", b"3"]))
        for until in (3, 4, 99, -1):
            with pytest.raises(Unfit, match=f"up to {until} cannot be dropped, as 3 is the newest"):
                await store.commit(Batch(prune_events_to=until))
        await store.commit(Batch(puts={ONE: b"1"}, events=[b"4"], prune_events_to=2))
        assert (await events(store), await store.event_range()) == ([(3, b"3"), (4, b"4")], EventRange(3, 4))
        await store.commit(Batch(prune_events_to=1))  # they are gone already
        await store.commit(Batch(events=[b"5"], prune_events_to=4))
    async with opened(place) as store:
        assert (await events(store), await store.event_range()) == ([(5, b"5")], EventRange(5, 5))
        await store.commit(Batch(events=[b"6"]))
        assert await events(store, after=1) == [(5, b"5"), (6, b"6")]


@pytest.mark.parametrize("page", [1, 2, 1000])
async def test_many_events_come_in_order_page_by_page(place: Any, page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owned, "PAGE", page)
    count = 2500 if page == 1000 else 7
    large = [b"%d " % n * 300 for n in range(1, count + 1)]  # more than one statement of a writer
    async with opened(place) as store:
        await store.commit(Batch(events=large))
        assert await events(store) == list(enumerate(large, 1))
        assert await events(store, 3, count - 4) == list(enumerate(large, 1))[3:-1]
        seen = []
        async for one in store.events():
            if not seen:
                await store.commit(Batch(events=[b"later"]))  # between two pages
            seen.append(one)
        assert seen == [*enumerate(large, 1), (count + 1, b"later")]


async def test_a_failed_commit_has_appended_and_dropped_all_or_nothing(place: Any) -> None:
    async with opened(place) as store:
        await store.commit(Batch(events=[b"1", b"2"]))
        with await place.fail(store):
            with pytest.raises(StoreError) as caught:
                await store.commit(Batch(puts={ONE: b"x"}, events=[b"x" * 300_000], prune_events_to=1))
            assert type(caught.value) is Transient
        for attempt in (events(store), store.event_range()):
            with pytest.raises(Broken):
                await attempt
        await store.open("site")
        assert await events(store) == [(1, b"1"), (2, b"2")]
        await store.commit(Batch(events=[b"3"]))
        assert await events(store) == [(1, b"1"), (2, b"2"), (3, b"3")]


@SHARED
async def test_a_commit_that_was_cancelled_counts_whole_or_not_at_all(place: Any) -> None:
    """The next positions are those that follow what is there."""
    async with opened(place) as store:
        commit = asyncio.ensure_future(store.commit(Batch(puts={ONE: b"1"}, events=[b"1", b"2"])))
        while not store._turn.locked():
            await asyncio.sleep(0)
        commit.cancel()
        with pytest.raises(asyncio.CancelledError):
            await commit
        await store.open("site")
        records = [item async for item in store.records()]
        there = await events(store)
        assert (records, there) in (([], []), ([(ONE, b"1")], [(1, b"1"), (2, b"2")]))
        await store.commit(Batch(events=[b"next"]))
        assert await events(store) == [*there, (len(there) + 1, b"next")]


async def test_a_fenced_owner_appends_and_drops_nothing(place: Any) -> None:
    async with opened(place) as old:
        await old.commit(Batch(events=[b"1", b"2"]))
        await place.lose_lock(old)
        async with opened(place) as new:
            await new.commit(Batch(events=[b"3"]))
            for batch in (Batch(events=[b"late"]), Batch(prune_events_to=1)):
                with pytest.raises(Fenced):
                    await old.commit(batch)
            assert await events(new) == [(1, b"1"), (2, b"2"), (3, b"3")]


@SHARED
async def test_actors_who_share_a_database_have_events_of_their_own(place: Any) -> None:
    async with opened(place, "broker") as broker, opened(place, "site") as site:
        await broker.commit(Batch(events=[b"b1", b"b2"]))
        await site.commit(Batch(events=[b"s1"]))
        await broker.commit(Batch(prune_events_to=1))
        assert await events(broker) == [(2, b"b2")]
        assert await events(site) == [(1, b"s1")]


@DURABLE
async def test_an_event_that_was_changed_or_exchanged_is_refused(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(place) as store:
        await store.commit(Batch(events=[b"1", b"2"]))
        kept = store._event_page

        async def changed(*arguments: Any) -> Any:
            return [(at, bytes([*body[:-1], body[-1] ^ 1])) for at, body in await kept(*arguments)]

        async def exchanged(*arguments: Any) -> Any:
            (one, first), (two, second) = await kept(*arguments)
            return [(one, second), (two, first)]

        for damaged in (changed, exchanged):
            with monkeypatch.context() as patch:
                patch.setattr(store, "_event_page", damaged)
                with pytest.raises(StoreError, match=r"is damaged: 'event 1' does not fit its checksum"):
                    await events(store)


@DURABLE
async def test_a_store_of_the_version_before_gets_events_when_it_is_opened(place: Any) -> None:
    async with opened(place) as store:
        await store.commit(Batch(puts={ONE: b"1"}, metadata={"w": b"1"}))
    if place.kind == "sqlite":
        with contextlib.closing(sqlite3.connect(place.path)) as connection:
            connection.execute("DROP TABLE event")
    else:
        async with opened(place, "another"):  # whose connection can be asked
            pass
        with contextlib.suppress(TypeError):  # a statement without an answer
            await place.ask("DROP TABLE leasehold_event")
    await place.make_newer(2 if place.kind == "sqlite" else 1)
    for _ in range(2):
        async with opened(place) as store:
            await store.commit(Batch(events=[b"event"]))
            assert [item async for item in store.records()] == [(ONE, b"1")]
            assert await store.metadata() == {"w": b"1"}
    async with opened(place) as store:
        assert await events(store) == [(1, b"event"), (2, b"event")]


@pytest.mark.parametrize("event", ["text", bytearray(b"1"), b"x" * (VALUE_BYTES + 1)])
def test_an_event_that_fits_no_store_is_refused(event: Any) -> None:
    with pytest.raises(Unfit, match="the event 'of a batch'"):
        check_batch(Batch(events=[b"", event]))


async def test_events_take_room_on_a_disk() -> None:
    store = MemoryStore(Disk(capacity=4))
    await store.open("site")
    await store.commit(Batch(events=[b"12", b"34"]))
    await store.commit(Batch(events=[b"56"], prune_events_to=1))
    with pytest.raises(Transient, match="the disk is full"):
        await store.commit(Batch(events=[b"7"]))
    await store.open("site")
    assert await events(store) == [(2, b"34"), (3, b"56")]


@pytest.mark.parametrize("place", ["sqlite", "postgresql", "mariadb"], indirect=True)
async def test_events_are_looked_at_while_their_owner_goes_on(place: Any) -> None:
    looker = place.store(patience=0)
    async with opened(place) as store:
        await store.commit(Batch(puts={ONE: b"1"}, metadata={"w": b"1"}, events=[b"1", b"2"]))
        for _ in range(2):
            await looker.look("site")
            assert await events(looker, after=1) == [(2, b"2")]
            assert await looker.metadata() == {"w": b"1"}
            with pytest.raises(StoreError):
                await looker.commit(Batch(events=[b"late"]))
            await looker.close()
        await store.commit(Batch(events=[b"3"]))  # it is still its owner
    await looker.look("site")
    assert await looker.event_range() == EventRange(1, 3)
    await looker.close()
    with pytest.raises(StoreError, match="sit"):
        await looker.look("sit")
    with pytest.raises(StoreError, match="not open"):
        await events(looker)
