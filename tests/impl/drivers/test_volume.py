"""Volumes: of each file system, grown, kept and restored, with nothing left of them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from leasehold.impl.drivers import volume
from leasehold.impl.drivers.mounts import mount_at
from leasehold.impl.handlers.handler import HandlerError
from tests.impl.drivers.machine import needs, said, seen
from tests.impl.drivers.one import One

pytestmark = needs("mkfs.ext4", "mkfs.xfs", "mkfs.btrfs", "losetup")
SIZES = {"ext4": ("16MiB", "24MiB"), "xfs": ("300MiB", "400MiB"), "btrfs": ("256MiB", "320MiB")}


@pytest.mark.parametrize("filesystem", SIZES)
def test_a_volume_of_each_file_system_is_made_grown_and_removed(units: Path, filesystem: str) -> None:
    small, large = SIZES[filesystem]
    one = One(units, "volume")
    facts = one.create(size=small, filesystem=filesystem)
    path = Path(facts["path"])
    (path / "data").write_text("mine")
    mount = mount_at(path)
    assert mount is not None
    assert (mount.kind, facts["filesystem"]) == (filesystem, filesystem)
    found = one.probe(size=small)
    assert found is not None
    assert found.up
    if filesystem == "ext4" and not volume._may_resize():
        with pytest.raises(HandlerError, match="ext4 grows while it is mounted with CAP_SYS_RESOURCE alone"):
            one.modify(size=large, filesystem=filesystem)
        assert (units / "u-0/volume/disk").stat().st_size == 16 << 20
    else:
        before = os.statvfs(path)
        assert one.modify(size=large, filesystem=filesystem)["size"] == int(large[:3]) << 20
        after = os.statvfs(path)
        grown = after.f_blocks * after.f_frsize - before.f_blocks * before.f_frsize
        assert grown > 0.8 * (int(large[:3]) - int(small[:3])) * (1 << 20)
    assert one.create(size=small, filesystem=filesystem)["size"] >= int(small[:-3]) << 20, "it does not shrink"
    assert (path / "data").read_text() == "mine"
    one.destroy(size=small)
    assert one.probe(size=small) is None
    assert {*seen(units)} <= {"files"}
    cache = Path("/run/blkid/blkid.tab")
    assert not cache.exists() or str(units) not in cache.read_text(), "the machine remembers nothing of it"


@pytest.mark.parametrize("filesystem", SIZES)
def test_a_volume_that_is_kept_begins_a_later_one_twice_at_once(units: Path, filesystem: str) -> None:
    """Two clones of one snapshot are mounted beside each other."""
    size = SIZES[filesystem][0]
    one = One(units, "volume")
    path = Path(one.create(size=size, filesystem=filesystem, keep="data")["path"])
    (path / "data").write_text("mine")
    assert one.destroy(ending=True, size=size, keep="data")["kept"]
    first, second = One(units, "volume", "tenant:2", "u-1"), One(units, "volume", "tenant:3", "u-2")
    for each in (first, second):
        path = Path(each.create(size=size, restore="data")["path"])
        assert (path / "data").read_text() == "mine"
        (path / "data").write_text("changed")
    for each in (first, second):
        each.destroy(size=size)
    assert seen(units) == {"files": [".snapshots/tenant/data", "u-0/volume", "u-1/volume", "u-2/volume"]} or {
        *seen(units)
    } == {"files"}
    with pytest.raises(HandlerError, match="restore: other has no snapshot 'data'"):
        One(units, "volume", "other:1", "u-3").create(size=size, restore="data")
    if filesystem == "ext4":
        with pytest.raises(HandlerError, match=r"the snapshot data has 16777216 bytes, and 8388608 are asked for"):
            One(units, "volume", "tenant:4", "u-4").create(size="8MiB", restore="data")


def test_quota_and_retention_are_the_site_s(units: Path) -> None:
    one = One(units, "volume", quota=9 << 20, retention=3600.0)
    for name in ("a", "b", "c"):
        path = Path(one.create(size="8MiB", keep=name)["path"])
        (path / "data").write_bytes(os.urandom(3 << 20))
        facts = one.destroy(ending=True, size="8MiB", keep=name)
        assert facts["kept"] is (name != "c"), facts
    assert "over the quota of 9437184" in str(facts["snapshot"])
    kept = units / ".snapshots/tenant"
    assert sorted(os.listdir(kept)) == ["a", "b"]
    one.create(size="8MiB", keep="b")
    assert one.destroy(ending=True, size="8MiB", keep="b")["kept"], "it takes the place of the one before"
    with pytest.raises(HandlerError, match="may not fit into the quota of 9437184"):
        one.create(size="16MiB", keep="d")
    old = time.time() - 3601
    os.utime(kept / "a", (old, old))
    with pytest.raises(HandlerError, match=r"no snapshot 'a'.*there are: b"):
        one.create(size="8MiB", restore="a")
    assert os.listdir(kept) == ["b"]


@contextmanager
def formatted(folder: Path, filesystem: str, size: str) -> Iterator[Path]:
    """A folder on a file system of its own."""
    disk, path = folder / "own", folder / "own-mounted"
    path.mkdir()
    said("truncate", "-s", size, disk)
    said(f"mkfs.{filesystem}", disk)
    said("mount", "-o", "loop", disk, path)
    try:
        yield path
    finally:
        said("umount", path)


@pytest.mark.parametrize(("filesystem", "shares"), [("btrfs", True), ("xfs", True), ("ext4", False)])
def test_a_clone_shares_its_blocks_where_the_disk_can_do_that(tmp_path: Path, filesystem: str, shares: bool) -> None:
    with formatted(tmp_path, filesystem, "400M") as folder:
        source = folder / "source"
        source.write_bytes(os.urandom(1 << 20))
        assert volume.clone(source, folder / "clone") is shares
        if shares:
            assert (folder / "clone").read_bytes() == source.read_bytes()
            assert (folder / "clone").stat().st_mode & 0o777 == 0o600


def test_units_on_a_disk_that_shares_blocks(tmp_path: Path) -> None:
    with formatted(tmp_path, "xfs", "400M") as folder:
        units = folder / "units"
        one = One(units, "volume")
        path = Path(one.create(size="64MiB", keep="data")["path"])
        (path / "data").write_bytes(os.urandom(30 << 20))
        one.destroy(ending=True, size="64MiB", keep="data")
        before = os.statvfs(folder).f_bfree
        again = One(units, "volume", "tenant:2", "u-1")
        path = Path(again.create(size="64MiB", restore="data")["path"])
        used = (before - os.statvfs(folder).f_bfree) * os.statvfs(folder).f_frsize
        assert used < 8 << 20, "30 MiB are not there twice"
        assert (path / "data").stat().st_size == 30 << 20
        again.destroy(size="64MiB")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"size": "small"}, "size: 'small' is no size"),
        ({"size": "8MiB", "filesystem": "xfs"}, "too few for xfs, which needs 300MiB"),
        ({"size": "8MiB", "filesystem": "ntfs"}, "Invalid enum value 'ntfs'"),
        ({"size": "8MiB", "keep": "../a"}, "keep: '../a' is no name of a snapshot"),
        ({"size": "8MiB", "restore": ".a"}, "restore: '.a' is no name of a snapshot"),
        ({"siz": 1}, "there is no setting 'siz'; did you mean size"),
        ({}, "missing required field `size`"),
    ],
)
def test_settings_that_cannot_be_met(units: Path, given: dict[str, str], words: str) -> None:
    with pytest.raises(HandlerError, match=words):
        One(units, "volume").create(**given)
    assert not (units / "u-0/volume/disk").exists()


def test_what_was_interrupted_is_taken_up(units: Path) -> None:
    """Half a disk is made anew; a mount of another file in its place is undone; one that is read-only is written."""
    one = One(units, "volume")
    (units / "u-0/volume").mkdir(parents=True)
    (units / "u-0/volume/disk.new").write_bytes(b"half")
    path = Path(one.create(size="8MiB")["path"])
    assert not (units / "u-0/volume/disk.new").exists()
    said("mount", "-o", "remount,ro", path)
    found = one.probe(size="8MiB")
    assert found is not None
    assert not found.up
    one.create(size="8MiB")
    (path / "data").write_text("mine")
    said("umount", path)
    said("mount", "-t", "tmpfs", "none", path)
    one.create(size="8MiB")
    assert (path / "data").read_text() == "mine"
    one.destroy(size="8MiB")
    assert "mounts" not in seen(units)


def test_the_disk_of_a_virtual_machine_is_not_mounted(units: Path) -> None:
    one = One(units, "volume")
    given = {"size": "8MiB", "mounted": False, "keep": "data"}
    assert one.probe(**given) is None
    assert one.create(**given) == {"disk": str(units / "u-0/volume/disk"), "size": 8 << 20}
    assert one.modify(**{**given, "size": "9MiB"})["size"] == 9 << 20
    found = one.probe(**given)
    assert found is not None
    assert found.up
    assert {*seen(units)} == {"files"}
    assert one.destroy(ending=True, **given)["kept"]
    assert one.probe(**given) is None
