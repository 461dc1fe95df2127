"""Labels in arrays: what is left of the faults in each state, as the C part keeps it.

Theory of operation. What is left of each kind of fault is 7 bits of a word, below a guard bit; a subtraction that
leaves all guards set takes from no kind more than it has. A state's labels are a chain in the order in which they came,
and a label that another one of its state covers is not added. Most are covered by the first, which is seen for many
together; the others are looked at one by one, as each may cover the next.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from leasehold.checker.explore.packed.growing import Growing
from leasehold.checker.explore.packed.kernel import NONE

GUARDS = np.uint64(0x8080808080808080)
COUNTS = np.uint64(0x7F7F7F7F7F7F7F7F)


class LimitedLabels:
    """The labels of a search with limited kinds of faults.

    Attributes:
        states, lefts, following: by label: its state, what is left, and the state's next label or NONE.
        first, last: by state: its first label and its last one, or NONE.
        parents: by label: the label before, or NONE.
    """

    def __init__(self) -> None:
        self.parents = Growing(np.uint32)
        self.states, self.following = Growing(np.uint32), Growing(np.uint32)
        self.lefts = Growing(np.uint64)
        self.first, self.last = Growing(np.uint32), Growing(np.uint32)

    def earlier(self, labels: Any) -> list[tuple[Any, Any]]:
        """The labels that each label's state had before it: the first ones, the second ones and so on.

        Each are labels and what they leave; NONE and nothing for states with fewer.
        """
        found = []
        at = self.first.at[self.states.at[labels]]
        while (there := at < labels).any():
            known = np.where(there, at, 0)
            found.append((np.where(there, at, NONE), np.where(there, self.lefts.at[known], np.uint64(0))))
            at = np.where(there, self.following.at[known], NONE)
        return found

    def add(self, states: Any, lefts: Any, parents: Any, number_of_states: int) -> None:
        """Adds labels in this order, but for those that another one of their state covers."""
        for chain in (self.first, self.last):
            chain.extend(np.full(number_of_states - chain.size, NONE, dtype=np.uint32))
        head = self.first.at[states]
        old = head != NONE
        heads = self.lefts.at[np.where(old, head, 0)]
        # Of a new state the first label is the first one here.
        begins = np.zeros(number_of_states, dtype=np.int64) if not old.all() else None
        chosen = old
        if begins is not None:
            begins[states[::-1]] = np.arange(len(states))[::-1]
            begin = begins[states]
            heads = np.where(old, heads, lefts[begin])
            chosen = old | (begin != np.arange(len(states)))
        rest = (~(chosen & pays(heads, lefts))).nonzero()[0]
        self._add_each(states[rest], lefts[rest], parents[rest])

    def _add_each(self, states: Any, lefts: Any, parents: Any) -> None:
        most = len(states)
        for array in (self.parents, self.states, self.lefts, self.following):
            array.room(most)
        first, last, following, known, of, before = (
            memoryview(array.at)
            for array in (self.first, self.last, self.following, self.lefts, self.states, self.parents)
        )
        guards, label = int(GUARDS), self.states.size
        for state, left, parent in zip(states.tolist(), lefts.tolist(), parents.tolist(), strict=True):
            at = first[state]
            while at != NONE:
                if (known[at] | guards) - left & guards == guards:
                    break
                at = following[at]
            else:
                if first[state] == NONE:
                    first[state] = label
                else:
                    following[last[state]] = label
                last[state] = label
                of[label], known[label], before[label], following[label] = state, left, parent, NONE
                label += 1
        for array in (self.parents, self.states, self.lefts, self.following):
            array.size = label


def pays(lefts: Any, costs: Any) -> Any:
    """Whether as much is left of each kind as it costs."""
    return (lefts | GUARDS) - costs & GUARDS == GUARDS


def after(lefts: Any, costs: Any) -> Any:
    """What is left then, of what pays."""
    return (lefts | GUARDS) - costs & ~GUARDS


def kinds_left(lefts: Any) -> Any:
    """The guard bits of those kinds of which some is left."""
    return lefts + COUNTS & GUARDS


def classes(lefts: Any, kinds: int) -> Any:
    """Of which kinds some is left, a bit for each."""
    found = np.zeros(len(lefts), dtype=np.int64)
    for kind in range(kinds):
        found |= (lefts >> np.uint64(8 * kind) & np.uint64(127) != 0).astype(np.int64) << kind
    return found
