"""Lines of generated source: parentheses that nothing needs, and tuples that are too long for one line."""

from __future__ import annotations

from collections.abc import Iterator

WIDTH = 100


def bare(source: str) -> str:
    """Without parentheses round the whole, unless they make a tuple."""
    if source == "()" or not (source.startswith("(") and source.endswith(")")):
        return source
    depth = 0
    for i, character in enumerate(source):
        depth += character in "([{"
        depth -= character in ")]}"
        if (depth == 0 and i < len(source) - 1) or (depth == 1 and character == ","):
            return source
    return source[1:-1]


def tuple_lines(before: str, items: list[str], after: str) -> Iterator[str]:
    """A tuple on one line, or on several where it is long."""
    line = before + ", ".join(items) + after
    if len(line) <= WIDTH:
        yield line
        return
    yield before
    row = "   "
    for item in items:
        if len(row) + len(item) + 2 > WIDTH:
            yield row
            row = "   "
        row += f" {item},"
    yield row
    yield after
