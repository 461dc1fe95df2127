"""Descriptors of this process, and what a lack of them means: it passes, and is nobody's fault.

Theory of operation. At its start an actor raises the limit of its open files to what the system permits. Programs that
it starts get the limit of before, as some cannot work with numbers above 1023.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
import time
from contextlib import suppress
from typing import Any

from leasehold.impl.transport.limits import SparseLog

log = logging.getLogger("leasehold.server")

# The system lacks descriptors, memory or processes at this moment.
PASSING = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ENOBUFS})
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
LEAST = 24  # of the loop, the store, the ports and a connection or two
MOST = 65_536  # more would be of no use, and some kernels give a million

_before: tuple[int, int] | None = None
_sparse = SparseLog(log, 1 / 60, 1)


def raise_limit() -> int:
    """Raises the limit of this process's open files as far as it may be; returns it."""
    global _before
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if most <= soft:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError) as error:
        log.warning("no more than %d files may be open at once: %s", soft, error)
        return soft
    _before = soft, hard
    return most


def require_descriptors(count: int = LEAST) -> None:
    """Checks that this process may open so many files more, without which an actor could not even begin.

    Raises:
        OSError: it may not; `errno` says what is lacking.
    """
    taken: list[int] = []
    try:
        for _ in range(count):
            taken.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    finally:
        for one in taken:
            os.close(one)


def limit_of_children() -> tuple[int, int]:
    """The limits of open files, the soft and the hard one, for a program that this process starts."""
    return _before or resource.getrlimit(resource.RLIMIT_NOFILE)


def limit_child(pid: int) -> None:
    """Gives a program that has just been started the limit of before."""
    if _before is not None:
        with suppress(OSError, ValueError):  # it has ended
            resource.prlimit(pid, resource.RLIMIT_NOFILE, _before)


def is_passing(error: BaseException) -> bool:
    """Returns whether an error says that the system lacks something at this moment."""
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in PASSING)


def hear_of_lack(loop: asyncio.AbstractEventLoop) -> None:
    """Connections that cannot be accepted for want of descriptors are logged once a minute, without a traceback."""

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, OSError) and is_passing(error) and "socket" in context:
            message = "connections cannot be accepted at the moment, and wait: %s"
            _sparse.warning(time.monotonic(), "accept", message, error.strerror or error)
        else:
            loop.default_exception_handler(context)

    loop.set_exception_handler(handle)
