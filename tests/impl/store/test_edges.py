"""Edges of stores: pages, positions, sizes and waits at their bounds and one beside, each with a direct reading."""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import pytest

from leasehold.impl.store import answered, mariadb, memory, owned, postgresql, sqlite, store
from leasehold.impl.store.failures import error_of, failure_of, is_disk_full
from leasehold.impl.store.memory import Disk, MemoryStore
from leasehold.impl.store.owned import with_checksum, without_checksum
from leasehold.impl.store.sqlite import CommitPosition, DiskReserve, HighWaterMark, SqliteStore
from leasehold.impl.store.store import (
    Batch,
    Broken,
    EventRange,
    Fenced,
    RecordKey,
    StoreError,
    Transient,
    Unfit,
    check_batch,
    low_words,
    words_of,
)
from leasehold.impl.store.url import store_from_url

pytestmark = pytest.mark.real_time

KEY = RecordKey("tenant:1", "authority")


# What all stores read


@pytest.fixture
def pages_of_three(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (owned, memory, sqlite, postgresql, mariadb):
        monkeypatch.setattr(module, "PAGE", 3)


async def test_every_number_of_records_is_read_page_by_page(place: Any, pages_of_three: None) -> None:
    """Zero to seven records in pages of three: of one lease, of several, and with the same machine names."""
    keys = [RecordKey(lease, machine) for lease in ("a", "b", "c") for machine in ("m", "n", "o")]
    opened = place.store()
    await opened.open("site")
    for count in range(8):
        puts = {key: b"%d" % at for at, key in enumerate(keys[:count])}
        await opened.commit(Batch(puts=puts))
        assert [item async for item in opened.records()] == sorted(puts.items())
    await opened.close()


@pytest.mark.parametrize("first", [1, 4])
async def test_every_position_and_limit_of_events(place: Any, first: int, pages_of_three: None) -> None:
    """Events up to the ninth, all or from the fourth on, read after each position with each limit."""
    bodies = {at: b"%d" % at for at in range(1, 10)}
    opened = place.store()
    await opened.open("site")
    await opened.commit(Batch(events=[*bodies.values()]))
    if first > 1:
        await opened.commit(Batch(prune_events_to=first - 1))
    assert await opened.event_range() == EventRange(first, 9)
    assert len(await opened.event_range()) == 10 - first
    for after, limit in product(range(11), (None, *range(8))):
        expected = [(at, bodies[at]) for at in range(max(after + 1, first), 10)][:limit]
        assert [item async for item in opened.events(after, limit)] == expected, (after, limit)
    await opened.close()


@pytest.mark.parametrize("last", range(4))
@pytest.mark.parametrize("new", range(3))
async def test_every_event_but_the_newest_may_be_dropped(last: int, new: int) -> None:
    """Positions that are not there yet may not, nor the last that is there after the commit."""
    for until in range(-1, last + new + 2):
        opened = MemoryStore()
        await opened.open("site")
        if last:
            await opened.commit(Batch(events=[b"x"] * last))
        batch = Batch(events=[b"y"] * new, prune_events_to=until)
        if until == 0 or (0 < until <= last and until < last + new):
            await opened.commit(batch)
            at = [position async for position, _ in opened.events()]
            assert at == [*range(until + 1, last + new + 1)]
        else:
            with pytest.raises(Unfit, match=f"events up to {until} cannot be dropped, as {last} is the newest one"):
                await opened.commit(batch)
            assert [position async for position, _ in opened.events()] == [*range(1, last + 1)]


async def test_a_store_that_is_looked_at_changes_nothing_and_is_given_up(place: Any) -> None:
    """Looking at an actor reads all that it has; a commit fails, and so does every call after closing."""
    owner = place.store()
    await owner.open("site")
    await owner.commit(Batch({KEY: b"1"}, metadata={"w": b"2"}, events=[b"3"]))
    looker = place.store(patience=0)
    for _ in range(2):
        await looker.look("site")
        assert [item async for item in looker.records()] == [(KEY, b"1")]
        assert await looker.metadata() == {"w": b"2"}
        assert [item async for item in looker.events()] == [(1, b"3")]
    with pytest.raises(StoreError):
        await looker.commit(Batch({KEY: b"late"}))
    with pytest.raises(StoreError):  # whatever that was, it has broken the looker alone
        await looker.metadata()
    await looker.look("site")
    await looker.close()
    for call in (looker.metadata(), looker.event_range(), looker.commit(Batch())):
        with pytest.raises(StoreError, match="is not open; open it first"):
            await call
    for name in ("sit", "site "):
        with pytest.raises(StoreError, match=f"'{name}'"):
            await looker.look(name)
        with pytest.raises(StoreError, match="is not open"):
            await looker.metadata()
    await owner.commit(Batch({KEY: b"4"}))
    await owner.close()


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (Fenced("another", "stop"), Fenced, "another; stop"),
        (Transient("full", "wait"), Broken, "broken since an earlier error: full; open it again"),
        (RuntimeError("odd"), Broken, "memory: a call ended with RuntimeError('odd'); open it again"),
        (asyncio.CancelledError(), Broken, r"memory: a call ended with CancelledError\(\); open it again"),
    ],
)
async def test_a_store_says_why_it_is_broken(error: BaseException, kind: type[StoreError], words: str) -> None:
    """Again and again, with a new error each time; an argument that does not fit breaks nothing."""
    opened = MemoryStore()
    await opened.open("site")

    async def fails() -> Any:
        raise error

    opened._metadata = fails  # type: ignore[method-assign]
    with pytest.raises(type(error)):
        await opened.metadata()
    assert opened.disk.owner is None
    raised = []
    for _ in range(2):
        with pytest.raises(kind, match=words.replace("('odd')", r"\('odd'\)")) as caught:
            await opened.commit(Batch())
        assert type(caught.value) is kind
        raised.append(caught.value)
    assert raised[0] is not raised[1]


