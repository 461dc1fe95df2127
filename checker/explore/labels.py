"""Labels: the faults left on the way to each state, which let an exploration keep its budget out of the states.

Theory of operation. A fault takes from the budget and nothing else looks at it. So whatever can be done from a state
with few faults left can be done from it with more, and of all ways to a state those alone count that are not dominated:
for which no other leaves at least as many faults of each kind. A label is a state with what is left on such a way, and
the label that it came from; labels are made breadth first, so that the first of a state is on a shortest path to it.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import cache
from typing import Any, Protocol, TypeAlias

import numpy as np

Left: TypeAlias = tuple[int, ...]  # of each kind of fault with a limit, how many may still come


@cache
def after(left: Left, cost: tuple[int, ...]) -> Left | None:
    """The faults that are left after one each of these kinds; None where there are not as many."""
    rest = list(left)
    for kind in cost:
        rest[kind] -= 1
        if rest[kind] < 0:
            return None
    return tuple(rest)


@cache
def dominates(one: Left, other: Left) -> bool:
    """Returns whether at least as many faults of each kind are left."""
    return all(a >= b for a, b in zip(one, other, strict=True))


class KnownLabels(Protocol):
    """The labels of an exploration, as `Labels` has them."""

    @property
    def states(self) -> Sequence[int]: ...
    @property
    def depths(self) -> Sequence[int]: ...
    @property
    def lefts(self) -> Sequence[Left]: ...
    @property
    def of(self) -> Sequence[Sequence[int]]: ...
    def state_depths(self) -> Any: ...
    def chain(self, label: int) -> list[int]: ...


class Labels:
    """The labels of an exploration, in the order in which they were made."""

    def __init__(self) -> None:
        self.states = array("q")  # by label: the number of its state
        self.parents = array("q")  # by label: the label before; -1 for the first
        self.depths = array("l")  # by label: how many steps lead to it
        self.lefts: list[Left] = []  # by label
        self.of: list[list[int]] = []  # by state: its labels

    def add(self, state: int, left: Left, parent: int) -> bool:
        """Makes a label, unless another of the state dominates it."""
        of, lefts = self.of, self.lefts
        while len(of) <= state:
            of.append([])
        mine = of[state]
        for n in mine:
            other = lefts[n]
            if other is left or dominates(other, left):
                return False
        mine.append(len(self.states))
        self.states.append(state)
        self.parents.append(parent)
        self.depths.append(0 if parent < 0 else self.depths[parent] + 1)
        self.lefts.append(left)
        return True

    def state_depths(self) -> Any:
        """Returns the number of steps on a shortest path to each state: an array."""
        return np.fromiter((self.depths[labels[0]] for labels in self.of), dtype=np.int32, count=len(self.of))

    def chain(self, label: int) -> list[int]:
        """The states on the way to a label, from the first on."""
        states = []
        while label >= 0:
            states.append(self.states[label])
            label = self.parents[label]
        return states[::-1]
