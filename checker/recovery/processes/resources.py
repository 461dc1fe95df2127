"""Resources of a case that programs of this machine make: ports, file systems, and networks.

A file system is in memory and can be full, or on a loop device and can lose power. A network belongs to one actor: a
namespace, a cable and nft, which drops packets at random or one way.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import re
import shutil
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

SHUTDOWN = 0x8004587D  # _IOR('X', 125, __u32): ext4 and xfs go down as when the power fails
WITHOUT_FLUSH = 2
FULL_BYTES, DEVICE_BYTES = 4 << 20, 24 << 20
# Rules of nft for lost packets; TCP gets over the loss of a fifth within a second or two.
PACKET_RULES = {
    "random": "in numgen random mod 5 < 1 counter drop",
    "deaf": "in counter drop",
    "mute": "out counter drop",
}


class Unavailable(Exception):
    """A case cannot be played on this machine; the message says why."""


def program(name: str) -> str:
    """The path of a program.

    Raises:
        Unavailable: it is not installed.
    """
    postgresql = sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin", *postgresql])
    place = shutil.which(name, path=path)
    if place is None:
        raise Unavailable(f"{name} is not installed")
    return place


def run_program(*arguments: str, limit_seconds: float = 30.0, user: int | None = None) -> str:
    """Runs a program; returns its output.

    Raises:
        Unavailable: it is not installed, fails, or does not end in time.
    """
    command = [program(arguments[0]), *arguments[1:]]
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=limit_seconds, check=False, user=user, cwd="/"
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{arguments[0]}: {error}") from error
    if ended.returncode:
        raise Unavailable(f"{arguments[0]} fails: {(ended.stderr or ended.stdout).strip()[-300:]}")
    return ended.stdout


class PortAllocator:
    """Hands out TCP ports of this machine, each once; below those that the kernel takes for connections."""

    def __init__(self, first: int = 21_000, last: int = 31_000) -> None:
        start = first + os.getpid() % 97 * 100
        self._ports: Iterator[int] = itertools.cycle([*range(start, last), *range(first, start)])
        self._size = last - first
        self._lock = threading.Lock()

    def take(self) -> int:
        """A port at which no process listens."""
        with self._lock:
            for port in itertools.islice(self._ports, self._size):
                with socket.socket() as one, contextlib.suppress(OSError):
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    one.bind(("127.0.0.1", port))
                    return port
        raise OSError("no port is free")


PORTS = PortAllocator()


class TmpfsDisk:
    """A small file system in memory, mounted at `path` in a folder of the case. Needs root."""

    def __init__(self, folder: Path) -> None:
        if os.geteuid() != 0:
            raise Unavailable("only root may mount")
        self.path = folder / "disk"
        self.path.mkdir(mode=0o700)
        self._image = folder / "disk.image"
        self.mount()

    def mount(self) -> None:
        run_program("mount", "-t", "tmpfs", "-o", f"size={FULL_BYTES},mode=0700", "leasehold", str(self.path))

    def unmount(self) -> None:
        """Detaches the file system, also from processes that have files open on it."""
        with contextlib.suppress(Unavailable):
            run_program("umount", "-l", str(self.path))

    def fill(self) -> None:
        """Takes all free space."""
        with contextlib.suppress(OSError), open(self.path / "filler", "wb", buffering=0) as file:
            for size in (65536, 4096, 1):
                with contextlib.suppress(OSError):
                    while file.write(bytes(size)) == size:
                        pass

    def empty(self) -> None:
        (self.path / "filler").unlink()

    def remount(self, mode: str) -> None:
        """`rw` or `ro`; for `ro`, no process may have a file open for writing."""
        run_program("mount", "-o", f"remount,{mode}", str(self.path))


class LoopDisk(TmpfsDisk):
    """An ext4 file system on a loop device."""

    def mount(self) -> None:
        if not self._image.exists():
            with open(self._image, "wb") as file:
                file.truncate(DEVICE_BYTES)
            run_program("mkfs.ext4", "-q", "-F", str(self._image))
        run_program("mount", "-o", "loop", str(self._image), str(self.path))

    def lose_power(self) -> None:
        """Nothing more gets to the disk, and unflushed data is lost."""
        folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(folder, SHUTDOWN, struct.pack("I", WITHOUT_FLUSH))
        finally:
            os.close(folder)


class JumpingClock:
    """The calendar clock of a process, which can be set while that runs; durations are measured as before.

    Args:
        file: has the seconds by which it is off.

    Attributes:
        environment: the variables of the process.
    """

    LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))

    def __init__(self, file: Path) -> None:
        if not self.LIBRARIES:
            raise Unavailable("faketime is not installed")
        self._file = file
        self.environment = {
            "LD_PRELOAD": str(self.LIBRARIES[0]),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        self.set(0)

    def set(self, seconds: int) -> None:
        """Sets it ahead, or behind."""
        fresh = self._file.with_suffix(".new")
        fresh.write_text(f"{seconds:+d}s\n")
        fresh.replace(self._file)


class NetworkNamespace:
    """A network namespace, joined to this machine's own by a cable. Needs root.

    Attributes:
        outside: the address of this machine at the cable.
        inside: the address of a process in the namespace.
        prefix: the words before a command that runs in it.
    """

    _numbers = itertools.count(1)

    def __init__(self) -> None:
        if os.geteuid() != 0:
            raise Unavailable("only root may make network namespaces")
        number = next(self._numbers)
        self.name = f"lh{os.getpid()}-{number}"
        self.prefix = [program("ip"), "netns", "exec", self.name]
        self._nft = program("nft")
        near, far = f"lh{os.getpid() % 100_000}x{number}", f"lh{os.getpid() % 100_000}y{number}"
        # Four addresses for each cable, among those for tests of networks (RFC 2544).
        network, first = f"198.18.{os.getpid() % 256}", number % 64 * 4
        self.outside, self.inside = f"{network}.{first + 1}", f"{network}.{first + 2}"
        self._lost = False
        commands = (
            f"netns add {self.name}",
            f"link add {near} type veth peer name {far} netns {self.name}",
            f"address add {self.outside}/30 dev {near}",
            f"link set {near} up",
            f"-netns {self.name} address add {self.inside}/30 dev {far}",
            f"-netns {self.name} link set {far} up",
            f"-netns {self.name} link set lo up",
        )
        try:
            for command in commands:
                run_program("ip", *command.split())
            self._filter("add", "table", "inet", "leasehold")
            for chain, hook in (("in", "input"), ("out", "output")):
                kind = f"{{ type filter hook {hook} priority 0; }}"
                self._filter("add", "chain", "inet", "leasehold", chain, kind)
        except Unavailable:
            self.remove()
            raise

    def lose(self, rule: str) -> None:
        """Drops packets by a rule, a key of PACKET_RULES."""
        self._filter("add", "rule", "inet", "leasehold", *PACKET_RULES[rule].split())

    def mend(self) -> None:
        """Drops no more packets."""
        self._lost = self.lost()
        self._filter("flush", "table", "inet", "leasehold")

    def lost(self) -> bool:
        """Returns whether a packet was dropped."""
        return self._lost or bool(
            re.search("counter packets [1-9]", self._filter("list", "table", "inet", "leasehold"))
        )

    def remove(self) -> None:
        """Removes the namespace, and the cable with it."""
        with contextlib.suppress(Unavailable):
            run_program("ip", "netns", "delete", self.name)

    def _filter(self, *arguments: str) -> str:
        return run_program(*self.prefix, self._nft, *arguments)