@pytest.mark.parametrize("place", ["postgresql", "mariadb"], indirect=True)
async def test_an_owner_that_goes_gives_up_its_lock_before_its_connection_ends(place: Any) -> None:
    """Its own lock alone; until then nobody else can have it."""
    owner, other = place.store(), place.store()
    await owner.open("site")
    await other.open("broker")

    async def free(lock: Any) -> bool:
        if place.kind == "postgresql":
            return bool((await place.ask(f"SELECT pg_try_advisory_lock({lock})"))[0][0])
        return bool((await place.ask(f"SELECT IS_FREE_LOCK('{lock}')"))[0][0])

    connection = owner._connection
    ends, order = owner._drop, list[bool]()

    async def drops() -> None:
        order.append(await free(owner._lock))
        order.append(await free(other._lock))
        await ends()

    assert owner._lock != other._lock
    assert not await free(owner._lock)
    owner._drop = drops  # type: ignore[method-assign]
    await owner.close()
    assert (order[:2], owner._connection) == ([True, False], None)
    assert connection is not None
    await other.commit(Batch({KEY: b"1"}))
    await other.close()


@pytest.mark.parametrize("place", ["postgresql", "mariadb"], indirect=True)
def test_an_actor_s_lock_is_of_its_name_and_its_place(place: Any) -> None:
    """Actors of one name in two databases do not keep each other out."""
    other = type(place)()

    async def run() -> None:
        one, two, third = place.store(), other.store(), place.store()
        assert [await one.open("site"), await two.open("site"), await third.open("sit")] == [1, 1, 1]
        assert len({one._lock, two._lock, third._lock}) == 3
        for opened in (one, two, third):
            await opened.close()

    try:
        asyncio.run(run())
    finally:
        other.remove()


# Limits and words


