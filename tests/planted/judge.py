"""The judge of planted mistakes: tests run with a mistake planted, here or in a copy of the repository.

A test that finds a mistake fails because what it demands is not so. One that cannot be run any more has noticed
nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

from tests.planted.edit import ROOT, Edit, in_folder
from tests.planted.plugin import OUTCOMES, PLANTED

NOT_COPIED = (".git", ".tox", ".mypy_cache", ".ruff_cache", ".hypothesis", "__pycache__", "*.egg-info", "build")
LIMIT_SECONDS = 500.0  # for the tests of one mistake, on a busy machine
M, J, C = TypeVar("M"), TypeVar("J"), TypeVar("C", bound="Copy")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a test ended: "passed", "asserted", or "other", in words."""

    test: str
    how: str
    words: str


class Copy:
    """A copy of the repository, in which one mistake after the other is made."""

    def __init__(self) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="mistakes-", ignore_cleanup_errors=True)
        self.folder = Path(self._temporary.name) / "copy"
        shutil.copytree(ROOT, self.folder, symlinks=True, ignore=shutil.ignore_patterns(*NOT_COPIED))

    def close(self) -> None:
        """Removes the copy."""
        self._temporary.cleanup()

    def compile(self) -> None:
        """Compiles the copy: a compiled file names the digest of its text, so only what is edited is compiled again."""
        options = ["-q", "--invalidation-mode", "checked-hash", str(self.folder)]
        subprocess.run([sys.executable, "-m", "compileall", *options], check=False, stdout=subprocess.DEVNULL)

    def ended_with(self, edits: Iterable[Edit], tests: Sequence[str]) -> list[Ended]:
        """Returns how tests end with edits made.

        Raises:
            EditError: one does not fit.
        """
        with in_folder(self.folder, edits):
            return ended(tests, self.folder)


def environment_of(folder: Path) -> dict[str, str]:
    """The variables with which tests of a copy run."""
    return {**os.environ, "PYTHONPATH": f"{folder}/src:{folder}", "PYTHONDONTWRITEBYTECODE": "1"}


def ended(tests: Sequence[str], folder: Path = ROOT, planted: str = "") -> list[Ended]:
    """Returns how tests end; those that did not, within `LIMIT_SECONDS`, are missing.

    Args:
        tests: as pytest names them.
        folder: the repository, or a copy of it.
        planted: the name of a mistake of the running system; empty: none is planted.
    """
    with tempfile.TemporaryDirectory() as temporary:
        outcomes = Path(temporary) / "outcomes"
        outcomes.touch()
        environment = {**environment_of(folder), OUTCOMES: str(outcomes), **({PLANTED: planted} if planted else {})}
        options = ["-q", "-m", "", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "tests.planted.plugin"]
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [sys.executable, "-m", "pytest", *options, *tests],
                cwd=folder,
                env=environment,
                check=False,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=LIMIT_SECONDS,
            )
        return [Ended(**json.loads(line)) for line in outcomes.read_text(encoding="utf-8").splitlines()]


def unnoticed(tests: Iterable[str], outcomes: Sequence[Ended]) -> list[str]:
    """The tests that did not fail for want of what they demand, and how they ended instead.

    Of a test that has parameters and is named without them, one failure suffices.
    """
    wrong = []
    for test in tests:
        own = [e for e in outcomes if e.test == test or e.test.partition("[")[0] == test]
        if not any(e.how == "asserted" for e in own):
            others = "; ".join(sorted({e.words for e in own if e.how == "other"}))
            wrong.append(f"{test}: {others or ('passed' if own else 'did not run, or did not end')}")
    return wrong


def in_copies(judge: Callable[[C, M], J], wanted: Iterable[M], jobs: int, make: Callable[[], C]) -> Iterator[J]:
    """Judges mistakes as they are done, each job in a copy of its own."""
    free: SimpleQueue[C] = SimpleQueue()

    def one(mistake: M) -> J:
        copy = free.get()
        try:
            return judge(copy, mistake)
        finally:
            free.put(copy)

    with ExitStack() as stack:
        for _ in range(jobs):
            copy = make()
            stack.callback(copy.close)
            free.put(copy)
        pool = stack.enter_context(ThreadPoolExecutor(jobs))
        try:
            for done in as_completed([pool.submit(one, mistake) for mistake in wanted]):
                yield done.result()
        finally:
            pool.shutdown(cancel_futures=True)
