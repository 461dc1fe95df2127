"""Memory, threads and Ctrl-C of a search."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

if sys.platform != "win32":
    import resource

A = TypeVar("A")
B = TypeVar("B")

SHARE = 0.75  # of what is free that a search may take: its tables grow by leaps
MOST_EDGES = (1 << 31) - 1  # that have numbers on a finished graph
AT_ONCE = min(2, os.cpu_count() or 1)  # decisions at the same time: each needs memory of its own
TO_DECIDE = 50  # bytes for each edge that deciding on a finished graph takes: 34 to 46 were measured


def peak_memory() -> int:
    """The most memory that this process has held, in bytes; 0 where the system does not say."""
    if sys.platform == "win32":
        return 0
    peak: int = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def held_memory() -> int:
    """The memory that this process holds, in bytes, without files; where the system does not say, the most ever."""
    try:
        _, resident, shared, *_ = map(int, Path("/proc/self/statm").read_text().split())
        return (resident - shared) * os.sysconf("SC_PAGESIZE")
    except (OSError, ValueError, IndexError):
        return peak_memory()


def memory_for_a_search() -> int | None:
    """The bytes that this process may hold before the machine has to swap; None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")) * 1024
    except (OSError, ValueError, IndexError, StopIteration):
        return None
    return held_memory() + int(SHARE * min(free, _left_in_group()))


def _left_in_group() -> int:
    """The bytes that this process's control group, such as a container, has left; very many where it has no limit."""
    try:
        folder = Path("/sys/fs/cgroup")
        return int((folder / "memory.max").read_text()) - int((folder / "memory.current").read_text())
    except (OSError, ValueError):
        return 1 << 62


def memory_words(limit: int) -> str:
    """Returns why a search stopped that came to its limit."""
    return f"stopped at its limit of {limit / 1e6:,.0f} MB of memory"


def too_much_to_decide(edges: int, limit: int | None) -> str:
    """Returns why what needs the whole graph, of so many edges, is left undecided; nothing where there is room."""
    if edges > MOST_EDGES:
        return f"the search is done, but a graph of {edges:,} edges is too large to be decided on"
    needed = edges * TO_DECIDE
    if limit is None or held_memory() + needed <= limit:
        return ""
    more = f"the search is done, but to decide what asks for the whole graph takes about {needed / 1e6:,.0f} MB more"
    return f"{memory_words(limit)}: {more}"


@contextmanager
def interrupts() -> Iterator[Callable[[], bool]]:
    """Gives a function that says whether Ctrl-C was pressed, which breaks nothing off; the second time it does."""
    pressed = False

    def note(*_: object) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    mine = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT) if mine else None
    if before is not signal.default_int_handler:  # somebody else sees to it
        yield lambda: False
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, before)


def side_by_side(function: Callable[[A], B], items: Iterable[A]) -> list[B]:
    """The results of a function for items that do not depend on each other: NumPy lets other threads run meanwhile.

    A search's kernel must not be asked in it, as that serves one thread.
    """
    from concurrent.futures import ThreadPoolExecutor  # it takes a while to load

    with ThreadPoolExecutor(AT_ONCE) as threads:
        return list(threads.map(function, items))
