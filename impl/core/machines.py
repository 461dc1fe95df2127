"""The subsidiary machines of an actor: they belong to the actor, and whichever lease holds one drives it.

A unit outlives the leases that use it: it may be quarantined, and its action numbers go on. So subsidiary machines have
records of their own, and the machines of all leases of an actor see the same ones (paper, section 4.3.3).
"""

from __future__ import annotations

from collections.abc import Callable

from leasehold.impl.core.work import Record


class Machines(dict[int, Record]):
    """Records of subsidiary machines by number; one that nothing has happened to yet is not stored."""

    __slots__ = ("first",)

    def __init__(self, first: Callable[[int], Record]) -> None:
        super().__init__()
        self.first = first

    def __missing__(self, index: int) -> Record:
        return self.first(index)
