"""Decision trees in arrays, looked up for many states at once.

Theory of operation. A node asks for one atom, its children are the atom's values, a leaf is the answer. All trees lie
in one array: a slot is 0 where nothing is known; odd for a leaf, its answer times two plus one; even for a node, where
its children begin and which bits choose among them. Before the children stands the atom.

A tree that asks for few bits in all also has a table: by those bits, the answer or -1. It is filled from the tree, when
it is asked for. Answers never change, so it is right until the tree asks for an atom that it did not ask for before.

A program is a graph of tests, each a tree that says yes or no, and what comes next; tests that come later have smaller
numbers. All states that come to a test are asked it together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import Any

import numpy as np

from leasehold.checker.explore.packed.fields import Place
from leasehold.checker.explore.packed.growing import Growing
from leasehold.checker.explore.packed.programs import NO, YES

MOST_BITS = 12  # that the states of a table differ in

Picks = list[tuple[int, int, int]]  # bits of states: the word, how far it is shifted to the right, and the mask then


class Forest:
    """The trees and the programs of a search. States are given as arrays (n, words) of signed 64-bit integers.

    Attributes:
        places: where each atom lies.
        asks: by tree, the atoms that it asks for.
    """

    def __init__(self) -> None:
        self.places: list[Place] = []
        self.asks: list[dict[int, None]] = []
        self._roots: list[int] = []
        self._kids = Growing(np.int64)
        self._nodes: list[tuple[int, int]] = []  # where children begin, and the atom
        self._tables: list[tuple[Picks, Any] | None] = []
        self._tests: list[tuple[int, int, int]] = []

    @property
    def bytes(self) -> int:
        tables = [table[1] for table in self._tables if table is not None]
        return int(self._kids.at.nbytes + sum(table.nbytes for table in tables))

    def tree(self) -> int:
        """A new tree without answers: its number."""
        self._roots.append(0)
        self._tables.append(None)
        self.asks.append({})
        return len(self._roots) - 1

    def test(self, tree: int, yes: int, no: int) -> int:
        """A new test, and what comes after it: its number."""
        self._tests.append((tree, yes, no))
        return len(self._tests) - 1

    def hang(self, tree: int, codes: dict[int, int], answer: int) -> bool:
        """Hangs an answer in: on the way from the root these atoms have these codes.

        Returns whether the tree asks for an atom that it did not ask for before.

        Raises:
            AssertionError: the tree asks otherwise.
        """
        at, more = -1, False
        for atom, code in codes.items():
            slot = self._slot(tree, at)
            if not slot:
                slot = self._node(atom)
                self._put(tree, at, slot)
                if atom not in self.asks[tree]:
                    self.asks[tree][atom] = None
                    self._tables[tree] = None
                    more = True
            elif slot & 1 or self._kids.at[(slot >> 20) - 1] != atom:
                raise AssertionError(OTHERWISE)
            at = (slot >> 20) + code
        if self._slot(tree, at) not in (0, 2 * answer + 1):
            raise AssertionError(OTHERWISE)
        self._put(tree, at, 2 * answer + 1)
        return more

    def _slot(self, tree: int, at: int) -> int:
        return self._roots[tree] if at < 0 else int(self._kids.at[at])

    def _put(self, tree: int, at: int, slot: int) -> None:
        if at < 0:
            self._roots[tree] = slot
        else:
            self._kids.at[at] = slot

    def _node(self, atom: int) -> int:
        """A node without children that asks for an atom."""
        self._kids.append(atom)
        base = self._kids.size
        self._nodes.append((base, atom))
        self._kids.extend(np.zeros(1 << self.places[atom].bits, dtype=np.int64))
        return _node(base, self.places[atom])

    # Looking up

    def look_up(self, tree: int, states: Any) -> Any:
        """What a tree says of each state: numbers of answers, -1 where none is known."""
        root = self._roots[tree]
        if not root or root & 1:
            return np.full(len(states), (root + 1 >> 1) - 1, dtype=np.int32)
        if self._tables[tree] is None:
            picks, bits = self.picks(self.asks[tree])
            if bits > MOST_BITS:
                return self._walk(root, states)
            self._tables[tree] = picks, np.full(1 << bits, -1, dtype=np.int32)
        picks, table = self._tables[tree]  # type: ignore[misc]
        at = picked(picks, states)
        found = table[at]
        missing = (found < 0).nonzero()[0]
        if missing.size:
            found[missing] = table[at[missing]] = self._walk(root, states[missing])
        return found

    def _walk(self, root: int, states: Any) -> Any:
        kids = self._kids.at
        slots = np.full(len(states), root, dtype=np.int64)
        lanes = np.arange(len(states))
        while lanes.size:
            slot = slots[lanes]
            word = states[lanes, slot >> 14 & 63]
            slot = kids[(slot >> 20) + (word >> (slot >> 8 & 63) & (1 << (slot >> 1 & 127)) - 1)]
            slots[lanes] = slot
            lanes = lanes[(slot != 0) & (slot & 1 == 0)]
        return (slots + 1 >> 1) - 1

    def picks(self, atoms: Iterable[int]) -> tuple[Picks, int]:
        """How to put the bits of some atoms side by side, and how many there are."""
        found: list[list[int]] = []  # word, shift and bits; atoms that lie side by side already are one
        for place in sorted((self.places[atom] for atom in atoms), key=lambda p: (p.word, p.shift)):
            if found and found[-1][0] == place.word and sum(found[-1][1:]) == place.shift:
                found[-1][2] += place.bits
            else:
                found.append([place.word, place.shift, place.bits])
        picks, to = [], 0
        for word, shift, bits in found:
            picks.append((word, shift - to, ((1 << bits) - 1) << to))
            to += bits
        return picks, to

    def holds(self, programs: Any, states: Any) -> tuple[Any, Any]:
        """Whether programs (one, or one each) say yes of states: 1 or 0; -1 where a test is open, and that test."""
        found, unknown = np.zeros(len(states), dtype=np.int8), np.full(len(states), -1, dtype=np.int32)
        waiting: dict[int, list[Any]] = {}
        open_: list[int] = []  # the tests that wait, the greatest number first

        def goes(program: int, lanes: Any) -> None:
            if program == YES:
                found[lanes] = 1
            elif program != NO:
                if program not in waiting:
                    heappush(open_, -program)
                waiting.setdefault(program, []).append(lanes)

        if isinstance(programs, int):
            if len(states):
                goes(programs, np.arange(len(states)))
        else:
            for program, lanes in grouped(programs):
                goes(program, lanes)
        while open_:
            test = -heappop(open_)
            tree, yes, no = self._tests[test]
            came = waiting.pop(test)
            lanes = came[0] if len(came) == 1 else np.sort(np.concatenate(came))
            answers = self.look_up(tree, states if len(lanes) == len(states) else states[lanes])
            least, most = int(answers.min()), int(answers.max())
            if least == most >= 0:
                goes(yes if least else no, lanes)
                continue
            if most > 0:
                goes(yes, lanes[answers > 0])
            if (nays := lanes[answers == 0]).size:
                goes(no, nays)
            if least < 0:
                missing = lanes[answers < 0]
                found[missing], unknown[missing] = -1, test
        return found, unknown

    # Other places

    def lay_out(self, places: Sequence[Place]) -> None:
        """Gives the atoms other places; answers stay."""
        self.places = list(places)
        self._tables = [None] * len(self._tables)
        if not self._nodes:
            return
        old, nodes = self._kids.items, self._nodes
        begins = np.array([base for base, _ in nodes])
        sizes = np.diff(np.append(begins - 1, len(old))) - 1
        grown = np.array([1 << places[atom].bits for _, atom in nodes])
        moved = np.cumsum(grown + 1) - grown
        slots = np.array([_node(int(base), places[atom]) for base, (_, atom) in zip(moved, nodes, strict=True)])
        kids = np.zeros(int((grown + 1).sum()), dtype=np.int64)
        kids[moved - 1] = old[begins - 1]
        within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        values = old[np.repeat(begins, sizes) + within]
        inner = ((values != 0) & (values & 1 == 0)).nonzero()[0]
        values[inner] = slots[np.searchsorted(begins, values[inner] >> 20)]
        kids[np.repeat(moved, sizes) + within] = values
        self._kids = Growing(np.int64)
        self._kids.extend(kids)
        self._nodes = [(int(base), atom) for base, (_, atom) in zip(moved, nodes, strict=True)]
        for tree, root in enumerate(self._roots):
            if root and not root & 1:
                self._roots[tree] = int(slots[np.searchsorted(begins, root >> 20)])


OTHERWISE = "two runs that read the same values read different ones next"


def _node(base: int, place: Place) -> int:
    return base << 20 | place.word << 14 | place.shift << 8 | place.bits << 1


def picked(picks: Picks, states: Any) -> Any:
    """The bits of states that were chosen, side by side."""
    found: Any = None
    for word, shift, mask in picks:
        bits = states[:, word] >> shift if shift > 0 else states[:, word] << -shift
        bits &= mask
        found = bits if found is None else np.bitwise_or(found, bits, out=found)
    return np.zeros(len(states), dtype=np.int64) if found is None else found


def grouped(keys: Any) -> Iterable[tuple[int, Any]]:
    """The positions of each key, in ascending order."""
    order = np.argsort(keys, kind="stable")
    values, begins = np.unique(keys[order], return_index=True)
    return zip(values.tolist(), np.split(order, begins[1:]), strict=True) if len(values) else ()