def test_a_batch_s_values_may_be_as_large_as_all_stores_take() -> None:
    """One byte more is refused in each place; so large a value, written twice as long, fits a statement."""
    most = b"x" * store.VALUE_BYTES
    places: list[tuple[str, Any]] = [
        ("the record of", lambda body: Batch(puts={KEY: body})),
        ("the word", lambda body: Batch(metadata={"w": body})),
        ("the event", lambda body: Batch(events=[body])),
    ]
    for what, batch in places:
        check_batch(batch(most))
        with pytest.raises(Unfit, match=f"{what} .* has {store.VALUE_BYTES + 1} bytes, more than {store.VALUE_BYTES}"):
            check_batch(batch(most + b"x"))
    assert (store.LEASE_BYTES, store.NAME_BYTES, store.VALUE_BYTES) == (1024, 255, 6291456)
    assert 2 * store.VALUE_BYTES + store.LEASE_BYTES + store.NAME_BYTES < mariadb._PACKET_BYTES == 16 << 20
    assert mariadb._STATEMENT_BYTES == 1 << 20


def test_waits_and_pages_are_as_they_are_described() -> None:
    """An earlier owner is waited for two seconds, a server's answer a minute."""
    for url in ("postgresql://db/leases", "mariadb://db/leases"):
        made: Any = store_from_url(url)
        assert made.patience == 2.0
    assert answered.AsyncAnsweredConnection.answer_seconds == mariadb._ANSWER_SECONDS == 60.0
    assert sqlite._WAIT_SECONDS == 2.0
    assert owned.PAGE == 1000
    assert (sqlite.RESERVE_BYTES, sqlite.RESERVE_PART, sqlite.LOOK_SECONDS) == (4194304, 8, 5.0)
    assert postgresql._SETTINGS == {
        "application_name": "leasehold",
        "connect_timeout": 10,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 30000,
    }


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("postgres://db/x", "postgresql"),
        ("mysql://db/x", "mariadb"),
        ("mem:", "memory"),
        ("file:a.db", "sqlite"),
        ("sqlite3:a.db", "sqlite"),
        ("memry:", "memory"),
        ("mariadbb://x/y", "mariadb"),
    ],
)
def test_a_name_from_elsewhere_is_said_by_the_one_that_is_meant(url: str, kind: str) -> None:
    with pytest.raises(StoreError, match=f"did you mean {kind}:"):
        store_from_url(url)


def test_an_error_has_a_reason_and_a_remedy() -> None:
    assert (str(StoreError("odd", "mend it")), str(StoreError("odd"))) == ("odd; mend it", "odd")
    error = StoreError("odd", "mend it")
    assert (error.reason, error.remedy, StoreError("odd").remedy) == ("odd", "mend it", "")
    assert [words_of(one) for one in (error, KeyError(), TimeoutError(""))] == [
        "odd; mend it",
        "KeyError",
        "TimeoutError",
    ]


@pytest.mark.parametrize("low", [True, False, None])
def test_a_store_whose_disk_is_full_takes_nothing_new(low: bool | None) -> None:
    given: Any = SimpleNamespace() if low is None else SimpleNamespace(low=low)
    assert low_words(given) == ("the disk of its store is full: leases end, and none begins" if low else "")
    assert not MemoryStore().low


@pytest.mark.parametrize(
    ("driver", "code", "full"),
    [
        ("system", "ENOSPC", True),
        ("system", "EDQUOT", True),
        ("sqlite", "SQLITE_FULL", True),
        ("postgresql", "53100", True),
        ("system", "EIO", False),
        ("sqlite", "SQLITE_IOERR", False),
        ("postgresql", "53300", False),
        ("mariadb", "ENOSPC", False),
        ("system", "", False),
        ("sqlite", "", False),
        ("", "", False),
    ],
)
def test_a_full_disk_is_told_from_other_failures(driver: str, code: str, full: bool) -> None:
    assert is_disk_full(driver, code) is full
    if code == "":
        assert failure_of(driver, code) is None


