"""The driver `process`: a process group, by the handler of process groups, as one part of a unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from msgspec import Struct

from leasehold.impl.drivers.driver import Facts, FoundPart, SettingCheck, UnitPart, limit_of, words_of
from leasehold.impl.handlers.process import ProcessHandler


class ProcessSettings(Struct, forbid_unknown_fields=True, frozen=True):
    """A process group.

    Attributes:
        command: a list of words.
        environment: variables beside PATH, HOME and those that name unit, lease and term.
        limits: of each process, as the handler `process` has them.
        grace: seconds between SIGTERM and SIGKILL.
        namespace: the network namespace that it is in, such as a network's; empty: the machine's.
        cgroup: the control group that has its limits; empty: none.
    """

    command: list[str]
    environment: dict[str, str] = {}
    limits: dict[str, int] = {}
    grace: float = 5.0
    namespace: str = ""
    cgroup: str = ""


class ProcessDriver:
    """The driver."""

    settings = ProcessSettings
    changes = frozenset({"limits"})
    facts = ("pid", "directory")
    programs = ()
    checks: Mapping[str, SettingCheck] = {"command": words_of, "grace": limit_of}

    def create(self, part: UnitPart, settings: ProcessSettings) -> Facts:
        return self._do(part, settings, "setup")

    def modify(self, part: UnitPart, settings: ProcessSettings) -> Facts:
        return self._do(part, settings, "modify")

    def probe(self, part: UnitPart, settings: ProcessSettings) -> FoundPart | None:
        handler = self._handler(part, settings)
        facts, left = handler.facts_of(part.unit), handler.left(part.unit)
        if facts is None and not left:
            return None
        return FoundPart(bool(facts and facts["alive"]), f"process group with {left or 'no process'}", facts or {})

    def destroy(self, part: UnitPart, settings: ProcessSettings) -> Facts:
        self._do(part, settings, "teardown")
        return {}

    def _do(self, part: UnitPart, settings: ProcessSettings, verb: str) -> Facts:
        facts = self._handler(part, settings).do(replace(part.action, verb=verb), part.tools.stop).facts
        return {name: facts[name] for name in self.facts if name in facts}

    def _handler(self, part: UnitPart, settings: ProcessSettings) -> ProcessHandler:
        return ProcessHandler(
            part.folder,
            settings.command,
            environment=settings.environment,
            limits=settings.limits,
            grace=settings.grace,
            namespace=settings.namespace,
            cgroup=settings.cgroup,
            at=part.point,
        )
