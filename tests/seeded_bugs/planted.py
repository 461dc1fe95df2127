"""A pytest plug-in: `LEASEHOLD_SEEDED_BUG=NAME pytest -p tests.seeded_bugs.planted` runs tests with a bug planted."""

from __future__ import annotations

import os

import pytest

from tests.seeded_bugs import named

BUG = "LEASEHOLD_SEEDED_BUG"
_planted = named(os.environ[BUG]).plant()


def pytest_sessionstart(session: pytest.Session) -> None:
    _planted.__enter__()


def pytest_sessionfinish(session: pytest.Session) -> None:
    _planted.__exit__(None, None, None)
