"""The test that a line's context names, in a process that was forked from another one, too."""

from __future__ import annotations

import pytest

from tests.mutation.judging import _test_of

ONE, OTHER = "tests/cli/test_a.py::test_one[x|y]", "tests/cli/test_b.py::test_other"


@pytest.mark.parametrize(
    ("context", "test"),
    [("", ""), (ONE, ONE), (f"|{ONE}", ONE), (f"{OTHER}|{ONE}", ONE), (f"{ONE}|{OTHER}", OTHER), (f"{ONE}|{ONE}", ONE)],
)
def test_the_last_test_of_a_context_counts(context: str, test: str) -> None:
    assert _test_of(context) == test
