"""Words of messages for people, that several parts say alike."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from itertools import islice


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean X?` for the known word nearest to a misspelt one, or nothing."""
    near = difflib.get_close_matches(word[:80], list(islice(known, 1000)), 1)
    return f"; did you mean {near[0]}?" if near else ""


def choices(word: str, known: Sequence[str]) -> str:
    """The same, and all that there are."""
    return f"{did_you_mean(word, known)} (there are: {', '.join(known) or 'none'})"


def check_name(kind: str, name: str, known: Iterable[str]) -> str:
    """Returns the name of one of the known, such as an actor.

    Raises:
        ValueError: it is none.
    """
    if name not in (names := list(known)):
        raise ValueError(f"there is no {kind} {name!r}{choices(name, names)}")
    return name


OVER = " over "


def over(machine: str, channel: str) -> str:
    """`room over keys`: a machine, and the channel whose messages are numbered apart; the machine alone without one."""
    return f"{machine}{OVER}{channel}" if channel else machine


def parted(text: str) -> tuple[str, str]:
    """The machine and the channel that `over` has put together."""
    machine, _, channel = text.partition(OVER)
    return machine, channel


def together(parts: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


def counted(count: int, noun: str) -> str:
    """`1 step`, `2 steps`, `3 properties`, `4 witnesses`."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("y"):
        return f"{count:,} {noun[:-1]}ies"
    return f"{count:,} {noun}es" if noun.endswith(("s", "sh")) else f"{count:,} {noun}s"


def size_text(size: int) -> str:
    """`5.3 GB`, `120 MB`, `4 KB`, `17 bytes`: a number of bytes."""
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "KB")):
        if size >= unit:
            return f"{size / unit:,.1f} {name}" if size < 10 * unit else f"{size / unit:,.0f} {name}"
    return counted(size, "byte")


def visible(text: str) -> str:
    """A text with escapes in place of characters that are not printable: line breaks, control and bidi characters."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def visible_lines(text: str) -> str:
    """Likewise of each line: line breaks stay."""
    return text if text.isprintable() else "\n".join(map(visible, text.split("\n")))
