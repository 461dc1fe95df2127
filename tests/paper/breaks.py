"""Breaks of the rules of docs/paper.md: a change of the specification or the code, with the tests that must fail then.

A row of the map that says `held` is worth as much as its tests. So `breaks.yaml` has changes that take a row's rule
away, at least one for each such row, and names tests of the row that have to notice. Each break is made in a copy of
the repository; its tests have to fail there because what they demand is not so.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.planted.edit import ROOT, edits_of
from tests.planted.judge import Copy, unnoticed
from tests.planted.table import TESTS, Mistake

MAP = ROOT / "docs" / "paper.md"
BREAKS = Path(__file__).with_name("breaks.yaml")


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the map.

    Attributes:
        name: its first cell, which no other row has.
        tests: the tests that it names, as functions.
    """

    name: str
    tests: frozenset[str]
    status: str

    @property
    def held(self) -> bool:
        return self.status.startswith("held")


def rows() -> list[Row]:
    """The rows of the map, in order; those of Table 1 have the tests that stand above that table."""
    text = MAP.read_text(encoding="utf-8")
    above = frozenset(_tests(text.partition("### Table 1")[2].partition("| row")[0]))
    found = []
    for part in re.split(r"^(?=#)", text, flags=re.MULTILINE):
        shared = above if part.startswith("### Table 1") else frozenset[str]()
        for line in part.splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if line.startswith("| ") and cells[-1] != "status":
                found.append(Row(cells[0], shared | _tests(line), cells[-1]))
    return found


def _tests(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"`(test_\w+)`", text))


def breaks() -> list[Mistake]:
    """All breaks, in the order of the map; each has the name of its row."""
    read: list[dict[str, Any]] = yaml.safe_load(BREAKS.read_text(encoding="utf-8"))
    return [
        Mistake(name=one["row"], edits=edits_of(one["edits"]), found_by={TESTS: tuple(one["tests"])}) for one in read
    ]


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of a break; `wrong` says which tests noticed nothing, and is empty where all did."""

    made: Mistake
    wrong: tuple[str, ...]
    seconds: float


def judge(copy: Copy, one: Mistake) -> Judged:
    """Makes a break in a copy, and runs its tests there."""
    began = time.monotonic()
    wrong = unnoticed(one.tests, copy.ended_with(one.edits, one.tests))
    return Judged(one, tuple(wrong), time.monotonic() - began)
