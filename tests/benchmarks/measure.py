"""What a benchmark measures, and how it says so.

Theory of operation. A single figure means little on a machine that others use too, so nothing is compared with a figure
of another day: what is compared runs in turns within one run (A B C A B C ...), a ratio is taken within each round, and
what is reported is the median over the rounds, with the smallest and the largest. Nothing here asserts a time.
"""

from __future__ import annotations

import gc
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field


class Missing(Exception):
    """A library or server that a benchmark needs is not there; the message names it."""


@dataclass(frozen=True)
class Target:
    """What was aimed at: at least, or at most, so much, of the ratio or of the figure itself."""

    limit: float
    least: bool = True
    of_ratio: bool = True

    def words(self, figure: str, reached: float) -> str:
        met = reached >= self.limit if self.least else reached <= self.limit
        return f"{'at least' if self.least else 'less than'} {figure}: {'met' if met else 'missed'}"


@dataclass(frozen=True)
class Row:
    """One thing that was measured, a figure for each round; `base` are the figures that it is compared with."""

    what: str
    figures: Sequence[float]
    base: Sequence[float] = ()
    targets: Sequence[Target] = ()

    @property
    def ratios(self) -> list[float]:
        return [ours / theirs for ours, theirs in zip(self.figures, self.base, strict=bool(self.base))]


@dataclass(frozen=True)
class Table:
    """Rows of one unit; `against` says what the ratio is to."""

    title: str
    unit: str
    rows: Sequence[Row]
    against: str = ""


@dataclass(frozen=True)
class Section:
    """What one benchmark has to say.

    Attributes:
        name: of the benchmark, as the command line has it.
        title: one line.
        how: what was compared and how, in Markdown.
        tables: the figures.
        skipped: what was not measured, and why.
        notes: what is to be known about the figures, in sentences.
    """

    name: str
    title: str
    how: str
    tables: Sequence[Table] = ()
    skipped: Sequence[str] = ()
    notes: Sequence[str] = field(default_factory=tuple)


def median(figures: Sequence[float]) -> float:
    return statistics.median(figures)


def say(text: str) -> None:
    """Progress, for whoever waits."""
    print(f"  {text}", file=sys.stderr, flush=True)


def rounds(runs: Mapping[str, Callable[[], float]], count: int) -> dict[str, list[float]]:
    """Figures of things that run in turns, each so many times; what the last one left is collected before the next."""
    figures: dict[str, list[float]] = {label: [] for label in runs}
    for turn in range(count):
        for label, run in runs.items():
            gc.collect()
            figures[label].append(run())
            say(f"round {turn + 1} of {count}, {label}: {short(figures[label][-1])}")
    return figures


def short(number: float) -> str:
    """A number with three digits that count, and a comma at the thousands."""
    size = abs(number)
    if size >= 1000:
        return f"{round(number, 2 - len(str(int(size))) + 1):,.0f}"
    return (
        f"{number:.0f}"
        if size >= 100
        else f"{number:.1f}"
        if size >= 10
        else f"{number:.2g}"
        if size < 1
        else f"{number:.2f}"
    )
