"""Files that are there whole or not at all, and locks, whatever somebody else does to the folder meanwhile."""

from __future__ import annotations

import fcntl
import os
import re
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


# What is read


def test_a_file_is_overwritten_in_its_place_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "state"
    for content in (b"a longer one", b"short", b""):
        files.overwrite(path, content)
        assert path.read_bytes() == content
    assert mode(path) == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["state"]


def test_a_lock_is_held_by_one_and_given_up_with_its_file(tmp_path: Path) -> None:
    """Its file is made for its owner alone and stays; a link is not followed."""
    path = tmp_path / "lock"
    held = files.lock(path)
    assert held is not None
    assert mode(path) == 0o600
    descriptors = set(os.listdir("/proc/self/fd"))
    assert files.lock(path) is None
    assert set(os.listdir("/proc/self/fd")) == descriptors, "who gets no lock keeps no file"
    os.close(held)
    again = files.lock(path, wait=True)
    assert again is not None
    os.close(again)
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(OSError, match="symbolic links"):
        files.lock(tmp_path / "link")


def test_only_a_plain_file_is_opened_and_nobody_waits_for_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"abc")
    with files.open_plain(tmp_path / "plain") as file:
        assert file.read() == b"abc"
    os.mkfifo(tmp_path / "pipe")
    descriptors = set(os.listdir("/proc/self/fd"))
    for name in ("pipe", ".", "/dev/null"):
        with pytest.raises(OSError, match="it is no plain file"):
            files.open_plain(tmp_path / name)
    assert set(os.listdir("/proc/self/fd")) == descriptors
    with pytest.raises(FileNotFoundError):
        files.open_plain(tmp_path / "none")


def test_a_mark_differs_when_a_file_was_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "file"
    marks = [files.mark(path)]
    files.create(path, b"1", 0o600)
    marks.append(files.mark(path))
    assert marks == [(), files.mark(path)]
    changes: list[Callable[[], object]] = [
        lambda: files.replace(path, b"2", 0o600),
        lambda: files.overwrite(path, b"33"),
        lambda: path.chmod(0o640),
        lambda: os.utime(path, ns=(5, 7)),
        lambda: os.utime(path, ns=(5, 8)),
    ]
    for change in changes:
        change()
        marks.append(files.mark(path))
    assert len(set(marks)) == len(marks)
    found = path.stat()
    assert {found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode} <= set(marks[-1])


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a: [1", "is no YAML: line 1, column 6: "),
        (b"a: 1\nb: 2\na: 3\n", "is no YAML: line 3, column 1: the key 'a' comes twice$"),
        (b"a: {b: 1, b: 2}", "is no YAML: line 1, column 11: the key 'b' comes twice$"),
        (b"- {c: 1}\n- {c: 1, 'c': 2}", "is no YAML: line 2, column 10: the key 'c' comes twice$"),
        (b"a: @b", "is no YAML: line 1, column 4: .*; no text begins with `@`: quote it$"),
        (b"\xff\xfe\xfd", "cannot be read: "),
        (b"a: 2031-02-30", "cannot be read: "),
        (b"[" * 3_000, "is nested too deep"),
        (b"!!python/object:os.system a", "is no YAML: line 1, column 1: "),
        (b"a: \x01", "is no YAML: "),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_a_file_that_is_no_yaml_is_refused_with_the_place(
    tmp_path: Path, content: bytes, words: str, plain: bool
) -> None:
    path = tmp_path / "site.yaml"
    path.write_bytes(content)
    with pytest.raises(files.Unreadable, match=f"^{re.escape(str(path))}: {words}"):
        files.read_yaml(path, plain)


@pytest.mark.parametrize("plain", [False, True])
def test_a_file_that_is_yaml_is_read(tmp_path: Path, plain: bool) -> None:
    """The same key may stand in two mappings, and a value that is written twice is none that comes twice."""
    path = tmp_path / "site.yaml"
    path.write_text("a: {k: é}\nb: {k: [1, 1]}\n1: x\n")
    assert files.read_yaml(path, plain) == {"a": {"k": "é"}, "b": {"k": [1, 1]}, 1: "x"}
    path.write_text("")
    assert files.read_yaml(path, plain) is None
    with pytest.raises(files.Unreadable, match=r"none\.yaml: cannot be read: No such file or directory"):
        files.read_yaml(tmp_path / "none.yaml", plain)
    with pytest.raises(files.Unreadable, match=r"a\\0b: cannot be read: embedded null byte"):
        files.read_yaml(tmp_path / "a\0b", plain)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(files.Unreadable, match="pipe: cannot be read: it is no plain file"):
        files.read_yaml(tmp_path / "pipe", plain=True)


@pytest.mark.parametrize("how", ["create", "replace", "overwrite"])
def test_a_file_is_synced_before_its_folder_and_no_descriptor_is_kept(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The content before its name is durable; what is overwritten in its place has its name already."""
    path, synced = tmp_path / "state", list[tuple[str, bytes]]()
    sync = os.fsync

    def seen(handle: int) -> None:
        place = Path(os.readlink(f"/proc/self/fd/{handle}"))
        synced.append(("folder", b"") if place == tmp_path else ("file", place.read_bytes()))
        sync(handle)

    monkeypatch.setattr(os, "fsync", seen)
    descriptors = set(os.listdir("/proc/self/fd"))
    if how == "overwrite":
        files.overwrite(path, b"new")
    else:
        getattr(files, how)(path, b"new", 0o600)
    assert synced == [("file", b"new"), *([("folder", b"")] if how != "overwrite" else [])]
    assert set(os.listdir("/proc/self/fd")) == descriptors
    assert path.read_bytes() == b"new"


def test_a_line_is_added_and_one_that_was_cut_short_is_not_left(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    files.append_line(path, "first", 0o600)
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("first\n", 0o600)
    files.append_line(path, "second", 0o600)
    path.write_text(path.read_text() + "thi")
    files.append_line(path, "third" * 30_000, 0o600)
    assert path.read_text() == "first\nsecond\n" + "third" * 30_000 + "\n"
    path.write_text(path.read_text() + "x" * 100_000)
    files.append_line(path, "last", 0o600)
    assert path.read_text().splitlines()[2:] == ["third" * 30_000, "last"]
    path.write_text("never ended")
    files.append_line(path, "only", 0o600)
    assert path.read_text() == "only\n"
