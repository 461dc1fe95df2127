"""What every store does, whatever it keeps its records in: one suite for all of them (paper, sections 3.3 and 4.2)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

import pytest

from leasehold.impl.store import mariadb, owned, postgresql
from leasehold.impl.store.store import (
    LEASE_BYTES,
    NAME_BYTES,
    VALUE_BYTES,
    Batch,
    Broken,
    Busy,
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

ONE, TWO = RecordKey("tenant:1", "authority"), RecordKey("tenant:1", "participant[2]")
SHARED = pytest.mark.parametrize("place", ["postgresql", "mariadb"], indirect=True)
DURABLE = pytest.mark.parametrize("place", ["sqlite", "postgresql", "mariadb"], indirect=True)


async def everything(store: Store) -> list[tuple[RecordKey, bytes]]:
    return [item async for item in store.records()]


async def test_what_was_committed_is_there_after_reopening(place: Any) -> None:
    async with opened(place) as store:
        assert await everything(store) == []
        assert await store.metadata() == {}
        await store.commit(Batch(puts={TWO: b"2", ONE: b"\0\xff'\\"}, metadata={"clock": b"17"}))
        assert await everything(store) == [(ONE, b"\0\xff'\\"), (TWO, b"2")]
    async with opened(place) as store:
        assert await everything(store) == [(ONE, b"\0\xff'\\"), (TWO, b"2")]
        assert await store.metadata() == {"clock": b"17"}
        assert all(isinstance(key, RecordKey) for key, _ in await everything(store))


@DURABLE
@pytest.mark.parametrize("read", ["_page", "_metadata"])
async def test_what_was_changed_under_it_is_refused(place: Any, read: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bit that is not as it was written; the last one of a value, which no driver looks at."""
    async with opened(place) as store:
        await store.commit(Batch(puts={ONE: b"1"}, metadata={"clock": b"17"}))
        kept = getattr(store, read)

        async def damaged(*arguments: Any) -> list[tuple[Any, ...]]:
            return [(*key, bytes([*value[:-1], value[-1] ^ 1])) for *key, value in await kept(*arguments)]

        monkeypatch.setattr(store, read, damaged)
        with pytest.raises(StoreError, match="is damaged"):
            await (everything(store) if read == "_page" else store.metadata())


async def test_a_later_commit_overwrites_and_drops(place: Any) -> None:
    async with opened(place) as store:
        await store.commit(Batch(puts={ONE: b"old", TWO: b"2"}, metadata={"a": b"1", "b": b"1"}))
        await store.commit(
            Batch(puts={ONE: b""}, drops=[TWO, RecordKey("never", "there")], metadata={"a": b"", "c": b"3"})
        )
        assert await everything(store) == [(ONE, b"")]  # an empty record is a record
        assert await store.metadata() == {"b": b"1", "c": b"3"}  # an empty word is none
        await store.commit(Batch(drops={ONE}, metadata={"b": b"", "c": b"", "d": b""}))
        assert await everything(store) == []
        assert await store.metadata() == {}


async def test_an_empty_batch_changes_nothing(place: Any) -> None:
    async with opened(place) as store:
        await store.commit(Batch(puts={ONE: b"1"}))
        await store.commit(Batch())
        assert await everything(store) == [(ONE, b"1")]


WEIRD = [
    "",
    " ",
    "a",
    "a ",
    "A",
    "a\n",
    "\t",
    "\x01",
    "%s %(a)s {0} ?",
    "it's",
    '"quoted"',
    "\\",
    "'; DROP TABLE record; --",
    "ä",
    "a\u0308",
    "ß",
    "ss",
    "日本語",
    "\ufffd",
    "\uffff",
    "\U0001f600",
    "\U0010ffff",
    "x" * NAME_BYTES,
]


