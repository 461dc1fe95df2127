"""Earliest deadline first: a broker's policy that serves the request first that can wait the shortest.

The deadline of a request is its property `deadline`; else `until_start` or `latest_start`, the latest time at which its
term may begin; else the end of its term. Equal deadlines are served by their ends, and then by the names of the leases:
all of that stands in the records, so a policy that was restarted has the same order.
"""

from __future__ import annotations

from collections.abc import Iterable

from leasehold.impl.lease.arbiter import Arbiter, Request
from leasehold.impl.lease.policies.request import number_of, unfit_number

DEADLINES = ("deadline", "until_start", "latest_start")  # the first that a request names is its deadline


class EarliestDeadline(Arbiter):
    """The policy. Its settings are those of `Arbiter`."""

    quick = True
    reads = DEADLINES

    def order(self, now: int) -> Iterable[Request]:
        return sorted(self._waiting.values(), key=lambda request: (deadline_of(request), request.end, request.lease))

    def unfit(self, asked: Request) -> str:
        return next(filter(None, (unfit_number(asked, name) for name in DEADLINES)), "")


def deadline_of(request: Request) -> int:
    """The time by which a request is to be served."""
    named = (number_of(request, name) for name in DEADLINES)
    return next((deadline for deadline in named if deadline is not None), request.end)
