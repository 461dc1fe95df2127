"""Simulated policies side by side: as text, as JSON, and as a page with plots that fetches nothing.

The plots are SVG that is drawn here, and each line has its own dash as well as its own colour. A page says only what a
run says, so the same stream and seed give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any, NamedTuple

from leasehold.checker.policies.measures import Figures, UserShare, figures_of, waits_of
from leasehold.checker.policies.run import PolicyRun
from leasehold.checker.policies.stream import Stream
from leasehold.impl.words import counted
from leasehold.reports.json_report import plain

SHOWN = 10  # differences, and violations, that are told of each policy
POINTS = 400  # of a line
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 620, 190, 56, 34, 12
# Okabe and Ito's colours, told apart by all eyes.
LINES = (("#0072B2", ""), ("#D55E00", "7 3"), ("#009E73", "2 3"), ("#CC79A7", "9 3 2 3"), ("#555555", "4 4"))

ROWS: tuple[tuple[str, Callable[[PolicyRun, Figures], str]], ...] = (
    ("requests", lambda run, f: f"{f.requests:,}"),
    ("done", lambda run, f: f"{f.done:,}"),
    ("missed starts", lambda run, f: f"{f.missed:,}"),
    ("cut short", lambda run, f: f"{f.cut:,}"),
    ("utilisation", lambda run, f: f"{f.utilisation:.1%}"),
    ("mean wait, ticks", lambda run, f: f"{f.mean_wait:.1f}"),
    ("median wait", lambda run, f: f"{f.median_wait:,}"),
    ("95% waited at most", lambda run, f: f"{f.late_wait:,}"),
    ("longest wait", lambda run, f: f"{f.longest_wait:,}"),
    ("fairness (Jain)", lambda run, f: f"{f.fairness:.3f}"),
    ("value served", lambda run, f: f"{f.value:,}"),
    ("revenue", lambda run, f: f"{f.revenue:,.0f}"),
    ("decisions", lambda run, f: f"{run.decisions:,}"),
    ("restarts beside it", lambda run, f: f"{run.restarts:,}"),
    ("restarts that differ", lambda run, f: f"{len(run.differences):,}"),
    ("violations", lambda run, f: f"{len(run.violations):,}"),
)


Streams = Sequence[tuple[Stream, Sequence[PolicyRun]]]


class Compared(NamedTuple):
    """A figure by which policies are compared over several streams.

    Attributes:
        name: of the figure.
        value: in a run's figures.
        show: writes it.
        fewest: whether the lowest is the best; else the highest.
    """

    name: str
    value: Callable[[Figures], float]
    show: Callable[[float], str]
    fewest: bool = False


COMPARED = (
    Compared("fairness (Jain)", lambda f: f.fairness, lambda value: f"{value:.3f}"),
    Compared("missed starts", lambda f: f.missed, lambda value: f"{value:,.1f}".removesuffix(".0"), fewest=True),
    Compared("revenue", lambda f: f.revenue, lambda value: f"{value:,.0f}"),
    Compared("value served", lambda f: f.value, lambda value: f"{value:,.0f}"),
)


def over_streams(streams: Streams) -> list[list[str]]:
    """The mean and the range of each compared figure over some streams, and in how many of them a policy is best.

    Policies that are equally good are all best.
    """
    rows = [["over all streams", *(run.policy for run in streams[0][1])]]
    figures = [[figures_of(run) for run in runs] for _, runs in streams]
    for compared in COMPARED:
        values = [[compared.value(one) for one in of] for of in figures]
        bests = [min(of) if compared.fewest else max(of) for of in values]
        means, ranges, wins = [compared.name], ["  least to most"], ["  best in"]
        for own in zip(*values, strict=True):
            means.append(compared.show(sum(own) / len(own)))
            ranges.append(f"{compared.show(min(own))} to {compared.show(max(own))}")
            won = sum(value == best for value, best in zip(own, bests, strict=True))
            wins.append(f"{won} of {len(own)}")
        rows += [means, ranges, wins]
    return rows


def table_of(runs: Sequence[PolicyRun]) -> list[list[str]]:
    """The figures, a row for each and a column for each policy; the first row names the policies."""
    figures = [figures_of(run) for run in runs]
    rows = [[name, *(show(*of) for of in zip(runs, figures, strict=True))] for name, show in ROWS]
    return [["", *(run.policy for run in runs)], *rows]


def text(streams: Streams) -> str:
    """The table and the shares of users of the first stream, what was found, and the figures over all streams."""
    stream, runs = streams[0]
    lines = [_headline(stream, runs), "", *_aligned(table_of(runs)), "", *_aligned(_shares(runs))]
    if len(streams) > 1:
        lines += ["", *_aligned(over_streams(streams))]
    for one, of in streams:
        found = [line for run in of if not run.right for line in ["", *_found(run)]]
        lines += ["", one.name, *found] if found and len(streams) > 1 else found
    return "\n".join(lines)


def _headline(stream: Stream, runs: Sequence[PolicyRun]) -> str:
    left_out = f", {counted(stream.left_out, 'job')} left out" if stream.left_out else ""
    return f"{counted(len(stream.requests), 'request')} ({stream.name}{left_out}) for {counted(runs[0].units, 'unit')}"


def _found(run: PolicyRun) -> list[str]:
    """The differences and violations of a run, in lines."""
    lines = []
    if run.violations:
        lines.append(f"{run.policy}: {counted(len(run.violations), 'violation')}:")
        lines += _first(run.violations)
    if run.differences:
        lines.append(
            f"{run.policy}: {len(run.differences)} of {counted(run.restarts, 'restart')} decided otherwise, "
            "from the records alone:"
        )
        lines += _first(run.differences)
    return lines


def _first(sentences: Sequence[str]) -> list[str]:
    more = len(sentences) - SHOWN
    return [*(f"  {sentence}" for sentence in sentences[:SHOWN]), *([f"  and {more:,} more"] if more > 0 else [])]


def _shares(runs: Sequence[PolicyRun]) -> list[list[str]]:
    """The users, of whom the first columns are the same in all runs."""
    figures = [figures_of(run) for run in runs]
    rows = [["user", "weight", "asked", *(f"used: {run.policy}" for run in runs)]]
    for at, user in enumerate(figures[0].users):
        used = [f"{of.users[at].used:.1%}{_normalised(of.users[at])}" for of in figures]
        rows.append([user.name, f"{user.weight} ({user.entitled:.1%})", f"{user.asked:.1%}", *used])
    return rows


def _normalised(user: UserShare) -> str:
    """The part of its fair share that a user had while it waited, in brackets; empty where it never did."""
    return "" if user.normalised is None else f" ({user.normalised:.2f})"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    first, *widths = (max(map(len, column)) for column in zip(*rows, strict=True))
    return [
        "  ".join([name.ljust(first), *(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))]).rstrip()
        for name, *cells in rows
    ]


def json_of(streams: Streams) -> dict[str, Any]:
    """The same as JSON values: the first stream, and all of them under `streams` where there are several."""
    first, *_ = told = [_told(stream, runs) for stream, runs in streams]
    return {**first, "streams": told} if len(streams) > 1 else first


def _told(stream: Stream, runs: Sequence[PolicyRun]) -> dict[str, Any]:
    return {
        "stream": stream.name,
        "units": runs[0].units,
        "left_out": stream.left_out,
        "policies": [
            {
                "policy": run.policy,
                **plain(figures_of(run)),
                "decisions": run.decisions,
                "restarts": run.restarts,
                "differences": run.differences,
                "violations": run.violations,
            }
            for run in runs
        ],
    }


def page(streams: Streams, command: str, title: str = "Simulated policies", about: Sequence[str] = ()) -> str:
    """A page of HTML; write it as UTF-8.

    Args:
        streams: the runs; the plots and the table are of the first stream.
        command: that makes it.
        title: of the page.
        about: paragraphs that come first, as HTML.
    """
    stream, runs = streams[0]
    found = [line for _, of in streams for run in of if not run.right for line in _found(run)]
    parts = [f"<h1>{title}</h1>", *(f"<p>{paragraph}</p>" for paragraph in about)]
    if len(streams) > 1:
        parts += [
            f"<h2>Over {len(streams)} streams</h2>",
            _html_table(over_streams(streams)),
            "<h2>The first stream</h2>",
        ]
    parts += [
        f"<p>{escape(_headline(stream, runs))}. <code>{escape(command)}</code></p>",
        _html_table(table_of(runs)),
        "<h2>Units in use</h2>",
        line_plot([(run.policy, _thinned(run.used)) for run in runs], "tick", "units", runs[0].units),
        "<h2>Requests that wait for their first unit</h2>",
        line_plot([(run.policy, _thinned(run.waiting)) for run in runs], "tick", "requests"),
        "<h2>Waiting of requests that started</h2>",
        line_plot([(run.policy, _spread(waits_of(run.requests))) for run in runs], "ticks at most", "% of them", 100),
        "<h2>Share and weight</h2>",
        bar_plot(runs),
        "<p>In brackets: what a user had while one of its requests waited, divided by its fair share.</p>",
        _html_table(_shares(runs)),
    ]
    if found:
        parts += ["<h2>Found</h2>", "<pre>", escape("\n".join(found)), "</pre>"]
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
        f"<style>{STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


STYLE = """
body { font: 15px ui-sans-serif, "Helvetica Neue", Arial, sans-serif; margin: 2em auto; max-width: 60em; padding: 0 1em;
  background: #fff; color: #1d2329; }
table { border-collapse: collapse; margin: 1em 0; } td, th { padding: .2em .8em; border-bottom: 1px solid #c3cad3; }
td, th + th { text-align: right; } th { text-align: left; font-weight: 600; } pre { white-space: pre-wrap; }
svg { max-width: 100%; font-size: 12px; } svg text { fill: currentColor; } .axis { stroke: #8a939f; }
.grid { stroke: #8a939f; opacity: .25; }
@media (prefers-color-scheme: dark) { body { background: #14181d; color: #e3e7ec; } }
""".strip()


def _html_table(rows: Sequence[Sequence[str]]) -> str:
    head, *rest = rows
    lines = ["<tr>" + "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head) + "</tr>"]
    for first, *cells in rest:
        shown = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        lines.append(f'<tr><th scope="row">{escape(first)}</th>{shown}</tr>')
    return "<table>\n" + "\n".join(lines) + "\n</table>"


Points = Sequence[tuple[float, float]]


def _thinned(values: Sequence[int]) -> Points:
    """Means over stretches, so that a long run is drawn as fast as a short one."""
    width = max(1, -(-len(values) // POINTS))
    parts = [(at, values[at : at + width]) for at in range(0, len(values), width)]
    return [(at, sum(part) / len(part)) for at, part in parts]


def _spread(waits: Sequence[int]) -> Points:
    """The share of requests that waited no longer."""
    last = {wait: 100 * number / len(waits) for number, wait in enumerate(waits, 1)}
    return [*last.items()]


def line_plot(lines: Sequence[tuple[str, Points]], across: str, up: str, highest: float | None = None) -> str:
    """Lines in one frame, as SVG, with their names below."""
    most_x = max((points[-1][0] for _, points in lines if points), default=1) or 1
    most_y = highest or max((y for _, points in lines for _, y in points), default=1) or 1
    parts = [
        *_frame(most_y, up),
        f'<text x="{WIDTH}" y="{HEIGHT + BOTTOM - 16}" text-anchor="end">{most_x:,.0f} {escape(across)}</text>',
    ]
    for number, (name, points) in enumerate(lines):
        places = " ".join(f"{_x(x / most_x):.1f},{_y(y / most_y):.1f}" for x, y in points)
        parts.append(f'<polyline fill="none" stroke-width="1.8" {_stroke(number)} points="{places}"/>')
        parts.append(_name(number, name))
    return _svg(parts, len(lines), f"{up} by {across}")


def bar_plot(runs: Sequence[PolicyRun]) -> str:
    """Each user's share under each policy, and as a line the share that its weight would give."""
    figures = [figures_of(run) for run in runs]
    users = figures[0].users
    most = max((max(user.used, user.entitled) for of in figures for user in of.users), default=1) or 1
    parts = _frame(100 * most, "% of all that was used")
    step = 1 / max(1, len(users))
    for at, user in enumerate(users):
        for number, of in enumerate(figures):
            left = _x(step * (at + 0.15 + 0.7 * number / len(runs)))
            width, top = 0.7 * step / len(runs) * (WIDTH - LEFT) - 2, _y(of.users[at].used / most)
            parts.append(
                f'<rect x="{left:.1f}" y="{top:.1f}" width="{max(1.0, width):.1f}" height="{HEIGHT - top:.1f}" '
                f'fill-opacity=".35" stroke-width="1.5" {_stroke(number, fill=True)}><title>'
                f"{escape(runs[number].policy)}, {escape(user.name)}: {of.users[at].used:.1%}</title></rect>"
            )
        entitled = _y(user.entitled / most)
        ends = f'x1="{_x(step * (at + 0.1)):.1f}" x2="{_x(step * (at + 0.9)):.1f}"'
        parts.append(f'<line {ends} y1="{entitled:.1f}" y2="{entitled:.1f}" stroke="currentColor" stroke-width="2"/>')
        if len(users) <= 12:
            middle = _x(step * (at + 0.5))
            name = escape(user.name)
            parts.append(f'<text x="{middle:.1f}" y="{HEIGHT + 15}" text-anchor="middle">{name}</text>')
    parts += [_name(number, run.policy) for number, run in enumerate(runs)]
    return _svg(parts, len(runs), "share by user; a line is the share of the weight")


def _x(share: float) -> float:
    return LEFT + share * (WIDTH - LEFT)


def _y(share: float) -> float:
    return HEIGHT - share * (HEIGHT - TOP)


def _stroke(number: int, fill: bool = False) -> str:
    colour, dash = LINES[number % len(LINES)]
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'stroke="{colour}"{dashed}' + (f' fill="{colour}"' if fill else "")


def _frame(most: float, up: str) -> list[str]:
    lines = [f'<line class="axis" x1="{LEFT}" x2="{WIDTH}" y1="{HEIGHT}" y2="{HEIGHT}"/>']
    for share in (0.5, 1.0):
        lines.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH}" y1="{_y(share)}" y2="{_y(share)}"/>')
        lines.append(f'<text x="{LEFT - 6}" y="{_y(share) + 4}" text-anchor="end">{most * share:,.4g}</text>')
    return [*lines, f'<text x="{LEFT + 4}" y="{TOP + 10}">{escape(up)}</text>']


def _name(number: int, name: str) -> str:
    y = HEIGHT + BOTTOM + 16 * number
    line = f'<line x1="{LEFT}" x2="{LEFT + 30}" y1="{y - 4}" y2="{y - 4}" stroke-width="2" {_stroke(number)}/>'
    return f'{line}<text x="{LEFT + 38}" y="{y}">{escape(name)}</text>'


def _svg(parts: Sequence[str], names: int, label: str) -> str:
    height = HEIGHT + BOTTOM + 16 * names
    head = f'<svg viewBox="0 0 {WIDTH + 8} {height}" width="{WIDTH + 8}" role="img" aria-label="{escape(label)}">'
    return "\n".join([head, *parts, "</svg>"])
