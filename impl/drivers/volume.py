"""The driver `volume`: a mounted file system in a file, which may be kept for a later lease of the same holder.

Theory of operation. The file is made beside its place and moved there once it has a file system: empty, or cloned from
a snapshot, which shares its blocks where the disk's own file system can do that (btrfs, xfs), and copies them
elsewhere. So a file in its place is whole. It is mounted by a loop device that the kernel frees with the mount, also if
the program that mounts is killed. A volume only grows, while it is mounted; each step of that may be repeated. It is
kept by moving the file, so it is never in two places, nor in none.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from leasehold.impl import files
from leasehold.impl.drivers.driver import Facts, FoundPart, SettingCheck, UnitPart, need_root, size_of
from leasehold.impl.drivers.mounts import BUSY_LIMIT, Mount, mount_at, unmount_below
from leasehold.impl.drivers.site import DriverSite
from leasehold.impl.drivers.tools import ToolFailed, lacking
from leasehold.impl.handlers.handler import HandlerError

FICLONE = 0x40049409  # ioctl: a file gets the blocks of another
LEAST: dict[str, int] = {"ext4": 1 << 20, "xfs": 300 << 20, "btrfs": 256 << 20}  # smaller ones cannot be made, or grow
_MAKE = {
    "ext4": ("mkfs.ext4", "-q", "-F", "-m", "0"),
    "xfs": ("mkfs.xfs", "-q", "-f"),
    "btrfs": ("mkfs.btrfs", "-q", "-f"),
}
_GROW: Mapping[str, Callable[[Mount], Sequence[str | Path]]] = {
    "ext4": lambda mount: ("resize2fs", mount.source),
    "xfs": lambda mount: ("xfs_growfs", mount.point),
    "btrfs": lambda mount: ("btrfs", "filesystem", "resize", "max", mount.point),
}
_MOUNTED_WITH = {"xfs": ",nouuid"}  # a clone has the identifier of what it was cloned from


class VolumeSettings(Struct, forbid_unknown_fields=True, frozen=True):
    """A volume.

    Attributes:
        size: such as 64MiB; a larger one takes effect at once, and a volume never shrinks.
        filesystem: of a new one.
        restore: the name of a snapshot of the same holder, which it begins with; empty: it begins empty.
        keep: the name under which it is kept when the lease ends; empty: it is not.
        mounted: whether it is; the disk of a virtual machine must not be.
    """

    size: int | str
    filesystem: Literal["ext4", "xfs", "btrfs"] = "ext4"
    restore: str = ""
    keep: str = ""
    mounted: bool = True


class VolumeDriver:
    """The driver.

    Args:
        site: has the snapshots.
    """

    settings = VolumeSettings
    changes = frozenset({"size", "keep"})
    facts = ("path", "disk", "size", "filesystem")
    programs = ("mount", "umount", "losetup", "blkid", "cp")
    checks: Mapping[str, SettingCheck] = {"size": size_of}

    def __init__(self, site: DriverSite) -> None:
        need_root("volume")
        self._snapshots = site.snapshots

    def create(self, part: UnitPart, settings: VolumeSettings) -> Facts:
        size = self._size(settings)
        disk, path = part.folder / "disk", part.folder / "mounted"
        if not disk.exists():
            unmount_below(path, part.tools)
            self._make(part, settings, size, disk)
            part.point("made")
        if not settings.mounted:
            return self._enlarged(disk, size)
        path.mkdir(mode=0o755, exist_ok=True)
        mount = mount_at(path)
        if mount is not None and not _is_of(mount.source, disk):
            unmount_below(path, part.tools)
            mount = None
        if mount is None:
            kind = part.tools.run("blkid", "-o", "value", "-s", "TYPE", disk).strip()
            if lack := lacking(f"mkfs.{kind}"):
                raise HandlerError(f"a volume with {kind} cannot grow: {lack}")
            options = f"loop,nosuid,nodev{_MOUNTED_WITH.get(kind, '')}"
            part.tools.run("mount", "-t", kind, "-o", options, disk, path, may_wait=True)
            part.point("mounted")
        elif os.statvfs(path).f_flag & os.ST_RDONLY:  # a removal was interrupted
            part.tools.run("mount", "-o", "remount,rw", path)
            part.point("writable")
        return self._grown(part, size)

    def modify(self, part: UnitPart, settings: VolumeSettings) -> Facts:
        size = self._size(settings)
        return self._grown(part, size) if settings.mounted else self._enlarged(part.folder / "disk", size)

    def probe(self, part: UnitPart, settings: VolumeSettings) -> FoundPart | None:
        disk, path = part.folder / "disk", part.folder / "mounted"
        mount = mount_at(path)
        if mount is None and not disk.exists():
            return None
        if not settings.mounted:
            return FoundPart(disk.exists(), f"volume {disk}", {"disk": str(disk)})
        up = mount is not None and _is_of(mount.source, disk) and not os.statvfs(path).f_flag & os.ST_RDONLY
        return FoundPart(up, f"volume {disk}, {'mounted' if up else 'not mounted'}", {"path": str(path)})

    def destroy(self, part: UnitPart, settings: VolumeSettings) -> Facts:
        disk = part.folder / "disk"
        _unmount(part, part.folder / "mounted")
        part.point("unmounted")
        if disk.exists():
            _detach(part, disk)
        facts: dict[str, object] = {}
        if part.ending and settings.keep and disk.exists():
            kept = self._snapshots.keep(part.holder, settings.keep, disk, part.tools)
            facts = {"kept": kept.kept, "snapshot": kept.words}
            part.point("kept")
        disk.unlink(missing_ok=True)
        part.point("removed")
        return facts

    def _size(self, settings: VolumeSettings) -> int:
        """The size of a volume, once its settings are checked."""
        size = size_of(settings.size, "size")
        for name, value in (("keep", settings.keep), ("restore", settings.restore)):
            if value:
                self._snapshots.check_name(value, name)
        if settings.keep and size > self._snapshots.quota:
            raise HandlerError(
                f"keep: a volume of {size} bytes may not fit into the quota of {self._snapshots.quota}; "
                "ask for a smaller one, or for none to be kept"
            )
        if not settings.restore and size < LEAST[settings.filesystem]:
            least = LEAST[settings.filesystem] >> 20
            raise HandlerError(f"size: {size} bytes are too few for {settings.filesystem}, which needs {least}MiB")
        return size

    def _make(self, part: UnitPart, settings: VolumeSettings, size: int, disk: Path) -> None:
        fresh = disk.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        if settings.restore:
            with self._snapshots.opened(part.holder, settings.restore, part.tools) as snapshot:
                if size < (has := snapshot.stat().st_size):
                    raise HandlerError(
                        f"size: the snapshot {settings.restore} has {has} bytes, and {size} are asked for"
                    )
                if not clone(snapshot, fresh):
                    part.tools.run("cp", "--sparse=always", snapshot, fresh, may_wait=True)
            part.point("cloned")
            if part.tools.run("blkid", "-o", "value", "-s", "TYPE", fresh).strip() == "btrfs":
                part.tools.run("btrfstune", "-m", fresh)  # two file systems with one identifier cannot be mounted
        else:
            with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600), "wb") as file:
                file.truncate(size)
            part.point("sized")
            part.tools.run(*_MAKE[settings.filesystem], fresh, may_wait=True)
        part.tools.run("sync", fresh)
        os.rename(fresh, disk)
        files.sync_folder(disk.parent)

    @staticmethod
    def _enlarged(disk: Path, size: int) -> Facts:
        """Lets the file have a size at least; what is in it is its virtual machine's."""
        if size > (has := disk.stat().st_size):
            os.truncate(disk, size)
        return {"disk": str(disk), "size": max(size, has)}

    def _grown(self, part: UnitPart, size: int) -> Facts:
        """Lets the file, its loop device and its file system have a size at least; a larger one stays as it is."""
        disk, mount = part.folder / "disk", mount_at(part.folder / "mounted")
        if mount is None:
            raise HandlerError(f"the volume {disk} is not mounted")
        has = disk.stat().st_size
        if size > has:
            if mount.kind == "ext4" and not _may_resize():
                raise HandlerError(
                    "size: ext4 grows while it is mounted with CAP_SYS_RESOURCE alone; take xfs or btrfs"
                )
            os.truncate(disk, size)
            part.point("enlarged")
        # Each of these changes nothing where it was done before, which nothing else could tell for sure.
        part.tools.run("losetup", "-c", mount.source)
        part.point("device")
        if mount.kind != "ext4" or _may_resize():
            part.tools.run(*_GROW[mount.kind](mount))
        part.point("grown")
        return {"path": str(mount.point), "disk": str(disk), "size": max(size, has), "filesystem": mount.kind}


