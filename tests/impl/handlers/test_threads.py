"""Work for which no thread could be started is not done later."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from leasehold.impl.handlers.command import CommandHandler
from leasehold.impl.handlers.handler import HandlerAction, NotBegun
from leasehold.impl.handlers.process import ProcessHandler
from leasehold.impl.handlers.threads import in_thread

pytestmark = pytest.mark.real_time


@pytest.fixture
def without_threads(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No thread can be started, until that is undone."""

    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    return monkeypatch


async def test_what_no_thread_could_begin_is_taken_back(without_threads: pytest.MonkeyPatch) -> None:
    done = list[str]()
    with ThreadPoolExecutor(2) as pool:
        with pytest.raises(NotBegun, match="no thread can be started: can't start new thread"):
            in_thread(pool, done.append, "first")
        without_threads.undo()
        await in_thread(pool, done.append, "second")
    assert done == ["second"]


async def test_what_another_thread_has_begun_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, may_end = threading.Event(), threading.Event()

    class Eager(ThreadPoolExecutor):
        """Fails as a pool does that has started some threads, one of which takes the work at once."""

        def submit(self, function, *args):  # type: ignore[no-untyped-def, override]
            super().submit(function, *args)
            begun.wait(10)
            raise RuntimeError("can't start new thread")

    def work() -> str:
        begun.set()
        may_end.wait(10)
        return "done"

    with Eager(1) as pool:
        result = in_thread(pool, work)
        may_end.set()
        assert await result == "done"


async def test_results_errors_and_a_closed_pool_are_as_they_are() -> None:
    pool = ThreadPoolExecutor(1)
    assert await in_thread(pool, int, "12") == 12
    with pytest.raises(ValueError, match="invalid literal"):
        await in_thread(pool, int, "x")
    pool.shutdown()
    with pytest.raises(RuntimeError, match="shutdown"):
        in_thread(pool, int, "12")


@pytest.mark.parametrize("kind", ["command", "process"])
async def test_an_action_without_a_thread_was_not_begun_and_leaves_no_lock(
    kind: str, without_threads: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Otherwise the next action would wait for a lock that its own process holds."""
    handler = (
        CommandHandler(directory=tmp_path / "units", teardown="true")
        if kind == "command"
        else ProcessHandler(tmp_path / "units")
    )
    with pytest.raises(NotBegun):
        await handler.act(HandlerAction("teardown", "tenant:1", "u-0", 1, {}))
    without_threads.undo()
    async with asyncio.timeout(20):
        assert (await handler.act(HandlerAction("teardown", "tenant:1", "u-0", 2, {}))).well
    await handler.close()
