"""Descriptors that are asked for, to see whether there are enough, are given back."""

from __future__ import annotations

import os
import resource

import pytest

from leasehold.impl.descriptors import require_descriptors


def open_files() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("spare", [0, 1, 23, 24, 60])
def test_whoever_asks_whether_there_are_enough_keeps_none(spare: int) -> None:
    before, limits = open_files(), resource.getrlimit(resource.RLIMIT_NOFILE)
    free = (n for n in range(limits[0]) if str(n) not in before)
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
    assert len(open_files()) == len(before)
