"""States by number and numbers by state: a hash table of numbers, probed for many states at once.

Theory of operation. States lie in an array, each a row of words; the table has their numbers, plus one, at the slots
that their hashes name or, where those are taken, at the next free ones. All states that are asked about look at their
slots together; those that see another state there go on to the next slot together. States are compared word by word,
and no hash ever stands for one.

States that come in together contend for free slots. Of those that see the same free slot the first one takes it, and
equal states see the same slots at the same time: so the first of equal states gets the number, the others find it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from leasehold.checker.explore.packed.growing import Growing

FEWEST_BITS = 12  # of a table's slots
SPREAD = np.uint64(0x9E3779B97F4A7C15)
MIX = np.uint64(0xBF58476D1CE4E5B9)
HALF = np.uint64(32)


class StateTable:
    """Different states, numbered from 0 in the order in which they came.

    Attributes:
        states: by number, the words of each: an array (n, words) of unsigned 64-bit integers.
    """

    def __init__(self, words: int) -> None:
        self.states = Growing(np.uint64, words)
        self._words = words
        self._bits = FEWEST_BITS
        self._numbers: Any = np.zeros(1 << FEWEST_BITS, dtype=np.int32)

    @property
    def bytes(self) -> int:
        return int(self.states.at.nbytes + self._numbers.nbytes)

    def room(self, more: int) -> None:
        """Makes room for so many more states; slots are others then."""
        self.states.room(more)
        wanted = 2 * (self.states.size + more)
        if wanted > 1 << self._bits:
            self._bits = int(wanted - 1).bit_length()
            self._build()

    def find(self, rows: Any) -> tuple[Any, Any]:
        """Looks for states, given as an array (n, words).

        Returns their numbers, -1 for those that are not here, and the slots where they are or could be.
        """
        slots, last, numbers = self._slots(rows), (1 << self._bits) - 1, self._numbers
        at = numbers[slots]
        taken = at != 0
        at -= 1
        same = self._same(at, rows) & taken
        found = np.where(same, at, -1).astype(np.int64)
        lanes = (taken & ~same).nonzero()[0]
        while lanes.size:
            slot = slots[lanes] + 1 & last
            slots[lanes] = slot
            at = numbers[slot] - 1
            taken = at >= 0
            same = self._same(at, rows[lanes]) & taken
            found[lanes[same]] = at[same]
            lanes = lanes[taken & ~same]
        return found, slots

    def insert(self, rows: Any, slots: Any) -> tuple[Any, Any]:
        """Adds states that are not here, for which there is room; some may be equal. `find` has given the slots.

        Returns their numbers, and for each new number the row that has it first.
        """
        size, base, last, numbers = len(rows), self.states.size, (1 << self._bits) - 1, self._numbers
        # Until it is known which are equal, every row has a number of its own.
        self.states.at[base : base + size] = rows
        found, slots = np.full(size, -1, dtype=np.int64), slots.copy()
        lanes, slot, asked = np.arange(size), slots, rows
        while lanes.size:
            free = (numbers[slot] == 0).nonzero()[0][::-1]
            numbers[slot[free]] = base + 1 + lanes[free]  # of several writes the last one stays: the first row's
            at = numbers[slot] - 1
            same = self._same(at, asked)
            found[lanes[same]] = at[same]
            lanes = lanes[~same]
            slot = slots[lanes] + 1 & last
            slots[lanes] = slot
            asked = rows[lanes]
        first = (found == np.arange(base, base + size)).nonzero()[0]
        order = np.zeros(size, dtype=np.int64)
        order[first] = np.arange(base, base + len(first))
        numbers[slots[first]] = order[first] + 1
        self.states.at[base : base + len(first)] = rows[first]
        self.states.size = base + len(first)
        return order[found - base], first

    def recode(self, states: Any) -> None:
        """Gives every state other words."""
        self.states.at[: self.states.size] = states
        self._build()

    def _build(self) -> None:
        """The table anew; all states differ."""
        states, last = self.states.items, (1 << self._bits) - 1
        numbers = self._numbers = np.zeros(1 << self._bits, dtype=np.int32)
        lanes, slots = np.arange(1, len(states) + 1), self._slots(states)
        while lanes.size:
            free = numbers[slots] == 0
            numbers[slots[free]] = lanes[free]
            other = (numbers[slots] != lanes).nonzero()[0]
            slots, lanes = slots[other] + 1 & last, lanes[other]

    def _same(self, numbers: Any, rows: Any) -> Any:
        """Whether the states with these numbers are these rows."""
        if self._words == 1:
            return self.states.at[:, 0][numbers] == rows[:, 0]
        there = self.states.at[numbers]
        same = there[:, 0] == rows[:, 0]
        for word in range(1, self._words):
            same &= there[:, word] == rows[:, word]
        return same

    def _slots(self, rows: Any) -> Any:
        found = rows[:, 0] >> HALF
        found ^= rows[:, 0]
        found *= SPREAD
        for word in range(1, self._words):
            found ^= found >> HALF
            found += rows[:, word]
            found *= MIX
        found >>= np.uint64(64 - self._bits)
        return found.view(np.int64)
