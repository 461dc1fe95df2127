"""The picture of tests/benchmarks/shirako.py: the same measurements, the same picture, byte for byte."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

if TYPE_CHECKING:
    from tests.benchmarks.shirako import Point

# Okabe and Ito's colours, told apart by all eyes; each line has its own mark and words as well.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#222222")  # of the numbers of leases
SETUPS = ("#56B4E9", "#D55E00", "#666666")
MARKS = ("o", "s", "^", "D", "v")
INK, PALE = "#222222", "#dddddd"
SHOWN = (1, 4, 16, 60, 240)  # of the numbers of leases; more lines would hide each other
STYLE: dict[str, Any] = {
    "svg.hashsalt": "shirako",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "font.sans-serif": ["Helvetica", "Arial", "DejaVu Sans", "sans-serif"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
}


def plot(points: Sequence[Point], units: int) -> str:
    """An SVG of four panels: over the term for each setup, and over the number of leases for all of them."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10, 7.2), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.12, h_pad=0.12)
        panels = figure.subplots(2, 2).flatten()
        setups = list(dict.fromkeys(p.setup for p in points))
        for ax, setup in zip(panels, setups, strict=False):
            _frame(ax, setup, [p.cpu_ms for p in points])
            _over_terms(ax, [p for p in points if p.setup == setup])
        _over_leases(panels[3], points, setups)
        for ax in panels[::2]:
            ax.set_ylabel("overhead (ms of processor time per tick)")
        title = f"What leasing costs when {units} units change hands every term"
        figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _frame(ax: Any, title: str, heights: Sequence[float]) -> None:
    """Title, and a logarithmic axis of milliseconds for these."""
    ax.set_title(title[0].upper() + title[1:], loc="left", fontsize=10)
    ax.set_yscale("log")
    ax.set_ylim(min(heights) / 1.4, max(heights) * 1.4)
    ax.yaxis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.grid(axis="y", color=PALE, linewidth=0.6)
    ax.set_axisbelow(True)


def _over_terms(ax: Any, points: Sequence[Point]) -> None:
    shown = [n for n in SHOWN if any(p.leases == n for p in points)]
    lines = []
    for colour, mark, leases in zip(COLOURS, MARKS, shown, strict=False):
        line = sorted((p.term_ticks, p.cpu_ms) for p in points if p.leases == leases)
        ax.plot(*zip(*line, strict=True), color=colour, marker=mark)
        lines.append((line[-1][1], f"{leases} lease{'s' if leases > 1 else ''}", colour))
    _across(ax, sorted({p.term_ticks for p in points}), "lease term (ticks)")
    _labels(ax, lines)


def _over_leases(ax: Any, points: Sequence[Point], setups: Sequence[str]) -> None:
    terms = sorted({p.term_ticks for p in points})
    term = 10 if 10 in terms else terms[len(terms) // 2]
    points = [p for p in points if p.term_ticks == term]
    _frame(ax, f"all three, for terms of {term} ticks", [p.cpu_ms for p in points])
    lines = []
    for colour, mark, setup in zip(SETUPS, MARKS, setups, strict=False):
        line = sorted((p.leases, p.cpu_ms) for p in points if p.setup == setup)
        ax.plot(*zip(*line, strict=True), color=colour, marker=mark)
        lines.append((line[-1][1], setup.replace(", ", ",\n"), colour))
    _across(ax, sorted({p.leases for p in points}), "leases that share the units")
    _labels(ax, lines)


def _across(ax: Any, at: Sequence[int], label: str) -> None:
    ax.set_xscale("log")
    ax.set_xticks(at, [str(n) for n in at])
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.tick_params(axis="x", which="minor", length=0)
    ax.set_xlabel(label)


def _labels(ax: Any, lines: Sequence[tuple[float, str, str]]) -> None:
    """Words at the ends of lines, moved apart where they would touch: in shares of the panel's height."""
    low, high = (math.log(limit) for limit in ax.get_ylim())
    wanted = sorted(((math.log(y) - low) / (high - low), label, colour) for y, label, colour in lines)
    height = 0.055 * max(label.count("\n") + 1 for _, label, _ in wanted)
    places = [at for at, _, _ in wanted]
    for _ in range(100):
        for i in range(len(places) - 1):
            touch = height - (places[i + 1] - places[i])
            if touch > 0:
                places[i], places[i + 1] = places[i] - touch / 2, places[i + 1] + touch / 2
    for place, (_, label, colour) in zip(places, wanted, strict=True):
        ax.annotate(
            label,
            (1, place),
            xycoords="axes fraction",
            xytext=(2, 0),
            textcoords="offset points",
            va="center",
            color=colour,
            annotation_clip=False,
            linespacing=1.0,
        )
