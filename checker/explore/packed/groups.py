"""Parts of a model that come one after the other and see few bits together: looked up together, in one table.

For searches where no faults are counted, as a part then has but one tree. The groups are right until a tree asks for an
atom that it did not ask for before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from leasehold.checker.explore.packed.array_steps import NOTHING, Changes
from leasehold.checker.explore.packed.forest import MOST_BITS, Forest, Picks, picked


@dataclass(slots=True)
class _Group:
    """Parts that are looked up together: by the bits that they see, a bundle or -1."""

    parts: range
    picks: Picks
    table: Any


class Groups:
    """All parts, in groups; `roots` are their trees."""

    def __init__(self, forest: Forest, changes: Changes, roots: list[int]) -> None:
        self._forest, self._changes, self._roots = forest, changes, roots
        self._groups: list[_Group] = []
        parts, atoms = range(0), dict[int, None]()

        def close() -> None:
            if len(parts):
                picks, bits = forest.picks(atoms)
                table = np.full(1 << bits, -1, dtype=np.int32) if bits <= MOST_BITS else None
                self._groups.append(_Group(parts, picks, table))

        for part in range(len(roots)):
            both = atoms | forest.asks[roots[part]]
            if forest.picks(both)[1] > MOST_BITS:
                close()
                parts, both = range(part, part), dict(forest.asks[roots[part]])
            parts, atoms = range(parts.start, part + 1), both
        close()

    def look_up(self, states: Any) -> Any:
        """What happens in some states: an array (n, groups) of bundles; None where something is not known."""
        found = np.zeros((len(states), len(self._groups)), dtype=np.int32)
        for n, group in enumerate(self._groups):
            if group.table is None:
                answers = self._forest.look_up(self._roots[group.parts[0]], states)
                if answers.size and answers.min() < 0:
                    return None
                found[:, n] = self._changes.of_leaf.at[answers]
                continue
            at = picked(group.picks, states)
            bundles = group.table[at]
            missing = (bundles < 0).nonzero()[0]
            if missing.size:
                unknown, examples = np.unique(at[missing], return_index=True)
                joined = self._joint(group, states[missing[examples]])
                if joined is None:
                    return None
                group.table[unknown] = joined
                bundles = group.table[at]
            found[:, n] = bundles
        faults = self._changes.faults.at[found] >= 0
        if faults.any():
            found[np.cumsum(faults, axis=1) - faults > 0] = NOTHING
        return found

    def _joint(self, group: _Group, states: Any) -> Any:
        """The bundles of a group in some states; None where something is not known."""
        each = []
        alive = np.ones(len(states), dtype=bool)
        for part in group.parts:
            answers = self._forest.look_up(self._roots[part], states)
            if (answers[alive] < 0).any():
                return None
            bundles = np.where(alive, self._changes.of_leaf.at[answers], NOTHING)
            alive &= self._changes.faults.at[bundles] < 0
            each.append(bundles)
        joined = [self._changes.joined(row) for row in zip(*(bundles.tolist() for bundles in each), strict=True)]
        return np.array(joined, dtype=np.int32)
