"""A part by itself, for tests of a single driver."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from leasehold.impl.drivers.driver import Driver, Facts, FoundPart, UnitPart, settings_of
from leasehold.impl.drivers.images import Images
from leasehold.impl.drivers.site import DriverSite
from leasehold.impl.drivers.snapshots import Snapshots
from leasehold.impl.drivers.tools import Tools, end_leftovers
from leasehold.impl.handlers.place import UnitDirectory
from leasehold.impl.policy import plugins
from tests.impl.drivers.machine import action, prefix


class One:
    """A part of the unit `u-0`, made by one driver.

    Args:
        units: the directory of units.
        kind: the driver's name.
        more: the images, and the quota and retention of snapshots.
    """

    def __init__(self, units: Path, kind: str, lease: str = "tenant:1", unit: str = "u-0", **more: Any) -> None:
        units.mkdir(mode=0o700, exist_ok=True)
        snapshots = Snapshots(units / ".snapshots", more.get("quota", 1 << 30), more.get("retention", 3600))
        site = DriverSite(units, Images(units / ".images", more.get("images", {})), snapshots)
        plugin = plugins.find("driver", kind)
        self.driver: Driver = plugin.make(plugin.taken({"site": site}))
        self.units, self.kind, self.lease, self.unit = units, kind, lease, unit
        self.folder = units / unit / kind
        self.name = f"{prefix(units)}{unit}-{kind}"

    @contextmanager
    def part(self, ending: bool = False, at: Callable[[str], None] = lambda point: None) -> Iterator[UnitPart]:
        place = UnitDirectory(self.units / self.unit)
        place.make()
        stop = threading.Event()
        lock = end_leftovers(place, Tools(place, None, stop))
        self.folder.mkdir(mode=0o700, exist_ok=True)
        link = f"lh{sha256(self.name.encode()).hexdigest()[:11]}"
        acts = action("setup", 1, self.lease, self.unit)
        try:
            yield UnitPart(self.name, link, self.folder, self.unit, Tools(place, lock, stop), acts, ending, at)
        finally:
            os.close(lock)

    def create(self, **given: Any) -> Facts:
        with self.part() as part:
            return self.driver.create(part, settings_of(self.driver, given, self.kind))

    def modify(self, **given: Any) -> Facts:
        with self.part() as part:
            return self.driver.modify(part, settings_of(self.driver, given, self.kind))

    def probe(self, **given: Any) -> FoundPart | None:
        with self.part() as part:
            return self.driver.probe(part, settings_of(self.driver, given, self.kind))

    def destroy(self, ending: bool = False, **given: Any) -> Facts:
        with self.part(ending) as part:
            return self.driver.destroy(part, settings_of(self.driver, given, self.kind))
