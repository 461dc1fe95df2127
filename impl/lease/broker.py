"""First come, first served: a broker's policy that serves requests in the order in which they came."""

from __future__ import annotations

from collections.abc import Iterable

from leasehold.impl.lease.arbiter import Arbiter, Request


class FirstComeFirstServed(Arbiter):
    """The policy. Its settings are those of `Arbiter`."""

    quick = True

    def order(self, now: int) -> Iterable[Request]:
        return tuple(self._waiting.values())
