"""The machine as somebody outside sees it: what the drivers have made on it, by the system's own tools alone.

What differs from one run to another although it means the same (numbers of processes and devices) is left out.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from leasehold.impl.drivers.tools import PACKAGES, PATH
from leasehold.impl.handlers.handler import HandlerAction

FENCE = {"guard", "lock", "token", "wanted.json"}  # the files of a unit that stay


def needs(*programs: str) -> pytest.MarkDecorator:
    """Skips a test where this user is not root, or a program is missing, by the name of its package."""
    lacks = [f"{p} ({PACKAGES.get(p, p)})" for p in programs if shutil.which(p, path=PATH) is None]
    if os.geteuid() != 0:
        lacks.insert(0, "root")
    return pytest.mark.skipif(bool(lacks), reason=f"needs {', '.join(lacks)}")


def said(*command: str | Path) -> str:
    """The output of a command."""
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False).stdout


def network(bridge: str) -> str:
    """The first three numbers of the addresses at a bridge, which no other test has at the same time."""
    digest = hashlib.sha256(bridge.encode()).digest()
    return f"10.{200 + digest[0] % 50}.{digest[1]}"


def prefix(units: Path) -> str:
    """The beginning of the names of all that the units of a directory have on the machine."""
    return f"lh-{hashlib.sha256(str(units.resolve()).encode()).hexdigest()[:8]}-"


def seen(units: Path, bridge: str = "") -> dict[str, Any]:
    """All that there is of the units of a directory; empty where there is nothing."""
    ours = prefix(units)
    found: dict[str, Any] = {
        "namespaces": sorted(name for name in os.listdir("/run/netns") if name.startswith(ours))
        if Path("/run/netns").is_dir()
        else [],
        "links": _links(units),
        "bridge": [one["ifname"] for one in json.loads(said("ip", "-j", "link", "show", "dev", bridge) or "[]")],
        "mounts": _mounts(units),
        "loops": sorted(line for line in said("losetup", "-n", "-O", "BACK-FILE", "-a").split() if str(units) in line),
        "groups": sorted(str(p) for p in Path("/sys/fs/cgroup").glob(f"*/{ours}*"))
        + sorted(str(p) for p in Path("/sys/fs/cgroup").glob(f"{ours}*")),
        "limits": {
            str(p): p.read_text().strip()
            for name in ("cpu.cfs_quota_us", "memory.limit_in_bytes", "pids.max", "cpu.max", "memory.max")
            for p in [
                *Path("/sys/fs/cgroup").glob(f"*/{ours}*/{name}"),
                *Path("/sys/fs/cgroup").glob(f"{ours}*/{name}"),
            ]
        },
        "containers": _containers(units),
        "sleepers": _sleepers(ours),
        "files": _files(units),
        "programs": _programs(units),
    }
    return {name: one for name, one in found.items() if one}


def _links(units: Path) -> list[dict[str, Any]]:
    """The interfaces at the bridges, with the addresses at their other ends."""
    found = []
    for unit in sorted(p.name for p in units.glob("[!.]*")):
        for part in sorted({p.name for p in (units / unit).iterdir() if p.is_dir()} | {"network"}):
            link = f"lh{hashlib.sha256(f'{units.resolve()}/{unit}/{part}'.encode()).hexdigest()[:11]}"
            for one in json.loads(said("ip", "-j", "link", "show", "dev", link) or "[]"):
                namespace = f"{prefix(units)}{unit}-{part}"
                inner = json.loads(said("ip", "-n", namespace, "-j", "-4", "addr") or "[]")
                addresses = [a["local"] for i in inner for a in i.get("addr_info", [])]
                rates = [
                    [q.get("kind"), q.get("options", {}).get("rate")]
                    for where in ([], ["-n", namespace])
                    for q in json.loads(said("tc", *where, "-j", "qdisc") or "[]")
                    if q.get("kind") == "tbf" and q.get("dev") in (link, "eth0")
                ]
                up = "UP" in one["flags"]
                routes = said("ip", "-n", namespace, "route", "show", "default").split()[:3]
                found.append({"up": up, "at": one.get("master"), "has": addresses, "rates": rates, "by": routes})
    return found


def _mounts(units: Path) -> list[tuple[str, str]]:
    lines = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [(line[1].removeprefix(f"{units}/"), line[2]) for line in lines if line[1].startswith(f"{units}/")]


def _containers(units: Path) -> list[tuple[str, str, list[str]]]:
    root = units / ".runc"
    if not root.is_dir():
        return []
    found = []
    for one in json.loads(said("runc", "--root", root, "list", "-f", "json") or "null") or []:
        processes = said("runc", "--root", root, "ps", one["id"], "-o", "args").splitlines()[1:]
        found.append((one["id"], one["status"], processes))
    return found


def _sleepers(ours: str) -> int:
    """Counts the processes in the control groups of the units that sleep, which is all that some of them do."""
    folders = {str(below) for group in Path("/sys/fs/cgroup").glob(f"*/{ours}*") for below, _, _ in os.walk(group)}
    pids = {pid for folder in folders for pid in Path(folder, "cgroup.procs").read_text().split()}
    names = [Path(f"/proc/{pid}/comm").read_text() for pid in pids if Path(f"/proc/{pid}/comm").exists()]
    return names.count("sleep\n")


def _files(units: Path) -> list[str]:
    """The files of the units' folders; those in a file system or a bundle of their own by their folder alone."""
    found = []
    for unit in units.glob("[!.]*"):
        for folder, below, names in os.walk(unit):
            where = Path(folder)
            below[:] = [b for b in below if not os.path.ismount(where / b) and b not in ("bundle", "work", "upper")]
            found += [str((where / name).relative_to(units)) for name in [*names, *below]]
    kept = [f for f in found if Path(f).name not in FENCE]
    return sorted(kept) + sorted(str(f.relative_to(units)) for f in units.glob(".snapshots/*/*"))


