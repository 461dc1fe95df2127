"""An array that grows at its end."""

from __future__ import annotations

from typing import Any

import numpy as np

FEWEST = 16


class Growing:
    """An array of items of one kind, or with a width of rows of them.

    Attributes:
        at: the memory, of which the first `size` items are in use; another array once it had to grow.
    """

    def __init__(self, kind: Any, width: int | None = None) -> None:
        self.at: Any = np.zeros(FEWEST if width is None else (FEWEST, width), dtype=kind)
        self.size = 0

    @property
    def items(self) -> Any:
        """What is in use, where it lies."""
        return self.at[: self.size]

    def room(self, more: int) -> None:
        """Makes room for so many more items; those in use stay as they are."""
        wanted = self.size + more
        if wanted > len(self.at):
            at = np.zeros((max(wanted, 2 * len(self.at)), *self.at.shape[1:]), dtype=self.at.dtype)
            at[: self.size] = self.items
            self.at = at

    def extend(self, values: Any) -> None:
        self.room(len(values))
        self.at[self.size : self.size + len(values)] = values
        self.size += len(values)

    def append(self, value: Any) -> None:
        self.room(1)
        self.at[self.size] = value
        self.size += 1
