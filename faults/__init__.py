"""The catalogue of faults: what each does in the model, and what it will do to a running actor."""

from leasehold.faults.budget import DEFAULT, Budget, BudgetError

__all__ = ["DEFAULT", "Budget", "BudgetError"]