def _unmount(part: UnitPart, path: Path) -> None:
    """Unmounts a volume, whose file then says all that was written.

    Another process may have a mount namespace of its own, with a copy of this mount. So the file system becomes
    read-only first, in all of them, and nothing is written any more.
    """
    deadline = time.monotonic() + BUSY_LIMIT
    while mount_at(path) is not None:
        try:
            part.tools.run("mount", "-o", "remount,ro", path)
            break
        except ToolFailed:
            if time.monotonic() > deadline:
                raise
            part.tools.pause(0.05)  # processes that were killed a moment ago may still have files open
    part.point("read-only")
    unmount_below(path, part.tools)


def _detach(part: UnitPart, disk: Path) -> None:
    """Frees the loop devices of a file that is not mounted here, and waits until the kernel has done so.

    A copy of the mount in another namespace keeps a device for as long as that is there; then the kernel frees it.
    """
    deadline = time.monotonic() + BUSY_LIMIT
    while devices := part.tools.run("losetup", "-n", "-O", "NAME", "-j", disk).split():
        if time.monotonic() > deadline:
            return
        for device in devices:
            part.tools.run("losetup", "-d", device, ends_with=(0, 1))  # it may have gone meanwhile
        part.tools.pause(0.01)


def clone(source: Path, target: Path) -> bool:
    """Lets a new file share the blocks of another; returns whether the file system can do that."""
    with open(source, "rb") as given, open(target, "wb") as file:
        os.fchmod(file.fileno(), 0o600)
        try:
            fcntl.ioctl(file, FICLONE, given.fileno())
        except OSError:
            return False
    return True


def _may_resize() -> bool:
    """Returns whether this process has CAP_SYS_RESOURCE."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("CapEff:"))
    return bool(int(line.split()[1], 16) >> 24 & 1)


def _is_of(device: str, disk: Path) -> bool:
    """Returns whether a loop device has a file."""
    try:
        backing = Path(f"/sys/block/{Path(device).name}/loop/backing_file").read_text().strip()
    except OSError:
        return False
    return Path(backing) == disk
