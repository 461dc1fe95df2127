"""The driver `container`: a container of runc, with a root file system of the site's menu.

Theory of operation. The root file system is a layer over the image (overlay), or a copy of it; what the container
writes lies in the folder that the setting `volume` names, so that it is limited and kept with that volume, or else in
the part's own. Files such as the holder's key are written there before the container begins, and no link that the guest
may have left is followed (beneath.py). runc's own default configuration (`runc spec`) is the base: few capabilities, no
new privileges, no devices but the usual. What runc has left half made is deleted and begun again, and the control group
of the container, by which runc may have left processes, is removed with it. An image may be a folder of a network file
system: a container whose root cannot be read any more is not up, and is made anew, as the layer never reads again.

A container has the machine's kernel, and its root is the machine's root without most of its capabilities. A site
approves its images.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_ssh_private_key,
)
from msgspec import Struct

from leasehold.impl.drivers.beneath import write_beneath
from leasehold.impl.drivers.driver import Facts, FoundPart, SettingCheck, UnitPart, need_root, words_of
from leasehold.impl.drivers.mounts import mount_at, unmount_below
from leasehold.impl.drivers.network import NAMESPACES
from leasehold.impl.drivers.site import DriverSite
from leasehold.impl.drivers.tools import ToolFailed, silence_of
from leasehold.impl.handlers import cgroups
from leasehold.impl.handlers.handler import HandlerError
from leasehold.impl.handlers.place import UnitDirectory, write_file

CONTAINER = "container"  # its control group, below that of its limits
LOG_BYTES = 16 << 20
_HOSTNAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,62}[A-Za-z0-9])?")


class ContainerSettings(Struct, forbid_unknown_fields=True, frozen=True):
    """A container.

    Attributes:
        image: the name of one of the site's images.
        command: the words of what it runs, as a list.
        root: `overlay`, a layer over the image, or `copy`.
        volume: the folder that has what it writes, such as a volume's `path`; empty: the part's own.
        namespace: the network namespace, such as a network's; empty: one of its own with nothing in it.
        cgroup: the control group above its own, which has the limits; empty: none.
        hostname: its host name; empty: the unit's name.
        environment: its variables beside PATH.
        files: by path, what is written there before it begins, for root alone to read.
        host_key: the path at which the container has its own private key, of SSH; empty: it has none.
        readonly: whether it may not write its root file system.
        capabilities: further ones than runc gives by default, such as CAP_CHOWN.
    """

    image: str
    command: list[str]
    root: Literal["overlay", "copy"] = "overlay"
    volume: str = ""
    namespace: str = ""
    cgroup: str = ""
    hostname: str = ""
    environment: dict[str, str] = {}
    files: dict[str, str] = {}
    host_key: str = ""
    readonly: bool = False
    capabilities: list[str] = []


class ContainerDriver:
    """The driver.

    Args:
        site: has the images.
        runtime: the program, which has runc's commands.
    """

    settings = ContainerSettings
    changes = frozenset({"files"})
    facts = ("pid", "hostname", "host_key")

    def __init__(self, site: DriverSite, runtime: str = "runc") -> None:
        need_root("container")
        self._images, self._runtime, self._root = site.images, runtime, site.directory / ".runc"
        self.programs = (runtime, "mount", "umount", "timeout", "ls")
        self.checks: Mapping[str, SettingCheck] = {
            "image": lambda value, where: site.images.check(value, f"{where}: "),
            "command": words_of,
            "hostname": lambda value, where: _check_hostname(value, where) if value else None,
        }

    def create(self, part: UnitPart, settings: ContainerSettings) -> Facts:
        hostname = settings.hostname or part.unit.replace("_", "-")
        _check_hostname(hostname, "hostname")
        words_of(settings.command, "command")
        root = self._root_of(part, settings)
        host_key = self._write_files(part, settings, root)
        state = self._state(part)
        if state.get("status") != "running":
            self._delete(part, settings, state)
            self._configure(part, settings, root, hostname)
            part.point("configured")
            self._begin(part)
            part.point("begun")
            state = self._state(part)
            if state.get("status") != "running":
                raise HandlerError(f"the command {settings.command[0]!r} has ended at once; {_last_line(part)}")
        return {"pid": state["pid"], "hostname": hostname, "host_key": host_key}

    def modify(self, part: UnitPart, settings: ContainerSettings) -> Facts:
        return self.create(part, settings)  # which writes the files anew, and lets the container run

    def probe(self, part: UnitPart, settings: ContainerSettings) -> FoundPart | None:
        UnitDirectory(part.folder).cut_log(LOG_BYTES)
        status = self._state(part).get("status", "")
        group = _cgroup(part, settings)
        if not status and not cgroups.processes_in(group) and mount_at(part.folder / "rootfs") is None:
            return None
        pids = sorted(cgroups.processes_in(group))
        silence = _silence(part) if status == "running" else ""
        words = f"container {part.name}, {status or 'half made'}{f', whose root is gone: {silence}' if silence else ''}"
        return FoundPart(status == "running" and not silence, words, {"processes": len(pids)})

    def destroy(self, part: UnitPart, settings: ContainerSettings) -> Facts:
        self._delete(part, settings, self._state(part))
        part.point("ended")
        unmount_below(part.folder, part.tools)
        part.point("unmounted")
        if settings.volume and Path(settings.volume).is_dir():
            shutil.rmtree(Path(settings.volume) / "work", ignore_errors=True)  # of the overlay
        return {}

    def _delete(self, part: UnitPart, settings: ContainerSettings, state: Mapping[str, Any]) -> None:
        """Removes a container in any state, with what the runtime leaves where it is killed itself."""
        if state:
            with suppress(ToolFailed):  # it cannot read its own state, which it does not flush; the rest removes all
                self._run(part, "delete", "--force", part.name)
            part.point("deleted")
        cgroups.remove(_cgroup(part, settings))
        if (left := self._root / part.name).exists():
            unmount_below(left, part.tools)
            shutil.rmtree(left)

    def _root_of(self, part: UnitPart, settings: ContainerSettings) -> Path:
        """The root file system, made where it is missing."""
        image = self._images.root(settings.image, part.tools)
        part.point("image")
        if _silence(part):
            self._delete(part, settings, self._state(part))
            unmount_below(part.folder, part.tools)
            part.point("unmounted")
        if settings.volume and not Path(settings.volume).is_dir():
            raise HandlerError(f"volume: {settings.volume} is no folder")
        base = Path(settings.volume) if settings.volume else part.folder
        if settings.root == "copy":
            root, fresh = base / "root", base / "root.new"
            if not root.is_dir():
                if fresh.exists():
                    shutil.rmtree(fresh)
                part.tools.run("cp", "-a", "--reflink=auto", "-T", image, fresh)
                part.tools.run("sync", "-f", fresh)
                os.rename(fresh, root)
                part.point("copied")
            return root
        root, upper, work = part.folder / "rootfs", base / "upper", base / "work"
        for folder in (root, upper, work):
            folder.mkdir(mode=0o755, exist_ok=True)
        if mount_at(root) is None:
            layers = {"lowerdir": image, "upperdir": upper, "workdir": work}
            if any(letter in str(path) for path in layers.values() for letter in ",:\\"):
                raise HandlerError(f"a layer cannot have `,`, `:` or a backslash in its path: {image}, {base}")
            options = ",".join(f"{name}={path}" for name, path in layers.items())
            part.tools.run("mount", "-t", "overlay", "-o", options, "overlay", root, may_wait=True)
            part.point("mounted")
        return root

    def _write_files(self, part: UnitPart, settings: ContainerSettings, root: Path) -> str:
        """Writes the files and the container's key; returns the public part of that."""
        for path, content in settings.files.items():
            write_beneath(root, path, f"{content}\n".encode() if content else b"")
            part.point("file")
        if not settings.host_key:
            return ""
        kept = part.folder / "host_key.json"
        if not kept.exists():
            private = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
            write_file(kept, {"private": private.decode()})
            part.point("key")
        private_text = json.loads(kept.read_bytes())["private"].encode()
        write_beneath(root, settings.host_key, private_text)
        part.point("file")
        public = load_ssh_private_key(private_text, None).public_key()
        return public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()

    def _configure(self, part: UnitPart, settings: ContainerSettings, root: Path, hostname: str) -> None:
        """Writes the bundle's configuration: runc's own, with what is particular to this container."""
        bundle = part.folder / "bundle"
        shutil.rmtree(bundle, ignore_errors=True)
        bundle.mkdir(mode=0o700)
        part.tools.run(self._runtime, "spec", "--bundle", bundle)
        config: dict[str, Any] = json.loads((bundle / "config.json").read_bytes())
        process, linux = config["process"], config["linux"]
        process["terminal"], process["args"] = False, settings.command
        path = [line for line in process["env"] if line.startswith("PATH=")]
        process["env"] = path + [f"{name}={value}" for name, value in settings.environment.items()]
        for has in process["capabilities"].values():
            has.extend(name for name in settings.capabilities if name not in has)
        config["root"] = {"path": str(root), "readonly": settings.readonly}
        config["hostname"] = hostname
        linux["cgroupsPath"] = _cgroup(part, settings)
        if settings.namespace:
            network = {"type": "network", "path": str(NAMESPACES / settings.namespace)}
            linux["namespaces"] = [network if n["type"] == "network" else n for n in linux["namespaces"]]
        write_file(bundle / "config.json", config)

    def _begin(self, part: UnitPart) -> None:
        log = part.folder / "runc.log"
        log.unlink(missing_ok=True)
        arguments = ("--log", str(log), "--log-format", "json", "run", "--detach", "--bundle")
        try:
            self._run(part, *arguments, str(part.folder / "bundle"), part.name, output=part.folder / "log")
        except ToolFailed as error:
            raise HandlerError(_last_message(log) or f"{error}; {_last_line(part)}") from None

    def _state(self, part: UnitPart) -> dict[str, Any]:
        """The state of a container, as the runtime knows it; empty where it knows none."""
        if not (self._root / part.name).exists():
            return {}
        text = part.tools.run(self._runtime, "--root", self._root, "state", part.name, ends_with=(0, 1))
        found: dict[str, Any] = json.loads(text) if text.strip() else {"status": "half made", "pid": 0}
        return found

    def _run(self, part: UnitPart, *arguments: str, output: Path | None = None) -> str:
        return part.tools.run(self._runtime, "--root", self._root, *arguments, output=output)


def _check_hostname(name: str, where: str) -> None:
    if not _HOSTNAME.fullmatch(name):
        raise HandlerError(f"{where}: {name[:80]!r} is no name of a host")


def _silence(part: UnitPart) -> str:
    """Returns why a root that is a layer cannot be read any more; empty where it can, or there is none."""
    root = part.folder / "rootfs"
    return silence_of(root, part.tools) if mount_at(root) is not None else ""


def _cgroup(part: UnitPart, settings: ContainerSettings) -> str:
    return f"{settings.cgroup}/{CONTAINER}" if settings.cgroup else f"/{part.name}"


def _last_line(part: UnitPart) -> str:
    try:
        lines = (part.folder / "log").read_text(errors="replace")[-4000:].strip().splitlines()
    except OSError:
        lines = []
    return f"its last words: {lines[-1][:500]}" if lines else "it said nothing"


def _last_message(log: Path) -> str:
    try:
        return f"runc: {json.loads(log.read_text().strip().splitlines()[-1])['msg'][:500]}"
    except (OSError, ValueError, LookupError):
        return ""
