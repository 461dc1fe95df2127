"""A plug-in of pytest that says to coverage, in this process and in those that it starts, which test runs.

It adds a line to the file that DURATIONS names for each test that passes: its seconds and its name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from time import perf_counter

import coverage
import pytest

from tests.mutation.judging import DURATIONS

TEST = "LEASEHOLD_TEST"
_began = pytest.StashKey[float]()
_failed = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    os.environ[TEST] = item.nodeid
    measured = coverage.Coverage.current()
    if measured is not None:
        measured.switch_context(item.nodeid)
    item.stash[_began] = perf_counter()
    try:
        return (yield)
    finally:
        os.environ.pop(TEST)
        if measured is not None:
            measured.switch_context("")


def follow_environment() -> None:
    """Says to coverage which test this process belongs to, where it was forked before that began."""
    measured = coverage.Coverage.current()
    if measured is not None:
        measured.switch_context(os.environ.get(TEST, ""))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    if not report.passed:
        item.stash[_failed] = True
    if report.when == "teardown" and not item.stash.get(_failed, False):
        with open(os.environ[DURATIONS], "a", encoding="utf-8") as file:
            file.write(f"{perf_counter() - item.stash[_began]:.3f} {item.nodeid}\n")
    return report
