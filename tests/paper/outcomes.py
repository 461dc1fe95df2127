"""A pytest plugin that writes how each test ended, a JSON object per line, into the file `LEASEHOLD_OUTCOMES`.

`how` is "passed", "asserted" where what was demanded was not so, or where the loader refused the specification, or
"other": skipped, or an error of another kind.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.spec import SpecError

VARIABLE = "LEASEHOLD_OUTCOMES"


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
    words = "" if error is None else f"{type(error).__name__}: {error}"[:300]
    with Path(os.environ[VARIABLE]).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"test": item.nodeid, "how": how, "words": words}) + "\n")
