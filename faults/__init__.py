"""Faults: their catalogue, where actors can crash, and how many faults an exploration may use."""

from leasehold.faults.budget import DEFAULT, Budget, BudgetError
from leasehold.faults.points import CrashPoint, crash_points

__all__ = ["DEFAULT", "Budget", "BudgetError", "CrashPoint", "crash_points"]
