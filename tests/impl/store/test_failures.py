"""Stores after real failures: kills, full and failing disks, read-only files, connections that are cut.

Two rules hold after each (paper, sections 3.3 and 4.2): what was acknowledged is there, and a commit is there whole or
not at all. Besides, the error says what happened, and the store is broken until it is opened again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiomysql
import pytest

from leasehold.checker.recovery.processes.proxy import MUTE, TcpProxy
from leasehold.impl.store.sqlite import SqliteStore
from leasehold.impl.store.store import Batch, Broken, Busy, Fenced, Older, RecordKey, StoreError

pytestmark = pytest.mark.real_time

SURVIVOR = [sys.executable, str(Path(__file__).with_name("survivor.py"))]
SQLITE = pytest.mark.parametrize("place", ["sqlite"], indirect=True)
SHARED = pytest.mark.parametrize("place", ["postgresql", "mariadb"], indirect=True)
DURABLE = pytest.mark.parametrize("place", ["sqlite", "postgresql", "mariadb"], indirect=True)


def told(output: str, what: str) -> list[Any]:
    return [line[what] for line in map(json.loads, output.splitlines()) if what in line]


def survive(url: str, *options: str, before: tuple[str, ...] = ()) -> str:
    """Returns what a survivor told that ran to its end."""
    run = subprocess.run([*before, *SURVIVOR, url, "site", *options], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr + run.stdout
    return run.stdout


def check_failure(output: str, reason: str) -> None:
    """It failed for this reason; before and after that, both rules held, and it went on."""
    (failed,) = told(output, "failed")
    assert reason in failed
    assert told(output, "remedy") != [""]
    assert told(output, "then") == ["Broken"]
    first, found = told(output, "found")
    assert first == 0
    assert told(output, "whole") == [True, True]
    *acknowledged, last = told(output, "acknowledged")
    assert found - len(acknowledged) in (0, 1)  # what failed may have become durable, whole
    assert acknowledged == list(range(1, len(acknowledged) + 1))
    assert last == found + 1


@pytest.mark.long
@DURABLE
def test_killed_at_any_moment(place: Any) -> None:
    seed = random.randrange(10**6)
    print("seed", seed)
    moments = random.Random(seed)
    acknowledged = 0
    for _ in range(3):
        with subprocess.Popen([*SURVIVOR, place.url, "site"], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(moments.randint(2, 30))]
            process.kill()  # it goes on committing until this arrives: in the middle of anything
            output = "".join(lines) + process.stdout.read()
        assert told(output, "whole") == [True]
        assert told(output, "found")[0] - acknowledged in (0, 1)
        acknowledged = told(output, "acknowledged")[-1]
    output = survive(place.url, "--commits", "1")
    assert told(output, "whole") == [True]
    assert told(output, "found")[0] - acknowledged in (0, 1)


@SHARED
def test_connection_ended_by_the_server_at_any_moment(place: Any) -> None:
    """`pg_terminate_backend` and `KILL CONNECTION`, while commits are under way."""
    with subprocess.Popen([*SURVIVOR, place.url, "site"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(10)]
        asyncio.run(place.cut_all())
        output = "".join(lines) + process.stdout.read()
    check_failure(output, "the connection to the database was lost")


def injected(call: str, fault: str) -> tuple[str, ...]:
    if shutil.which("strace") is None:
        pytest.skip("strace, which makes system calls fail, is not installed")
    return ("strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:{fault}")


@SQLITE
@pytest.mark.parametrize(
    ("call", "error", "reason"),
    [
        ("fdatasync", "EIO", "the disk failed to read or write (disk I/O error, SQLITE_IOERR_FSYNC)"),
        ("pwrite64", "EIO", "the disk failed to read or write (disk I/O error, SQLITE_IOERR_WRITE)"),
        ("pwrite64", "EROFS", "the disk failed to read or write"),
    ],
)
def test_system_call_that_fails_once(place: Any, call: str, error: str, reason: str) -> None:
    """One that succeeds again afterwards is the worst kind: a store that went on would lose what it acknowledged."""
    before = injected(call, f"error={error}:when=150")
    check_failure(survive(place.url, "--commits", "200", before=before), reason)


@SQLITE
def test_space_that_is_missing_once_costs_the_reserve_and_no_commit(place: Any) -> None:
    """A write that found no space is rolled back whole, so unlike one that was not synced it may be made again."""
    output = survive(place.url, "--commits", "200", before=injected("pwrite64", "error=ENOSPC:when=150"))
    assert told(output, "failed") == []
    assert told(output, "whole") == [True]
    assert len(told(output, "acknowledged")) == 200
    again = survive(place.url, "--commits", "1")
    assert told(again, "whole") == [True]
    assert told(again, "found")[0] >= 200


@pytest.mark.long
@SQLITE
@pytest.mark.parametrize("when", [40, 151, 152, 153, 154, 155, 2000])
def test_killed_between_two_writes_of_a_commit(place: Any, when: int) -> None:
    before = injected("pwrite64", f"signal=SIGKILL:when={when}")
    killed = subprocess.run([*before, *SURVIVOR, place.url, "site"], capture_output=True, text=True, timeout=60)
    assert killed.returncode == -9
    acknowledged = len(told(killed.stdout, "acknowledged"))
    output = survive(place.url, "--commits", "1")
    assert told(output, "whole") == [True]
    assert told(output, "found")[0] - acknowledged in (0, 1)


@pytest.mark.long
@SQLITE
def test_torn_write_of_the_last_commit(place: Any) -> None:
    """A log that ends in the middle of a commit, or whose last page is wrong, loses that commit whole, and no other."""
    log = Path(f"{place.path}-wal")
    with subprocess.Popen([*SURVIVOR, place.url, "site"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(4)]
        process.kill()
        lines.append(process.stdout.read())
    kept = {path: path.read_bytes() for path in (place.path, log)}
    last = told(survive(place.url, "--commits", "0"), "found")[0]
    assert last >= 3
    frames = (len(kept[log]) - 32) // (24 + 4096)
    found = []
    for cut in range(frames):
        size = 32 + cut * (24 + 4096)
        torn = bytearray(kept[log][: size + 2000] if cut % 2 else kept[log])
        if not cut % 2:
            torn[size + 1000] ^= 0xFF
        Path(f"{log.with_name(place.path.name)}-shm").unlink(missing_ok=True)
        place.path.write_bytes(kept[place.path])
        log.write_bytes(torn)
        Path(f"{place.path}.mark").unlink(missing_ok=True)  # the commit was never acknowledged
        if cut >= frames - 12:  # some, as each costs a process
            output = survive(place.url, "--commits", "0")
            assert told(output, "whole") == [True]
            found += told(output, "found")
    assert found == sorted(found)
    assert last - 2 <= found[0] < last


@SQLITE
def test_file_that_reaches_its_largest_size(place: Any) -> None:
    """RLIMIT_FSIZE: what a file system with a limit does, and the easiest failure to make without privileges."""
    output = survive(place.url, "--file-limit", "2000000")
    check_failure(output, "the disk failed to read or write (disk I/O error, SQLITE_IOERR_WRITE)")


def in_a_file_system_of_its_own(folder: Path, size: str, more: str = "true") -> tuple[str, ...]:
    """A prefix for a command that sees a small file system in memory at a folder; it goes when the command ends."""
    own = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    mount = f'mount -t tmpfs -o size={size} none "{folder}"'
    if shutil.which("unshare") is None or subprocess.run([*own, "sh", "-c", mount], capture_output=True).returncode:
        pytest.skip("this system lets no one mount a file system in a namespace (unshare)")
    return (*own, "sh", "-c", f'{mount} && {more} && exec "$@"', "sh")


def test_full_disk_and_room_again(tmp_path: Path) -> None:
    ballast = tmp_path / "ballast"
    fill = f'head -c 1000000 /dev/zero > "{ballast}"'
    before = in_a_file_system_of_its_own(tmp_path, "3m", fill)
    output = survive(f"sqlite:{tmp_path}/site.db", "--mend", f'rm "{ballast}"', before=before)
    check_failure(output, "the disk is full (database or disk is full, SQLITE_FULL)")


def test_new_store_on_a_read_only_file_system(tmp_path: Path) -> None:
    before = in_a_file_system_of_its_own(tmp_path, "3m", f'mount -o remount,ro "{tmp_path}"')
    output = survive(f"sqlite:{tmp_path}/site.db", before=before)
    assert told(output, "refused") == [f"{tmp_path}/site.db: Read-only file system ({tmp_path}/site.db.lock)"]


@pytest.fixture
def nobodys_folder() -> Iterator[Path]:
    """A folder of a user whom permissions bind; pytest's own folders lie below one that only root may enter."""
    with tempfile.TemporaryDirectory() as name:
        if os.geteuid() == 0:
            os.chown(name, 65534, 65534)
        yield Path(name)