@pytest.mark.parametrize("size", [0, 1, 299, 300, 301, 1000])
def test_a_driver_s_words_are_told_up_to_a_length(size: int) -> None:
    reason = error_of("mariadb", "1045", "db", "x" * size).reason
    assert reason.count("x") - reason.partition(" (")[0].count("x") == min(size, 300)
    assert ("(" in reason) == (size > 0)


# Checksums and marks


@pytest.mark.parametrize(("key", "body"), [("", b""), ("a key", b"body"), ("é", b"\0\xff")])
def test_a_checksum_is_written_as_it_was_in_earlier_versions(key: str, body: bytes) -> None:
    check = crc32(key.encode() + body)
    assert (
        with_checksum(key, body)
        == b"\xc1\xc1" + bytes([check >> 24, check >> 16 & 255, check >> 8 & 255, check & 255]) + body
    )
    for cut in range(1, 6):  # a part of its head alone
        with pytest.raises(StoreError, match="is damaged"):
            without_checksum("here", key, with_checksum(key, body)[:cut])


@pytest.mark.parametrize("size", [1, 99, 100, 101, 200])
def test_of_the_key_of_a_damaged_value_a_part_is_told(size: int) -> None:
    with pytest.raises(StoreError, match=f"^here is damaged: '{'k' * min(size, 100)}' does not fit"):
        without_checksum("here", "k" * size, b"\xc1\xc1 odd")


@pytest.mark.parametrize("position", [(0, 0), (1, 0), (0, 1), (3, 4000), (10**19, 10**20 - 1)])
def test_a_mark_has_one_form_and_is_read_as_it_was_written(tmp_path: Path, position: tuple[int, int]) -> None:
    """Also where a later one is shorter as a number, and after it was closed."""
    mark = HighWaterMark(tmp_path / "a.mark")
    assert mark.read() is None
    mark.write(CommitPosition(10**20 - 1, 10**20 - 1))
    before = len(os.listdir("/proc/self/fd"))
    mark.write(CommitPosition(*position))
    assert len(os.listdir("/proc/self/fd")) == before
    epoch, commits = (b"%020d" % number for number in position)
    check = b"%08x" % crc32(epoch + b" " + commits)
    assert mark.path.read_bytes() == b"epoch %b, commit %b, crc %b\n" % (epoch, commits, check)
    assert stat.S_IMODE(mark.path.stat().st_mode) == 0o600
    mark.close()
    assert len(os.listdir("/proc/self/fd")) == before - 1
    mark.close()
    assert mark.read() == CommitPosition(*position)
    mark.write(CommitPosition(7, 8))
    assert mark.read() == (7, 8)
    mark.close()
    assert str(CommitPosition(7, 8)) == "epoch 7, commit 8"


def test_a_mark_that_cannot_be_read_or_written_is_an_error(tmp_path: Path) -> None:
    """Only one that is not there says nothing."""
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        HighWaterMark(tmp_path / "folder").read()
    (tmp_path / "precious").write_text("gold")
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic"):
        HighWaterMark(tmp_path / "link").write(CommitPosition(1, 1))
    assert (tmp_path / "precious").read_text() == "gold"


@pytest.mark.parametrize(
    ("epoch", "commits", "older"), [(0, 9, True), (1, 1, True), (1, 2, False), (1, 3, False), (2, 0, False)]
)
async def test_a_store_is_older_than_its_mark_by_epoch_and_then_by_commits(
    tmp_path: Path, epoch: int, commits: int, older: bool
) -> None:
    path = tmp_path / "site.db"
    opened = SqliteStore(path)
    await opened.open("site")
    await opened.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE actor SET epoch = ?, commits = ?", (epoch, commits))
        connection.commit()
    mark = HighWaterMark(Path(f"{path}.mark"))
    mark.write(CommitPosition(1, 2))
    mark.close()
    if older:
        with pytest.raises(store.Older, match=f"it is at epoch {epoch}, commit {commits}, and had come to epoch 1"):
            await opened.open("site")
        assert mark.read() == (1, 2)
    else:
        assert await opened.open("site") == epoch + 1
        assert mark.read() == (epoch + 1, commits)
        await opened.commit(Batch())
        assert mark.read() == (epoch + 1, commits + 1)
    await opened.close()


