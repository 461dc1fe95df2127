"""Files that are there whole or not at all, and locks, whatever somebody else does to the folder meanwhile."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leasehold.impl import files


@pytest.fixture(params=[0o000, 0o077, 0o777])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("umask")
def test_a_new_file_has_the_mode_that_is_asked_for(tmp_path: Path) -> None:
    files.create(tmp_path / "made", b"1", 0o640)
    files.replace(tmp_path / "replaced", b"1", 0o640)
    assert (mode(tmp_path / "made"), mode(tmp_path / "replaced")) == (0o640, 0o640)


def test_a_file_that_exists_is_not_created(tmp_path: Path) -> None:
    path = tmp_path / "key"
    files.create(path, b"old", 0o600)
    with pytest.raises(FileExistsError):
        files.create(path, b"new", 0o600)
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("key", b"old")]


def test_a_file_that_is_replaced_keeps_its_mode_and_its_links(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    files.create(target, b"old", 0o640)
    link.symlink_to("target")
    files.replace(link, b"new", 0o600)
    assert link.is_symlink()
    assert (target.read_bytes(), mode(target)) == (b"new", 0o640)
    assert {p.name for p in tmp_path.iterdir()} == {"target", "link"}


@pytest.mark.parametrize("write", [files.create, files.replace])
def test_a_file_that_cannot_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path, bytes, int], None]
) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write(tmp_path / "key", b"new", 0o600)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("again", [True, False], ids=["replaced", "removed"])
def test_a_lock_is_on_the_file_that_has_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool) -> None:
    """Also where somebody removes the file between its opening and its locking, and perhaps another is there."""
    path, flock, left = tmp_path / "lock", fcntl.flock, [1]

    def late(file: int, operation: int) -> None:
        if left:
            left.clear()
            path.unlink()
            if again:
                path.touch()
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    held = files.lock(path)
    assert held is not None
    assert os.path.samestat(os.fstat(held), path.stat())
    assert files.lock(path) is None
    os.close(held)
