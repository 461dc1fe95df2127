"""How reports put numbers into words."""

from __future__ import annotations

from collections.abc import Sequence


def together(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def counted(count: int, noun: str) -> str:
    """`1 step`, `2 steps`, `3 properties`, `4 witnesses`."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("y"):
        return f"{count:,} {noun[:-1]}ies"
    return f"{count:,} {noun}es" if noun.endswith("s") else f"{count:,} {noun}s"
