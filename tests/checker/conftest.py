"""SPIN, for the tests of Promela models."""

from __future__ import annotations

import os
import shutil

import pytest

MISSING = [tool for tool in ("spin", "cc") if shutil.which(tool) is None]


@pytest.fixture
def spin() -> None:
    """Where tests must not be skipped, what is missing is an error."""
    if MISSING and os.environ.get("CI") == "true":
        pytest.fail(f"{' and '.join(MISSING)} not found, and CI=true says that these tests must run")
    if MISSING:
        pytest.skip(f"{' and '.join(MISSING)} not found")