def test_file_that_became_read_only(nobodys_folder: Path) -> None:
    file = nobodys_folder / "site.db"
    survive(f"sqlite:{file}", "--as-nobody", "--commits", "3")
    file.chmod(0o400)
    (refused,) = told(survive(f"sqlite:{file}", "--as-nobody"), "refused")
    assert refused == f"{file}: the actor's user may not read and write it"
    file.chmod(0o600)
    output = survive(f"sqlite:{file}", "--as-nobody", "--commits", "1")
    assert told(output, "found") == [3]
    assert told(output, "whole") == [True]


def test_folder_that_may_not_be_written(nobodys_folder: Path) -> None:
    nobodys_folder.chmod(0o500)
    (refused,) = told(survive(f"sqlite:{nobodys_folder}/site.db", "--as-nobody"), "refused")
    assert refused == f"{nobodys_folder}/site.db: Permission denied ({nobodys_folder}/site.db.lock)"
    assert os.listdir(nobodys_folder) == []


@DURABLE
def test_owner_that_is_another_process(place: Any) -> None:
    with subprocess.Popen([*SURVIVOR, place.url, "site"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(Busy) as caught:
            asyncio.run(place.store(patience=0).open("site"))
        process.kill()
        process.stdout.read()
    if place.kind == "sqlite":
        assert f"(process {process.pid})" in caught.value.reason
    survive(place.url, "--commits", "1")  # and it is free as soon as that one is dead


@SHARED
async def test_a_busy_store_names_the_connection_to_end(place: Any) -> None:
    """An owner on a machine that vanished holds its lock until the server notices: its operator can be faster."""
    lost, heir = place.store(), place.store(patience=0)
    await lost.open("site")
    with pytest.raises(Busy) as caught:
        await heir.open("site")
    command = caught.value.remedy.partition("if it is gone, ")[2]
    assert command.startswith(("SELECT pg_terminate_backend(", "KILL CONNECTION "))
    await place.ask(command)
    heir.patience = 5.0
    assert await heir.open("site") == 2
    with pytest.raises(StoreError, match="the connection to the database was lost"):
        await lost.commit(Batch())
    lost.patience = 0
    with pytest.raises(Busy):
        await lost.open("site")
    await heir.commit(Batch())
    await lost.close()
    await heir.close()


@contextlib.asynccontextmanager
async def cutter(port: int, requests: float, replies: float) -> AsyncIterator[tuple[int, Any]]:
    """A wire to a server that can be told to break after so many more bytes of requests, or of replies."""
    left = {"requests": float("inf"), "replies": float("inf")}
    tasks = []

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: str, both: Any) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data[: int(min(left[way], len(data)))])
                left[way] -= len(data)
                await writer.drain()
                if left[way] < 0:
                    break
        for end in both:
            end.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        both = (writer, far_writer)
        tasks.append(asyncio.ensure_future(carry(reader, far_writer, "requests", both)))
        tasks.append(asyncio.ensure_future(carry(far_reader, writer, "replies", both)))

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], lambda: left.update(requests=requests, replies=replies)
    finally:
        server.close()
        await asyncio.gather(*tasks)


