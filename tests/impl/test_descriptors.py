"""Descriptors that are asked for are given back; limits of open files; and what a lack of them means."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from leasehold.impl import descriptors
from leasehold.impl.descriptors import (
    MOST,
    hear_of_lack,
    is_passing,
    limit_child,
    limit_of_children,
    raise_limit,
    require_descriptors,
)
from leasehold.impl.transport.limits import SparseLog


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


LACKS = {"EMFILE", "ENFILE", "ENOMEM", "EAGAIN", "ENOBUFS"}


def test_an_error_passes_where_the_system_lacks_something_at_this_moment() -> None:
    """A full disk does not, nor does what is no error of the system."""
    for number, name in errno.errorcode.items():
        assert is_passing(OSError(number, "so")) == (name in LACKS), name
    assert is_passing(MemoryError())
    for other in (OSError("no number"), ValueError(errno.EMFILE), KeyboardInterrupt(), TimeoutError()):
        assert not is_passing(other)
    assert {errno.errorcode[number] for number in descriptors.FULL} == {"ENOSPC", "EDQUOT"}


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int]]:
    """The limits of this process, which are put back."""
    monkeypatch.setattr(descriptors, "_before", None)
    found = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield found
    resource.setrlimit(resource.RLIMIT_NOFILE, found)


def test_a_limit_is_raised_as_far_as_it_may_be_and_children_get_that_of_before(limits: tuple[int, int]) -> None:
    hard = limits[1]
    most = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    assert limit_of_children() == limits
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, hard))
    assert limit_of_children() == (300, hard)
    assert raise_limit() == most
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (most, hard)
    assert limit_of_children() == (300, hard)
    assert raise_limit() == most, "once more raises nothing"
    assert limit_of_children() == (300, hard)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert resource.prlimit(child.pid, resource.RLIMIT_NOFILE)[0] == most
        limit_child(child.pid)
        assert resource.prlimit(child.pid, resource.RLIMIT_NOFILE) == (300, hard)
    finally:
        child.communicate(b"\n")
    limit_child(child.pid)  # it has ended


def test_a_limit_that_is_high_enough_or_cannot_be_raised_stays(
    limits: tuple[int, int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hard = limits[1]
    limit_child(os.getpid())
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == limits, "there is none of before"
    monkeypatch.setattr(descriptors, "MOST", 300)
    for soft in (300, 301):
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert (raise_limit(), resource.getrlimit(resource.RLIMIT_NOFILE)) == (soft, (soft, hard))
        assert limit_of_children() == (soft, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (299, hard))

    def refuse(*words: object) -> None:
        raise ValueError("not permitted")

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(resource, "setrlimit", refuse)
        assert raise_limit() == 299
    assert "no more than 299 files may be open at once: not permitted" in caplog.text
    assert limit_of_children() == (299, hard)


@pytest.mark.parametrize(
    ("context", "passes"),
    [
        ({"exception": OSError(errno.EMFILE, "Too many"), "socket": 1}, True),
        ({"exception": OSError(errno.ENOENT, "None"), "socket": 1}, False),
        ({"exception": OSError(errno.EMFILE, "Too many")}, False),
        ({"exception": MemoryError(), "socket": 1}, False),
        ({"socket": 1}, False),
    ],
)
def test_connections_that_wait_for_a_descriptor_are_logged_in_a_line_and_all_else_as_ever(
    context: dict[str, Any], passes: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.new_event_loop()
    monkeypatch.setattr(descriptors, "_sparse", SparseLog(descriptors.log, 1 / 60, 1))
    try:
        hear_of_lack(loop)
        with caplog.at_level(logging.WARNING):
            loop.call_exception_handler({"message": "it failed", **context})
    finally:
        loop.close()
    assert ("connections cannot be accepted at the moment, and wait: Too many" in caplog.text) == passes
    assert ("it failed" in caplog.text) != passes
