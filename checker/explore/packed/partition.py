"""One process's part of a search by several: the states whose hashes fall to it.

It does not know the specification. The leading process sends the calls that it has made to its own kernel, in their
order; so trees, programs and effects have the same numbers everywhere.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from leasehold.checker.explore.packed import kernel as k
from leasehold.checker.explore.resources import held_memory, peak_memory

Box: TypeAlias = tuple[bytes, bytes, bytes]  # states for another process: words, labels before, what is left of faults


class WorkerReply(NamedTuple):
    """A question or a report of a worker's kernel.

    Attributes:
        what: as `Kernel.search` returns it.
        asks: by position, what `Kernel.asks` has.
        words: the state that is asked about.
        label: the first label of that state.
    """

    what: int
    asks: tuple[int, ...] = ()
    words: tuple[int, ...] = ()
    label: int = 0


class CellCount(NamedTuple):
    """A combination of values that was found: its first label and that one's words, how many states, and its depth."""

    label: int
    words: list[int]
    states: int
    depth: int


class Partition:
    """The states of one process."""

    def __init__(self, words: int, me: int, processes: int, memory: int | None = None) -> None:
        self.kernel = k.Kernel(words)
        self.kernel.calls = None  # nobody is told the same
        self.memory = memory
        self.me, self.processes = me, processes
        self._began = False
        self._from = 0  # whose box is being taken in

    def learn(self, calls: Sequence[k.Call]) -> None:
        """Makes the calls that it has not made."""
        self.kernel.learn(calls)
        if not self._began and any(name == "parts" for name, _ in calls):
            self._began = True
            self.kernel.processes(self.me, self.processes)

    def first(self, words: list[int], left: int) -> WorkerReply:
        """Adds a first state."""
        if not self.kernel.first(words, left):
            return WorkerReply(k.DONE)
        return self.check_first()

    def check_first(self) -> WorkerReply:
        return self._said(self.kernel.check_first())

    def begin_level(self) -> tuple[int, int]:
        """Returns how many labels the next level has here, and how many states there are in all."""
        return self.kernel.begin_level(), self.kernel.figure(k.COUNT)

    def outward(self, seconds: float) -> WorkerReply:
        """Follows the steps from this level."""
        return self._said(self.kernel.search(seconds))

    def box(self, process: int) -> Box:
        """The states found in this level for a process."""
        return self.kernel.outbox(process)

    def take_in(self, *boxes: Box) -> WorkerReply:
        """Takes in what was found for this process, by process."""
        while self._from < len(boxes):
            what = self.kernel.take_in(boxes[self._from], self._from)
            if what != k.DONE:
                return self._said(what)
            self._from += 1
        self._from = 0
        return WorkerReply(k.DONE)

    def _said(self, what: int) -> WorkerReply:
        if what in (k.DONE, k.PAUSE):
            return WorkerReply(what)
        asks = tuple(self.kernel.asks(which) for which in range(ASKS))
        label = 0
        if asks[k.OF] != k.OF_BOUNDS and what in (k.FIRED, k.FAULT):
            label = self.kernel.first_label(asks[k.NUMBER])
        return WorkerReply(what, asks, tuple(self.kernel.asked_words()), label)

    def full(self) -> int:
        """The limit of memory that this process has come to, in bytes; 0: none."""
        return self.memory if self.memory is not None and held_memory() > self.memory else 0

    # What was found

    def figures(self) -> tuple[int, int, int, int, int, int]:
        """States, generated, edges, cut, labels, and the most memory that the process has held, in bytes."""
        f = self.kernel.figure
        return f(k.COUNT), f(k.GENERATED), f(k.EDGES), f(k.CUT), f(k.LABELS), peak_memory()

    def uses(self) -> list[int]:
        """Returns how often each change was made."""
        return list(self.kernel.array("uses"))

    def survey(self, atoms: list[int]) -> list[CellCount]:
        """The combinations of these atoms' values."""
        found, levels = [], list(self.kernel.array("level_states"))
        for number, states in zip(*self.kernel.survey(atoms), strict=True):
            label = self.kernel.first_label(number)
            found.append(CellCount(label, self.kernel.came_from(label)[0], states, bisect_right(levels, number)))
        return found

    def came_from(self, label: int) -> tuple[list[int], int, int]:
        """The words of a label's state; the label before, or NONE, and the process that keeps it."""
        return self.kernel.came_from(label)


ASKS = 9  # that `Kernel.asks` has
