"""An image, and directories of units of which nothing is left in the end."""

from collections.abc import Iterator
from itertools import count
from os import getpid
from pathlib import Path
from typing import Any

import pytest

from tests.impl.drivers.machine import clean
from tests.impl.drivers.machine import image as make_image

_number = count()


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """An image, as a configuration has it."""
    return make_image(tmp_path_factory.mktemp("image"))


@pytest.fixture
def bridge() -> str:
    """The name of a bridge that no other test has."""
    return f"lht{getpid() % 100000}x{next(_number)}"


@pytest.fixture
def units(tmp_path: Path, bridge: str) -> Iterator[Path]:
    """A directory of units."""
    folder = tmp_path / "units"
    yield folder
    clean(folder, bridge)
