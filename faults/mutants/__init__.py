"""Seeded mistakes of the lease: what the paper (section 5.1) and today's leasing systems got wrong, one file each.

Each is a patch of the lease's text, or a deviation from what every machine does, or both; the file says in which
setting and under which faults it must be found, by what, and how long the shortest counterexample is. docs/mutants.md
lists them. (Mutants that are made by rule are another thing: mutation.py.)
"""

from leasehold.faults.mutants.mutant import CONVERGENCE, FOLDER, Deviation, Mutant, MutantError, Patch, mutants, read

__all__ = ["CONVERGENCE", "FOLDER", "Deviation", "Mutant", "MutantError", "Patch", "mutants", "read"]
