"""Breaks of the rules of docs/paper.md: a change of the specification or the code, with the tests that must fail then.

A row of the map that says `held` is worth as much as its tests. So `breaks.yaml` has changes that take a row's rule
away, at least one for each such row, and names tests of the row that have to notice. Each break is made in a copy of
the repository; its tests have to fail there because what they demand is not so. A test that cannot be run any more
has noticed nothing.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.mutation.judging import ROOT, Copy
from tests.paper.outcomes import VARIABLE

MAP = ROOT / "docs" / "paper.md"
BREAKS = Path(__file__).with_name("breaks.yaml")
LIMIT_SECONDS = 500.0  # for the tests of one break, on a busy machine


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


@dataclass(frozen=True, slots=True)
class Edit:
    """A text of a file, named from the root of the repository, which has it once; and what stands there instead."""

    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Break:
    """Edits that take the rule of a row away, and the tests that must fail then, as pytest names them."""

    row: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]

    @property
    def functions(self) -> frozenset[str]:
        return frozenset(re.split(r"::|\[", test)[1] for test in self.tests)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a test ended: "passed", "asserted", or "other", in words."""

    test: str
    how: str
    words: str


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


def breaks() -> list[Break]:
    """All breaks, in the order of the map."""
    read: list[dict[str, Any]] = yaml.safe_load(BREAKS.read_text(encoding="utf-8"))
    return [Break(one["row"], tuple(Edit(**edit) for edit in one["edits"]), tuple(one["tests"])) for one in read]


class Trial:
    """A copy of the repository, in which one break after the other is made."""

    def __init__(self) -> None:
        self._copy = Copy()
        self.folder = self._copy.folder
        # What was not changed need not be compiled again: its compiled file names the digest of its text.
        compiled = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash", str(self.folder)]
        subprocess.run(compiled, check=False, stdout=subprocess.DEVNULL)

    def close(self) -> None:
        self._copy.close()

    def broken(self, one: Break) -> list[Ended]:
        """Returns how a break's tests end while it is made.

        Raises:
            AssertionError: its text is not exactly once in its file.
        """
        before: dict[Path, str] = {}
        try:
            for edit in one.edits:
                file = self.folder / edit.file
                text = file.read_text(encoding="utf-8")
                before.setdefault(file, text)
                assert text.count(edit.old) == 1, f"{edit.file} has {text.count(edit.old)} times {edit.old!r}"
                file.write_text(text.replace(edit.old, edit.new), encoding="utf-8")
            return self.run(one.tests)
        finally:
            for file, text in before.items():
                file.write_text(text, encoding="utf-8")

    def run(self, tests: Sequence[str]) -> list[Ended]:
        """Returns how tests end; those that did not, within `LIMIT_SECONDS`, are missing."""
        with tempfile.TemporaryDirectory() as temporary:
            told = Path(temporary) / "outcomes"
            told.touch()
            environment = {
                **os.environ, "PYTHONPATH": f"{self.folder}/src:{self.folder}", "PYTHONDONTWRITEBYTECODE": "1",
                VARIABLE: str(told),
            }  # fmt: skip
            options = ["-q", "-m", "", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "tests.paper.outcomes"]
            with suppress(subprocess.TimeoutExpired):
                subprocess.run(
                    [sys.executable, "-m", "pytest", *options, *tests], cwd=self.folder, env=environment, check=False,
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=LIMIT_SECONDS,
                )  # fmt: skip
            return [Ended(**json.loads(line)) for line in told.read_text(encoding="utf-8").splitlines()]


def unnoticed(one: Break, ended: Iterable[Ended]) -> list[str]:
    """The tests of a break that did not fail for want of what they demand, and how they ended instead.

    Of a test that has parameters and is named without them, one failure suffices.
    """
    told = list(ended)
    wrong = []
    for test in one.tests:
        own = [e for e in told if e.test == test or e.test.partition("[")[0] == test]
        if not any(e.how == "asserted" for e in own):
            others = "; ".join(sorted({e.words for e in own if e.how == "other"}))
            wrong.append(f"{test}: {others or ('passed' if own else 'did not run, or did not end')}")
    return wrong


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of a break; `wrong` says which tests noticed nothing, and is empty where all did."""

    made: Break
    wrong: tuple[str, ...]
    seconds: float


def judge(trial: Trial, one: Break) -> Judged:
    began = time.monotonic()
    wrong = unnoticed(one, trial.broken(one))
    return Judged(one, tuple(wrong), time.monotonic() - began)
