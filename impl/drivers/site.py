"""The parts of a site that several drivers share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from leasehold.impl.drivers.images import Images
from leasehold.impl.drivers.snapshots import Snapshots


@dataclass(frozen=True, slots=True)
class DriverSite:
    """The parts that a driver is given if it takes `site`.

    Attributes:
        directory: of the units; names that begin with a dot are no unit's.
        images: root file systems.
        snapshots: volumes that were kept.
    """

    directory: Path
    images: Images
    snapshots: Snapshots
