"""How reports put numbers into words."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """`1 step`, `2 steps`, `3 properties`."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun[:-1]}ies" if noun.endswith("y") else f"{count:,} {noun}s"
