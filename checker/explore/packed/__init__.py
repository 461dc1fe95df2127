"""The packed explorer: states in machine words, searched in C; what they mean the reference says."""

from leasehold.checker.explore.packed.checkpoint import CheckpointError
from leasehold.checker.explore.packed.fields import Unpackable
from leasehold.checker.explore.packed.library import NotBuilt
from leasehold.checker.explore.packed.search import PackedSearch

__all__ = ["CheckpointError", "NotBuilt", "PackedSearch", "Unpackable"]
