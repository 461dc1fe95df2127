"""A step function of time: changes at times, and the level that they add up to, with its maximum over any range.

Theory of operation. The times of changes stand in order in blocks of some hundreds, each with the sum of its changes
and the highest level that they lead to within it, which is computed when it is asked for and there was a change since.
A question passes over whole blocks by these two numbers, and looks into two or three of them. These are loops in C over
short lists, so at 200,000 times they take some tens of microseconds, and the memory is that of two lists of numbers.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import accumulate
from operator import add

HALF = 256  # times of a block that has just been split; one of more than twice as many is


class _Block:
    """Neighbouring changes.

    Attributes:
        times: at which there is a change, in order.
        changes: the change at each, never 0.
        peak: the highest level within it, above the one before it, if it is known.
    """

    __slots__ = ("changes", "peak", "times")

    def __init__(self, times: list[int], changes: list[int]) -> None:
        self.times, self.changes = times, changes
        self.peak: int | None = None

    def find_peak(self) -> int:
        """Returns its peak."""
        if self.peak is None:
            self.peak = max(accumulate(self.changes))
        return self.peak


class Steps:
    """A function of time that is 0 at first, and changes at some times.

    A change counts from its time on. Times and changes are whole numbers of any size.
    """

    __slots__ = ("_blocks", "_firsts", "_sums")

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._firsts: list[int] = []  # the first time of each block
        self._sums: list[int] = []  # the sum of its changes

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """The times at which it changes, and by how much."""
        for block in self._blocks:
            yield from zip(block.times, block.changes, strict=True)

    def times(self, after: int | None = None) -> Iterator[int]:
        """The times at which it changes, in order; those after a time alone, where one is given."""
        i, j = (0, 0) if after is None else self._after(after)
        for block in self._blocks[i:]:
            yield from block.times[j:]
            j = 0

    @property
    def last(self) -> int | None:
        """The time of the last change; None: it is 0 for ever."""
        return self._blocks[-1].times[-1] if self._blocks else None

    def change(self, time: int, by: int) -> None:
        """Adds a change to what there is at a time."""
        if not by:
            return
        if not self._blocks:
            self._blocks, self._firsts, self._sums = [_Block([time], [by])], [time], [by]
            return
        i = max(0, bisect_right(self._firsts, time) - 1)
        block = self._blocks[i]
        j = bisect_left(block.times, time)
        if j < len(block.times) and block.times[j] == time:
            block.changes[j] += by
            if not block.changes[j]:
                del block.times[j], block.changes[j]
        else:
            block.times.insert(j, time)
            block.changes.insert(j, by)
        if not block.times:
            del self._blocks[i], self._firsts[i], self._sums[i]
        elif len(block.times) > 2 * HALF:
            parts = slice(HALF), slice(HALF, None)
            halves = [_Block(block.times[part], block.changes[part]) for part in parts]
            self._blocks[i : i + 1] = halves
            self._firsts[i : i + 1] = [half.times[0] for half in halves]
            self._sums[i : i + 1] = [sum(half.changes) for half in halves]
        else:
            self._firsts[i], self._sums[i], block.peak = block.times[0], self._sums[i] + by, None

    def level(self, time: int) -> int:
        """The sum of all changes up to a time."""
        i, j = self._after(time)
        return self._before(i, j)

    def highest(self, start: int, end: int) -> int:
        """The highest level from a time until before another; at the first time, where no other is between them."""
        i, j = self._after(start)
        highest = level = self._before(i, j)
        last, rest = self._until(end)
        if (last, rest) <= (i, j):
            return highest
        if j:  # the rest of a block
            block = self._blocks[i]
            stop = rest if last == i else len(block.changes)
            levels = [*accumulate(block.changes[j:stop], initial=level)]
            highest, level, i = max(levels), levels[-1], i + 1
        if i < last:  # whole blocks
            levels = [*accumulate(self._sums[i:last], initial=level)]
            peaks = [block.peak if block.peak is not None else block.find_peak() for block in self._blocks[i:last]]
            highest, level = max(highest, *map(add, levels, peaks)), levels[-1]
        if i <= last and rest:  # the beginning of one
            highest = max(highest, *accumulate(self._blocks[last].changes[:rest], initial=level))
        return highest

    def within(self, limit: int, start: int, end: int) -> int | None:
        """The first time from a start on from which the level is no higher than a limit until before an end.

        None: it is higher just before the end, or at the start where that is no earlier than the end.
        """
        first, (last, rest) = self._after(start), self._until(end)
        if (last, rest) <= first:
            return start if self._before(*first) <= limit else None
        befores = [*accumulate(self._sums[:last], initial=0)]
        for i in range(last, first[0] - 1, -1):
            if i == len(self._blocks) or (i != first[0] and befores[i] + self._blocks[i].find_peak() <= limit):
                continue
            block, begin = self._blocks[i], first[1] if i == first[0] else 0
            stop = rest if i == last else len(block.times)
            levels = [*accumulate(block.changes[:stop], initial=befores[i])][1:]
            j = next((j for j in range(stop - 1, begin - 1, -1) if levels[j] > limit), None)
            if j is not None:
                return self._time_after(i, j, end)
        return start if self._before(*first) <= limit else self._time_after(*first, end, itself=True)

    def reaches(self, level: int) -> tuple[int, int] | None:
        """The first time at which a function that never falls has come to a level, and its level then; None: never."""
        before = 0
        for i, more in enumerate(self._sums):
            if before + more >= level:
                block = self._blocks[i]
                levels = [*accumulate(block.changes, initial=before)][1:]
                j = bisect_left(levels, level)
                return block.times[j], levels[j]
            before += more
        return None

    def _after(self, time: int) -> tuple[int, int]:
        """The place of the first change after a time."""
        i = bisect_right(self._firsts, time) - 1
        if i < 0:
            return 0, 0
        j = bisect_right(self._blocks[i].times, time)
        return (i, j) if j < len(self._blocks[i].times) else (i + 1, 0)

    def _until(self, time: int) -> tuple[int, int]:
        """The place of the first change at a time or after it."""
        return self._after(time - 1)

    def _before(self, i: int, j: int) -> int:
        """The level before a place."""
        return sum(self._sums[:i]) + (sum(self._blocks[i].changes[:j]) if j else 0)

    def _time_after(self, i: int, j: int, end: int, itself: bool = False) -> int | None:
        """The time of the change that follows a place, or is there, if it comes before an end."""
        j += not itself
        if j == len(self._blocks[i].times):
            i, j = i + 1, 0
        if i == len(self._blocks) or self._blocks[i].times[j] >= end:
            return None
        return self._blocks[i].times[j]
