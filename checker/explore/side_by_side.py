"""What does not depend on each other, decided at the same time: NumPy lets other threads run while it is at work.

What asks the kernel of a search is no such thing: it answers one thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")

AT_ONCE = min(2, os.cpu_count() or 1)  # each needs memory of its own


def side_by_side(function: Callable[[A], B], items: Iterable[A]) -> list[B]:
    """What a function answers for each item, in their order."""
    with ThreadPoolExecutor(AT_ONCE) as threads:
        return list(threads.map(function, items))
