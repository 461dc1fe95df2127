"""A world of its own for each sequence: namespaces and a copy-on-write view of all files, thrown away at the end.

Theory of operation. As root, a world has its own processes, mounts, network, IPC objects and host name, and an overlay
over each folder of the machine, whose upper layer is in memory. So what a handler does is seen exactly (the upper
layers hold the changed files, and nothing else), nothing of others is seen, nothing outside is touched, and all of it
ends with the world's first process. Loop devices, device-mapper volumes and control groups are the kernel's alone; they
are known by the names of the units (observer.py), and ended one by one.

Where that is not permitted, the world's first process is the *subreaper* of all that the handler starts, which
are then known as its descendants, also those that left their session; the working folder is a copy, and only files in
it are seen.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import signal
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)
NEWNS, NEWUTS, NEWIPC, NEWPID, NEWNET = 0x20000, 0x4000000, 0x8000000, 0x20000000, 0x40000000
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 1 << 18
_PDEATHSIG, _SUBREAPER = 1, 36  # of prctl
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1
ORDINARY = ("ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "f2fs")  # file systems with files
_KERNELS = ("proc", "sys", "dev", "lost+found")
LARGEST_COPY = 256 << 20  # bytes of a working folder that is copied


class WorldError(Exception):
    """A world cannot be made; the message says what is lacking."""


@dataclass
class Layer:
    """A folder of the machine, with an upper layer that holds the changes.

    Attributes:
        place: of the folder.
        lower: how it was before, as a path that stays valid.
        upper: the changes, likewise.
    """

    place: str
    lower: str
    upper: str


@dataclass
class World:
    """A world, as seen from within.

    Attributes:
        isolated: whether it has namespaces of its own.
        layers: of the files, where it is isolated; else the working folder, compared with an empty one.
        first: its first process.
        kept: the harness's own processes.
        folder: where handlers work.
        private: a folder of the harness's own, which no handler sees.
    """

    isolated: bool
    folder: str
    private: str
    first: int
    layers: list[Layer] = field(default_factory=list)
    kept: set[int] = field(default_factory=set)


def can_isolate() -> bool:
    """Returns whether a world with namespaces of its own can be made here; it is tried."""
    pid = os.fork()
    if pid == 0:
        code = 1
        with suppress(BaseException):
            _unshare()
            _mount(None, "/", None, _MS_REC | _MS_PRIVATE, None)
            _mount("leasehold", "/tmp", "tmpfs", 0, "size=4m")
            os.makedirs("/tmp/u")
            os.makedirs("/tmp/w")
            _mount("leasehold", "/mnt", "overlay", 0, "lowerdir=/mnt,upperdir=/tmp/u,workdir=/tmp/w,volatile")
            code = 0
        os._exit(code)
    return os.waitpid(pid, 0)[1] == 0


def play_in_world(isolated: bool, folder: str, scratch: str, play: Callable[[World], None]) -> int:
    """Makes a world, has `play` called in it, and ends the world; returns the exit status of its first process.

    The caller has to have one thread. `play` runs in a process of its own and reports by what it has open.

    Args:
        isolated: with namespaces; else by a subreaper.
        folder: in which handlers work; another sees nothing of what they write there.
        scratch: an empty folder of the harness's own.
        play: called once, in the second process of the world.
    """
    outer = os.fork()
    if outer == 0:
        die_with_parent()
        try:
            if isolated:
                _unshare()
            first = os.fork()
            if first == 0:
                die_with_parent()
                _first_process(isolated, folder, scratch, play)
            os.waitpid(first, 0)
        finally:
            os._exit(0)
    return os.waitpid(outer, 0)[1]


def _first_process(isolated: bool, folder: str, scratch: str, play: Callable[[World], None]) -> None:
    """Waits for whatever ends, as the first process of a machine does, until the player has ended."""
    code = 1
    try:
        world = World(isolated, folder, scratch, os.getpid(), kept={os.getpid(), os.getppid()})
        if isolated:
            _loopback()
            _own_files(world, scratch)
        else:
            _libc.prctl(_SUBREAPER, 1, 0, 0, 0)
            signal.signal(signal.SIGTERM, _end_world)
            die_with_parent(signal.SIGTERM)  # nothing else would end what a handler has started
            _copy(world, scratch)
        player = os.fork()
        if player == 0:
            try:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                world.kept.add(os.getpid())
                os.chdir(world.folder)
                play(world)
                code = 0
            except BaseException:
                import traceback

                traceback.print_exc()
            finally:
                os._exit(code)
        while True:
            ended, status = os.wait()
            if ended == player:
                code = os.waitstatus_to_exitcode(status)
                break
        if not isolated:
            end_descendants(os.getpid())
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(abs(code))


def _end_world(number: int, frame: object) -> None:
    end_descendants(os.getpid())
    os._exit(1)


def _unshare() -> None:
    if _libc.unshare(NEWNS | NEWUTS | NEWIPC | NEWPID | NEWNET):
        error = ctypes.get_errno()
        raise WorldError(f"namespaces: {os.strerror(error)}")


def _loopback() -> None:
    """Brings up the loopback link of a new network, as it is on any machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        fcntl.ioctl(asked, _SIOCSIFFLAGS, struct.pack("16sh", b"lo", _IFF_UP))


