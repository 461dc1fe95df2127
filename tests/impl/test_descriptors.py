"""Descriptors that are asked for, to see whether there are enough, are given back."""

from __future__ import annotations

import os
import resource

import pytest

from leasehold.impl.descriptors import require_descriptors


def free_descriptors() -> int:
    """Returns how many more files this process may open."""
    taken: list[int] = []
    try:
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return len(taken)
    finally:
        for one in taken:
            os.close(one)


def test_whoever_asks_whether_there_are_enough_keeps_none() -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, limits[1]))
    try:
        free = free_descriptors()
        for count in (1, free - 1, free):
            require_descriptors(count)
            assert free_descriptors() == free
        with pytest.raises(OSError, match="Too many open files"):
            require_descriptors(free + 1)
        assert free_descriptors() == free
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
