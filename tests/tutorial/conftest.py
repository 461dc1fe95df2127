"""TLC, for tests of pages that say what it counts."""

from tests.checker.conftest import tlc

__all__ = ["tlc"]
