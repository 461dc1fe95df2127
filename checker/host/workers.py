"""Worker processes end with the process that leads them, and leave Ctrl-C to it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from types import FrameType

ENDING = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM ends the work as Ctrl-C does, by KeyboardInterrupt; later ones are ignored, as it cleans up and reports.

    For the main thread; in another one nothing changes.
    """

    def asked(number: int, frame: FrameType | None) -> None:
        for other in ENDING:
            signal.signal(other, signal.SIG_IGN)
        raise KeyboardInterrupt

    with _handling(asked):
        yield


@contextmanager
def signals_deferred() -> Iterator[None]:
    """Defers the signals that end the work to the end of the block, whose actors would take one for an error of theirs.

    For the main thread; in another one nothing changes.
    """
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)

    with _handling(note):
        yield
    if came:
        signal.raise_signal(came[0])


@contextmanager
def _handling(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Has a handler take the signals that end the work, in the main thread, until the block ends or it sets others."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in ENDING}
    try:
        yield
    finally:
        for number in ENDING:
            if signal.getsignal(number) is handler:  # else it is to end, and reports first
                signal.signal(number, before[number])


@contextmanager
def deaf_children() -> Iterator[None]:
    """Processes that this thread starts in the block never hear Ctrl-C, from their first moment on: it is its own."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # which they inherit
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_children(but: Collection[BaseProcess]) -> None:
    """Ends the processes that this one has started, but for some, without waiting for what they do."""
    for process in set(multiprocessing.active_children()) - set(but):
        process.terminate()


def follow_parent() -> None:
    """Called first in a worker process: Ctrl-C is for its parent, and however that ends, the worker ends with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()


def end_with_parent() -> None:
    """Has this process, which `multiprocessing` started, killed when its parent ends."""
    threading.Thread(target=_wait_for_end, daemon=True).start()


def _wait_for_end() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
