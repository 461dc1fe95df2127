"""Exporting: a system as a model that another checker explores, with the same states and properties."""

from leasehold.checker.export.promela import to_promela
from leasehold.checker.export.shared import SLOTS, Exported, LeftOut, Unsupported
from leasehold.checker.export.tla import to_tla

__all__ = ["SLOTS", "Exported", "LeftOut", "Unsupported", "to_promela", "to_tla"]
