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
) -> list[Any]:
    """Parameters, of which one in `count`, the first among them, has the marks `one`, and each of the others `others`.

    Args:
        count: how many cases have one that is tried more often.
        cases: a value, or a tuple of values of several parameters, for each.
    """
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=others if at % count else [*one])
        for at, case in enumerate(cases)
    ]
