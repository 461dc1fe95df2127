"""The map, its breaks and its tests belong together; `python -m tests.campaigns.paper` makes the breaks."""

from __future__ import annotations

import re

import pytest

from tests.paper.breaks import breaks, rows
from tests.planted.edit import edited
from tests.planted.judge import ROOT, Ended, unnoticed
from tests.planted.table import Mistake


@pytest.mark.parametrize("made", breaks(), ids=lambda made: made.name[:40])
def test_a_break_changes_what_is_there_and_names_tests_of_its_row(made: Mistake) -> None:
    row = next(row for row in rows() if row.name == made.name)
    assert row.held
    assert all(text != (ROOT / file).read_text() for file, text in edited(ROOT, made.edits).items())
    for test in made.tests:
        file, function = re.split(r"::|\[", test)[:2]
        assert function in row.tests
        assert f"def {function}(" in (ROOT / file).read_text()


def test_every_row_that_is_held_has_a_break() -> None:
    broken = {made.name for made in breaks()}
    assert [row.name for row in rows() if row.held and row.name not in broken] == []


def test_only_a_failed_demand_has_noticed_a_break() -> None:
    tests = ("t.py::test_one", "t.py::test_two[a]")
    ended = [Ended("t.py::test_one[x]", "asserted", ""), Ended("t.py::test_two[a]", "other", "ImportError: no")]
    assert unnoticed(tests, ended) == ["t.py::test_two[a]: ImportError: no"]
    assert unnoticed(tests, ended[:1]) == ["t.py::test_two[a]: did not run, or did not end"]
    passed = [ended[0], Ended("t.py::test_two[a]", "passed", "")]
    assert unnoticed(tests, passed) == ["t.py::test_two[a]: passed"]
