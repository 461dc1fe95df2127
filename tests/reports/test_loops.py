"""A run without end repeats its last steps or rests in its last state: every rendering says which of the two."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

import pytest
from rich.console import Console

from leasehold.checker.explore.result import Path, Snapshot
from leasehold.reports import terminal
from leasehold.reports.lifelines import path_svg
from leasehold.reports.mermaid import path_mermaid
from leasehold.reports.trace import trace_text
from tests.reports.conftest import step

RESTS = "nothing more happens"
# A loop of Mermaid with one note in it that nothing happens is no repetition.
REPEATS = re.compile(rf"repeats? for ever|back to before step|they repeat|loop for ever\n(?!.*{RESTS})")


def printed(path: Path, limit: int | None) -> str:
    """The path on a terminal; with a limit, the steps beyond it are only counted."""
    screen = Console(file=io.StringIO(), width=200)
    terminal.path(screen, path, brief=False, limit=limit)
    return screen.file.getvalue()  # type: ignore[attr-defined]


RENDERINGS: dict[str, Callable[[Path], str]] = {
    "trace": trace_text,
    "brief trace": lambda path: trace_text(path, brief=True),
    "terminal": lambda path: printed(path, None),
    "cut terminal": lambda path: printed(path, 1),
    "mermaid": path_mermaid,
    "svg": lambda path: path_svg(path, "a run"),
}
ENDS = [(length, loop) for length in range(4) for loop in (None, *range(length + 1))]


@pytest.mark.parametrize("name", RENDERINGS)
@pytest.mark.parametrize(("length", "loop"), ENDS)
def test_a_run_that_repeats_steps_is_told_from_one_that_rests(name: str, length: int, loop: int | None) -> None:
    states = [Snapshot({"a": f"s{n}"}, {}, {}, None) for n in range(length + 1)]
    path = Path(states[0], tuple(step("local", "a", f"e{n}", state) for n, state in enumerate(states[1:])), loop)
    text = RENDERINGS[name](path)
    assert (RESTS in text) == (loop == length)
    assert bool(REPEATS.search(text)) == (loop is not None and loop < length)
