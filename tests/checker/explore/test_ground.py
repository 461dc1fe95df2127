"""Compiled expressions show which cells of a state they read."""

import pytest

from leasehold.checker.explore.ground import cells_read


@pytest.mark.parametrize(
    ("words", "cells"),
    [
        ("s[3] + e[0] > s[12]", {3, 12}),
        ("(lambda q: q + s[1])(s[2])", {1, 2}),
        ("len([q for q in s[4][1] if q[1] == 'x'])", {4}),
        ("True", set()),
        ("s[3 + 2 * e[0]]", None),
        ("(3, 5)[e[0]] in s", None),
    ],
)
def test_cells_are_read_off_the_source(words: str, cells: set[int] | None) -> None:
    assert cells_read(words) == cells
