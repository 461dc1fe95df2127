"""The driver `libvirt`: a virtual machine of libvirt, by its command line.

Theory of operation. A domain has the part's name, and an identifier that follows from it; so what was defined is found
again. `virsh start`, `destroy` and `undefine` fail where there is nothing to do, so the state is asked for first. The
state is the daemon's: a domain outlives the actor. A connection that keeps nothing when it is closed, as `test:///default`
without a daemon, is of no use, and is found out, as the domain is not there any more after it was started.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from msgspec import Struct

from leasehold.impl.drivers.driver import Facts, FoundPart, SettingCheck, UnitPart, size_of
from leasehold.impl.drivers.tools import ToolFailed
from leasehold.impl.handlers.handler import HandlerError

_NAMESPACE = uuid.UUID("6b1f6a52-4a0e-4c61-9d5f-2a8c7a1e0b77")


class LibvirtSettings(Struct, forbid_unknown_fields=True, frozen=True):
    """A virtual machine.

    Attributes:
        uri: of the connection, as qemu:///system.
        memory: such as 512MiB; it may become less, and up to `most_memory` again.
        cpus: virtual processors, up to `most_cpus`.
        most_memory: left out: `memory`.
        most_cpus: left out: `cpus`.
        kind: of the domain: qemu, kvm, test.
        template: a file with the domain's XML, in which name, identifier, memory and processors are replaced; left out:
            a domain of these alone.
        disk: the file of its first disk, such as the `disk` of a volume that is not mounted; left out: none.
    """

    uri: str
    memory: int | str
    cpus: int = 1
    most_memory: int | str = 0
    most_cpus: int = 0
    kind: str = "qemu"
    template: str = ""
    disk: str = ""


class LibvirtDriver:
    """The driver."""

    settings = LibvirtSettings
    changes = frozenset({"memory", "cpus"})
    facts = ("name", "uuid")
    programs = ("virsh",)
    checks: Mapping[str, SettingCheck] = {"memory": size_of, "most_memory": size_of}

    def create(self, part: UnitPart, settings: LibvirtSettings) -> Facts:
        state = self._state(part, settings)
        if not state:
            definition = part.folder / "domain.xml"
            definition.write_bytes(_xml(part, settings))
            self._virsh(part, settings, "define", str(definition))
            part.point("defined")
            state = self._state(part, settings)
        if state in ("paused", "pmsuspended"):
            self._virsh(part, settings, "resume", part.name)
        elif state != "running":
            if state:
                self._virsh(part, settings, "start", part.name)
            part.point("started")
        if self._state(part, settings) != "running":
            raise HandlerError(
                f"{settings.uri} has no running domain {part.name} after it was started; a connection of libvirt's own "
                "test driver keeps nothing, and needs the daemon, as test+unix:///default"
            )
        return {"name": part.name, "uuid": _identifier(part)}

    def modify(self, part: UnitPart, settings: LibvirtSettings) -> Facts:
        self._virsh(part, settings, "setvcpus", part.name, str(settings.cpus), "--live")
        part.point("cpus")
        self._virsh(part, settings, "setmem", part.name, f"{size_of(settings.memory, 'memory')}b", "--live")
        part.point("memory")
        return {"name": part.name, "uuid": _identifier(part)}

    def probe(self, part: UnitPart, settings: LibvirtSettings) -> FoundPart | None:
        state = self._state(part, settings)
        return FoundPart(state == "running", f"domain {part.name}, {state}") if state else None

    def destroy(self, part: UnitPart, settings: LibvirtSettings) -> Facts:
        state = self._state(part, settings)
        if state and state != "shut off":
            self._virsh(part, settings, "destroy", part.name)
            part.point("stopped")
        if state:
            self._virsh(part, settings, "undefine", part.name)
            part.point("undefined")
        return {}

    def _state(self, part: UnitPart, settings: LibvirtSettings) -> str:
        """The state of a domain; empty where there is none."""
        try:
            return self._virsh(part, settings, "domstate", part.name).strip()
        except ToolFailed as error:
            if "failed to get domain" in error.words or "Domain not found" in error.words:
                return ""
            raise

    @staticmethod
    def _virsh(part: UnitPart, settings: LibvirtSettings, *command: str) -> str:
        return part.tools.run("virsh", "--quiet", "--connect", settings.uri, *command)


def _identifier(part: UnitPart) -> str:
    return str(uuid.uuid5(_NAMESPACE, part.name))


def _xml(part: UnitPart, settings: LibvirtSettings) -> bytes:
    """The definition of a domain."""
    if settings.template:
        try:
            domain = ElementTree.parse(settings.template).getroot()
        except (OSError, ElementTree.ParseError) as error:
            raise HandlerError(f"template: {settings.template} is no domain of libvirt: {error}") from None
    else:
        domain = ElementTree.Element("domain", {"type": settings.kind})
        ElementTree.SubElement(ElementTree.SubElement(domain, "os"), "type").text = "hvm"
    memory = size_of(settings.memory, "memory")
    most = max(memory, size_of(settings.most_memory, "most_memory"))
    _set(domain, "name", part.name)
    _set(domain, "uuid", _identifier(part))
    _set(domain, "memory", str(most), unit="b")
    _set(domain, "currentMemory", str(memory), unit="b")
    _set(domain, "vcpu", str(max(settings.cpus, settings.most_cpus)), current=str(settings.cpus))
    if settings.disk:
        devices = domain.find("devices")
        if devices is None:
            devices = ElementTree.SubElement(domain, "devices")
        disk = ElementTree.SubElement(devices, "disk", {"type": "file", "device": "disk"})
        ElementTree.SubElement(disk, "source", {"file": str(Path(settings.disk).resolve())})
        ElementTree.SubElement(disk, "target", {"dev": "vda", "bus": "virtio"})
    return ElementTree.tostring(domain)


def _set(domain: ElementTree.Element, name: str, text: str, **attributes: str) -> None:
    element = domain.find(name)
    if element is None:
        element = ElementTree.SubElement(domain, name)
    element.text = text
    element.attrib.update(attributes)
