"""Prints the picture of README.md: how a crash keeps the trip of examples/saga from giving its room back."""

from __future__ import annotations

import sys
from pathlib import Path

from leasehold.checker.explore import explore
from leasehold.faults.model import Budget
from leasehold.reports.lifelines import path_svg
from leasehold.spec import load

SAGA = Path(__file__).parents[2] / "examples/saga"
CLAIM = "a_failed_trip_keeps_no_room"


def picture() -> str:
    """The counterexample to the claim under one crash, as SVG."""
    found = explore(load(SAGA), budget=Budget(crash=1))
    (path,) = (result.path for result in found.properties if result.name == CLAIM)
    assert path is not None
    return path_svg(path, "A trip has failed, and its room stays booked: the crash came before the cancellation")


if __name__ == "__main__":
    sys.stdout.write(picture())