# A store in memory


async def test_each_byte_that_a_commit_leaves_counts_on_a_disk_in_memory() -> None:
    """Random commits on a disk that is just large enough, and one byte smaller."""
    chance, refused = random.Random(3), 0
    keys, names = [RecordKey("a", f"m{n}") for n in range(4)], ["u", "v", "w"]
    disk = Disk()
    opened = MemoryStore(disk)
    await opened.open("site")
    records, words, events = dict[RecordKey, bytes](), dict[str, bytes](), dict[int, bytes]()
    last = 0
    for _ in range(300):
        bodies: Iterator[bytes] = iter(lambda: b"x" * chance.randrange(5), None)
        puts = dict(zip(chance.sample(keys, chance.randrange(3)), bodies, strict=False))
        drops = [key for key in chance.sample(keys, 2) if key not in puts]
        said = dict(zip(chance.sample(names, chance.randrange(3)), bodies, strict=False))
        more = [next(bodies) for _ in range(chance.randrange(3))]
        until = chance.randrange(last) if last else 0
        records = {key: body for key, body in {**records, **puts}.items() if key not in drops}
        words = {name: body for name, body in {**words, **said}.items() if body}
        events = {**events, **dict(enumerate(more, last + 1))}
        events = {at: body for at, body in events.items() if at > until}
        last += len(more)
        size = sum(map(len, (*records.values(), *words.values(), *events.values())))
        batch = Batch(puts, drops, said, more, until)
        if size:
            disk.capacity = size - 1
            before = [item async for item in opened.events()]
            with pytest.raises(Transient, match="memory: the disk is full; raise its capacity"):
                await opened.commit(batch)
            await opened.open("site")
            assert [item async for item in opened.events()] == before
            refused += 1
        disk.capacity = size
        await opened.commit(batch)
        assert [item async for item in opened.records()] == sorted(records.items())
        assert await opened.metadata() == words
        assert [item async for item in opened.events()] == sorted(events.items())
    assert refused > 100


async def test_a_disk_in_memory_is_of_one_actor_and_one_owner() -> None:
    disk = Disk()
    first, second = MemoryStore(disk), MemoryStore(disk)
    assert not first.durable
    assert await first.open("site") == 1
    with pytest.raises(store.Busy, match="stop the other copy"):
        await second.open("site")
    await second.close()
    assert disk.owner is first  # who does not own it gives nothing up
    disk.crash()
    assert await second.open("site") == 2
    with pytest.raises(Fenced, match=r"is no longer ours \(epoch 1\): it has a newer owner, of epoch 2"):
        await first.commit(Batch({KEY: b"late"}))
    await first.close()
    assert (disk.owner, disk.records) == (second, {})
    await second.close()
    assert (disk.owner, disk.actor, disk.epoch) == (None, "site", 2)
    assert await MemoryStore(disk).open("site") == 3
    assert MemoryStore().disk is not MemoryStore().disk


# A store in a file


