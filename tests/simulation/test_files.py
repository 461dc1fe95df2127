"""The file system in memory: what is durable, and what a crash may leave of the rest."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.simulation import recorded
from tests.simulation.files import SECTOR, File, FileSystem, PowerLoss

SEEDS = range(300)
OLD, NEW, NEWER = b"o" * SECTOR, b"n" * SECTOR, b"N" * SECTOR


def durable(content: bytes, seed: int = 0, name: str = "a") -> tuple[FileSystem, File]:
    """A file system with one file that no crash takes."""
    files = FileSystem(random.Random(seed))
    file = files.open(name, create=True)
    file.write(content, 0)
    file.sync()
    files.sync_folder()
    return files, file


def content(files: FileSystem, name: str = "a") -> bytes:
    return files.open(name).read(10**6, 0)


def left(content_before: bytes, do: Callable[[FileSystem, File], None]) -> set[bytes]:
    """Returns what crashes leave of the file after something was done to it."""
    found = set()
    for seed in SEEDS:
        files, file = durable(content_before, seed)
        do(files, file)
        files.crash()
        found.add(content(files))
    return found


def test_what_was_synced_is_there() -> None:
    def do(files: FileSystem, file: File) -> None:
        file.write(NEW, SECTOR)
        file.truncate(SECTOR + 10)
        file.sync()

    assert left(OLD * 3, do) == {OLD + NEW[:10]}


def test_what_was_not_is_lost_torn_and_reordered_by_sectors() -> None:
    def do(files: FileSystem, file: File) -> None:
        file.write(NEW * 2, 0)
        file.write(NEW, 2 * SECTOR)
        assert content(files) == NEW * 3

    assert left(OLD * 3, do) == {a + b + c for a in (OLD, NEW) for b in (OLD, NEW) for c in (OLD, NEW)}


def test_a_sector_has_what_the_cache_had_at_some_moment() -> None:
    def do(files: FileSystem, file: File) -> None:
        file.write(b"1" * 100, 0)
        file.write(b"2" * 100, 100)

    first = b"1" * 100 + OLD[100:]
    assert left(OLD, do) == {OLD, first, b"1" * 100 + b"2" * 100 + OLD[200:]}  # the second alone never was in the cache


def test_what_was_appended_is_short_or_zeros_or_there() -> None:
    def do(files: FileSystem, file: File) -> None:
        file.write(NEW, SECTOR)
        file.write(NEWER[:100], 2 * SECTOR)

    zeros = bytes(SECTOR)
    whole = {OLD + a + b for a in (zeros, NEW) for b in (zeros[:100], NEWER[:100])}
    assert left(OLD, do) == {OLD, OLD + zeros, OLD + NEW} | whole


def test_a_cut_is_there_or_not_and_brings_nothing_back() -> None:
    def cut(files: FileSystem, file: File) -> None:
        file.write(NEW, SECTOR)
        file.truncate(SECTOR // 2)

    half = {OLD[:256]}
    assert left(OLD * 2, cut) == {OLD * 2, OLD + NEW} | half

    def cut_and_grown(files: FileSystem, file: File) -> None:
        file.write(NEW, SECTOR)
        file.truncate(0)
        file.write(NEWER, SECTOR)

    found = left(OLD * 2, cut_and_grown)
    zeros = bytes(SECTOR)
    assert found == {OLD * 2, OLD + NEW, b"", zeros * 2, zeros + NEWER}


def test_any_history_leaves_contents_that_each_sector_has_had() -> None:
    """Without cuts: against the list of what each sector was."""
    for seed in SEEDS:
        chance = random.Random(seed)
        files, file = durable(bytes(8 * SECTOR), seed)
        had = [{bytes(SECTOR)} for _ in range(8)]
        for n in range(chance.randint(0, 30)):
            offset = chance.randrange(8 * SECTOR - 1)
            size = chance.randint(1, min(3 * SECTOR, 8 * SECTOR - offset))
            file.write(bytes([n + 1]) * size, offset)
            now = content(files)
            if chance.random() < 0.1:
                file.sync()
                had = [set() for _ in range(8)]
            for sector in range(8):
                had[sector].add(now[sector * SECTOR : (sector + 1) * SECTOR])
        files.crash()
        after = content(files)
        assert all(after[n * SECTOR : (n + 1) * SECTOR] in had[n] for n in range(8)), seed


def test_a_name_is_durable_with_its_folder() -> None:
    found = set()
    for seed in SEEDS:
        files = FileSystem(random.Random(seed))
        file = files.open("a", create=True)
        file.write(NEW, 0)
        file.sync()
        files.crash()
        found.add(content(files) if files.exists("a") else None)
    assert found == {None, NEW}  # the file's own fsync does not keep its name; where that is there, all is
    files, _ = durable(NEW)
    files.crash()
    assert content(files) == NEW


def test_names_change_in_their_order_and_whole() -> None:
    found = set()
    for seed in SEEDS:
        files, _ = durable(OLD, seed)
        file = files.open("b", create=True)
        file.write(NEW, 0)
        file.sync()
        files.rename("b", "a")
        files.open("c", create=True)
        files.unlink("a")
        assert files.names() == ["c"]
        files.crash()
        found.add(tuple((name, content(files, name)) for name in files.names()))
    old, new = ("a", OLD), ("a", NEW)
    assert found == {(old,), (old, ("b", NEW)), (new,), (new, ("c", b"")), (("c", b""),)}


def test_what_was_removed_comes_back_until_the_folder_is_synced() -> None:
    found = set()
    for seed in SEEDS:
        files, file = durable(OLD, seed)
        file.write(NEW, 0)
        files.unlink("a")
        files.crash()
        found.add(content(files) if files.exists("a") else None)
    assert found == {None, OLD, NEW}
    files, _ = durable(OLD)
    files.unlink("a")
    files.sync_folder()
    files.crash()
    assert files.names() == []


def test_a_full_disk_takes_what_fits() -> None:
    files, file = durable(OLD)
    files.capacity = SECTOR + 100
    file.write(NEW, 0)  # needs no room
    with pytest.raises(OSError, match="No space") as caught:
        file.write(NEWER, SECTOR)
    assert caught.value.errno == errno.ENOSPC
    assert content(files) == NEW + NEWER[:100]
    assert files.used() == files.capacity
    with pytest.raises(OSError, match="No space"):
        files.open("b", create=True).write(b"1", 0)
    file.truncate(10)
    files.open("b").write(b"1", 0)


def test_a_disk_that_can_only_be_read() -> None:
    files, file = durable(OLD)
    files.read_only = True
    for do in (
        lambda: file.write(NEW, 0),
        lambda: file.truncate(0),
        lambda: files.unlink("a"),
        lambda: files.rename("a", "b"),
        lambda: files.open("b", create=True),
    ):
        with pytest.raises(OSError, match="Read-only") as caught:
            do()
        assert caught.value.errno == errno.EROFS
    file.sync()
    assert files.names() == ["a"]
    assert content(files) == OLD
    with pytest.raises(FileNotFoundError):
        files.open("b")


def test_an_fsync_that_fails_forgets_what_it_should_have_written() -> None:
    """The next one succeeds, and says nothing of what is lost."""

    def do(files: FileSystem, file: File) -> None:
        file.write(NEW * 2, 0)
        files.failing = 1
        with pytest.raises(OSError, match="Input/output"):
            file.sync()
        assert content(files) == NEW * 2
        file.sync()

    assert left(OLD * 2, do) == {a + b for a in (OLD, NEW) for b in (OLD, NEW)}

    def and_written_again(files: FileSystem, file: File) -> None:
        do(files, file)
        file.write(NEW * 2, 0)
        file.sync()

    assert left(OLD * 2, and_written_again) == {NEW * 2}


def test_a_cache_that_is_dropped_shows_what_is_on_the_disk() -> None:
    seen = set()
    for seed in SEEDS:
        files, file = durable(OLD, seed)
        file.write(NEW * 2, 0)
        files.failing = 1
        with pytest.raises(OSError, match="Input/output"):
            file.sync()
        file.write(NEWER, 2 * SECTOR)  # still to be written: it is not dropped
        files.evict()
        seen.add(content(files))
    assert seen == {a + bytes(SECTOR) + NEWER for a in (OLD, NEW)}


def test_fsyncs_that_lie() -> None:
    def do(files: FileSystem, file: File) -> None:
        files.lying = True
        file.write(NEW, 0)
        file.sync()

    assert left(OLD, do) == {OLD, NEW}


def test_what_was_open_is_gone_after_a_crash() -> None:
    files, file = durable(OLD)
    files.crash()
    for do in (
        lambda: file.read(1, 0),
        lambda: file.write(NEW, 0),
        lambda: file.truncate(0),
        lambda: file.sync(),
        lambda: file.size,
    ):
        with pytest.raises(PowerLoss):
            do()
    assert content(files) == OLD
    file = files.open("a")
    file.write(NEW, 0)
    files.cut_off()
    with pytest.raises(PowerLoss):
        file.sync()
    assert content(files) == NEW


def test_the_power_goes_in_a_chosen_operation() -> None:
    """What an fsync was to keep is not kept by it then, and a write may be there or not."""
    for at, do in ((1, lambda file: file.write(NEW, 0)), (2, lambda file: (file.write(NEW, 0), file.sync()))):
        found = set()
        for seed in SEEDS:
            files, file = durable(OLD, seed)
            files.crash_at = files.operations + at
            with pytest.raises(PowerLoss):
                do(file)
            found.add(content(files))
        assert found == {OLD, NEW}


def test_one_seed_is_one_crash_and_a_copy_is_another_disk() -> None:
    for seed in range(50):
        files, file = durable(OLD * 20)
        file.write(NEW * 10, SECTOR)
        file.truncate(15 * SECTOR)
        files.open("b", create=True)
        twins = [files.copy(random.Random(seed)) for _ in range(2)]
        before = content(files)
        for twin in twins:
            twin.crash()
        assert content(twins[0]) == content(twins[1])
        assert twins[0].names() == twins[1].names()
        assert content(files) == before
        file.write(NEWER, 0)
        assert NEWER not in content(twins[0])


def test_a_call_that_another_interrupts_is_recorded_like_any(tmp_path: Path) -> None:
    """As strace writes it on a busy machine, in two lines, of which the second is filled up with spaces."""
    name = "".join(f"\\x{byte:02x}" for byte in f"{tmp_path}/a".encode())
    whole = [f"7 fsync(3<{name}>) = 0", f'7 rename("{name}", "{name}") = 0']
    parts = [
        f"7 fsync(3<{name}> <unfinished ...>",
        "8 <... futex resumed>)           = 0",
        "7 <... fsync resumed>)      = 0",
        f'7 rename("{name}", "{name}" <unfinished ...>',
        "7 <... rename resumed>)            = 0",
    ]
    found = []
    for lines in (whole, parts):
        (tmp_path / "trace").write_text("\n".join(lines) + "\n")
        found.append([*recorded._calls(tmp_path / "trace", str(tmp_path))])
    assert found[0] == found[1]
    assert [call.name for call in found[0]] == ["sync", "rename"]
