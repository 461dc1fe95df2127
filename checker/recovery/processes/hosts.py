"""Hosts that are real to all that runs on them, on this machine: each has its own processes, mounts, network and disk.

Theory of operation. A host is a process (its *init*) in namespaces of its own; programs enter them (nsenter). When it
dies, the kernel ends all processes of the host at once, and its mounts, links and network namespaces go with them: so a
host loses power as a real one does, and its disk stays. Its disk is an ext4 file system on a loop device; the kernel
makes it read-only at the first error, as it does on a real one. The daemons of a host, such as its agent, are in a
control group of version 1, whose memory may be short. A network file system is served by a process on the host
(bindfs), which can die or hang. Hosts are joined by a bridge; nothing else of one is reached from another. An init dies
with the process that has made it, so hosts never outlive it.

What they share is the kernel: the control groups of units are removed here when a host dies.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from leasehold.impl.handlers import cgroups, processes

NEEDS = {
    "ip": "iproute2",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "setpriv": "util-linux",
    "mkfs.ext4": "e2fsprogs",
    "losetup": "mount",
}
NETWORK = "10.90.{net}.{host}"
DISK_BYTES, SCRATCH_BYTES = 64 << 20, 16 << 20
MEMORY = Path("/sys/fs/cgroup/memory")
# The init of a host: it has its own /run, a /sys that shows its links, the host's disk, and a file system for scratch,
# and reaps.
INIT = """
import contextlib, os, signal, subprocess, sys
disk, scratch, size, mode = sys.argv[1:]
os.umask(0o077)
for words in (["-t", "proc", "proc", "/proc"], ["-t", "tmpfs", "run", "/run"],
              ["--rbind", "--mkdir", "/sys/fs/cgroup", "/run/cgroup"], ["-t", "sysfs", "sysfs", "/sys"],
              ["--move", "/run/cgroup", "/sys/fs/cgroup"],
              ["-o", "loop,errors=remount-ro", disk + ".image", disk], ["-o", "remount," + mode, disk]):
    subprocess.run(["mount", *words], check=True)
with contextlib.suppress(OSError):
    os.makedirs(scratch)
    os.sync()
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=" + size, "scratch", scratch], check=True)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print("up", flush=True)
while True:
    signal.pause()
