"""The SQLite store on simulated disks: the power goes in any operation, disks fill up, fsyncs fail.

Two rules hold after each (paper, sections 3.3 and 4.2): what was acknowledged is there, and a commit is there whole or
not at all.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import logging
import os
import random
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("apsw", reason="SQLite's calls of the operating system are simulated with apsw")

from leasehold.checker.recovery.cases.steps import Script
from leasehold.checker.recovery.lease.runner import LeaseCaseRunner
from leasehold.checker.recovery.lease.simulation import LeaseSimulation
from leasehold.faults.simulation.loop import VirtualLoop
from leasehold.impl.store.store import Batch, Broken, RecordKey, Store, StoreError, Transient
from tests.simulation.files import FileSystem
from tests.simulation.sqlite_disk import Connection, Cursor, SqliteDisk
from tests.systems import lease_cases, load

Content = tuple[dict[RecordKey, bytes], dict[str, bytes]]
COMMITS = 24
CLOSE = object()  # in a workload: the store is closed, and opened again


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """For the real files of locks, of which there are many: in memory, where there is such a place."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else tmp_path) as name:
        yield Path(name)


@pytest.fixture
def loop() -> VirtualLoop:
    return VirtualLoop()  # type: ignore[abstract]


def workload(seed: int) -> list[Any]:
    """Batches of all sizes: of one word, and of more pages than the log has when it is moved."""
    chance, work = random.Random(seed), []
    for n in range(COMMITS):
        keys = [RecordKey(f"tenant:{k}", "authority") for k in chance.sample(range(9), chance.randint(0, 6))]
        drops = chance.randint(0, len(keys) // 2)
        puts = {key: bytes([n + 1]) * chance.choice((0, 20, 300, 3000)) for key in keys[drops:]}
        work.append(
            Batch(puts=puts, drops=keys[:drops], metadata={"commit": b"%d" % n, "odd": b"yes" if n % 2 else b""})
        )
    work.insert(COMMITS // 2, CLOSE)
    return work


def after(content: Content, batch: Batch) -> Content:
    records, words = {**content[0], **batch.puts}, {**content[1], **batch.metadata}
    return (
        {key: body for key, body in records.items() if key not in batch.drops},
        {name: body for name, body in words.items() if body},
    )


def read(loop: VirtualLoop, store: Store) -> Content:
    async def all_of_it() -> Content:
        return {key: body async for key, body in store.records()}, await store.metadata()

    return loop.run(all_of_it())


@dataclass
class Run:
    """A workload as far as it came.

    Attributes:
        acknowledged: what was acknowledged, after each commit; begins with nothing.
        pending: what the commit under way makes of it; None: there is none.
        epoch: the highest that was answered.
        error: what ended it.
    """

    acknowledged: list[Content] = field(default_factory=lambda: [({}, {})])
    pending: Content | None = None
    epoch: int = 0
    error: StoreError | None = None

    def allows(self, found: Content) -> bool:
        return found == self.acknowledged[-1] or (self.pending is not None and found == self.pending)

    def now(self) -> Run:
        return Run(self.acknowledged[-1:], self.pending, self.epoch)


def play(loop: VirtualLoop, store: Store, work: list[Any], run: Run) -> Run:
    """Commits until an error."""

    async def all_of_it() -> None:
        run.epoch = await store.open("site")
        for item in work:
            if item is CLOSE:
                await store.close()
                run.epoch = await store.open("site")
                continue
            run.pending = after(run.acknowledged[-1], item)
            await store.commit(item)
            run.acknowledged.append(run.pending)
            run.pending = None

    try:
        loop.run(all_of_it())
    except StoreError as error:
        run.error = error
    return run


class Regressed(AssertionError):
    """The store is of an epoch that it was of before."""


def recovered(loop: VirtualLoop, disk: SqliteDisk, run: Run) -> Content:
    """Opens what is left, commits once more, and looks again."""
    store = disk.store()
    if loop.run(store.open("site")) <= run.epoch:
        disk.kill()
        raise Regressed
    found = read(loop, store)
    more = Batch(puts={RecordKey("more", "authority"): b"m" * 2000})
    loop.run(store.commit(more))
    loop.run(store.close())
    run.epoch = loop.run(store.open("site"))
    assert read(loop, store) == after(found, more)
    loop.run(store.close())
    return found


@dataclass
class Moment:
    """The disk within one operation, and what was acknowledged by then."""

    files: FileSystem
    run: Run


def moments(loop: VirtualLoop, disk: SqliteDisk, work: list[Any]) -> list[Moment]:
    """Plays a workload, and keeps the disk as it is in each operation."""
    found: list[Moment] = []
    run = Run()
    disk.files.watch = lambda: found.append(Moment(disk.files.copy(random.Random(0)), run.now()))
    play(loop, disk.store(), work, run)
    assert run.error is None
    assert len(run.acknowledged) == COMMITS + 1
    disk.kill()
    return found


@dataclass
class Tally:
    """What was found after crashes; `lost`: an earlier state than was acknowledged; `damaged`: none at all."""

    cases: int = 0
    kept: int = 0
    lost: int = 0
    damaged: int = 0


def crash_everywhere(
    folder: Path, loop: VirtualLoop, seeds: range, disk_of: Callable[[Path], SqliteDisk], workloads: range = range(1)
) -> Tally:
    """The power goes in each operation of the workloads, and each seed chooses what is left."""
    tally = Tally()
    for number in workloads:
        disk = disk_of(folder)
        work = workload(number)
        earlier = list(itertools.accumulate((i for i in work if i is not CLOSE), after, initial=({}, {})))
        for moment, seed in itertools.product(moments(loop, disk, work), seeds):
            disk.mount(moment.files.copy(random.Random(seed)))
            disk.crash()
            tally.cases += 1
            try:
                found = recovered(loop, disk, run := moment.run.now())
            except Regressed:
                tally.lost += 1
                continue
            except StoreError:
                tally.damaged += 1
                disk.kill()
                continue
            tally.kept += run.pending is not None and found == run.pending
            if not run.allows(found):
                tally.lost += found in earlier
                tally.damaged += found not in earlier
    return tally


def careful(folder: Path) -> SqliteDisk:
    return SqliteDisk(folder, checkpoint_after=6)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_power_loss_in_every_operation(folder: Path, loop: VirtualLoop, seed: int) -> None:
    tally = crash_everywhere(folder, loop, range(4), careful, range(seed, seed + 1))
    assert tally.cases > 1500
    assert (tally.lost, tally.damaged) == (0, 0)
    assert 0 < tally.kept < tally.cases / 2  # commits that were under way are there, but not always


@pytest.mark.slow
def test_power_loss_in_every_operation_of_many_workloads(folder: Path, loop: VirtualLoop) -> None:
    tally = crash_everywhere(folder, loop, range(12), careful, range(100, 120))
    assert tally.cases > 100_000
    assert (tally.lost, tally.damaged) == (0, 0)


@pytest.mark.long
def test_power_loss_while_it_recovers(folder: Path, loop: VirtualLoop) -> None:
    """The power goes once more, in each operation of the opening and of the commit after it."""
    disk = careful(folder)
    twice = 0
    for seed, moment in enumerate(moments(loop, disk, workload(1))[::40]):
        for at in itertools.count(1):
            disk.mount(moment.files.copy(random.Random(seed)))
            disk.crash()
            disk.files.crash_at = disk.files.operations + at
            run = moment.run.now()
            try:
                recovered(loop, disk, run.now())
            except StoreError:
                disk.kill()
            if disk.files.crash_at is not None:  # there are no more operations
                break
            found = recovered(loop, disk, run.now())
            found[0].pop(RecordKey("more", "authority"), None)
            assert run.allows(found), (seed, at)
            twice += 1
    assert twice > 300


@pytest.mark.long
def test_the_store_breaks_when_the_power_goes_under_it(folder: Path, loop: VirtualLoop) -> None:
    """The same in place: a call ends with an error, and the store refuses every other until it is opened again."""
    disk = careful(folder)
    moments(loop, disk, workload(2))
    last = disk.files.operations
    ended = 0
    for at in range(5, last, 3):
        disk = SqliteDisk(folder, at, checkpoint_after=6)
        disk.files.crash_at = at
        run = play(loop, store := disk.store(), workload(2), Run())
        assert disk.files.crashes == 1
        if run.error is not None:
            with pytest.raises(StoreError) as caught:
                loop.run(store.commit(Batch()))
            ended += isinstance(caught.value, Broken)
        disk.kill()
        assert run.allows(recovered(loop, disk, run)), at
    assert ended > 50


# That these tests can fail


def other(mode: str) -> type[Connection]:
    class Other(Connection):
        """A connection whose program asks for less."""

        def execute(self, statement: str, values: Any = ()) -> Cursor:
            return super().execute(statement.replace("synchronous = FULL", f"synchronous = {mode}"), values)

    return Other


@pytest.mark.long
@pytest.mark.parametrize("mode", ["NORMAL", "OFF", "lying"])
def test_less_than_an_fsync_for_each_commit_loses_commits(folder: Path, loop: VirtualLoop, mode: str) -> None:
    def careless(folder: Path) -> SqliteDisk:
        disk = careful(folder)
        if mode == "lying":
            disk.files.lying = True
        else:
            disk.connection = other(mode)
        return disk

    tally = crash_everywhere(folder, loop, range(2), careless)
    assert tally.lost > tally.cases / 10
    if mode == "NORMAL":
        assert tally.damaged == 0  # fsyncs where the log is moved are enough for that
    else:
        assert tally.damaged > 20


# Disks that fail


def fsyncs(loop: VirtualLoop, disk: SqliteDisk, work: list[Any]) -> list[int]:
    """In which operations of a workload there is an fsync."""
    found: list[int] = []
    files = disk.files
    run = play_watched(loop, disk, work, lambda: found.append(files.operations) if files.syncing else None)
    assert run.error is None
    disk.kill()
    return found


def play_watched(loop: VirtualLoop, disk: SqliteDisk, work: list[Any], watch: Callable[[], Any]) -> Run:
    disk.files.watch = watch
    try:
        return play(loop, disk.store(), work, Run())
    finally:
        disk.files.watch = None


def killed_for(disk: SqliteDisk) -> type[Connection]:
    class Killed(Connection):
        """A connection of a process that dies where it would close it."""

        def close(self) -> None:
            disk.files.cut_off()
            super().close()

    return Killed


@pytest.mark.long
@pytest.mark.parametrize("then", ["closed", "dropped", "killed"])
def test_an_fsync_that_fails(folder: Path, loop: VirtualLoop, then: str) -> None:
    """Each fsync in turn.

    Afterwards the store is closed, and the cache still has what is not on the disk, or has dropped it; or the store's
    process is killed at the error, so that nobody writes anew what the cache alone has, but who opens the store next.
    """

    def made(seed: int) -> SqliteDisk:
        disk = SqliteDisk(folder, seed, checkpoint_after=1000 if then == "killed" else 6)
        if then == "killed":
            disk.connection = killed_for(disk)
        return disk

    broken = unnoticed = 0
    for at in fsyncs(loop, made(0), workload(3)):
        for seed in range(2):
            disk = made(seed)
            files = disk.files

            def fail(files: FileSystem = files, at: int = at) -> None:
                files.failing += files.operations == at

            run = play_watched(loop, disk, workload(3), fail)
            if run.error is None:
                unnoticed += 1  # of a checkpoint after a commit, which is tried again later
            else:
                broken += 1
                assert "the disk failed to read or write (disk I/O error, SQLITE_IOERR" in run.error.reason
            disk.kill()
            if then == "dropped":
                files.evict()
            found = recovered(loop, disk, run.now())
            assert run.allows(found), (at, seed)
            files.crash()
            disk.kill()
            found = after(found, Batch(puts={RecordKey("more", "authority"): b"m" * 2000}))
            store = disk.store()
            loop.run(store.open("site"))
            assert read(loop, store) == found, (at, seed)
            disk.kill()
    assert broken > 50
    assert unnoticed > 2 or then == "killed"  # whose log is moved at its opening alone


def test_a_full_disk(folder: Path, loop: VirtualLoop) -> None:
    reasons = set()
    for capacity in range(0, 50_000, 700):
        disk = SqliteDisk(folder, capacity, checkpoint_after=6)
        disk.files.capacity = capacity
        run = play(loop, store := disk.store(), workload(4), Run())
        assert isinstance(run.error, Transient)
        reasons.add(run.error.reason.partition(": ")[2])
        with pytest.raises(StoreError):
            loop.run(store.commit(Batch()))
        with contextlib.suppress(StoreError):  # it may be full still
            loop.run(store.open("site"))
            assert run.allows(read(loop, store))
        loop.run(store.close())
        disk.files.capacity = None
        if capacity % 3 == 0:
            disk.crash()
        assert run.allows(recovered(loop, disk, run.now())), capacity
    assert reasons == {"the disk is full (database or disk is full, SQLITE_FULL)"}


WORDS = ("the disk failed to read or write", "it can only be read", "the file cannot be opened")


def test_a_disk_that_becomes_read_only(folder: Path, loop: VirtualLoop) -> None:
    disk = careful(folder)
    moments(loop, disk, workload(5))
    last = disk.files.operations
    failed = 0
    for at in range(20, last, 7):
        disk = SqliteDisk(folder, at, checkpoint_after=6)
        files = disk.files

        def turn(files: FileSystem = files, at: int = at) -> None:
            files.read_only |= files.operations >= at

        run = play_watched(loop, disk, workload(5), turn)
        if run.error is not None:  # else it was in a checkpoint after the last commit
            failed += 1
            assert any(words in run.error.reason for words in WORDS), run.error.reason
        disk.kill()
        with pytest.raises(StoreError):  # its epoch cannot be written
            loop.run(disk.store().open("site"))
        disk.kill()
        files.read_only = False
        if at % 2:
            disk.crash()
        assert run.allows(recovered(loop, disk, run.now())), at
    assert failed > 40


# What stands between the store and the disk


def test_one_seed_is_one_disk(folder: Path, loop: VirtualLoop) -> None:
    """To the byte, which takes that SQLite's own chance comes from the seed."""

    def play_all(seed: int) -> str:
        disk = SqliteDisk(folder, seed, checkpoint_after=6)
        play(loop, disk.store(), workload(6), Run())
        files = disk.files
        told = hashlib.sha256(repr([(n, files.open(n).read(10**6, 0)) for n in files.names()]).encode())
        disk.crash()
        told.update(repr([(n, files.open(n).read(10**6, 0)) for n in files.names()]).encode())
        disk.kill()
        return told.hexdigest()

    assert play_all(1) == play_all(1) != play_all(2)


BOTH = (
    "CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB NOT NULL CHECK (length(b) < 9))",
    "INSERT INTO t VALUES (1, x'00')",
)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT a, b, typeof(b), NULL, 'ä', 1.5 FROM t",
        "SELECT a FROM t WHERE a > 7",
        "PRAGMA page_count",
        "SELECT * FROM nowhere",
        "SELEC",
        "INSERT INTO t VALUES (1, x'00')",
        "INSERT INTO t VALUES (2, NULL)",
        "INSERT INTO t VALUES ('x', x'00')",
        "INSERT INTO t VALUES (3, '123456789')",
        "COMMIT",
        "SELECT zeroblob(2000000000)",
        "PRAGMA max_page_count = 2; INSERT INTO t SELECT 1, 2",
    ],
)
def test_it_answers_and_fails_as_the_standard_library_does(folder: Path, statement: str) -> None:
    disk = SqliteDisk(folder)
    url = f"{disk.path.as_uri()}?mode=rw"
    answers: list[Any] = []
    disk.path.touch()
    for connect in (disk.connect, sqlite3.connect):
        connection = connect(url, uri=True, timeout=1.0, isolation_level=None)
        for begin in BOTH:
            connection.execute(begin)
        try:
            for part in statement.split("; "):
                answer: Any = connection.execute(part).fetchall()
        except sqlite3.Error as error:
            answer = type(error), str(error), error.sqlite_errorcode, error.sqlite_errorname
        answers.append(answer)
        connection.close()
    assert answers[0] == answers[1]


