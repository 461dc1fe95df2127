"""Scarcity: descriptors that this process really has not, and calls that fail for want of something."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from leasehold.impl import descriptors

# Numbers of errors, and whether each is a want that passes.
ERRORS = {
    **dict.fromkeys(sorted(descriptors.PASSING | descriptors.FULL), True),
    **dict.fromkeys((errno.EACCES, errno.EROFS, errno.EIO), False),
}


def fails_with(number: int) -> Callable[..., NoReturn]:
    """A function that fails with an error of the system."""

    def fails(*given: Any) -> NoReturn:
        raise OSError(number, os.strerror(number))

    return fails


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
