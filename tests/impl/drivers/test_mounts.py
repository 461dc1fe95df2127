"""Mounts below a folder: what was mounted last goes first, however they lie on each other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.impl.drivers import mounts
from leasehold.impl.drivers.tools import ToolFailed, Tools
from leasehold.impl.handlers.place import UnitDirectory
from tests.impl.drivers.machine import needs, said

pytestmark = needs("mount", "umount")

LAYOUTS = {  # the places of mounts, in the order in which they are made
    "one": ["a"],
    "the folder itself": ["."],
    "one beside another": ["a", "b"],
    "one within another": ["a", "a/inner"],
    "several within each other": [".", "a", "a/inner", "a/inner/most", "b"],
    "one on another": ["a", "a"],
    "one on another, and one within": ["a", "a", "a/inner"],
    "a space in a name": ["a b", "a b/inner"],
}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder, beside one whose name begins like its own, on which something is mounted."""
    place, beside = tmp_path / "unit", tmp_path / "unit-beside"
    place.mkdir()
    mount(beside)
    yield place
    for each in [beside, *(found.point for found in mounts.below(place))]:
        said("umount", "-R", each)


@pytest.fixture
def tools(tmp_path: Path) -> Tools:
    place = UnitDirectory(tmp_path / "tools")
    place.make()
    return Tools(place, None, threading.Event())


def mount(place: Path) -> None:
    place.mkdir(exist_ok=True)
    said("mount", "-t", "tmpfs", "tmpfs", place)


@pytest.mark.parametrize("name", LAYOUTS)
def test_all_mounts_below_a_folder_go_and_no_others(name: str, folder: Path, tools: Tools) -> None:
    places = [folder / place for place in LAYOUTS[name]]
    for place in places:
        mount(place)
        last = mounts.mount_at(place)
        assert last is not None
        assert last.kind == "tmpfs"
    assert [found.point for found in mounts.below(folder)] == places[::-1]
    mounts.unmount_below(folder, tools)
    assert mounts.below(folder) == []
    assert mounts.mount_at(folder.with_name("unit-beside")) is not None


def test_the_last_mount_at_a_place_is_the_one_that_is_seen(folder: Path) -> None:
    mount(folder)
    said("mount", "-t", "ramfs", "ramfs", folder)
    found = mounts.mount_at(folder)
    assert found is not None
    assert found.kind == "ramfs"


def test_what_stays_in_use_is_told(folder: Path, tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "BUSY_LIMIT", 0.0)
    mount(folder)
    with (folder / "file").open("w"), pytest.raises(ToolFailed, match="umount"):
        mounts.unmount_below(folder, tools)
