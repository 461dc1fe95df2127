"""Worker processes for questions to the solver: one that hangs or crashes is killed without harm to the others."""

from __future__ import annotations

import multiprocessing
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from math import inf
from operator import length_hint
from signal import SIG_IGN, SIGINT, SIGTERM, set_wakeup_fd, signal
from threading import Thread
from typing import Any, TypeVar

import z3
from pebble import ProcessExpired, ProcessPool

from leasehold.checker.host.workers import follow_parent

Work = TypeVar("Work")
Result = TypeVar("Result")
STOPPING = (SIGINT, SIGTERM)  # signals that end a proof
GRACE_SECONDS = 5.0  # for a question to end by itself when its time is over
END_SECONDS = 0.5  # the same, when all of it is over: the solver knows that end, too
# Raised by the result of a question that was not answered; the solver raises where its memory ends.
GIVEN_UP = (TimeoutError, ProcessExpired, z3.Z3Exception)


class WorkerPool:
    """Processes that answer questions.

    Args:
        pool: of these.
        count: how many there are.
        seconds: for each question.
        until: the end of all questions, as `time.perf_counter` counts; a question that is still asked a while later is
            given up. None: no end.
    """

    def __init__(self, pool: ProcessPool, count: int, seconds: float, until: float | None = None) -> None:
        self._pool, self._count, self._seconds, self._until = pool, count, seconds, until

    @property
    def _limit(self) -> float:
        """Seconds for a question that is asked now."""
        return max(0.1, min(self._seconds, self._left))

    @property
    def _left(self) -> float:
        """Seconds until the last question is given up."""
        return inf if self._until is None else self._until - time.perf_counter() + END_SECONDS

    def asked(
        self, function: Callable[[Work], Result], works: Iterable[Work], sooner: deque[Work] | None = None
    ) -> Iterator[tuple[Work, Future[Result]]]:
        """A function's result for each value, in the order of completion.

        Args:
            function: of a module, as it goes to another process by its name.
            works: the values; each is taken when a process is free for it, as what has been found may change it.
            sooner: values that come before the others, to which the caller may add; empty in the end.
        """
        left: dict[Future[Result], Work] = {}
        sooner, later = deque() if sooner is None else sooner, iter(works)
        try:
            while True:
                # No more than can be begun at once: their time is counted from here.
                while len(left) < self._count:
                    work = sooner.popleft() if sooner else next(later, None)
                    if work is None:
                        break
                    left[self._pool.schedule(function, (work,), timeout=self._limit)] = work
                if not left:
                    return
                # A process that still begins has no time limit of its own.
                patience = None if self._until is None else max(0.0, self._left) + END_SECONDS
                answered = wait(left, patience, return_when=FIRST_COMPLETED).done
                for future in answered or [*left]:
                    yield left.pop(future), future if answered else _given_up()
        finally:
            for future in left:
                future.cancel()


LEAST_MEMORY = 100_000_000  # bytes of a process: with less, z3 may crash instead of saying that there is no more


class _Memory:
    """Bytes that the solver may hold in each process; 0: as many as there are."""

    each = 0


def limit_memory(total: int, jobs: int | None = None) -> None:
    """Divides memory between the solver of this process and those of the workers that it starts from here on.

    A solver that comes to its limit raises z3.Z3Exception, and the process goes on.

    Args:
        total: bytes.
        jobs: workers; left out: one for each processor.
    """
    _Memory.each = max(LEAST_MEMORY, total // (1 + (jobs or os.cpu_count() or 1)))
    _keep_memory(_Memory.each)


def _keep_memory(each: int) -> None:
    z3.set_param("memory_max_size", -(-each // 2**20))


@contextmanager
def worker_pool(
    seconds: float,
    jobs: int | None = None,
    begin: Callable[..., None] | None = None,
    known: Sequence[Any] = (),
    *,
    until: float | None = None,
) -> Iterator[WorkerPool]:
    """Worker processes, for as long as the context lasts.

    Args:
        seconds: for each question.
        jobs: how many; left out: one for each processor.
        begin: run by each process first.
        known: the arguments of `begin`.
        until: the end of all questions, as `time.perf_counter` counts; None: no end.
    """
    count = jobs or os.cpu_count() or 1
    context = multiprocessing.get_context("spawn")
    with ProcessPool(count, initializer=_begin, initargs=(_Memory.each, begin, *known), context=context) as pool:
        try:
            with _no_stopping():
                pool.schedule(_nothing)  # the first task starts the processes
            yield WorkerPool(pool, count, seconds, until)
        finally:
            pool.stop()  # type: ignore[no-untyped-call]


class _Stop:
    """The record whether a signal that ends a proof came, and whether it has to wait."""

    came = waits = False


_stop = _Stop()


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Ctrl-C and SIGTERM raise KeyboardInterrupt in the context at once, also while the solver works in this process.

    Python runs a handler when the solver returns, so a thread breaks the solver off. Only the first signal counts:
    worker processes are being stopped then. For the main thread alone.
    """

    def stop(*_: object) -> None:
        for number in STOPPING:
            signal(number, SIG_IGN)
        _stop.came = True
        if not _stop.waits:
            raise KeyboardInterrupt

    def break_off() -> None:
        with receiver:
            while receiver.recv(1):
                z3.main_ctx().interrupt()

    _stop.came = False
    z3.set_param("ctrl_c", False)  # with its own handler the solver would return as if it had given up
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    Thread(target=break_off, daemon=True).start()
    before = {number: signal(number, stop) for number in STOPPING}
    woken = set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        _stop.came = False
        set_wakeup_fd(woken)
        for number, handler in before.items():
            signal(number, handler)
        sender.close()  # then the thread ends


@contextmanager
def _no_stopping() -> Iterator[None]:
    """Signals that end a proof wait: a process that is half started would print a traceback."""
    _stop.waits = True
    try:
        yield
    finally:
        _stop.waits = False
    if _stop.came:
        raise KeyboardInterrupt


def _given_up() -> Future[Any]:
    """The result of a question that nobody waits for any more."""
    future = Future[Any]()
    future.set_exception(TimeoutError())
    return future


def _nothing() -> None:
    pass


def _begin(memory: int, begin: Callable[..., None] | None, *known: Any) -> None:
    follow_parent()
    if memory:
        _keep_memory(memory)
    if begin is not None:
        begin(*known)


def map_in_workers(
    function: Callable[[Work], Result],
    works: Iterable[Work],
    seconds: float,
    jobs: int | None = None,
    *,
    until: float | None = None,
) -> Iterator[tuple[Work, Result | None]]:
    """A function's result for each value, in the order of completion; None where it was given up.

    Args:
        function: of a module, as it goes to another process by its name.
        works: the values; each is taken when a process is free for it.
        seconds: for each.
        jobs: processes; left out: one for each processor.
        until: the end of all of them, as `time.perf_counter` counts; None: no end.
    """
    if not works:
        return
    count = jobs or os.cpu_count() or 1
    with worker_pool(seconds, min(length_hint(works, count), count), until=until) as processes:
        for work, future in processes.asked(function, works):
            try:
                yield work, future.result()
            except GIVEN_UP:
                yield work, None