def test_many_rows_at_once(folder: Path) -> None:
    disk = SqliteDisk(folder)
    disk.path.touch()
    rows = [(n, bytes([n])) for n in range(2, 50)]
    for connect in (disk.connect, sqlite3.connect):
        connection = connect(f"{disk.path.as_uri()}?mode=rw", uri=True, timeout=1.0, isolation_level=None)
        connection.execute(BOTH[0])
        connection.executemany("INSERT INTO t VALUES (?, ?)", rows)
        assert connection.execute("SELECT a, b FROM t WHERE a > ?", (1,)).fetchall() == rows
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (len(rows),)
        with pytest.raises(sqlite3.IntegrityError) as caught:
            connection.executemany("INSERT INTO t VALUES (?, ?)", rows)
        assert caught.value.sqlite_errorname == "SQLITE_CONSTRAINT_PRIMARYKEY"
        connection.close()


def test_a_file_that_is_none_of_sqlite(folder: Path, loop: VirtualLoop) -> None:
    disk = SqliteDisk(folder)
    disk.files.open(disk.path.name).write(b"something else" * 1000, 0)
    with pytest.raises(StoreError, match="it is not a SQLite file"):
        loop.run(disk.store().open("site"))


def test_records_are_what_was_committed(folder: Path, loop: VirtualLoop) -> None:
    """Looking at them changes nothing on the disk."""
    disk = careful(folder)
    run = play(loop, store := disk.store(), workload(7), Run())
    before = disk.files.operations
    assert disk.records == run.acknowledged[-1][0]
    assert disk.files.operations == before
    loop.run(store.commit(Batch(drops=list(disk.records))))
    assert disk.records == {}
    loop.run(store.close())