def _programs(units: Path) -> list[str]:
    """The programs that carry the token of a unit."""
    tokens = {token.read_text() for token in units.glob("*/token")}
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            variables = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if any(v.startswith("LEASEHOLD_TOKEN=") and v.partition("=")[2] in tokens for v in variables):
            found.append(Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").replace("\0", " "))
    return sorted(found)


def clean(units: Path, bridge: str = "") -> None:
    """Removes whatever a test has left of the units of a directory."""
    ours = prefix(units)
    for one in _containers(units):
        said("runc", "--root", units / ".runc", "delete", "--force", one[0])
    for _ in range(3):
        for folder in sorted(
            [*Path("/sys/fs/cgroup").glob(f"*/{ours}*"), *Path("/sys/fs/cgroup").glob(f"{ours}*")], key=str
        ):
            for below, _, _ in os.walk(folder, topdown=False):
                said("sh", "-c", f"kill -9 $(cat {below}/cgroup.procs) 2>/dev/null; sleep 0.02; rmdir {below}")
    for name in os.listdir("/run/netns") if Path("/run/netns").is_dir() else []:
        if name.startswith(ours):
            said("ip", "netns", "del", name)
    if bridge:
        said("ip", "link", "del", bridge)
    for point, _ in reversed(_mounts(units)):
        said("umount", "-l", units / point)


def image(folder: Path) -> dict[str, Any]:
    """Makes an image with a shell and its tools, as an archive; returns it as a configuration has it."""
    root = folder / "root"
    for name in ("bin", "proc", "sys", "dev", "etc", "root", "tmp"):
        (root / name).mkdir(parents=True)
    shutil.copy(shutil.which("busybox") or "busybox", root / "bin" / "busybox")
    for name in ("sh", "sleep", "cat", "ls", "id", "dd", "nc", "ip", "kill"):
        (root / "bin" / name).symlink_to("/bin/busybox")
    archive = folder / "image.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as file:
        file.add(root, ".")
    shutil.rmtree(root)
    return {"archive": str(archive), "digest": f"sha256:{hashlib.sha256(archive.read_bytes()).hexdigest()}"}


def action(
    verb: str, number: int, lease: str = "tenant:1", unit: str = "u-0", index: int = 0, **more: Any
) -> HandlerAction:
    """An action on a unit; `configuration`, `ticket` and `properties` have what holder, broker and site say."""
    data = {"end": 7, "configuration": more.pop("configuration", {}), "properties": more.pop("ticket", {})}
    task = more.pop("task", f"site/{unit}/{verb}/{number}")
    return HandlerAction(verb, lease, unit, number, data, task=task, index=index, actor="site", **more)