async def test_any_text_without_nul_is_a_key_and_order_is_that_of_characters(place: Any) -> None:
    keys = [RecordKey(lease, machine) for lease in WEIRD for machine in WEIRD] + [
        RecordKey("é" * (LEASE_BYTES // 2), "authority")
    ]
    async with opened(place) as store:
        await store.commit(Batch(puts={key: repr(key).encode() for key in keys}))
        assert await everything(store) == [(key, repr(key).encode()) for key in sorted(keys)]
        words = {word: word.encode() for word in WEIRD if word}
        await store.commit(Batch(metadata=words, drops=keys[::2]))
        assert await store.metadata() == words
        assert [key for key, _ in await everything(store)] == sorted(keys[1::2])


@pytest.mark.parametrize(
    ("batch", "complaint"),
    [
        (Batch(puts={RecordKey("a\0b", "m"): b""}), "the lease of a key 'a\\x00b' contains NUL"),
        (Batch(drops=[RecordKey("a", "\0")]), "the machine of a key '\\x00' contains NUL"),
        (Batch(metadata={"\0": b"1"}), "the name of a word '\\x00' contains NUL"),
        (Batch(puts={RecordKey("\ud800", "m"): b""}), "half a character"),
        (Batch(puts={RecordKey("é" * (LEASE_BYTES // 2) + "x", "m"): b""}), f"has {LEASE_BYTES + 1} bytes"),
        (Batch(puts={RecordKey("a", "x" * (NAME_BYTES + 1)): b""}), f"has {NAME_BYTES + 1} bytes"),
        (Batch(metadata={"": b"1"}), "the name of a word is empty"),
        (Batch(puts={ONE: b"x" * (VALUE_BYTES + 1)}), f"more than {VALUE_BYTES}"),
        (Batch(puts={ONE: "text"}), "is not bytes but str"),  # type: ignore[dict-item]
        (Batch(puts={RecordKey(17, "m"): b""}), "is no text but int"),  # type: ignore[arg-type]
        (Batch(puts={ONE: b"1"}, drops=[ONE]), "both puts and drops the record of 'tenant:1, authority'"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
async def test_what_fits_no_store_is_refused_and_breaks_nothing(place: Any, batch: Batch, complaint: str) -> None:
    async with opened(place) as store:
        await store.commit(Batch(puts={ONE: b"0", TWO: b"0"}))
        with pytest.raises(Unfit) as caught:
            await store.commit(Batch({TWO: b"9", **batch.puts}, batch.drops, {"w": b"9", **batch.metadata}))
        assert complaint in caught.value.reason
        assert caught.value.remedy
        assert await everything(store) == [(ONE, b"0"), (TWO, b"0")]
        assert await store.metadata() == {}


TEXTS: list[tuple[Any, str]] = [
    ("a\0", "contains NUL"),
    ("\udfff", "contains half a character"),
    ("é\ud800", "contains half a character"),
    (b"a", "is no text but bytes"),
    (17, "is no text but int"),
]
VALUES: list[tuple[Any, str]] = [
    (b"x" * (VALUE_BYTES + 1), f"has {VALUE_BYTES + 1} bytes, more than {VALUE_BYTES}"),
    ("x", "is not bytes but str"),
    (bytearray(b"x"), "is not bytes but bytearray"),
    (None, "is not bytes but NoneType"),
]
PARTS: list[tuple[str, int, Callable[[Any], Batch]]] = [
    ("the lease of a key", LEASE_BYTES, lambda text: Batch(puts={ONE: b"", RecordKey(text, "m"): b""})),
    ("the machine of a key", NAME_BYTES, lambda text: Batch(puts={ONE: b"", RecordKey("a", text): b""})),
    ("the lease of a key", LEASE_BYTES, lambda text: Batch(drops=[ONE, RecordKey(text, "m")])),
    ("the machine of a key", NAME_BYTES, lambda text: Batch(drops=[ONE, RecordKey("a", text)])),
    ("the name of a word", NAME_BYTES, lambda text: Batch(metadata={"a": b"", text: b""})),
]


@pytest.mark.parametrize(("what", "limit", "batch"), PARTS, ids=["put", "put of", "drop", "drop of", "word"])
def test_every_text_of_a_batch_is_looked_at(what: str, limit: int, batch: Callable[[Any], Batch]) -> None:
    check_batch(batch("x" * limit))
    check_batch(batch("é" * (limit // 2)))
    too_long = [("x" * (limit + 1), f"has {limit + 1} bytes"), ("é" * (limit // 2 + 1), f"more than {limit}")]
    for text, complaint in (*TEXTS, *too_long):
        with pytest.raises(Unfit, match=f"{what}.* {complaint}") as unfit:
            check_batch(batch(text))
        assert unfit.value.remedy


@pytest.mark.parametrize(("value", "complaint"), VALUES, ids=[complaint for _, complaint in VALUES])
def test_every_value_of_a_batch_is_looked_at(value: Any, complaint: str) -> None:
    for what, batch in (
        ("the record of 'a, m'", Batch(puts={ONE: b"", RecordKey("a", "m"): value})),
        ("the word 'w'", Batch(metadata={"v": b"", "w": value})),
    ):
        with pytest.raises(Unfit, match=f"{what} {complaint}") as unfit:
            check_batch(batch)
        assert unfit.value.remedy


@pytest.mark.parametrize("size", [1, 37, 38, 39, 40, 41, 42, 300])
def test_of_a_long_key_a_part_is_told(size: int) -> None:
    """So that an operator can tell which it is, and a log takes it."""
    text = "k" * size
    with pytest.raises(Unfit) as unfit:
        check_batch(Batch(puts={RecordKey(text, "m"): b""}, drops=[RecordKey(text, "m")]))
    shown = unfit.value.reason.partition("the record of '")[2].removesuffix("'")
    whole = f"{text}, m"
    assert shown == (whole if len(whole) <= 40 else f"{whole[:37]}...")


def test_a_key_that_is_both_put_and_dropped_is_told() -> None:
    both = [RecordKey("b", "m"), RecordKey("a", "m"), RecordKey("c", "n")]
    with pytest.raises(Unfit, match="both puts and drops the record of 'a, m'; do one of the two"):
        check_batch(Batch(puts=dict.fromkeys(both, b""), drops=[*both[:2], RecordKey("d", "m")]))
    check_batch(Batch(puts={both[0]: b""}, drops=both[1:], metadata={"b": b""}))


@pytest.mark.parametrize("owner", ["", "a\0b", "x" * (NAME_BYTES + 1)])
def test_an_actor_needs_a_name_that_can_be_kept(place: Any, owner: str) -> None:
    with pytest.raises(Unfit, match="the actor's name"):
        asyncio.run(place.store().open(owner))


async def test_values_of_several_megabytes(place: Any) -> None:
    large = bytes(range(256)) * (VALUE_BYTES // 256)
    async with opened(place) as store:
        await store.commit(Batch(puts={ONE: large, TWO: large[::-1]}, metadata={"large": large}))
    async with opened(place) as store:
        assert await everything(store) == [(ONE, large), (TWO, large[::-1])]
        assert await store.metadata() == {"large": large}


async def test_many_records_in_one_batch_and_reading_them(place: Any) -> None:
    """More than one page of a reader, and more than one statement of a writer."""
    records = {RecordKey(f"tenant:{n}", "authority"): b"%d" % n * 100 for n in range(3500)}
    async with opened(place) as store:
        await store.commit(Batch(puts=records))
        assert await everything(store) == sorted(records.items())
        await store.commit(Batch(drops=list(records)[500:]))  # what is left is one page exactly, and half of one
        assert await everything(store) == sorted(list(records.items())[:500])
        await store.commit(Batch(puts=dict(list(records.items())[:1000])))
        assert await everything(store) == sorted(list(records.items())[:1000])


async def test_a_reader_may_stop_half_way_and_commits_may_come_in_between(place: Any) -> None:
    records = {RecordKey(f"tenant:{n:04}", "authority"): b"1" for n in range(2500)}
    last = max(records)
    async with opened(place) as store:
        await store.commit(Batch(puts=records))
        async for _ in store.records():
            break
        seen = {}
        async for key, body in store.records():
            if not seen:
                await store.commit(Batch(puts={last: b"2"}, drops=[min(records)]))
            seen[key] = body
        assert seen == {**records, last: b"2"}
        assert await everything(store) == sorted({**records, last: b"2"}.items())[1:]


async def test_tasks_of_one_actor_take_turns(place: Any) -> None:
    async with opened(place) as store:
        commits = [store.commit(Batch(puts={RecordKey(f"tenant:{n}", "m"): b"%d" % n})) for n in range(20)]
        await asyncio.gather(*commits, store.metadata(), everything(store))
        assert len(await everything(store)) == 20


async def test_epochs_rise_with_each_opening(place: Any) -> None:
    store = place.store()
    epochs = [await store.open("site"), await store.open("site")]  # opening an open store gives it up first
    await store.close()
    epochs.append(await store.open("site"))
    await store.close()
    other = place.store()
    epochs.append(await other.open("site"))
    await other.close()
    assert epochs == sorted(set(epochs))
    assert epochs[0] > 0


async def test_a_second_owner_is_kept_out_while_the_first_lives(place: Any) -> None:
    async with opened(place) as first:
        second = place.store(patience=0)
        with pytest.raises(Busy, match="in use by another copy of the actor 'site'") as caught:
            await second.open("site")
        assert caught.value.remedy.startswith("stop that copy" if place.durable else "stop the other copy")
        await second.close()
        await first.commit(Batch(puts={ONE: b"1"}))
        with pytest.raises(Busy):  # who was kept out has not opened the door by going
            await second.open("site")
    await second.open("site")
    assert await everything(second) == [(ONE, b"1")]
    await second.close()


async def test_who_lost_the_store_to_a_newer_owner_changes_nothing(place: Any) -> None:
    """Where the lock was lost with its owner alive, the epoch holds."""
    async with opened(place) as old:
        await old.commit(Batch(puts={ONE: b"old"}, metadata={"w": b"old"}))
        await place.lose_lock(old)
        async with opened(place) as new:
            await new.commit(Batch(puts={TWO: b"new"}))
            late = Batch(puts={ONE: b"late"}, drops=[TWO], metadata={"w": b"late"})
            for _ in range(2):  # and it stays so
                with pytest.raises(Fenced, match="newer owner, of epoch") as caught:
                    await old.commit(late)
                assert caught.value.remedy == "stop this copy of the actor"
            for attempt in (old.metadata(), everything(old)):
                with pytest.raises(Fenced):
                    await attempt
            await new.commit(Batch())
            assert await everything(new) == [(ONE, b"old"), (TWO, b"new")]
            assert await new.metadata() == {"w": b"old"}


@SHARED
async def test_an_actor_that_is_no_longer_in_the_database_is_fenced(place: Any) -> None:
    """Somebody has removed it: what it would write would be nobody's."""
    async with opened(place) as store:
        await store.commit(Batch(puts={ONE: b"1"}))
        await place.ask("DELETE FROM leasehold_actor")
        with pytest.raises(Fenced, match=r"is no longer ours \(epoch 1\): its actor is no longer in it"):
            await store.commit(Batch(puts={TWO: b"2"}))
        with pytest.raises(Fenced):
            await store.commit(Batch())


async def test_even_an_empty_batch_tells_who_was_fenced(place: Any) -> None:
    async with opened(place) as old:
        await place.lose_lock(old)
        async with opened(place):
            with pytest.raises(Fenced):
                await old.commit(Batch())


async def test_after_an_error_the_store_is_broken_until_it_is_opened_again(place: Any) -> None:
    """The failed batch is whole or not there; what was acknowledged before is there."""
    failing = {RecordKey(f"tenant:{n}", "m"): b"x" * 5000 for n in range(50)}
    async with opened(place) as store:
        await store.commit(Batch(puts={ONE: b"1"}, metadata={"w": b"1"}))
        with await place.fail(store):
            with pytest.raises(StoreError) as caught:
                await store.commit(Batch(puts=failing, drops=[ONE], metadata={"w": b"2"}))
            assert type(caught.value) is Transient
            assert caught.value.remedy
        for attempt in (store.commit(Batch()), store.metadata(), everything(store)):
            with pytest.raises(Broken, match="broken since an earlier error") as broken:
                await attempt
            assert caught.value.reason in broken.value.reason
        await store.open("site")
        assert await everything(store) == [(ONE, b"1")]
        assert await store.metadata() == {"w": b"1"}
        await store.commit(Batch(puts=failing))
        assert len(await everything(store)) == 51


@SHARED
async def test_a_cancelled_commit_breaks_the_store(place: Any) -> None:
    """Nobody knows how far it came; so it must not go on as if nothing had been. (The others never wait half way.)"""
    async with opened(place) as store:
        commit = asyncio.ensure_future(store.commit(Batch(puts={ONE: b"1"})))
        while not store._turn.locked():
            await asyncio.sleep(0)
        commit.cancel()
        with pytest.raises(asyncio.CancelledError):
            await commit
        with pytest.raises(Broken):
            await store.commit(Batch())
        await store.open("site")
        assert await everything(store) in ([], [(ONE, b"1")])


async def test_a_store_that_is_not_open_refuses_everything_and_closes_twice(place: Any) -> None:
    store = place.store()
    await store.close()
    await store.open("site")
    await store.close()
    await store.close()
    for attempt in (store.commit(Batch()), store.metadata(), everything(store)):
        with pytest.raises(StoreError, match="is not open; open it first"):
            await attempt


@DURABLE
async def test_a_store_of_a_newer_version_is_refused_and_stays_as_it_was(place: Any) -> None:
    async with opened(place) as store:
        await store.commit(Batch(puts={ONE: b"1"}))
    await place.make_newer()
    for _ in range(2):
        with pytest.raises(StoreError, match=r"newer Leasehold.*version 99.*run the newer Leasehold"):
            await store.open("site")
    await store.close()


@DURABLE
async def test_the_layout_s_version_is_what_it_was_and_the_next_one_is_refused(place: Any) -> None:
    """A store goes on under a newer Leasehold, and under this one if its layout is of this version."""
    version = 3 if place.kind == "sqlite" else 2
    async with opened(place) as store:
        await store.commit(Batch(puts={ONE: b"1"}))
    await place.make_newer(version + 1)
    with pytest.raises(StoreError, match=f"its layout is version {version + 1}, and this one knows {version}"):
        await place.store().open("site")
    await place.make_newer(version)
    async with opened(place) as store:
        assert await everything(store) == [(ONE, b"1")]


@SHARED
@pytest.mark.parametrize("page", [1, 1000])
async def test_actors_who_share_a_database_do_not_see_each_other(
    place: Any, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever page of its records one reads."""
    for module in (owned, postgresql, mariadb):
        monkeypatch.setattr(module, "PAGE", page)

    async with opened(place, "broker") as broker, opened(place, "site") as site:
        await asyncio.gather(
            broker.commit(Batch(puts={ONE: b"broker"}, metadata={"w": b"broker"})),
            site.commit(Batch(puts={ONE: b"site", TWO: b"site"}, metadata={"w": b"site"})),
        )
        assert await everything(broker) == [(ONE, b"broker")]
        assert await everything(site) == [(ONE, b"site"), (TWO, b"site")]
        await broker.commit(Batch(drops=[ONE, TWO]))
        await site.commit(Batch(drops=[ONE]))
        assert await everything(broker) == []
        assert await everything(site) == [(TWO, b"site")]
        await broker.commit(Batch(puts={ONE: b"broker"}))
        assert await broker.metadata() == {"w": b"broker"}


@SHARED
async def test_many_actors_may_begin_in_an_empty_database_at_once(place: Any) -> None:
    stores = [place.store() for _ in range(5)]
    try:
        epochs = await asyncio.gather(*(store.open(f"site {n}") for n, store in enumerate(stores)))
        assert epochs == [1] * 5
    finally:
        for store in stores:
            await store.close()


@pytest.mark.parametrize("place", ["memory", "sqlite"], indirect=True)
async def test_a_store_of_another_actor_is_refused(place: Any) -> None:
    async with opened(place, "broker") as store:
        await store.commit(Batch(puts={ONE: b"1"}))
    with pytest.raises(StoreError, match="belongs to the actor 'broker', not to 'brokr'"):
        await store.open("brokr")
    assert await store.open("broker") == 2
    await store.close()


@DURABLE
async def test_who_has_records_in_a_store_is_seen_without_opening_it(place: Any) -> None:
    """Whether its owner lives or not; looking changes nothing, and keeps nobody out."""
    looker = place.store(patience=0)
    names = ["broker", "site"] if place.shared else ["site"]
    for name in reversed(names):
        async with opened(place, name) as store:
            await store.commit(Batch(puts={ONE: b"1"}))
            assert await looker.owners() == names[names.index(name) :]
            await store.commit(Batch(puts={ONE: b"2"}))  # it is still its owner
    assert await looker.owners() == names
    with pytest.raises(StoreError, match="is not open"):
        await looker.metadata()
    assert await looker.open("site") == 2
    assert await looker.owners() == names  # what was open is given up
    with pytest.raises(StoreError, match="is not open"):
        await looker.metadata()
    heir = place.store(patience=0)
    assert await heir.open("site") == 3
    assert await everything(heir) == [(ONE, b"2")]
    await heir.close()


@SHARED
async def test_nobody_has_records_in_an_empty_database(place: Any) -> None:
    """And it stays empty."""
    assert await place.store().owners() == []
    query = {
        "postgresql": f"SELECT tablename FROM pg_tables WHERE schemaname = '{getattr(place, 'schema', '')}'",
        "mariadb": "SHOW TABLES",
    }
    assert not await place.ask(query[place.kind])


async def test_an_opening_that_fails_half_way_leaves_nothing_open(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever ends it: an error, or a task that was cancelled. The next one need not wait for it."""
    store = place.store(patience=0)
    taken = store._take
    for error in (StoreError("it failed"), RuntimeError("odd"), asyncio.CancelledError(), KeyboardInterrupt()):

        async def fails(owner: str, error: BaseException = error) -> int:
            await taken(owner)
            raise error

        monkeypatch.setattr(store, "_take", fails)
        with pytest.raises(type(error)):
            await store.open("site")
        with pytest.raises(StoreError, match="is not open; open it first"):
            await store.metadata()
        heir = place.store()
        await heir.open("site")
        await heir.close()
    monkeypatch.setattr(store, "_take", taken)
    assert await store.open("site") == 9
    await store.commit(Batch(puts={ONE: b"1"}))
    await store.close()


@SHARED
async def test_a_store_that_is_closed_is_free_at_once(place: Any) -> None:
    """Its next owner waits for no server that has still to notice."""
    for epoch in range(1, 6):
        store = place.store(patience=0)
        assert await store.open("site") == epoch
        await store.close()


@pytest.mark.parametrize("place", ["mariadb"], indirect=True)
async def test_the_lock_of_an_owner_is_given_up_before_its_connection(
    place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server ends a closed connection in its own time, and its locks with it."""
    store = place.store()
    await store.open("site")
    free: list[Any] = []
    end = store._connection.ensure_closed

    async def closed() -> None:
        free.extend(await place.ask(f"SELECT IS_FREE_LOCK('{store._lock}')"))
        await end()

    monkeypatch.setattr(store._connection, "ensure_closed", closed)
    assert await place.ask(f"SELECT IS_FREE_LOCK('{store._lock}')") == ((0,),)
    await store.close()
    assert free == [(1,)]


@DURABLE
async def test_a_value_in_the_place_of_another_is_refused(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of another lease, of another machine of the same lease, or of another word: each fits its own key alone."""
    other = RecordKey("tenant:2", "authority")
    async with opened(place) as store:
        for keys in ((ONE, TWO), (ONE, other)):
            puts = {key: repr(key).encode() for key in keys}
            await store.open("site")
            await store.commit(Batch(puts, [k for k in (TWO, other) if k not in keys], {"a": b"1", "b": b"2"}))
            assert await everything(store) == sorted(puts.items())
            for read in ("_page", "_metadata"):
                kept = getattr(store, read)

                async def exchanged(*arguments: Any, kept: Any = kept) -> list[tuple[Any, ...]]:
                    one, two = await kept(*arguments)
                    return [(*one[:-1], two[-1]), (*two[:-1], one[-1])]

                with monkeypatch.context() as patch:
                    patch.setattr(store, read, exchanged)
                    with pytest.raises(StoreError, match=r"is damaged: .* does not fit its checksum; put a whole"):
                        await (everything(store) if read == "_page" else store.metadata())
                await store.open("site")


async def test_all_calls_take_turns_with_one_another(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One connection does one thing at a time; so opening and closing wait for what is under way, too."""
    under_way: list[str] = []
    together: list[list[str]] = []

    def watched(store: Any, name: str) -> None:
        step = getattr(store, name)

        async def alone(*arguments: Any) -> Any:
            under_way.append(name)
            together.append(list(under_way))
            try:
                for _ in range(3):
                    await asyncio.sleep(0)
                return await step(*arguments)
            finally:
                under_way.remove(name)

        monkeypatch.setattr(store, name, alone)

    store = place.store()
    for name in ("_take", "_page", "_metadata", "_commit", "_drop", "_owners"):
        watched(store, name)
    await store.open("site")
    calls = [store.commit(Batch(puts={ONE: b"1"})), everything(store), store.metadata(), store.open("site")]
    calls += [store.commit(Batch(puts={TWO: b"2"})), store.metadata(), everything(store), store.close()]
    await asyncio.gather(*calls, *([store.owners()] if place.durable else []))
    assert [names for names in together if len(names) > 1] == []
    assert {names[0] for names in together} >= {"_take", "_page", "_metadata", "_commit", "_drop"}


def _files() -> int:
    return len(os.listdir("/proc/self/fd"))


async def test_nothing_stays_open_behind_a_store(place: Any) -> None:
    """An actor opens its store again and again while that fails: each time a file less would be the end of it."""
    store, second = place.store(patience=5), place.store(patience=0)  # a server ends connections in its own time
    await store.open("site")
    await store.close()
    before = _files()
    for _ in range(5):
        await store.open("site")
        await store.commit(Batch(puts={ONE: b"1"}))
        with pytest.raises(Busy):
            await second.open("site")
        await store.open("site")
        with await place.fail(store), pytest.raises(StoreError):
            await store.commit(Batch(puts={ONE: b"x" * 100_000}))
        if place.durable:
            await store.owners()
        await store.close()
    for _ in range(100):  # connections end in their own time
        if _files() == before:
            return
        await asyncio.sleep(0.01)
    assert _files() == before


@pytest.mark.parametrize("place", ["memory"], indirect=True)
async def test_a_disk_in_memory_is_full_when_more_is_kept_than_it_holds(place: Any) -> None:
    """Of what a commit leaves there, every byte of records and words counts, and no other."""
    place.disk.capacity = 10
    async with opened(place) as store:
        await store.commit(Batch(puts={ONE: b"12345"}, metadata={"w": b"12345"}))
        await store.commit(Batch(puts={ONE: b"54321"}))  # in place of what was there
        await store.commit(Batch(puts={TWO: b"1234567890"}, drops=[ONE], metadata={"w": b""}))
        assert await everything(store) == [(TWO, b"1234567890")]
    for more in (Batch(puts={ONE: b"1"}), Batch(metadata={"w": b"1"}), Batch(puts={TWO: b"12345678901"})):
        async with opened(place) as store:
            with pytest.raises(Transient, match="the disk is full; raise its capacity"):
                await store.commit(more)
            assert (place.disk.records, place.disk.metadata) == ({TWO: b"1234567890"}, {})
