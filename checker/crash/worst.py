"""The worst convergence after a crash: a value for each case, and the worse of two."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class Worst:
    """The worst convergence of a case.

    Attributes:
        steps: the most steps to a legal state; None where there is no such number.
        exchanges: the most messages that are received on the way; None likewise.
        returns: whether every fair run comes back; None where that was not asked.
    """

    steps: int | None
    exchanges: int | None
    returns: bool | None = True

    @property
    def size(self) -> int:
        """For comparison: what never returns is more than what has no number, and that is more than any."""
        if self.returns is None:
            return 0
        return 1 << 61 if not self.returns else 1 << 60 if self.steps is None else self.steps


AT_ONCE = Worst(0, 0)
NO_RETURN = Worst(None, None, returns=False)
NOT_ASKED = Worst(None, None, returns=None)


@cache  # there are few, and each is met very often
def worst_of(steps: int | None, exchanges: int | None) -> Worst:
    """The one such value."""
    return Worst(steps, exchanges)


@cache
def or_worse(one: Worst, other: Worst) -> Worst:
    """The worse of two in each respect."""
    for whole in (NOT_ASKED, NO_RETURN):
        if whole in (one, other):
            return whole
    return worst_of(_more(one.steps, other.steps), _more(one.exchanges, other.exchanges))


def _more(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else max(one, other)
