"""No test sees the cache of whoever runs it, nor what another test has kept."""

import os
from collections.abc import Iterator
from itertools import count

import pytest

VARIABLE = "LEASEHOLD_CACHE"
_number = count()


@pytest.fixture(scope="session", autouse=True)
def no_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """In the environment, so that processes have it too. Outside of tests nothing can be kept: it is no folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, os.devnull)
        yield


@pytest.fixture(autouse=True)
def own_cache(no_cache: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache for each test; the compiled engine alone, which no test can spoil, is kept for all."""
    base = tmp_path_factory.getbasetemp()
    folder, engine = base / f"cache-{next(_number)}", base / "engine"
    folder.mkdir()
    engine.mkdir(exist_ok=True)
    (folder / "engine").symlink_to(engine)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(folder))
        yield
