"""How much memory this process holds, and how much the machine has left for it."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

SHARE = 0.75  # of what is free that a search may take: its tables grow by leaps
MOST_EDGES = (1 << 31) - 1  # that have numbers on a finished graph
TO_DECIDE = 50  # bytes for each edge that deciding on a finished graph takes: 34 to 46 were measured


def peak_memory() -> int:
    """The most memory that this process has held, in bytes."""
    peak: int = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def held_memory() -> int:
    """The memory that this process holds, in bytes, without files; where the system does not say, the most ever."""
    try:
        _, resident, shared, *_ = map(int, Path("/proc/self/statm").read_text().split())
        return (resident - shared) * os.sysconf("SC_PAGESIZE")
    except (OSError, ValueError, IndexError):
        return peak_memory()


def memory_for_a_search(processes: int = 1) -> int | None:
    """What a process may hold, in bytes, before the machine has to swap; None where the system does not say.

    It is one of so many on this machine that begin now.
    """
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")) * 1024
    except (OSError, ValueError, IndexError, StopIteration):
        return None
    return held_memory() + int(SHARE * min(free, _left_in_group()) / processes)


def _left_in_group() -> int:
    """What the control group of this process, such as a container, has left; very much where it has no limit."""
    try:
        folder = Path("/sys/fs/cgroup")
        return int((folder / "memory.max").read_text()) - int((folder / "memory.current").read_text())
    except (OSError, ValueError):
        return 1 << 62


def memory_words(limit: int) -> str:
    """Why a search stopped that came to its limit."""
    return f"stopped at its limit of {limit / 1e6:,.0f} MB of memory"


def too_much_to_decide(edges: int, limit: int | None) -> str:
    """Why what asks for the whole graph, which has so many edges, is not decided; nothing where there is room."""
    if edges > MOST_EDGES:
        return f"the search is done, but a graph of {edges:,} edges is too large to be decided on"
    needed = edges * TO_DECIDE
    if limit is None or held_memory() + needed <= limit:
        return ""
    more = f"the search is done, but to decide what asks for the whole graph takes about {needed / 1e6:,.0f} MB more"
    return f"{memory_words(limit)}: {more}"