def counted_sleeps(monkeypatch: pytest.MonkeyPatch, then: dict[int, Any]) -> list[float]:
    """The pauses that are asked for, none of which is made; at some of them, by number, something happens."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        then.get(len(slept), lambda: None)()

    monkeypatch.setattr(sqlite, "asyncio", SimpleNamespace(sleep=sleep))
    return slept


PAUSES = [0.005, 0.01, 0.02, 0.04, 0.08]  # then 0.1 each


@pytest.mark.parametrize("tries", [0, 1, 3, 7])
def test_another_program_s_lock_is_waited_for_in_growing_pauses(
    tmp_path: Path, tries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        closing(sqlite3.connect(tmp_path / "a.db", timeout=0, isolation_level=None)) as other,
        closing(sqlite3.connect(tmp_path / "a.db", timeout=0, isolation_level=None)) as own,
    ):
        if tries:
            other.execute("BEGIN EXCLUSIVE")
        slept = counted_sleeps(monkeypatch, {tries: lambda: other.execute("ROLLBACK")})
        asyncio.run(sqlite._unlocked(lambda: own.execute("BEGIN IMMEDIATE")))
        assert own.in_transaction
    assert slept == pytest.approx((PAUSES + [0.1] * 9)[:tries])


def test_a_lock_that_stays_is_waited_for_as_long_as_is_said_and_no_other_error_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept = counted_sleeps(monkeypatch, {})
    with (
        closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as other,
        closing(sqlite3.connect(tmp_path / "a.db", timeout=0, isolation_level=None)) as own,
    ):
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            asyncio.run(sqlite._unlocked(lambda: own.execute("BEGIN IMMEDIATE")))
        assert sqlite._WAIT_SECONDS < sum(slept) <= sqlite._WAIT_SECONDS + 0.1
        slept.clear()
        with pytest.raises(sqlite3.OperationalError, match="no such table"):
            asyncio.run(sqlite._unlocked(lambda: sqlite3.connect(":memory:").execute("SELECT * FROM no")))
        assert slept == []


@pytest.mark.parametrize("ends", [1, 3, None])
def test_who_reads_the_log_holds_it_up_but_for_a_while(
    tmp_path: Path, ends: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as own:
        own.execute("PRAGMA journal_mode = WAL")
        own.execute("CREATE TABLE t (x)")
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM t").fetchall()
            own.execute("INSERT INTO t VALUES (1)")
            slept = counted_sleeps(monkeypatch, {ends: lambda: reader.execute("ROLLBACK")} if ends else {})
            asyncio.run(sqlite._checkpoint(own))
            moved = os.stat(f"{path}-wal").st_size == 0
    assert moved is (ends is not None)
    if ends:
        assert slept == pytest.approx(PAUSES[:ends])
    else:
        assert sqlite._WAIT_SECONDS < sum(slept) <= sqlite._WAIT_SECONDS + 0.1


async def test_a_file_is_opened_for_durable_commits_of_its_own(tmp_path: Path) -> None:
    """The settings of the connection and of the file; SQLite waits for no lock by itself, which would stop the loop."""
    asked: list[tuple[str, dict[str, Any]]] = []

    def connect(place: str, **options: Any) -> sqlite3.Connection:
        asked.append((place, options))
        return sqlite3.connect(place, **options)

    opened = SqliteStore(tmp_path / "site.db", connect)
    await opened.open("site")
    own = opened._open_connection()
    ask = lambda name: own.execute(f"PRAGMA {name}").fetchone()[0]  # noqa: E731
    assert (ask("journal_mode"), ask("synchronous"), ask("busy_timeout")) == ("wal", 2, 0)
    assert (ask("application_id"), ask("user_version")) == (0x4C454153, sqlite.VERSION)
    held = DiskReserve(Path(f"{opened.path}.reserve")).held
    assert ask("wal_autocheckpoint") == (held or sqlite.RESERVE_BYTES) // 2 // ask("page_size") > 0
    assert not own.in_transaction
    await opened.close()
    ((place, options),) = asked
    assert place == f"{(tmp_path / 'site.db').as_uri()}?mode=rw"
    assert options == {"uri": True, "timeout": 0, "isolation_level": None}


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
async def test_only_a_file_of_this_layout_is_looked_at(tmp_path: Path, version: int) -> None:
    """Older ones have no events, and a newer one has nobody knows which; looking makes them no newer."""
    path = tmp_path / "site.db"
    if version:
        opened = SqliteStore(path)
        await opened.open("site")
        await opened.commit(Batch(events=[b"1"]))
        await opened.close()
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"PRAGMA user_version = {version}")
    else:
        path.touch()
    before = path.read_bytes()
    looker = SqliteStore(path)
    words = {
        0: "has nothing of an actor 'site'",
        1: "an older Leasehold, and has no events",
        2: "an older Leasehold, and has no events",
        4: "newer Leasehold: its layout is version 4",
    }
    if version in words:
        with pytest.raises(StoreError, match=words[version]):
            await looker.look("site")
    else:
        await looker.look("site")
        assert [item async for item in looker.events()] == [(1, b"1")]
    await looker.close()
    assert path.read_bytes() == before
    assert {one.name for one in tmp_path.iterdir()} <= {f"site.db{end}" for end in ("", ".lock", ".mark", ".reserve")}


async def test_a_file_gives_back_all_that_it_has_opened(tmp_path: Path) -> None:
    """After looking, asking for owners, opening, and after each of these has failed."""
    path = tmp_path / "site.db"
    opened, other = SqliteStore(path), SqliteStore(path)
    await opened.open("site")
    await opened.close()
    before = os.listdir("/proc/self/fd")
    for call in (other.look("site"), other.owners(), other.open("site"), other.owners()):
        await call
    await other.close()
    for fails in (other.look("nobody"), other.open("nobody"), SqliteStore(tmp_path / "no.db").look("site")):
        with pytest.raises(StoreError):
            await fails
    assert os.listdir("/proc/self/fd") == before


# The reserve of a disk


class Room(SimpleNamespace):
    """The free space of a file system, as `os.fstatvfs` has it."""

    def __init__(self, free: int, size: int = 1 << 40, block: int = 1) -> None:
        super().__init__(f_bavail=free, f_frsize=block, f_blocks=size)


def with_room(monkeypatch: pytest.MonkeyPatch, room: Room) -> None:
    monkeypatch.setattr(os, "fstatvfs", lambda handle: room)


SIZE = 1 << 17


@pytest.mark.parametrize(
    ("room", "taken"),
    [
        (Room(1 << 40), SIZE),
        (Room(8 * SIZE), SIZE),
        (Room(8 * SIZE + 8), SIZE),
        (Room(4 * SIZE), SIZE // 2),
        (Room(8 * 4096), 4096),
        (Room(8 * 4096 - 1), 0),
        (Room(0), 0),
        (Room(8, block=4096), 4096),
        (Room(7, block=4096), 0),
    ],
)
def test_a_reserve_is_a_part_of_what_is_free(
    tmp_path: Path, room: Room, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_room(monkeypatch, room)
    before = os.listdir("/proc/self/fd")
    kept = DiskReserve(tmp_path / "a.reserve", SIZE)
    assert (kept.held, kept.used) == (0, False)
    assert kept.take() is bool(taken)
    assert (kept.held, kept.used) == (taken, not taken)
    assert kept.path.stat().st_size == taken
    assert stat.S_IMODE(kept.path.stat().st_mode) == 0o600
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.parametrize(
    ("room", "taken"),
    [
        (Room(2 * SIZE), True),
        (Room(2 * SIZE - 1), False),
        (Room(1 << 16, size=1 << 18), True),
        (Room((1 << 16) - 1, size=1 << 18), False),
        (Room(1 << 16, size=(1 << 18) + 4), False),
        (Room(SIZE // 2, block=4), True),
        (Room(SIZE // 2 - 1, block=4), False),
    ],
)
@pytest.mark.parametrize("again", [False, True], ids=["this process", "the next one"])
def test_a_reserve_that_was_given_up_comes_back_where_there_is_plenty(
    tmp_path: Path, room: Room, taken: bool, again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice as much as it is, or a quarter of a small disk; on a disk of which nobody took it, an eighth suffices."""
    kept = DiskReserve(tmp_path / "a.reserve", SIZE)
    with_room(monkeypatch, Room(1 << 40))
    assert kept.take()
    assert kept.give_up()
    assert (kept.held, kept.used) == (0, True)
    if again:
        kept = DiskReserve(tmp_path / "a.reserve", SIZE)
    with_room(monkeypatch, room)
    assert kept.take() is taken
    assert (kept.held > 0, kept.used) == (taken, not taken)


