"""The leases that an actor has forgotten, as they are kept: ranges of numbers for each origin of names."""

from __future__ import annotations

import re
from bisect import bisect_right

import msgspec

PRUNED = "pruned of "  # metadata: the leases of an origin that are forgotten
_LEASE = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]{0,99}):([1-9][0-9]{0,17})")


def origin_of(lease: str) -> tuple[str, int] | None:
    """The actor that began a lease, and the lease's number; None where the name does not have that form."""
    matched = _LEASE.fullmatch(lease)
    return None if matched is None else (matched[1], int(matched[2]))


class Pruned:
    """Leases that are over and forgotten, so that a late duplicate of a lease's first message creates nothing.

    A lease is named by who began it and a number, `tenant:17`. What is forgotten is kept as intervals of numbers by
    origin: exact, and as short as the leases that are still remembered lie scattered.
    """

    def __init__(self) -> None:
        self._of: dict[str, list[list[int]]] = {}  # by origin: intervals, both ends included, in order and apart

    def __contains__(self, lease: str) -> bool:
        named = origin_of(lease)
        if named is None:
            return False
        intervals = self._of.get(named[0], [])
        at = bisect_right(intervals, [named[1] + 1]) - 1
        return at >= 0 and intervals[at][0] <= named[1] <= intervals[at][1]

    def __len__(self) -> int:
        """The number of intervals."""
        return sum(map(len, self._of.values()))

    def free_from(self, origin: str, number: int) -> int:
        """The lowest number from this one on that no forgotten lease of an origin has."""
        intervals = self._of.get(origin, [])
        at = bisect_right(intervals, [number + 1]) - 1
        return max(number, intervals[at][1] + 1) if at >= 0 else number

    def add(self, lease: str) -> str:
        """Forgets a lease; returns its origin, whose intervals have changed."""
        named = origin_of(lease)
        if named is None:
            raise ValueError(f"a lease is named ORIGIN:NUMBER, not {lease[:60]!r}")
        origin, number = named
        intervals = self._of.setdefault(origin, [])
        if lease in self:
            return origin
        at = bisect_right(intervals, [number])
        intervals.insert(at, [number, number])
        if at + 1 < len(intervals) and intervals[at + 1][0] == number + 1:
            intervals[at][1] = intervals.pop(at + 1)[1]
        if at and intervals[at - 1][1] == number - 1:
            intervals[at - 1][1] = intervals.pop(at)[1]
        return origin

    def write(self, origin: str) -> bytes:
        """The intervals of an origin."""
        body: bytes = msgspec.msgpack.encode(self._of.get(origin, []))
        return body

    def read(self, origin: str, body: bytes) -> None:
        """Takes the intervals of an origin."""
        self._of[origin] = msgspec.msgpack.decode(body, type=list[list[int]])
