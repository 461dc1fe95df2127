"""After any failure a store lets go of its lock: another copy of the actor opens it, though nobody closed the first.

The failures are put after each step that a store adds to the common part (`OwnedStore`), when it has done its work: the
worst moment, as everything is taken then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from leasehold.impl.store.owned import OwnedStore
from leasehold.impl.store.store import Batch, Busy, RecordKey, StoreError

pytestmark = pytest.mark.real_time

KEY = RecordKey("tenant:1", "m")
FAILURES: tuple[Callable[[], BaseException], ...] = (
    lambda: StoreError("an injected failure", "none is needed"),
    lambda: OSError(5, "an injected failure"),
    lambda: RuntimeError("an injected failure"),
    asyncio.CancelledError,
)


async def read(store: OwnedStore) -> None:
    async for _ in store.records():
        pass


async def read_events(store: OwnedStore) -> None:
    async for _ in store.events():
        pass


# By step, a call that takes it.
CALLS: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "_commit": lambda store: store.commit(Batch(puts={KEY: b"new"}, events=[b"new"])),
    "_page": read,
    "_metadata": lambda store: store.metadata(),
    "_event_page": read_events,
    "_event_range": lambda store: store.event_range(),
}
OPENING = ("_take", "_event_range")


def failing(store: OwnedStore, step: str, failure: Callable[[], BaseException]) -> None:
    """From now on the step fails, once it has done its work."""
    real = getattr(store, step)

    async def fails(*words: Any) -> None:
        await real(*words)
        raise failure()

    setattr(store, step, fails)


async def check_second_opener(place: Any, broken: OwnedStore) -> None:
    heir = place.store(patience=5.0)
    await heir.open("site")
    await heir.commit(Batch(puts={KEY: b"of the heir"}))
    with pytest.raises(Busy):
        await place.store(patience=0).open("site")  # it has the lock itself
    assert [body async for _, body in heir.records()] == [b"of the heir"]
    await heir.close()
    await broken.close()


@pytest.mark.parametrize("step", [*CALLS])
async def test_a_second_opener_gets_in_after_a_call_that_failed(place: Any, step: str) -> None:
    for failure in FAILURES:
        store = place.store()
        await store.open("site")
        await store.commit(Batch(puts={KEY: b"old"}, events=[b"old"]))
        failing(store, step, failure)
        with pytest.raises((StoreError, OSError, RuntimeError, asyncio.CancelledError)):
            await CALLS[step](store)
        await check_second_opener(place, store)


@pytest.mark.parametrize("step", OPENING)
async def test_a_second_opener_gets_in_after_an_opening_that_failed(place: Any, step: str) -> None:
    for failure in FAILURES:
        store = place.store()
        failing(store, step, failure)
        with pytest.raises((StoreError, OSError, RuntimeError, asyncio.CancelledError)):
            await store.open("site")
        await check_second_opener(place, store)


async def test_a_second_opener_gets_in_after_a_commit_that_the_store_itself_fails(place: Any) -> None:
    """A full disk, or a connection that the server has ended."""
    store = place.store()
    await store.open("site")
    await store.commit(Batch(puts={KEY: b"old"}))
    with await place.fail(store), pytest.raises(StoreError):
        await store.commit(Batch(puts={KEY: b"x" * 100_000}))
    await check_second_opener(place, store)


async def test_a_second_opener_gets_in_after_a_commit_that_was_cancelled(place: Any) -> None:
    """At each await of the commit."""
    for turns in range(1, 4):
        store = place.store()
        await store.open("site")
        commit = asyncio.ensure_future(store.commit(Batch(puts={KEY: b"x"})))
        for _ in range(turns):
            await asyncio.sleep(0)
        if commit.cancel():
            with pytest.raises(asyncio.CancelledError):
                await commit
            await check_second_opener(place, store)
        else:  # it was done before
            await store.close()


async def test_a_second_opener_gets_in_after_a_look_that_failed(place: Any) -> None:
    """Looking takes no lock, and keeps none."""
    store = place.store()
    failing(store, "_look", FAILURES[0])
    with pytest.raises(StoreError):
        await store.look("site")
    await check_second_opener(place, store)
