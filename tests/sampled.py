"""Cases of which each run of the tests tries some, and longer runs the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def one_in(
    count: int,
    cases: Iterable[Any],
    *,
    one: Iterable[pytest.MarkDecorator] = (),
    others: pytest.MarkDecorator = pytest.mark.long,
    seldom: int = 0,
) -> list[Any]:
    """Parameters, of which one in `count`, the first among them, has the marks `one`, and each of the others `others`.

    Args:
        count: how many cases have one that is tried more often.
        cases: a value, or a tuple of values of several parameters, for each.
        seldom: of the others, all but one in so many are slow.
    """

    def marks(at: int) -> list[pytest.MarkDecorator]:
        if at % count == 0:
            return [*one]
        return [pytest.mark.slow if seldom and at % seldom else others]

    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=marks(at)) for at, case in enumerate(cases)
    ]
