"""A path as an SVG sequence diagram, drawn here: no program and no font is needed, and the bytes are always the same.

Time runs downwards. Each kind of row has a height and a way to be drawn (ROWS). Widths are estimated from the number of
characters, generously; a label that would not fit between its lifelines is cut, and whole in its tooltip. The page
draws the same rows in the browser, with the same measures (page/sequence.js).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from itertools import accumulate, pairwise

from leasehold.checker.explore.result import Path
from leasehold.impl.words import visible
from leasehold.reports.sequence import DiagramRow, RowKind, SequenceDiagram, sequence

GUTTER = 44  # for the numbers of the steps
LEAST, MOST = 110.0, 340.0  # between two lifelines
HEAD = 34
MARGIN = 16
CHARACTER = 6.7

STYLE = """
svg { font: 11.5px ui-sans-serif, "Helvetica Neue", Arial, sans-serif; background: #fff; color: #1d2329; }
text { fill: currentColor; paint-order: stroke; stroke: #fff; stroke-width: 4px; stroke-linejoin: round; }
.head rect { fill: #eef1f5; stroke: #8a939f; } .head text, .state text { stroke: none; }
.head text { font-weight: 600; } .life { stroke: #c3cad3; }
.state rect { fill: #fff; stroke: #8a939f; } .number, .quiet { fill: #5f6873; }
.arrow { stroke: #1f5fbf; stroke-width: 1.4; fill: none; } .tip { fill: #1f5fbf; } .again { stroke-dasharray: 5 3; }
.lost { stroke: #b3261e; } .lost-text { fill: #b3261e; } .stub { stroke: #8a939f; fill: #fff; }
.clock { stroke: #c3cad3; } .loop { stroke: #8a5a00; fill: none; stroke-dasharray: 2 3; } .loop-text { fill: #8a5a00; }
@media (prefers-color-scheme: dark) {
svg { background: #14181d; color: #e3e7ec; } text { stroke: #14181d; } .head rect { fill: #232a32; stroke: #6d7783; }
.life, .clock { stroke: #3a434d; } .state rect { fill: #14181d; stroke: #6d7783; } .number, .quiet { fill: #98a2ae; }
.arrow { stroke: #7fb0ff; } .tip { fill: #7fb0ff; } .lost { stroke: #ff8a80; } .lost-text { fill: #ff8a80; }
.stub { fill: #14181d; } .loop { stroke: #e0b060; } .loop-text { fill: #e0b060; } }
""".strip()


def path_svg(path: Path, title: str) -> str:
    """A path as a self-contained SVG document."""
    return _Drawing(sequence(path), title).document()


class _Drawing:
    def __init__(self, drawn: SequenceDiagram, title: str) -> None:
        self.drawn = drawn
        self.title = title
        self.index = {machine: i for i, machine in enumerate(drawn.lifelines)}
        rows = [row for step in drawn.steps for row in step.rows]
        self.xs = self._columns(rows)
        self.width = round(max([self.xs[-1] + self._head(-1) / 2, *(self._reach(row) for row in rows)]) + MARGIN)
        self.parts: list[str] = []
        self.y = 0.0

    def _head(self, index: int) -> float:
        return _width(self.drawn.lifelines[index]) + 28

    def _columns(self, rows: list[DiagramRow]) -> list[float]:
        """Returns where the lifelines stand: as far apart as heads, and labels between them, need, within reason."""
        heads = [self._head(i) for i in self.index.values()]
        gaps = [max(LEAST, (a + b) / 2 + 24) for a, b in pairwise(heads)]
        arrows = []
        for row in rows:
            a, b = self.index.get(row.at or ""), self.index.get(row.peer or "")
            if a is not None and b is not None and a != b and row.kind != "send":
                arrows.append((abs(a - b), min(a, b), _width(row.label) + 32))
        for span, low, need in sorted(arrows):
            missing = need - sum(gaps[low : low + span])
            if missing > 0:
                for i in range(low, low + span):
                    gaps[i] = min(MOST, gaps[i] + missing / span)
        return list(accumulate(gaps, initial=GUTTER + max(heads[0] / 2, 50)))

    def _reach(self, row: DiagramRow) -> float:
        """Returns how far to the right a row's words go, where they stand beside a lifeline."""
        at, peer = self.index.get(row.at or ""), self.index.get(row.peer or "")
        if at is None:
            return GUTTER + _width(row.text)
        beside = peer is None or (row.kind == "send" and peer > at)
        return self.xs[at] + (_width(row.label) + 28 if beside else 0)

    def document(self) -> str:
        self.y = MARGIN + HEAD
        for i, machine in enumerate(self.drawn.lifelines):
            self.state(self.xs[i], self.drawn.initial.shown[machine])
        self.y += 32
        loop_from = 0.0
        for step in self.drawn.steps:
            if step.number == self.drawn.loop:
                self.y += 8
                loop_from = self.y
            if step.rows:
                self.text(GUTTER - 14, self.y + 19, str(step.number), "number", "end")
            for row in step.rows:
                self.row(row)
            self.y += 6
        if self.drawn.loop is not None:
            self.loop(loop_from or self.y)
        self.y += 10
        end = self.y
        if self.drawn.waiting:
            self.y += 16
            self.text(GUTTER, self.y, "on their way at the end: " + ", ".join(self.drawn.waiting), "quiet", "start")
        height = round(self.y + MARGIN)
        lives = [
            f'<line class="life" x1="{_n(self.xs[i])}" x2="{_n(self.xs[i])}" y1="{MARGIN + HEAD}" y2="{_n(end)}"/>'
            for i in self.index.values()
        ]
        heads = [self.head(i) for i in self.index.values()]
        title = _text(self.title)
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{height}" '
                f'viewBox="0 0 {self.width} {height}" role="img" aria-label="{title}">',
                f"<title>{title}</title>",
                f"<style>{STYLE}</style>",
                *lives,
                *heads,
                *self.parts,
                "</svg>",
                "",
            ]
        )

    def row(self, row: DiagramRow) -> None:
        a, b = self.index.get(row.at or ""), self.index.get(row.peer or "")
        x = None if a is None else self.xs[a]
        peer = None if b is None else self.xs[b]
        height, draw = _ROWS.get(row.kind, (22, _Drawing.note))
        if x is None and row.kind not in _RULES:
            self.text(GUTTER, self.y + 15, row.text, "quiet", "start")
        else:
            draw(self, row, x or 0.0, peer)
        self.y += height

    def head(self, index: int) -> str:
        x, width, machine = self.xs[index], self._head(index), self.drawn.lifelines[index]
        return (
            f'<g class="head"><rect x="{_n(x - width / 2)}" y="{MARGIN}" width="{_n(width)}" height="26" rx="4"/>'
            f'<text x="{_n(x)}" y="{MARGIN + 17}" text-anchor="middle">{_text(machine)}</text></g>'
        )

    def text(self, x: float, y: float, text: str, kind: str, anchor: str, room: float = 1e9) -> None:
        shown = text = visible(text)
        if _width(text) > room:
            shown = text[: max(4, int(room / CHARACTER) - 1)].rstrip() + "…"
        hint = f"<title>{_text(text)}</title>" if shown != text else ""
        self.parts.append(
            f'<text class="{kind}" x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}">{_text(shown)}{hint}</text>'
        )

    def state(self, x: float, name: str) -> None:
        width = _width(name) + 22
        self.parts.append(
            f'<g class="state"><rect x="{_n(x - width / 2)}" y="{_n(self.y + 3)}" width="{_n(width)}" height="20" '
            f'rx="10"/><text x="{_n(x)}" y="{_n(self.y + 17)}" text-anchor="middle">{_text(name)}</text></g>'
        )

    def arrow(self, row: DiagramRow, x: float, peer: float | None) -> None:
        if peer is None or x == peer:
            self.note(row, x, peer)
            return
        y, way = self.y + 26, 1 if x > peer else -1
        lost = row.kind == "lose"
        end = (x + peer) / 2 if lost else x - 7 * way
        kind = "arrow" + (" again" if row.kind == "again" else " lost" if lost else "")
        self.parts.append(f'<line class="{kind}" x1="{_n(peer)}" x2="{_n(end)}" y1="{_n(y)}" y2="{_n(y)}"/>')
        if lost:
            self.parts.append(f'<path class="arrow lost" d="M{_n(end - 5)} {_n(y - 5)}l10 10m0 -10l-10 10"/>')
        else:
            self.parts.append(f'<path class="tip" d="M{_n(x)} {_n(y)}l{-8 * way} -4v8z"/>')
        self.text((x + peer) / 2, y - 6, row.label, "lost-text" if lost else "label", "middle", abs(x - peer) - 24)

    def change(self, row: DiagramRow, x: float, peer: float | None) -> None:
        self.state(x, row.text)

    def send(self, row: DiagramRow, x: float, peer: float | None) -> None:
        way = -1 if peer is not None and peer < x else 1
        y = self.y + 11
        self.parts.append(f'<path class="stub" d="M{_n(x)} {_n(y)}h{14 * way}"/>')
        self.parts.append(f'<circle class="stub" cx="{_n(x + 17 * way)}" cy="{_n(y)}" r="3"/>')
        room = x - GUTTER - 24 if way < 0 else 1e9
        self.text(x + 25 * way, y + 4, row.label, "quiet", "end" if way < 0 else "start", room)

    def rule(self, row: DiagramRow, x: float, peer: float | None) -> None:
        """Time passes, or the network falls apart, or is whole again."""
        y = self.y + 15
        kind, style = _RULES[row.kind]
        self.parts.append(f'<line class="{kind}" x1="{GUTTER}" x2="{self.width - MARGIN}" y1="{_n(y)}" y2="{_n(y)}"/>')
        self.text(GUTTER + 6, y + 4, row.text, style, "start")

    def stop(self, row: DiagramRow, x: float, peer: float | None) -> None:
        """The machine crashes, or halts for good."""
        y = self.y + 11
        self.parts.append(f'<path class="arrow lost" d="M{_n(x - 5)} {_n(y - 5)}l10 10m0 -10l-10 10"/>')
        if row.kind == "halt":
            self.parts.append(f'<path class="arrow lost" d="M{_n(x - 9)} {_n(y + 9)}h18"/>')
        self.text(x + 13, y + 4, row.label, "lost-text", "start")

    def restart(self, row: DiagramRow, x: float, peer: float | None) -> None:
        """The machine starts again: a ring with an opening."""
        y = self.y + 11
        self.parts.append(f'<circle class="stub" cx="{_n(x)}" cy="{_n(y)}" r="6"/>')
        self.parts.append(f'<path class="arrow" d="M{_n(x + 5)} {_n(y - 3)}a6 6 0 1 0 1 3"/>')
        self.parts.append(f'<path class="tip" d="M{_n(x + 6)} {_n(y - 7)}l1 6l-6 -1z"/>')
        self.text(x + 13, y + 4, row.label, "label", "start")

    def note(self, row: DiagramRow, x: float, peer: float | None) -> None:
        self.parts.append(f'<circle class="tip" cx="{_n(x)}" cy="{_n(self.y + 11)}" r="3"/>')
        self.text(x + 9, self.y + 15, row.label, "quiet" if row.kind == "ignore" else "label", "start")

    def loop(self, start: float) -> None:
        x, left = self.width - MARGIN, GUTTER - 6
        if start < self.y:
            self.parts.append(f'<path class="loop" d="M{left} {_n(start)}H{x}V{_n(self.y)}H{left}Z"/>')
        self.y += 14
        text = "nothing more happens" if (self.drawn.loop or 0) > len(self.drawn.steps) else "repeats for ever"
        self.text(x, self.y, text, "loop-text", "end")


# Rows that go through all lifelines: the classes of the line and of its words.
_RULES: Mapping[RowKind, tuple[str, str]] = {
    "clock": ("clock", "quiet"),
    "partition": ("arrow again lost", "lost-text"),
    "heal": ("arrow again", "label"),
}
# The height of a row, and how it is drawn. Another row is a note.
_ROWS: Mapping[RowKind, tuple[int, Callable[[_Drawing, DiagramRow, float, float | None], None]]] = {
    "receive": (34, _Drawing.arrow),
    "again": (34, _Drawing.arrow),
    "lose": (34, _Drawing.arrow),
    "drive": (32, _Drawing.arrow),
    "state": (28, _Drawing.change),
    "send": (22, _Drawing.send),
    "clock": (30, _Drawing.rule),
    "partition": (30, _Drawing.rule),
    "heal": (30, _Drawing.rule),
    "crash": (22, _Drawing.stop),
    "halt": (22, _Drawing.stop),
    "recover": (22, _Drawing.restart),
}


def _width(text: str) -> float:
    return len(visible(text)) * CHARACTER


def _n(number: float) -> str:
    """A coordinate with at most one decimal."""
    return f"{number:.1f}".removesuffix(".0")


def _text(text: str) -> str:
    """Text of the document; what is not printable is escaped, as names and values may come from logs."""
    return escape(visible(text))