def _own_files(world: World, scratch: str) -> None:
    _mount(None, "/", None, _MS_REC | _MS_PRIVATE, None)
    _mount("proc", "/proc", "proc", 0, None)
    _own_sysfs()
    _mount("leasehold", scratch, "tmpfs", 0, "mode=700")
    # Paths through a descriptor stay valid when an overlay has covered the place itself.
    world.private = f"/proc/{os.getpid()}/fd/{_held(scratch)}"
    for number, place in enumerate(_places()):
        try:
            lower = f"/proc/self/fd/{_held(place)}"
            status = os.stat(place)
        except OSError:
            continue  # somebody has just unmounted it
        for name in ("upper", "work"):
            os.makedirs(f"{world.private}/{number}/{name}")
        upper = f"{world.private}/{number}/upper"
        os.chmod(upper, status.st_mode & 0o7777)
        os.chown(upper, status.st_uid, status.st_gid)
        options = f"lowerdir={lower},upperdir={upper},workdir={world.private}/{number}/work,volatile"
        try:
            _mount("leasehold", place, "overlay", 0, options)
        except WorldError:
            continue  # such as one that is an overlay of overlays: the handler sees the folder as it is
        world.layers.append(Layer(place, f"/proc/{os.getpid()}/fd/{lower.rpartition('/')[2]}", upper))


def _own_sysfs() -> None:
    """Mounts /sys anew, as it shows the links of the network in which it was mounted, with what is mounted in it."""
    points = sorted({point for point, _ in _mounted() if point.startswith("/sys/")})
    outermost = [p for p in points if not any(p.startswith(f"{other}/") for other in points)]
    held = [(point, _held(point)) for point in outermost if os.path.isdir(point)]
    with suppress(WorldError):  # a container may have to leave it as it is
        _mount("sysfs", "/sys", "sysfs", 0, None)
        for point, descriptor in held:
            _mount(f"/proc/self/fd/{descriptor}", point, None, _MS_BIND | _MS_REC, None)
    for _, descriptor in held:
        os.close(descriptor)


def _held(place: str) -> int:
    return os.open(place, os.O_RDONLY | os.O_DIRECTORY)


def _places() -> list[str]:
    """The folders that get an overlay: those of the root, and where other file systems with files begin."""
    top = [f"/{name}" for name in os.listdir("/") if name not in _KERNELS]
    mounted = [point for point, kind in _mounted() if kind in ORDINARY and point != "/"]
    mounted = [point for point in mounted if point.split("/")[1] not in ("proc", "sys") and "/dev/" not in point]
    found = {place for place in (*top, *mounted, "/dev/shm") if os.path.isdir(place) and not os.path.islink(place)}
    return sorted(found, key=lambda place: (place.count("/"), place))


def _mounted() -> list[tuple[str, str]]:
    rows = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [(row[4].encode().decode("unicode_escape"), row[row.index("-") + 1]) for row in rows]


def _copy(world: World, scratch: str) -> None:
    """A copy of the working folder; the folder itself is left alone."""
    source, size = world.folder, 0
    for above, _, names in os.walk(source):
        for name in names:
            with suppress(OSError):
                size += os.lstat(f"{above}/{name}").st_size
            if size > LARGEST_COPY:
                raise WorldError(f"{source} is too large to be copied for each sequence; run as root, or elsewhere")
    before, work, private = (os.path.join(scratch, name) for name in ("before", "work", "private"))
    shutil.copytree(source, before, symlinks=True, ignore_dangling_symlinks=True)
    shutil.copytree(source, work, symlinks=True, ignore_dangling_symlinks=True)
    os.makedirs(private)
    world.folder, world.private = work, private
    world.layers.append(Layer(work, before, work))


def _mount(source: str | None, place: str, kind: str | None, flags: int, options: str | None) -> None:
    words = [word.encode() if word is not None else None for word in (source, place, kind, options)]
    if _libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]):
        error = ctypes.get_errno()
        raise WorldError(f"mount of {kind or 'none'} at {place}: {os.strerror(error)}")


def unmount(place: str) -> None:
    """Takes a mount away, also one that is in use."""
    _libc.umount2(place.encode(), 2)  # MNT_DETACH


def enter_network(descriptor: int) -> None:
    """Makes the calling process one of another network namespace.

    Raises:
        OSError: it may not.
    """
    if _libc.setns(descriptor, NEWNET):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def die_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """Has the kernel send this process a signal when its parent ends."""
    _libc.prctl(_PDEATHSIG, number, 0, 0, 0)


def descendants(of: int) -> set[int]:
    """The processes below one, now."""
    below: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                text = Path(f"/proc/{name}/stat").read_text(errors="replace")
                below.setdefault(int(text[text.rindex(")") + 2 :].split()[1]), []).append(int(name))
    found, open_ = set[int](), [of]
    while open_:
        for pid in below.get(open_.pop(), ()):
            if pid not in found:
                found.add(pid)
                open_.append(pid)
    return found


def resume_stopped(below: int | None) -> None:
    """Continues all processes that were stopped; of a world without namespaces, those below its first process."""
    for pid in descendants(below) if below is not None else filter(None, map(_number, os.listdir("/proc"))):
        with suppress(OSError, ValueError):
            text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
            if text[text.rindex(")") + 2] == "T":
                os.kill(pid, signal.SIGCONT)


def _number(name: str) -> int:
    return int(name) if name.isdigit() else 0


def end_descendants(of: int) -> None:
    """Kills all processes below one."""
    while found := descendants(of):
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