@SHARED
@pytest.mark.parametrize(
    ("requests", "replies"),
    [(0, 1e9), (1, 1e9), (80, 1e9), (1000, 1e9), (100_000, 1e9), (3_000_000, 1e9), (1e9, 0), (1e9, 1), (1e9, 15)],
)
async def test_wire_that_breaks_in_the_middle_of_a_commit(place: Any, requests: float, replies: float) -> None:
    """The commit is there whole or not at all, whether its request was cut or its answer."""
    old = {RecordKey(f"tenant:{n}", "m"): b"old" for n in range(100)}
    new = dict.fromkeys(old, b"new" * 10_000)  # three packets and more
    server = 5432 if place.kind == "postgresql" else 3306
    async with cutter(server, requests, replies) as (port, cut):
        store = place.store(port=port)
        await store.open("site")
        await store.commit(Batch(puts=old))
        cut()
        with pytest.raises(StoreError, match="the connection to the database was lost"):
            await store.commit(Batch(puts=new))
        with pytest.raises(Broken):
            await store.commit(Batch())
        heir = place.store(patience=5.0)
        await heir.open("site")
        found = {key: body async for key, body in heir.records()}
        assert found in (old, new)
        if requests < 1e9:
            assert found == old
        await heir.close()
        await store.close()


