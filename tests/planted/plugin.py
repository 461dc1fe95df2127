"""A pytest plug-in: tests run with a mistake planted, and how each ended is written down.

The variable `LEASEHOLD_PLANTED` names the mistake of the running system; without it none is planted. Into the file
that `LEASEHOLD_OUTCOMES` names goes a JSON object per test: `how` is "passed", "asserted" where what was demanded was
not so, or where the loader refused the specification, or "other": skipped, or an error of another kind.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from leasehold.spec import SpecError
from tests.planted.table import named

OUTCOMES, PLANTED = "LEASEHOLD_OUTCOMES", "LEASEHOLD_PLANTED"
_planted = ExitStack()


def pytest_sessionstart(session: pytest.Session) -> None:
    if PLANTED in os.environ:
        _planted.enter_context(named(os.environ[PLANTED]).planted())


def pytest_sessionfinish(session: pytest.Session) -> None:
    _planted.close()


def demanded(error: BaseException) -> bool:
    """Returns whether an error says that a test's demand was not met; of a group, one error suffices."""
    if isinstance(error, BaseExceptionGroup):
        return any(demanded(one) for one in error.exceptions)
    return isinstance(error, AssertionError | pytest.fail.Exception)


def refused(error: BaseException) -> bool:
    """Returns whether the loader refused the specification, also before the test itself began."""
    return isinstance(error, SpecError)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    yield
    error = call.excinfo.value if call.excinfo is not None else None
    if error is None and call.when != "call":
        return
    how = "other"
    if error is None:
        how = "passed"
    elif (call.when == "call" and demanded(error)) or refused(error):
        how = "asserted"
    reason = "" if error is None else f"{type(error).__name__}: {error}"[:300]
    with Path(os.environ[OUTCOMES]).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"test": item.nodeid, "how": how, "words": reason}) + "\n")
