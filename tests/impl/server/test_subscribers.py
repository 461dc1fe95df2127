"""The subscribers to notices: an archive's lines, and the crash points of tests."""

from __future__ import annotations

import json
import os
import signal
import stat
from pathlib import Path
from typing import Any

import pytest

from leasehold.impl.notices import Consumed, Kind, Notice
from leasehold.impl.server import subscribers
from leasehold.impl.server.config import ConfigError
from leasehold.impl.server.subscribers import Archive, crash_point, crash_subscriber

DATA: dict[str, Any] = {"from": "a", "to": "b", "well": False, "words": "no room", "kind": "refused", "reason": "late"}


def notice(of: Kind, name: str = "x", lease: str = "t:1", machine: str = "m", now: int = 3, **data: Any) -> Notice:
    return Notice(of, "site", lease, machine, name, now, {**DATA, **data})


# The archive


LINES = b'{"lease":"a"}\n{"lease":"b"}\n'


@pytest.mark.parametrize(
    ("before", "kept"),
    [
        (b"", b""),
        (LINES, LINES),
        (LINES + b'{"lea', LINES),
        (LINES + b'{"lease":"c"}', LINES),
        (b'{"lea', b""),
        (b'{"lease":"c"}', b""),
        (LINES + b"\0\0\n", LINES),
        (b"\n", b""),
        (LINES + b'{"lea\n', LINES),
        (b'{"a":1}\n' * 3, b'{"a":1}\n' * 3),
        (b"broken\n" + LINES, b"broken\n" + LINES),
    ],
)
def test_an_archive_goes_on_after_its_last_whole_line(
    before: bytes, kept: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Part of a line, as a power failure leaves it, is cut off and said; what is whole stays."""
    path = tmp_path / "over.jsonl"
    path.write_bytes(before)
    archive = Archive(path)
    assert path.read_bytes() == kept
    said = [record.getMessage() for record in caplog.records]
    assert said == [] if before == kept else [f"{path} ends with a line that is not whole, and is cut off there"]
    archive(notice(Kind.FORGET, "closed"))
    archive.close()
    assert path.read_bytes().startswith(kept)
    assert json.loads(path.read_bytes()[len(kept) :])["lease"] == "t:1"
    Archive(path).close()
    assert len(path.read_bytes().splitlines()) == kept.count(b"\n") + 1


@pytest.mark.parametrize("longest", [1, 2, 14, 15, 29, 100])
def test_only_the_end_of_a_long_archive_is_looked_at(
    longest: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscribers, "LONGEST_LINE", longest)
    path = tmp_path / "over.jsonl"
    path.write_bytes(LINES + b"{")
    Archive(path).close()
    assert path.read_bytes() == LINES


def test_an_archive_has_all_of_a_lease_in_one_line_and_nothing_of_other_notices(tmp_path: Path) -> None:
    path = tmp_path / "over.jsonl"
    before = os.listdir("/proc/self/fd")
    archive = Archive(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for kind in Kind:
        archive(notice(kind, "closed", lease="t:1", machine="m", now=9))
    (line,) = path.read_bytes().splitlines()
    assert json.loads(line) == {
        "lease": "t:1",
        "actor": "site",
        "machine": "m",
        "state": "closed",
        "forgotten": 9,
        **DATA,
    }
    archive.close()
    assert os.listdir("/proc/self/fd") == before


def test_a_line_that_cannot_be_written_is_consumed_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "over.jsonl"
    archive = Archive(path)
    archive(notice(Kind.FORGET))
    before, write = path.read_bytes(), os.write
    for broken, name in (
        (lambda file, body: write(file, body[:-1]), "write"),
        (lambda file: os.close(-1), "fdatasync"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, broken)
            with pytest.raises(Consumed):
                archive(notice(Kind.FORGET, lease="t:2"))
        assert path.read_bytes() == before
    said = [record.getMessage() for record in caplog.records]
    assert said[0] == f"{path} cannot be written, so t:2 is not forgotten yet: No space left on device"
    assert len(said) == 2
    archive(notice(Kind.FORGET, lease="t:2"))
    assert path.read_bytes().count(b"\n") == 2
    archive.close()


@pytest.mark.parametrize("kind", ["folder", "missing"])
def test_an_archive_that_cannot_be_is_refused(kind: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"archive: .* cannot be written: "):
        Archive(tmp_path if kind == "folder" else tmp_path / "no" / "a.jsonl")


def test_a_pipe_is_written_to_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    archive = Archive(tmp_path / "pipe")
    with pytest.raises(Consumed):  # it cannot be synced
        archive(notice(Kind.FORGET))
    archive.close()
    os.close(reader)


# Crash points


POINTS = {
    Kind.COMMIT: "before-commit",
    Kind.COMMITTED: "after-commit",
    Kind.RECOVERED: "after-recovery",
    Kind.SEND: "before-send/x",
    Kind.CALL: "before-call/x",
}


@pytest.mark.parametrize("kind", Kind)
def test_a_process_may_die_at_some_notices_and_no_others(kind: Kind) -> None:
    assert crash_point(notice(kind)) == POINTS.get(kind)


@pytest.mark.parametrize("asked", ["", None])
def test_without_a_word_nobody_listens(asked: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEASEHOLD_POINTS", raising=False)
    if asked is not None:
        monkeypatch.setenv("LEASEHOLD_POINTS", asked)
    assert crash_subscriber() is None


@pytest.mark.parametrize(
    "asked",
    [
        "list:",
        "list",
        "kill:",
        "kill:before-commit",
        "kill:before-commit/",
        "kill:/2",
        "kill:before-commit/x",
        "kill:before-commit/-1",
        "die:before-commit/1",
        "before-commit/1",
    ],
)
def test_another_word_is_refused(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASEHOLD_POINTS", asked)
    with pytest.raises(ValueError, match=r"LEASEHOLD_POINTS is '.*'; write list:FILE or kill:POINT/NUMBER"):
        crash_subscriber()


def test_the_points_that_are_passed_are_written_a_line_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASEHOLD_POINTS", f"list:{tmp_path / 'a:b'}")
    for _ in range(2):  # another process adds to it
        lists = crash_subscriber()
        assert lists is not None
        for kind in Kind:
            lists(notice(kind))
    assert stat.S_IMODE((tmp_path / "a:b").stat().st_mode) == 0o600
    lines = (tmp_path / "a:b").read_text().splitlines()
    assert lines == [POINTS[kind] for kind in Kind if kind in POINTS] * 2


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("point", [*POINTS.values(), "before-send/y"])
def test_a_process_dies_at_its_point_when_it_has_passed_it_so_often(
    point: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each point is counted by itself, and the signal cannot be caught."""
    killed: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda *given: killed.append(given))
    monkeypatch.setenv("LEASEHOLD_POINTS", f"kill:{point}/{number}")
    kills = crash_subscriber()
    assert kills is not None
    for time in range(1, 5):
        for kind in Kind:
            before = len(killed)
            kills(notice(kind))
            assert len(killed) - before == (POINTS.get(kind) == point and time == number)
    assert killed == ([(os.getpid(), signal.SIGKILL)] if point in POINTS.values() else [])