# Real actors on such disks

SYSTEM = load("lease", {"max_units": 1, "last_end": 2})


class OnDisks(LeaseSimulation):
    """Actors whose stores are in SQLite's files, on disks on which a crash takes what was not synced."""

    folders: Iterator[Path]
    lying = False

    def __init__(self, program: Any, units: int) -> None:
        super().__init__(program, units=units, store=lambda name: self.disks[name].store())  # type: ignore[attr-defined]
        for seed, name in enumerate(self.roles):
            disk = SqliteDisk(next(self.folders), seed, checkpoint_after=4)
            disk.files.lying = self.lying
            self.disks[name] = disk  # type: ignore[assignment]


@pytest.fixture(scope="module")
def scripts() -> list[Script]:
    return lease_cases(max_units=1, last_end=2)


def played(folder: Path, lies: bool, some: list[Script]) -> list[str]:
    """Plays scripts; answers what was found."""

    class World(OnDisks):
        folders = _folders(folder)
        lying = lies

    logging.disable(logging.CRITICAL)
    stage = LeaseCaseRunner(SYSTEM, World)
    found: list[str] = []
    try:
        for n, script in enumerate(some):
            outcome = stage.play(script, lost=bool(n % 2))
            found += [f"{outcome.name}: {f.check}: {f.words}" for f in outcome.findings[:1]]
        stage.close()
    finally:
        logging.disable(logging.NOTSET)
    return found


def _folders(folder: Path) -> Iterator[Path]:
    for n in itertools.count():
        path = folder / str(n)
        path.mkdir()
        yield path


@pytest.mark.slow
def test_cases_of_the_recovery_campaign(folder: Path, scripts: list[Script]) -> None:
    some = scripts[::59]
    assert len(some) >= 40
    assert played(folder, False, some) == []


@pytest.mark.long
def test_cases_of_the_recovery_campaign_fail_where_fsyncs_lie(folder: Path, scripts: list[Script]) -> None:
    some = scripts[::200]
    assert len(played(folder, True, some)) > len(some) / 2
