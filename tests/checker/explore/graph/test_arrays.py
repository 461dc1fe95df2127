"""The functions on edges that are compiled with the engine find what scipy's find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.checker.explore.graph import arrays
from leasehold.checker.explore.packed import library

pytestmark = pytest.mark.skipif(not library.FILE.exists(), reason="the C engine was not built")
SIZE = 12
STATES = st.integers(0, SIZE - 1)
EDGES = st.lists(st.tuples(STATES, STATES, st.booleans()), max_size=40)


def both(found: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """The result with the compiled functions, and without them."""
    with monkeypatch.context() as patch:
        compiled = found()
        patch.setattr(arrays, "compiled_functions", lambda: None)
        return compiled, found()


@given(EDGES, st.sets(STATES), st.sets(STATES), st.booleans())
def test_compiled_functions_agree_with_scipy(
    edges: list[tuple[int, int, bool]], starts: set[int], among: set[int], some: bool
) -> None:
    columns = np.array(edges, dtype=np.int32).reshape(-1, 3).T
    marks, inside = (np.isin(np.arange(SIZE), list(chosen)) for chosen in (starts, among | starts))
    with pytest.MonkeyPatch.context() as patch:
        orders = both(lambda: arrays.by_source(SIZE, columns[0], columns[1], np.arange(len(edges))), patch)
        assert [part.tolist() for part in orders[0]] == [part.tolist() for part in orders[1]]
        first, targets, rows = orders[0]
        kept = columns[2].astype(bool)[rows] if some else None
        for found in (
            lambda: arrays.reached_by(marks, first, targets, kept),
            lambda: arrays.leading_to(marks, first, targets, kept, inside),
            lambda: arrays.leading_to(marks, first, targets, kept),
        ):
            one, other = both(found, patch)
            assert one.tolist() == other.tolist()
        into, back = both(lambda: arrays.backward(first, targets, kept), patch)
        assert [part.tolist() for part in into] == [part.tolist() for part in back]
        (count, of), (scipys, others) = both(lambda: arrays.components(first, targets, kept), patch)
        assert count == scipys == len(set(zip(of.tolist(), others.tolist(), strict=True)))


@pytest.mark.parametrize("way", ["up", "down", "half", "zigzag"])
@pytest.mark.parametrize("size", [1, 2, 3, 64, 65, 66, 67, 129, 300])
def test_a_long_way_is_found_whatever_its_numbers(size: int, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step to a greater number is found in the same sweep, and one to a less number in the next one; few are made."""
    some = np.arange(size, dtype=np.int32)
    order = {
        "up": some,
        "down": some[::-1],
        "half": np.concatenate([some[::2], some[1::2][::-1]]),
        "zigzag": np.concatenate([part[::-1] for part in np.array_split(some, max(1, size // 2))]),
    }[way]
    first, targets, _ = arrays.by_source(size, order[:-1], order[1:], order[:-1])
    for at in (0, size // 2, size - 1):
        ends, after = some == order[at], np.isin(some, order[at + 1 :])
        found, without = both(lambda: arrays.leading_to(ends, first, targets), monkeypatch)  # noqa: B023
        assert found.tolist() == without.tolist() == (~after).tolist()
        inside = some != order[at // 2] if at else some >= 0
        expected = np.isin(some, order[at // 2 + 1 : at + 1]) if at else ends
        assert arrays.leading_to(ends, first, targets, None, inside | ends).tolist() == (expected | ends).tolist()
