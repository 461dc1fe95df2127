"""Files of the cache are there whole or not at all, and sources are known by what is in them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from leasehold.checker.host.cache import (
    LIMIT_BYTES,
    LIMIT_VARIABLE,
    VARIABLE,
    cache_folder,
    cached_files,
    limit_bytes,
    make_room,
    sources_of,
    write_whole,
)
from tests.systems import write


def test_a_file_is_durable_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, synced, sync = tmp_path / "some" / "file.json", list[tuple[bytes, bool]](), os.fsync

    def seen(handle: int) -> None:
        synced.append((Path(os.readlink(f"/proc/self/fd/{handle}")).read_bytes(), file.exists()))
        sync(handle)

    monkeypatch.setattr(os, "fsync", seen)
    write_whole(file, b"new")
    assert synced == [(b"new", False)]
    assert file.read_bytes() == b"new"


@pytest.mark.parametrize("error", [OSError("the disk is full"), KeyboardInterrupt()])
def test_what_was_there_stays_and_no_part_is_left(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(handle: int) -> None:
        raise error

    file = tmp_path / "file.json"
    write_whole(file, b"old")
    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(type(error)):
        write_whole(file, b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file.json", b"old")]


def test_the_folder_is_the_one_that_the_environment_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    assert cache_folder() == tmp_path / "user" / "leasehold"


@pytest.mark.parametrize(("named", "most"), [("", LIMIT_BYTES), ("12", 12), ("-1", LIMIT_BYTES), ("much", LIMIT_BYTES)])
def test_the_limit_is_the_one_that_the_environment_names(
    named: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LIMIT_VARIABLE, named)
    assert limit_bytes() == most


@pytest.mark.parametrize(
    ("limit", "size", "left"),
    [(60, 10, "abc"), (59, 10, "bc"), (40, 10, "bc"), (39, 10, "c"), (30, 30, ""), (29, 30, None)],
)
def test_the_oldest_files_make_room_for_a_new_one(
    limit: int, size: int, left: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file that has its place now does not count, and where the new one is too large nothing goes."""
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    monkeypatch.setenv(LIMIT_VARIABLE, str(limit))
    places = [tmp_path / kind / name for kind, name in (("proofs", "a"), ("mutants", "b"), ("checkpoints", "c"))]
    place = tmp_path / "checkpoints/new"
    for age, (file, bytes_) in enumerate(zip((*places, place), (20, 10, 20, 900), strict=True)):
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(bytes(bytes_))
        os.utime(file, (1000 + age, 1000 + age))
    assert make_room(size, place) is (left is not None)
    assert [file.path for file in cached_files() if file.path != place] == [
        file for file in places if left is None or file.name in left
    ]
    if left is None:
        with pytest.raises(OSError, match=f"the cache may have {limit} bytes"):
            write_whole(place, bytes(size))
    else:
        write_whole(place, bytes(size))
        assert sum(file.size for file in cached_files()) <= limit


SOURCES = {"a/one.py": "1", "a/b/two.py": "2", "c/three.py": "3"}


def changed(folder: Path) -> None:
    (folder / "a/b/two.py").write_text("2 ")


def renamed(folder: Path) -> None:
    (folder / "a/b/two.py").rename(folder / "a/two.py")


def added(folder: Path) -> None:
    (folder / "c/four.py").touch()


def taken_out(folder: Path) -> None:
    (folder / "a/one.py").unlink()


@pytest.mark.parametrize("change", [changed, renamed, added, taken_out])
def test_sources_that_differ_are_others(change: Callable[[Path], None], tmp_path: Path) -> None:
    write(tmp_path, {**SOURCES, "a/words.txt": "no source"})
    folders = [tmp_path / "a", tmp_path / "c"]
    before = sources_of(folders)
    assert [name for name, _ in before] == ["a/b/two.py", "a/one.py", "c/three.py"]
    (tmp_path / "a/words.txt").write_text("other words")
    assert sources_of(folders) == before
    change(tmp_path)
    assert sources_of(folders) not in (before, [])


def test_sources_that_are_not_all_there_are_none(tmp_path: Path) -> None:
    write(tmp_path, SOURCES)
    assert sources_of([tmp_path / "a", tmp_path / "nowhere"]) == []
    (tmp_path / "c/three.py").unlink()
    assert sources_of([tmp_path / "a", tmp_path / "c"]) == []
    (tmp_path / "a/broken.py").symlink_to("nowhere")
    assert sources_of([tmp_path / "a"]) == []
