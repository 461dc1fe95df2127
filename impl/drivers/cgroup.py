"""The driver `cgroup`: the size of a unit, as limits of a control group that its processes or container are in."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from leasehold.impl.drivers.driver import Facts, FoundPart, SettingCheck, UnitPart, limit_of, need_root, size_of
from leasehold.impl.handlers import cgroups


class CgroupSettings(Struct, forbid_unknown_fields=True, frozen=True):
    """The limits; 0 means that there is none.

    Attributes:
        cpus: how many processors' time it may use, such as 0.5.
        memory: how much it may use, such as 64MiB.
        processes: how many there may be, threads counted.
    """

    cpus: float = 0.0
    memory: int | str = 0
    processes: int = 0


class CgroupDriver:
    """The driver. Its fact `path` is what the parts that are to have these limits are given as `cgroup`."""

    settings = CgroupSettings
    changes = frozenset({"cpus", "memory", "processes"})
    facts = ("path",)
    programs = ()
    checks: Mapping[str, SettingCheck] = {"cpus": limit_of, "memory": size_of, "processes": limit_of}

    def __init__(self) -> None:
        need_root("cgroup")

    def create(self, part: UnitPart, settings: CgroupSettings) -> Facts:
        cgroups.make(path := _path(part))
        part.point("made")
        self._limit(path, settings)
        part.point("limited")
        return {"path": path}

    def modify(self, part: UnitPart, settings: CgroupSettings) -> Facts:
        return self.create(part, settings)

    def probe(self, part: UnitPart, settings: CgroupSettings) -> FoundPart | None:
        path = _path(part)
        whole, any_of_it = cgroups.exists(path)
        if not any_of_it:
            return None
        count = len(cgroups.processes_in(path))
        facts = {"path": path, "processes": count, "limits": cgroups.limits(path)}
        return FoundPart(whole, f"control group {path} with {count} processes", facts)

    def destroy(self, part: UnitPart, settings: CgroupSettings) -> Facts:
        cgroups.remove(_path(part))
        part.point("removed")
        return {}

    @staticmethod
    def _limit(path: str, settings: CgroupSettings) -> None:
        limit_of(settings.processes, "processes")
        memory, cpus = size_of(settings.memory, "memory"), limit_of(settings.cpus, "cpus")
        cgroups.limit(path, cpus=cpus, memory=memory, processes=settings.processes)


def _path(part: UnitPart) -> str:
    return f"/{part.name}"
