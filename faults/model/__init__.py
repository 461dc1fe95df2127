"""Faults of systems that are explored: their catalogue, what each adds to a system, budgets and crash points."""

from leasehold.faults.model.budget import DEFAULT, Budget, BudgetError
from leasehold.faults.model.points import CrashPoint, crash_points

__all__ = ["DEFAULT", "Budget", "BudgetError", "CrashPoint", "crash_points"]
