"""The detector of the kernel's log: units that were killed for memory, and disks with errors, each made real."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from leasehold.impl.drivers.kernel_log import DISK_ERRORS, KILLED, KernelLogDetector
from leasehold.impl.drivers.mounts import mount_at
from leasehold.impl.handlers.handler import HandlerError
from leasehold.impl.policy import plugins
from leasehold.impl.raised import RaisedEvent
from tests.impl.drivers.machine import needs
from tests.impl.drivers.one import One

MEMORY = Path("/sys/fs/cgroup/memory")
TAKES = "x = bytearray(64 << 20)"
WAITS = "import time; time.sleep(60)"
QUIET = 1.5  # seconds in which a detector that has something to say has said it

short_of_memory = pytest.mark.skipif(
    not (MEMORY / "memory.limit_in_bytes").exists(), reason="needs the memory controller of version 1"
)
fails = pytest.mark.skipif(not Path("/sys/fs/ext4").is_dir(), reason="needs ext4 in the kernel")


class Heard:
    """What a detector has raised."""

    def __init__(self) -> None:
        self.raised: list[RaisedEvent] = []
        self._more = asyncio.Event()

    def add(self, raised: RaisedEvent) -> None:
        self.raised.append(raised)
        self._more.set()

    async def next(self) -> RaisedEvent:
        await asyncio.wait_for(self._more.wait(), 20)
        self._more.clear()
        return self.raised[-1]


@asynccontextmanager
async def watched(detector: KernelLogDetector) -> AsyncIterator[Heard]:
    heard = Heard()

    async def follow() -> None:
        async with aclosing(detector.watch()) as found:  # type: ignore[type-var]
            async for raised in found:
                heard.add(raised)

    task = asyncio.create_task(follow())
    await asyncio.sleep(0.1)  # it has begun at the log's end
    try:
        yield heard
    finally:
        assert not task.done(), task
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def in_group(path: str, program: str) -> subprocess.Popen[bytes]:
    (MEMORY / path.lstrip("/")).mkdir(exist_ok=True)
    enter = 'echo $$ > "$0"/cgroup.procs && exec "$@"'
    return subprocess.Popen(["sh", "-c", enter, str(MEMORY / path.lstrip("/")), sys.executable, "-S", "-c", program])


@pytest.mark.real_time
@needs()
@short_of_memory
async def test_a_unit_that_the_kernel_has_killed_is_lost(units: Path) -> None:
    one, other = One(units, "cgroup"), One(units, "cgroup", unit="u-1")
    path = one.create(memory="24MiB")["path"]
    other.create(memory="24MiB")
    async with watched(plugins.make("detector", "kernel_log", {"units": str(units)})) as heard:
        assert in_group(f"{path}/processes", TAKES).wait() == -9
        raised = await heard.next()
        assert (raised.event, raised.unit, raised.lease) == ("lost", one.unit, "")
        assert f"task_memcg={path}" in raised.reason
        assert in_group(path, TAKES).wait() == -9, "again, at once"
        await asyncio.sleep(QUIET)
        assert len(heard.raised) == 1
    one.destroy()
    other.destroy()


@pytest.mark.real_time
@needs()
@short_of_memory
async def test_a_unit_that_goes_on_without_a_process_is_not_lost(units: Path, caplog: pytest.LogCaptureFixture) -> None:
    one = One(units, "cgroup")
    path = one.create(memory="48MiB")["path"]
    server = in_group(path, WAITS)
    try:
        async with watched(KernelLogDetector(str(units))) as heard:
            assert in_group(f"{path}/guest", TAKES).wait() == -9
            await asyncio.sleep(1 + QUIET)
            assert not heard.raised
            assert server.poll() is None
    finally:
        server.kill()
        server.wait()
    assert f"a process of {one.unit} was killed for memory, and it goes on" in caplog.text
    one.destroy()


@pytest.mark.real_time
@needs("mkfs.ext4", "losetup")
@fails
async def test_an_error_of_a_unit_s_disk_is_its_own(units: Path) -> None:
    one, other = One(units, "volume"), One(units, "volume", unit="u-1")
    path = one.create(size="16MiB", filesystem="ext4")["path"]
    other.create(size="16MiB", filesystem="ext4")
    mount = mount_at(Path(path))
    assert mount is not None
    async with watched(KernelLogDetector(str(units), pause_seconds=60)) as heard:
        (Path("/sys/fs/ext4") / Path(mount.source).name / "trigger_fs_error").write_text("made by a test")
        raised = await heard.next()
        assert (raised.event, raised.unit) == ("lost", one.unit)
        assert "EXT4-fs error" in raised.reason
        await asyncio.sleep(QUIET)
        assert len(heard.raised) == 1
    one.destroy(size="16MiB")
    other.destroy(size="16MiB")


@pytest.mark.real_time
@needs("mkfs.ext4", "losetup")
@fails
async def test_an_error_of_the_disk_that_has_all_units_is_each_one_s(units: Path, tmp_path: Path) -> None:
    image, disk = tmp_path / "image", tmp_path / "disk"
    image.write_bytes(b"")
    os.truncate(image, 16 << 20)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    disk.mkdir()
    subprocess.run(["mount", "-o", "loop", str(image), str(disk)], check=True)
    try:
        for name in ("a", "a-1", ".images"):
            (disk / "units" / name).mkdir(parents=True)
        mount = mount_at(disk)
        assert mount is not None
        async with watched(KernelLogDetector(str(disk / "units"))) as heard:
            (Path("/sys/fs/ext4") / Path(mount.source).name / "trigger_fs_error").write_text("made by a test")
            await heard.next()
            await asyncio.sleep(0.2)
            assert {raised.unit for raised in heard.raised} == {"a", "a-1"}
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize(
    ("line", "group"),
    [
        ("oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/a,task_memcg=/a/b,task=sh,pid=7,uid=0", "/a/b"),
        ("oom-kill:constraint=CONSTRAINT_NONE,global_oom,task_memcg=/a,task=,task_memcg=/b,task=,pid=7,uid=0", "/a"),
        ("oom-kill:task_m invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0", ""),  # a name has 15 letters
        ("CPU: 1 PID: 7 Comm: oom-kill:task_memcg=/b,task= Not tainted", ""),
    ],
)
def test_a_guest_that_calls_itself_as_the_kernel_speaks_is_not_taken_for_it(line: str, group: str) -> None:
    found = KILLED.match(line)
    assert (found[1] if found else "") == group


@pytest.mark.parametrize(
    ("line", "device"),
    [
        ("EXT4-fs error (device loop3): ext4_lookup:1855: inode #2: comm ls: deleted inode referenced: 12", "loop3"),
        ("EXT4-fs (sda1): Remounting filesystem read-only", "sda1"),
        ("EXT4-fs (sda1): mounted filesystem with ordered data mode", ""),
        ("XFS (dm-3): Corruption of in-memory data detected.  Shutting down filesystem", "dm-3"),
        ("XFS (dm-3): Ending clean mount", ""),
        ("BTRFS error (device loop0: state EA): bdev /dev/loop0 errs: wr 1", "loop0"),
        ("I/O error, dev vdb, sector 2048 op 0x1:(WRITE) flags 0x800 phys_seg 1 prio class 0", "vdb"),
        ("blk_update_request: I/O error, dev vdb, sector 2048", "vdb"),
        ("I am: I/O error, dev vdb invoked oom-killer: gfp_mask=0xcc0", ""),
    ],
)
def test_errors_of_disks_as_file_systems_say_them(line: str, device: str) -> None:
    found = DISK_ERRORS.match(line)
    assert next(filter(None, found.groups()) if found else iter(()), "") == device


@pytest.mark.real_time
async def test_a_log_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    found = KernelLogDetector(str(tmp_path), log=str(tmp_path / "none")).watch()
    with pytest.raises(HandlerError, match="cannot be read: No such file or directory; it takes root"):
        await anext(found)


def test_settings_are_checked(tmp_path: Path) -> None:
    with pytest.raises(HandlerError, match="pause_seconds: nan is below 0"):
        KernelLogDetector(str(tmp_path), pause_seconds=float("nan"))
