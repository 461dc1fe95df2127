"""Changes, and what becomes of states by them: for many states at once.

Theory of operation. A change is what it leaves of a state and what it sets, a mask of words for each. A *bundle* is
what one part of a model, or several together, lets happen: some changes, and the leaf at which the specification is at
fault. The changes of all bundles lie side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from leasehold.checker.explore.packed.fields import WORD, Place
from leasehold.checker.explore.packed.growing import Growing

NOTHING = 0  # the bundle without changes


@dataclass(slots=True)
class Steps:
    """The steps of some states, ordered by state, part and member of its leaf.

    Attributes:
        rows: which of the states each begins in.
        changes: what each changes.
        targets: where each leads: (n, words).
        faults: by state, the leaf where the specification is at fault, or -1.
    """

    rows: Any
    changes: Any
    targets: Any
    faults: Any


class Changes:
    """The changes and bundles of a search.

    Attributes:
        costs, tags, are_faults: of each change.
        faults: of each bundle the leaf at fault, or -1.
        of_leaf: of each leaf its bundle.
    """

    def __init__(self, words: int) -> None:
        self.words = words
        self.size = 0
        self._writes: list[list[tuple[int, int]]] = []
        self._keeps, self._sets = Growing(np.uint64, words), Growing(np.uint64, words)
        self.costs, self.tags, self.are_faults = Growing(np.uint64), Growing(np.int64), Growing(np.bool_)
        self._members = Growing(np.int32)
        self._begins, self._sizes, self.faults = Growing(np.int64), Growing(np.int64), Growing(np.int64)
        self.of_leaf = Growing(np.int32)
        self._joined: dict[tuple[int, ...], int] = {}
        self._bundle([], -1)

    def add(self, writes: list[tuple[int, int]], cost: int, fault: bool, tag: int, places: Sequence[Place]) -> int:
        """A new change, which gives these atoms these codes: its number."""
        self._writes.append(writes)
        keeps, sets = self._masks(writes, places)
        self._keeps.append(keeps)
        self._sets.append(sets)
        for array, value in ((self.costs, cost), (self.are_faults, fault), (self.tags, tag)):
            array.append(value)
        self.size += 1
        return self.size - 1

    def lay_out(self, places: Sequence[Place]) -> None:
        """Gives the atoms other places."""
        for change, writes in enumerate(self._writes):
            self._keeps.at[change], self._sets.at[change] = self._masks(writes, places)

    def _masks(self, writes: list[tuple[int, int]], places: Sequence[Place]) -> tuple[Any, Any]:
        """What a change leaves of a state, and what it sets."""
        keeps, sets = [(1 << WORD) - 1] * self.words, [0] * self.words
        for atom, code in writes:
            at = places[atom]
            keeps[at.word] &= ~(((1 << at.bits) - 1) << at.shift)
            sets[at.word] |= code << at.shift
        return np.array(keeps, dtype=np.uint64), np.array(sets, dtype=np.uint64)

    def leaf(self, changes: list[int], fault: bool) -> int:
        """A new leaf: its number."""
        number = self.of_leaf.size
        self.of_leaf.append(self._bundle(changes, number if fault else -1))
        return number

    def _bundle(self, changes: Sequence[int], fault: int) -> int:
        self._begins.append(self._members.size)
        self._sizes.append(len(changes))
        self.faults.append(fault)
        self._members.extend(np.array(changes, dtype=np.int32))
        return self.faults.size - 1

    def joined(self, bundles: Sequence[int]) -> int:
        """Several bundles as one; only the last may have a fault."""
        key = tuple([n for n in bundles if self._sizes.at[n] or self.faults.at[n] >= 0])
        found = self._joined.get(key)
        if found is None:
            changes: list[int] = []
            for n in key:
                begin = int(self._begins.at[n])
                changes += self._members.at[begin : begin + int(self._sizes.at[n])].tolist()
            found = self._joined[key] = self._bundle(changes, int(self.faults.at[key[-1]]) if key else -1)
        return found

    def successors(self, states: Any, bundles: Any) -> Steps:
        """The steps of some states, (n, words), in each of which some bundles happen, (n, any number)."""
        sizes = self._sizes.at[bundles]
        each = sizes.sum(axis=1)
        flat = sizes.ravel()
        shifted = self._begins.at[bundles].ravel() - (np.cumsum(flat) - flat)
        at = np.repeat(shifted, flat)
        at += np.arange(len(at))
        changes = self._members.at[at]
        rows = np.repeat(np.arange(len(states)), each)
        targets = states[rows]
        targets &= self._keeps.at[changes]
        targets |= self._sets.at[changes]
        return Steps(rows, changes, targets, self.faults.at[bundles].max(axis=1, initial=-1))