"""


class HostsUnavailable(Exception):
    """Hosts cannot be made here. The message says what is missing, and which package brings it."""


def require(more: Mapping[str, str] | None = None) -> None:
    """Checks whether hosts can be made here, and whether further programs are there, by the packages that bring them.

    Raises:
        HostsUnavailable: it is not so.
    """
    if os.geteuid():
        raise HostsUnavailable("hosts are namespaces, which root alone can make; run it as root")
    for program, package in {**NEEDS, **(more or {})}.items():
        if shutil.which(program, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin") is None:
            raise HostsUnavailable(f"{program} is missing, which the package {package} brings")


class Hosts:
    """Hosts.

    Args:
        names: of the hosts.
        key: a few letters that no other hosts of this machine have.
        folder: has their disks; each is mounted, within its host alone, at a folder with the host's name.
        scratch: the folder on each disk for what need not survive a boot: a small file system in memory.
    """

    def __init__(self, names: Sequence[str], key: str, folder: Path, scratch: str = "scratch") -> None:
        self.names, self._key, self.folder, self.scratch = [*names], key, folder.absolute(), scratch
        self._net = int(hashlib.sha256(key.encode()).hexdigest(), 16) % 250 + 1
        self.bridge = f"lh{key}"
        self._launchers: dict[str, subprocess.Popen[str]] = {}
        self._inits: dict[str, int] = {}

    def address(self, name: str = "") -> str:
        """The address of a host, or of this machine among them."""
        return NETWORK.format(net=self._net, host=self.names.index(name) + 1 if name else 254)

    def disk(self, name: str) -> Path:
        """The folder at which a host has its disk."""
        return self.folder / name

    def root(self, name: str) -> Path:
        """The root of a host that is up, as this machine sees it."""
        return Path(f"/proc/{self._inits[name]}/root")

    def is_up(self, name: str) -> bool:
        """Returns whether a host runs."""
        return name in self._inits

    def within(self, name: str) -> list[str]:
        """The words before a command that runs on a host.

        Raises:
            HostsUnavailable: the host is down.
        """
        if name not in self._inits:
            raise HostsUnavailable(f"{name} is down")
        return ["nsenter", f"--target={self._inits[name]}", "--net", "--mount", "--pid", "--"]

    def do(self, name: str, *words: str | Path) -> str:
        """Runs a program on a host; returns its output.

        Raises:
            subprocess.CalledProcessError: it fails.
            HostsUnavailable: the host is down.
        """
        return _run(*self.within(name), *map(str, words))

    def daemon(self, name: str) -> list[str]:
        """The words before a command that is a daemon of a host, and shares the memory of those."""
        enter = 'echo $$ > "$0"/cgroup.procs && exec "$@"'
        return ["sh", "-c", enter, str(self.memory(name)), *self.within(name)]

    def memory(self, name: str) -> Path:
        """The control group of the daemons of a host."""
        return MEMORY / f"lh{self._key}-{name}"

    def limit_memory(self, name: str, size: int) -> None:
        """Limits the memory of a host's daemons; -1: no more."""
        (self.memory(name) / "memory.limit_in_bytes").write_text(str(size))

    # Power

    def __enter__(self) -> Hosts:
        try:
            _run("ip", "link", "add", self.bridge, "type", "bridge")
            _run("ip", "address", "add", f"{self.address()}/24", "dev", self.bridge)
            _run("ip", "link", "set", self.bridge, "up")
            for name in self.names:
                self.boot(name)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        for name in self.names:
            self.halt(name)
            with suppress(OSError):
                self.memory(name).rmdir()
        subprocess.run(["ip", "link", "delete", self.bridge], check=False, capture_output=True)

    def boot(self, name: str, read_only: bool = False) -> None:
        """Starts a host, perhaps with a disk that nothing may write to, as after an error of its file system."""
        disk = self.disk(name)
        image = disk.with_suffix(".image")
        if not image.exists():
            disk.mkdir(mode=0o700, parents=True)
            with image.open("wb") as file:
                file.truncate(DISK_BYTES)
            _run("mkfs.ext4", "-q", "-F", "-m", "0", str(image))
        self.memory(name).mkdir(exist_ok=True)
        namespaces = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]
        about = [str(disk), str(disk / self.scratch), str(SCRATCH_BYTES), "ro" if read_only else "rw"]
        launcher = self._launchers[name] = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", *namespaces, "--", sys.executable, "-I", "-S", "-c", INIT, *about],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert launcher.stdout is not None
        assert launcher.stderr is not None
        if not launcher.stdout.readline():
            raise HostsUnavailable(f"{name} does not start: {launcher.stderr.read().strip()[-300:]}")
        (self._inits[name],) = (seen.pid for seen in processes.everyone() if seen.parent == launcher.pid)
        link = f"v{self._key}{self.names.index(name)}"
        inside = str(self._inits[name])
        _run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", inside)
        _run("ip", "link", "set", link, "master", self.bridge, "up")
        self.do(name, "ip", "address", "add", f"{self.address(name)}/24", "dev", "eth0")
        for device in ("eth0", "lo"):
            self.do(name, "ip", "link", "set", device, "up")

    def halt(self, name: str) -> None:
        """A host loses power: all that runs there ends, and what the kernel had for it is gone; its disk stays."""
        launcher, init = self._launchers.pop(name, None), self._inits.pop(name, None)
        groups = self._groups(init) if init is not None else set()
        if init is not None:
            with suppress(ProcessLookupError):
                os.kill(init, signal.SIGKILL)
            self._end_entered(init)
        if launcher is not None:
            if init is None:
                launcher.kill()
            launcher.communicate()
        for path in groups:
            cgroups.remove(path)
        until = time.monotonic() + 10.0  # the kernel frees the device of the disk a moment later
        while _run("losetup", "-j", str(self.disk(name).with_suffix(".image"))) and time.monotonic() < until:
            time.sleep(0.02)

    @staticmethod
    def _end_entered(init: int) -> None:
        """Kills the programs that have entered a host: one that is stopped would never reap, and the host never end."""
        for seen in processes.everyone():
            with suppress(OSError):
                if f"--target={init}".encode() in (Path("/proc") / str(seen.pid) / "cmdline").read_bytes().split(b"\0"):
                    processes.send(seen, signal.SIGKILL)

    def _groups(self, init: int) -> set[str]:
        """The control groups of a host's units, by their paths."""
        found = set()
        for pid in self.processes_of(init):
            with suppress(OSError):
                for line in (Path("/proc") / str(pid) / "cgroup").read_text().splitlines():
                    path = line.split(":", 2)[2]
                    if path.startswith("/lh-"):
                        found.add(f"/{path.split('/')[1]}")
        return found

    def processes_of(self, init: int) -> list[int]:
        """The processes of a host, by its init's."""
        space = os.stat(f"/proc/{init}/ns/pid").st_ino
        found = []
        for one in Path("/proc").iterdir():
            with suppress(OSError):
                if one.name.isdecimal() and os.stat(one / "ns/pid").st_ino == space:
                    found.append(int(one.name))
        return found

    def mounts(self, name: str) -> list[str]:
        """The mounts on a host."""
        if name not in self._inits:
            return []
        return [line.split()[4] for line in Path(f"/proc/{self._inits[name]}/mountinfo").read_text().splitlines()]

    # Failures of their parts

    def fail_disk(self, name: str) -> None:
        """Lets the kernel find an error in the file system of a host's disk, which it then makes read-only."""
        device = self.do(name, "findmnt", "-n", "-o", "SOURCE", self.disk(name)).strip()
        (Path("/sys/fs/ext4") / Path(device).name / "trigger_fs_error").write_text("a failure of the disk")

    def mend_disk(self, name: str) -> None:
        """Checks the file system of a host that is down, as its operator does."""
        image = self.disk(name).with_suffix(".image")
        subprocess.run(["e2fsck", "-p", "-f", image], check=False, capture_output=True)

    def share(self, name: str, source: Path, point: Path) -> subprocess.Popen[Any]:
        """Mounts a network file system on a host; the process that serves it there is returned."""
        point.mkdir(exist_ok=True)
        words = ["bindfs", "-f", "-r", "--no-allow-other", str(source), str(point)]
        server = subprocess.Popen([*self.daemon(name), *words], start_new_session=True)
        until = time.monotonic() + 10.0
        while str(point) not in self.mounts(name):
            if server.poll() is not None or time.monotonic() > until:
                raise HostsUnavailable(f"bindfs does not mount {source} on {name}")
            time.sleep(0.02)
        return server


def _run(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def killed_for_memory(group: Path) -> int:
    """Returns how many processes of a control group the kernel has killed as memory was short."""
    lines = (group / "memory.oom_control").read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)
