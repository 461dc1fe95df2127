"""Scarcity that is real: descriptors that this process has not."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator


@contextlib.contextmanager
def few_descriptors(spare: int) -> Iterator[None]:
    """This process may open so many files more."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    top, holes = max(int(name) for name in os.listdir("/proc/self/fd")), [os.open(os.devnull, os.O_RDONLY)]
    while holes[-1] < top:
        holes.append(os.open(os.devnull, os.O_RDONLY))
    resource.setrlimit(resource.RLIMIT_NOFILE, (holes[-1] + 1 + spare, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for hole in holes:
            os.close(hole)
