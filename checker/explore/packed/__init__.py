"""The packed explorer: states in machine words, searched in C, with the reference semantics as their only meaning."""

from leasehold.checker.explore.packed.kernel import NoCompiler
from leasehold.checker.explore.packed.search import PackedSearch, Unpacked

__all__ = ["NoCompiler", "PackedSearch", "Unpacked"]
