"""The packed explorer: states in machine words, searched in C or in NumPy; what they mean the reference says."""

from leasehold.checker.explore.packed.checkpoint import CheckpointError
from leasehold.checker.explore.packed.library import NoCompiler
from leasehold.checker.explore.packed.search import PackedSearch, Unpacked

__all__ = ["CheckpointError", "NoCompiler", "PackedSearch", "Unpacked"]
