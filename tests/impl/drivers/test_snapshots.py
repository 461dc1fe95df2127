"""Snapshots: how long one is kept, and how much its holder may have, to the last second and byte."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from leasehold.impl.drivers import snapshots
from leasehold.impl.drivers.snapshots import Snapshots
from leasehold.impl.drivers.tools import Tools
from leasehold.impl.handlers.handler import HandlerError
from leasehold.impl.handlers.place import UnitDirectory

RETENTION = 3600.0
BLOCK = 4096
YEAR = 365 * 86400.0


@pytest.fixture
def tools(tmp_path: Path) -> Tools:
    place = UnitDirectory(tmp_path / "unit")
    place.make()
    return Tools(place, None, threading.Event())


def volume(folder: Path, blocks: int = 1, age: float = 0.0) -> Path:
    """A volume that was written so many seconds ago."""
    path = folder / "disk"
    path.write_bytes(os.urandom(blocks * BLOCK))
    os.utime(path, (time.time() - age, time.time() - age))
    return path


@pytest.mark.parametrize("age", [0.0, RETENTION + 1, YEAR, -YEAR], ids=["new", "older", "old", "of the future"])
def test_a_volume_is_kept_for_so_long_from_when_it_was_kept(
    age: float, tmp_path: Path, tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When its holder has written to it last, and by which clock, makes no difference."""
    site = Snapshots(tmp_path / "kept", 1 << 30, RETENTION)
    began = time.time()
    assert site.keep("holder", "data", volume(tmp_path, age=age), tools).kept
    ended = time.time()
    for now, names in ((began + RETENTION - 1, ["data"]), (ended + RETENTION + 1, [])):
        monkeypatch.setattr(snapshots.time, "time", lambda now=now: now)
        with pytest.raises(HandlerError, match="has no snapshot 'none'"), site.opened("holder", "none", tools):
            pass
        assert site.names("holder") == names


@pytest.mark.parametrize(
    ("others", "kept"),
    [
        ([], True),
        ([("holder", "other", 1)], True),  # as many bytes as it may have
        ([("holder", "other", 2)], False),
        ([("holder", "other", 1), ("holder", "another", 1)], False),
        ([("holder", "data", 2)], True),  # whose place it takes
        ([("somebody", "other", 9)], True),
    ],
)
def test_the_quota_is_of_all_that_a_holder_has_then(
    others: list[tuple[str, str, int]], kept: bool, tmp_path: Path, tools: Tools
) -> None:
    free, site = Snapshots(tmp_path / "kept", 1 << 30, RETENTION), Snapshots(tmp_path / "kept", 3 * BLOCK, RETENTION)
    for holder, name, blocks in others:
        assert free.keep(holder, name, volume(tmp_path, blocks), tools).kept
    mine = volume(tmp_path, 2)
    content = mine.read_bytes()
    assert site.keep("holder", "data", mine, tools).kept is kept
    assert mine.exists() is not kept, "it is in one place"
    if kept:
        with site.opened("holder", "data", tools) as snapshot:
            assert snapshot.read_bytes() == content