@pytest.mark.parametrize(("has", "enough"), [(SIZE // 8, True), (SIZE // 8 - 4096, False), (SIZE, True)])
def test_a_reserve_that_has_enough_is_left_as_it_is(
    tmp_path: Path, has: int, enough: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = DiskReserve(tmp_path / "a.reserve", SIZE)
    with kept.path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, has)
    with_room(monkeypatch, Room(1 << 40))
    kept.used = True
    assert kept.take()
    assert not kept.used
    assert kept.held == (has if enough else SIZE)


def test_a_reserve_that_cannot_be_had_is_said_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before = os.listdir("/proc/self/fd")
    (tmp_path / "precious").write_text("gold")
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    assert not DiskReserve(tmp_path / "link", SIZE).take()
    assert not DiskReserve(tmp_path / "none" / "a", SIZE).take()
    with_room(monkeypatch, Room(1 << 40))
    allocate = os.posix_fallocate

    def partly(handle: int, at: int, size: int) -> None:
        allocate(handle, at, size // 2)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", partly)
    kept = DiskReserve(tmp_path / "a.reserve", SIZE)
    assert not kept.take()
    assert kept.held == kept.path.stat().st_size == 0
    said = [record.getMessage() for record in caplog.records]
    assert [words.rpartition(": ")[2] for words in said] == [
        "Too many levels of symbolic links",
        "No such file or directory",
        "No space left on device",
    ]
    assert all("there is no reserve of space" in words for words in said)
    assert not DiskReserve(tmp_path / "gone", SIZE).give_up()
    assert os.listdir("/proc/self/fd") == before


def test_space_is_looked_for_once_in_a_while_after_it_was_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [1000.0]
    monkeypatch.setattr(sqlite, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with_room(monkeypatch, Room(1 << 40))
    kept = DiskReserve(tmp_path / "a.reserve", SIZE)
    kept.take_again()
    assert kept.held == 0  # nobody has given it up
    assert kept.take()
    assert kept.give_up()
    assert not kept.give_up()
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    caplog.clear()
    for seconds, room, held in (
        (4.9, 1 << 40, 0),
        (0.1, 0, 0),
        (4.9, 1 << 40, 0),
        (0.1, 1 << 40, SIZE),
        (9.0, 1 << 40, SIZE),
    ):
        now[0] += seconds
        with_room(monkeypatch, Room(room))
        kept.take_again()
        assert (kept.held, kept.used) == (held, not held)
    assert [record.getMessage() for record in caplog.records] == [f"{kept.path}: there is a reserve of space again"]


# Statements of MariaDB


@pytest.mark.parametrize("most", [1, 4, 10])
def test_statements_are_put_together_up_to_their_size(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Statements keep their order, none left out; each part as full as it can be, and a longer text alone."""
    monkeypatch.setattr(mariadb, "_STATEMENT_BYTES", most)
    chance = random.Random(most)
    for _ in range(300):
        texts = ["x" * chance.randrange(1, 7) for _ in range(chance.randrange(8))]
        parts = [*mariadb._parts(iter(texts))]
        assert [text for part in parts for text in part] == texts
        assert all(part and (len(part) == 1 or sum(map(len, part)) <= most) for part in parts)
        for one, other in pairwise(parts):
            assert sum(map(len, one)) + len(other[0]) > most
        assert mariadb._packets(texts) == ["; ".join(part) for part in parts]
