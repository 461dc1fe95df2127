"""Exploring: every global state of a system, breadth first, with exact keys."""

from leasehold.checker.explore.breadth_first import Checkpointing, Limits, Progress
from leasehold.checker.explore.engines import ENGINES, Engine, EngineError, explore
from leasehold.checker.explore.result import Cell, Exploration, Path, PropertyResult, Sent, Snapshot, Step

__all__ = [
    "ENGINES",
    "Cell",
    "Checkpointing",
    "Engine",
    "EngineError",
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