@SHARED
async def test_a_server_that_hangs_in_the_middle_of_a_commit_is_taken_for_lost(
    place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the request, and says nothing more."""
    monkeypatch.setattr("leasehold.impl.store.mariadb._ANSWER_SECONDS", 1.0)
    monkeypatch.setattr("leasehold.impl.store.answered.AsyncAnsweredConnection.answer_seconds", 1.0)
    key = RecordKey("tenant:1", "m")
    proxy = TcpProxy(5432 if place.kind == "postgresql" else 3306)
    store = place.store(port=proxy.port)
    await store.open("site")
    await store.commit(Batch(puts={key: b"old"}))
    proxy.turn(MUTE)
    with pytest.raises(StoreError, match=r"the connection to the database was lost \(.*no answer within 1 seconds"):
        await asyncio.wait_for(store.commit(Batch(puts={key: b"new"})), 20)
    with pytest.raises(Broken):
        await store.commit(Batch())
    proxy.close()
    heir = place.store(patience=5.0)
    await heir.open("site")
    assert {body async for _, body in heir.records()} <= {b"old", b"new"}
    await heir.close()
    await store.close()


@SHARED
async def test_no_commit_of_an_old_owner_comes_after_the_new_one_opened(place: Any) -> None:
    """A commit of the old owner is under way while the new one opens: that waits for it, so what it reads is final."""
    key = RecordKey("tenant:1", "m")
    old, new = place.store(), place.store()
    await old.open("site")
    await old.commit(Batch(puts={key: b"1"}))
    await place.lose_lock(old)
    async with place.row_held():  # so that the commit stops half way, after it has seen that it is still the owner
        commit = asyncio.ensure_future(old.commit(Batch(puts={key: b"2"})))
        while not await place.waiting():
            await asyncio.sleep(0)
        opening = asyncio.ensure_future(new.open("site"))
        while await place.waiting() < 2 and not opening.done():
            await asyncio.sleep(0)
        assert not opening.done()
    await asyncio.gather(commit, opening)
    assert [item async for item in new.records()] == [(key, b"2")]
    with pytest.raises(Fenced):
        await old.commit(Batch(puts={key: b"3"}))
    assert [item async for item in new.records()] == [(key, b"2")]
    await old.close()
    await new.close()


@pytest.mark.parametrize("place", ["mariadb"], indirect=True)
async def test_nobody_raises_the_epoch_while_an_opening_reads_its_own(
    place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two owners of one epoch, of whom one has lost its lock, could not be told apart."""
    store = place.store()
    ask, told = store._ask, list[str]()

    async def asked(query: str) -> Any:
        if query.startswith("SELECT id, epoch") and "FOR UPDATE" not in query:
            with pytest.raises(aiomysql.OperationalError, match=r"Lock wait timeout|NOWAIT"):
                await place.ask("SELECT epoch FROM leasehold_actor FOR UPDATE NOWAIT")
            told.append(query)
        return await ask(query)

    for epoch in (1, 2):
        assert await store.open("site") == epoch
        await store.close()
        monkeypatch.setattr(store, "_ask", asked)
    assert len(told) == 1


@SQLITE
@pytest.mark.parametrize("replaced", [False, True])
async def test_file_that_is_removed_or_replaced_under_a_running_actor(place: Any, replaced: bool) -> None:
    """Writes to a removed file are gone with it; so nothing is acknowledged there."""
    store: SqliteStore = place.store()
    await store.open("site")
    await store.commit(Batch(puts={RecordKey("a", "m"): b"1"}))
    away = place.path.rename(place.path.with_suffix(".away"))
    if replaced:
        shutil.copy(away, place.path)
    with pytest.raises(StoreError, match="removed or replaced while it was in use; put the file back"):
        await store.commit(Batch())
    await store.close()


async def test_a_file_that_was_removed_while_it_was_in_use_is_not_made_anew(tmp_path: Path) -> None:
    """An actor that went on with an empty store would have forgotten what it lent, and to whom."""

    store = SqliteStore(tmp_path / "site.db")
    await store.open("site")
    await store.commit(Batch({RecordKey("tenant:1", "authority"): b"x"}))
    for suffix in ("", "-wal", "-shm"):
        (tmp_path / f"site.db{suffix}").unlink(missing_ok=True)
    with pytest.raises(StoreError, match="was removed or replaced"):
        await store.commit(Batch({RecordKey("tenant:2", "authority"): b"x"}))
    await store.close()
    with pytest.raises(StoreError, match="put the file back"):
        await store.open("site")
    with pytest.raises(Older, match="is gone, and had come to epoch 1, commit 1; put the newest one back"):
        await SqliteStore(tmp_path / "site.db").open("site")
    assert not (tmp_path / "site.db").exists()
