"""Descriptors that are asked for, to see whether there are enough, are given back."""

from __future__ import annotations

import os
import resource
from contextlib import suppress

import pytest

from leasehold.impl.descriptors import require_descriptors


def open_files() -> set[int]:
    """Returns the numbers below 500 that are in use, without a file of its own that would be among them."""
    found = set()
    for number in range(500):
        with suppress(OSError):
            os.fstat(number)
            found.add(number)
    return found


@pytest.mark.parametrize("spare", [0, 1, 23, 24, 60])
def test_whoever_asks_whether_there_are_enough_keeps_none(spare: int) -> None:
    before, limits = open_files(), resource.getrlimit(resource.RLIMIT_NOFILE)
    free = (n for n in range(limits[0]) if n not in before)
    top = [next(free) for _ in range(spare + 1)][-1]  # the first number that is not to be had
    enough = True
    resource.setrlimit(resource.RLIMIT_NOFILE, (top, limits[1]))
    try:
        require_descriptors()
    except OSError:
        enough = False
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert enough == (spare >= 24)
    assert open_files() == before
