"""No test sees the cache of whoever runs it, nor what another test has kept; each `async def` test has a loop.

The summary names tests that take long.
"""

import asyncio
import inspect
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from leasehold.faults.simulation.loop import VirtualLoop
from tests.impl.virtual import virtual

VARIABLE = "LEASEHOLD_CACHE"
LONG_SECONDS = 5.0  # of CPU time; what takes longer is to be made fast or marked long
settings.register_profile("unhurried", deadline=None)  # the machine may be busy
settings.load_profile("unhurried")
WHERE, FOLDER = Path.cwd(), Path(__file__).parent
_number = count()
_started = pytest.StashKey[float]()


@pytest.fixture(scope="session", autouse=True)
def no_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """In the environment, so that processes have it too. Outside of tests nothing can be kept: it is no folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, os.devnull)
        yield


@pytest.fixture(autouse=True)
def own_cache(no_cache: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache for each test."""
    folder = tmp_path_factory.getbasetemp() / f"cache-{next(_number)}"
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(folder))
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests that were measured to be long or slow (durations.py), where their file does not say it itself."""
    measured = {mark: {*(FOLDER / f"{mark}.txt").read_text(encoding="utf-8").splitlines()} for mark in ("long", "slow")}
    for item in items:
        for mark, names in measured.items():
            if item.nodeid in names and item.get_closest_marker("slow") is None:
                item.add_marker(mark)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs an `async def` test, on virtual time unless it is marked: then nothing waits, and nothing is left to chance.

    Plugins have asyncio's own loop, whose time is real. A test may name a virtual loop of its own.
    """
    if not inspect.iscoroutinefunction(pyfuncitem.function):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    if pyfuncitem.get_closest_marker("real_time") is not None:
        asyncio.run(pyfuncitem.function(**given))
    else:
        own = pyfuncitem.get_closest_marker("loop")
        virtual(pyfuncitem.function(**given), own.kwargs["kind"] if own else VirtualLoop)
    return True


def cpu_seconds() -> float:
    """The CPU time of this process and of those that it has waited for: what runs beside the tests is not counted."""
    return sum(os.times()[:4])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_started] = cpu_seconds()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Each test leaves the process in the folder where it was: what others start there depends on it."""
    result = yield
    if Path.cwd() != WHERE:
        os.chdir(WHERE)
        pytest.fail("it has left the process in another folder")
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report: Any = yield
    if report.when == "teardown":
        report.cpu_seconds = cpu_seconds() - item.stash[_started]
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [report for some in terminalreporter.stats.values() for report in some if hasattr(report, "cpu_seconds")]
    long = [r for r in reports if r.cpu_seconds > LONG_SECONDS and not {"long", "slow"} & set(r.keywords)]
    if long:
        terminalreporter.section(f"over {LONG_SECONDS:.0f} s of CPU time: make it fast, or mark it long")
    for report in sorted(long, key=lambda report: -report.cpu_seconds):
        terminalreporter.write_line(f"{report.cpu_seconds:6.1f} s {report.nodeid}")
