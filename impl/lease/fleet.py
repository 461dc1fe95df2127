"""The actors of the lease as processes: for the demo, tests and benchmarks."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from leasehold.impl.handlers import processes
from leasehold.impl.handlers.place import UnitDirectory
from leasehold.impl.processes.fleet import SystemFleet

TENANT, BROKER, SITE = "tenant", "broker", "site"
ROLES: Mapping[str, str] = {TENANT: "service_manager", BROKER: "broker", SITE: "authority"}
HANDLER_SECONDS = 30.0  # after which the machines give a handler up


class Fleet(SystemFleet):
    """A service manager, a broker and a site as processes.

    Args:
        folder: where they keep everything.
        units: of the site.
        handler: of the site's units; left out: each unit is a process group.
        guest: the handler of what the holder runs on them; left out: it runs nothing.
        rest: as `SystemFleet` takes it.
    """

    def __init__(
        self,
        folder: Path,
        units: int = 6,
        tick_seconds: float = 0.5,
        store: Callable[[str], str] | None = None,
        handler: Mapping[str, Any] | str | None = None,
        more: Mapping[str, Any] | None = None,
        guest: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        limit = round(HANDLER_SECONDS / tick_seconds)
        settings = {"max_units": units, "handler_limit": limit, "guest_limit": limit, **(settings or {})}
        players = {role: name for name, role in ROLES.items()}
        super().__init__("lease", folder, settings, tick_seconds, store, more, players)
        self.units = units
        self._handlers = {SITE: handler or {"name": "process", "directory": "units"}, TENANT: guest}

    def _plugs(self, name: str) -> dict[str, Any]:
        """The inventory and the handler; each role of the lease has a policy that it takes by itself."""
        units = {"inventory": {"units": [{"name": "unit", "count": self.units}]}} if name != TENANT else {}
        handler = {"handler": self._handlers[name]} if name != BROKER else {}
        return units | handler

    def unit_places(self) -> list[UnitDirectory]:
        """The folders of all units that there are or were, by name."""
        return self._places("units")

    def guest_places(self) -> list[UnitDirectory]:
        """The folders of all guests on them."""
        return self._places("guests")

    def _places(self, name: str) -> list[UnitDirectory]:
        folder = self.folder / name
        return [UnitDirectory(path) for path in sorted(folder.iterdir()) if path.is_dir()] if folder.is_dir() else []

    def unit_processes(self) -> list[processes.ProcessSnapshot]:
        """The processes of all units."""
        return [member for place in self.unit_places() for member in place.members(thorough=True)]

    def end_units(self) -> None:
        """Ends the processes of all units: for who throws the folder away."""
        for member in self.unit_processes():
            processes.send(member, signal.SIGKILL)

    def end_guests(self) -> None:
        """Ends the processes of all guests."""
        for place in self.guest_places():
            for member in place.members(thorough=True):
                processes.send(member, signal.SIGKILL)

    def remove(self) -> None:
        """Ends all actors and units at once, and removes the folder."""
        for name in self.processes:
            self.kill(name)
        for _ in range(3):  # a start of a unit that is under way may become a process meanwhile
            self.end_units()
            time.sleep(0.02)
        super().remove()
