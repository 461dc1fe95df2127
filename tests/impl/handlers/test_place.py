"""A unit's folder: its newest action (of the newest lease first, then by number), its token, its log and its end."""

from __future__ import annotations

import os
import subprocess
import threading
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from leasehold.impl.handlers import processes
from leasehold.impl.handlers.handler import HandlerAction, HandlerError, Stale
from leasehold.impl.handlers.place import Cancelled, UnitDirectory, read_file, want, write_file

PAIRS = tuple(product((0, 1, 2), (1, 2, 3)))  # the fence of a lease, and an action's number


def action(fence: int, number: int) -> HandlerAction:
    return HandlerAction("join", "t:1", "t:1/guest", number, {}, properties={"fence": fence} if fence else {})


@pytest.mark.parametrize("seen", PAIRS)
def test_an_action_is_older_by_its_lease_or_within_it_by_its_number(seen: tuple[int, int], tmp_path: Path) -> None:
    """What is refused changes nothing; what was seen last comes again after a restart."""
    file = tmp_path / "wanted.json"
    for now in PAIRS:
        file.unlink(missing_ok=True)
        want(file, action(*seen))
        before = read_file(file)
        assert (before.get("fence", 0), before["number"]) == seen
        if now < seen:
            with pytest.raises(Stale):
                want(file, action(*now))
            assert read_file(file) == before
        else:
            want(file, action(*now))
            after = read_file(file)
            assert (after.get("fence", 0), after["number"]) == now


@pytest.mark.parametrize("fence", [0, 3])
def test_an_action_is_written_down_with_all_that_tells_it_from_others(fence: int, tmp_path: Path) -> None:
    """A fence stands there only where the lease has one, and nothing of the action before stays."""
    file = tmp_path / "wanted.json"
    want(file, action(fence and 2, 1))
    now = replace(action(fence, 5), task="renew", incarnation=4)
    want(file, now)
    expected = {"number": 5, "verb": "join", "lease": "t:1", "task": "renew", "incarnation": 4}
    assert read_file(file) == (expected | {"fence": 3} if fence else expected)
    assert [path.name for path in tmp_path.iterdir()] == ["wanted.json"], "the fresh file has become this one"


def test_a_file_is_read_as_it_was_written_or_as_empty(tmp_path: Path) -> None:
    file = tmp_path / "lease.json"
    assert read_file(file) == {}
    for value in ({}, {"a": 1, "b": ["ä", None]}, {"a": 2}):
        write_file(file, value)
        assert read_file(file) == value
    file.write_text("[1]")
    assert read_file(file) == {}
    file.write_text('{"a": ')
    with pytest.raises(HandlerError, match=r"lease\.json is damaged"):
        read_file(file)


def test_a_folder_is_made_once_and_keeps_its_token(tmp_path: Path) -> None:
    one, two = UnitDirectory(tmp_path / "one"), UnitDirectory(tmp_path / "two")
    assert one.token == ""
    one.make()
    two.make()
    token = one.token
    assert len(token) == 32
    assert token != two.token
    one.make()
    assert UnitDirectory(one.folder).token == token
    assert [path.name for path in one.folder.iterdir()] == ["token"]
    assert one.folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("size", "most", "kept", "cut"),
    [(0, 8, 0, None), (7, 8, 7, None), (8, 8, 8, None), (9, 8, 0, 4), (100, 8, 0, 4), (10, 7, 0, 3)],
)
def test_a_log_that_is_too_long_leaves_its_last_half(
    size: int, most: int, kept: int, cut: int | None, tmp_path: Path
) -> None:
    place, text = UnitDirectory(tmp_path), bytes(range(size))
    place.cut_log(most)  # there is none yet
    place.log.write_bytes(text)
    place.cut_log(most)
    assert place.log.read_bytes() == text[:kept]
    last = tmp_path / "log.1"
    assert (last.read_bytes() if last.exists() else None) == (None if cut is None else text[-cut:])


def test_what_was_being_written_when_somebody_was_killed_goes_with_the_lease(tmp_path: Path) -> None:
    place = UnitDirectory(tmp_path / "unit")
    place.make()
    write_file(place.wanted, {"number": 1})
    for name in ("token.12.34", "wanted.json.new", "lease.json.new", "process.json.new", "process.json.17"):
        (place.folder / name).write_text("half")
    place.remove()
    assert sorted(path.name for path in place.folder.iterdir()) == ["token", "wanted.json"]


@pytest.mark.parametrize("gone", [True, False])
def test_a_token_is_made_although_somebody_removes_what_is_written_beside_it(
    gone: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, link = UnitDirectory(tmp_path / "unit"), os.link

    def linked(source: Path, target: Path) -> None:
        target.write_text("another")
        if gone:
            source.unlink()
        link(source, target)

    monkeypatch.setattr(os, "link", linked)
    place.make()
    assert place.token == "another"
    assert [path.name for path in place.folder.iterdir()] == ["token"]


def test_what_is_a_leases_goes_with_it_and_the_rest_stays(tmp_path: Path) -> None:
    """The newest action stays, so that older ones are refused; so do the token and the log."""
    place = UnitDirectory(tmp_path / "unit")
    place.make()
    place.remove()
    for file in (place.wanted, place.born, place.lease):
        write_file(file, {"a": 1})
    place.log.write_bytes(b"x")
    (place.work / "below").mkdir(parents=True)
    os.symlink(place.log, place.work / "below" / "link")
    place.remove()
    assert sorted(path.name for path in place.folder.iterdir()) == ["log", "token", "wanted.json"]
    place.remove()


@pytest.mark.parametrize(
    ("wrong", "known"), [({}, True), ({"boot": "another"}, False), ({"start": -1}, False), ({"pid": 1}, False)]
)
def test_the_first_process_is_known_by_its_number_its_start_and_its_boot(
    wrong: dict[str, Any], known: bool, tmp_path: Path
) -> None:
    place, me = UnitDirectory(tmp_path), processes.look(os.getpid())
    assert me is not None
    assert place.birth() == {}
    assert not place.alive()
    write_file(place.born, {"pid": me.pid, "start": me.start, "boot": processes.boot()} | wrong)
    assert (place.leader() is not None, place.alive()) == (known, known)


def test_a_first_process_that_has_ended_is_known_and_not_alive(tmp_path: Path) -> None:
    """Until its parent has asked for its end; then nobody has its number."""
    place, child = UnitDirectory(tmp_path), subprocess.Popen(["sleep", "60"])
    seen = processes.look(child.pid)
    assert seen is not None
    write_file(place.born, {"pid": seen.pid, "start": seen.start, "boot": processes.boot()})
    assert place.alive()
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert (place.leader() is not None, place.alive()) == (True, False)
    child.wait()
    assert (place.leader(), place.alive()) == (None, False)


def test_one_action_at_a_time_and_the_next_one_after_it(tmp_path: Path) -> None:
    """A second one waits to its limit, or until it is cancelled; the guard is free however the first one ends."""
    place, stop = UnitDirectory(tmp_path / "unit-7"), threading.Event()
    place.make()
    with suppress(KeyError), place.guarded(stop, 0):
        with pytest.raises(HandlerError, match=r"on unit-7 for 0\.02 s"), place.guarded(stop, 0.02):
            pass
        stop.set()
        with pytest.raises(Cancelled), place.guarded(stop, 60):
            pass
        raise KeyError
    with place.guarded(stop, 0):
        lock = place.try_lock()
        assert lock is not None, "the lock of the unit's processes is another one"
        assert place.try_lock() is None
        os.close(lock)
