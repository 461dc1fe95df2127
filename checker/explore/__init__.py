"""Exploring: every global state of a system, breadth first, with exact keys."""

from leasehold.checker.explore.breadth_first import Limits, Progress, explore
from leasehold.checker.explore.result import Cell, Exploration, Path, PropertyResult, Sent, Snapshot, Step

__all__ = [
    "Cell",
    "Exploration",
    "Limits",
    "Path",
    "Progress",
    "PropertyResult",
    "Sent",
    "Snapshot",
    "Step",
    "explore",
]
