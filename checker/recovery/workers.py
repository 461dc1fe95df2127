"""Work spread over processes, which log nothing of the faults that they inject and leave Ctrl-C to their parent."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, TypeVar

W = TypeVar("W")
R = TypeVar("R")


@contextmanager
def silent() -> Iterator[None]:
    """Actors log each fault that they meet; within this, nothing is logged."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def spread(
    do: Callable[[W], R], work: Iterable[W], jobs: int | None, begin: Callable[..., None] = lambda: None,
    arguments: tuple[Any, ...] = (),
) -> Iterator[R]:  # fmt: skip
    """Does each piece of work in some process; yields results as they come.

    Args:
        do: does one piece. Like `begin`, a function of a module, so that other processes find it.
        work: taken piece by piece, when a process is about to be free.
        jobs: processes; 0: this one; left out: as many as there are processors.
        begin: called once in each process, before its first piece.
        arguments: of `begin`.
    """
    if jobs == 0:
        begin(*arguments)
        for piece in work:
            with silent():
                done_here = do(piece)
            yield done_here
        return
    jobs = jobs or os.cpu_count() or 1
    context = multiprocessing.get_context("spawn")  # not forked: the parent may have threads
    with ProcessPoolExecutor(jobs, context, initializer=_begin, initargs=(begin, arguments)) as pool:
        waiting: set[Future[R]] = set()
        try:
            for piece in work:
                waiting.add(pool.submit(do, piece))
                if len(waiting) >= 2 * jobs:
                    done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                    yield from (future.result() for future in done)
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        finally:
            pool.shutdown(cancel_futures=True)


def _begin(begin: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    begin(*arguments)
