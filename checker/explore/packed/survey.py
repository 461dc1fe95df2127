"""Combinations of some atoms' values over all states that were found, and the steps between them, in NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from leasehold.checker.explore.graph import numbered
from leasehold.checker.explore.packed.growing import Growing

if TYPE_CHECKING:
    from leasehold.checker.explore.packed.arrays import ArrayKernel

MOST = 1 << 62  # a key that is not yet numbered stays below


class Survey:
    """The cells of the product.

    Attributes:
        first, sizes: of each combination its first state, and how many states have it; in the order of the first.
    """

    def __init__(self, kernel: ArrayKernel) -> None:
        self._kernel = kernel
        self.first, self.sizes = Growing(np.uint32), Growing(np.uint32)
        self._of: Any = np.zeros(0, dtype=np.int64)  # by state, its combination

    def count(self, atoms: list[int]) -> int:
        """Counts the combinations of the atoms' values; answers how many there are."""
        kernel = self._kernel
        states = kernel.table.states.items[: kernel.count]
        keys, top = np.zeros(len(states), dtype=np.int64), 1
        for atom in atoms:
            at = kernel.forest.places[atom]
            if top << at.bits > MOST:
                first, keys = numbered(keys)
                top = len(first)
            keys <<= at.bits
            keys |= (states[:, at.word] >> np.uint64(at.shift) & np.uint64((1 << at.bits) - 1)).view(np.int64)
            top <<= at.bits
        first, numbers = numbered(keys)
        order = np.argsort(first)
        ranks = np.empty_like(order)
        ranks[order] = np.arange(len(order))
        self._of = ranks[numbers]
        self.first, self.sizes = Growing(np.uint32), Growing(np.uint32)
        self.first.extend(first[order])
        self.sizes.extend(np.bincount(self._of, minlength=len(order)))
        return len(order)

    def edges(self) -> Iterator[tuple[int, int, int]]:
        """The steps between different combinations, in the order in which they were found: from, to, tag."""
        kernel = self._kernel
        tags = int(kernel.changes.tags.items.max(initial=0)) + 1
        cells, known = len(self.sizes.items), set[int]()
        for labels in kernel.blocks():
            begins, there, changes = self._kept(labels) if kernel.graph else self._again(labels)
            here, there = self._of[begins], self._of[there]
            other = (here != there).nonzero()[0]
            keys = (here[other] * cells + there[other]) * tags + kernel.changes.tags.at[changes[other]]
            found, first = np.unique(keys, return_index=True)
            for key in found[np.argsort(first)].tolist():
                if key not in known:
                    known.add(key)
                    between, tag = divmod(key, tags)
                    yield (*divmod(between, cells), tag)

    def _kept(self, labels: Any) -> tuple[Any, Any, Any]:
        kernel = self._kernel
        begins = kernel.edges_begin
        begin, end = begins[labels[0]], begins[labels[-1] + 1]
        states = kernel.limited.states.at[labels] if kernel.limited.states.size else labels
        sizes = np.diff(begins[labels[0] : labels[-1] + 2])
        return np.repeat(states, sizes), kernel.targets.at[begin:end], kernel.edge_changes.at[begin:end]

    def _again(self, labels: Any) -> tuple[Any, Any, Any]:
        """The steps of states that were not kept; those that lead out of the bounds are left out."""
        kernel = self._kernel
        states = kernel.table.states.at[labels[0] : labels[-1] + 1]
        steps = kernel.changes.successors(states, kernel.bundles_known(labels))
        targets, _ = kernel.table.find(steps.targets)
        inside = targets >= 0
        return labels[steps.rows[inside]], targets[inside], steps.changes[inside]
