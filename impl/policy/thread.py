"""A thread for a policy, which may block or loop for ever, and can be abandoned.

Theory of operation. Python cannot end a thread from outside. An abandoned one is given nothing more, and an exception
is raised in it: that ends a loop in Python at its next step. A call that blocks (a socket, a lock, a loop in C) ends
when it returns, and the thread with it. Until then the thread is there; it is a daemon, so it does not keep the process
from ending. A loop that holds Python's interpreter lock takes its share of every five milliseconds from the actor: that
slows the actor, and stops nothing.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any


class Abandoned(BaseException):
    """Raised in a thread that nobody waits for any more."""


class PolicyThread(Executor):
    """Calls what it is given, one after the other, in a daemon thread of its own.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """A future of what a call returns. The call raises nothing: it is to return its errors."""
        if self._thread.ident is None:
            self._thread.start()
        future: Future[Any] = Future()
        self._jobs.put((future, lambda: fn(*args, **kwargs)))
        return future

    def abandon(self) -> None:
        """Waits for nothing that it does; its thread ends as soon as it can be brought to."""
        if self.alive:
            thread = ctypes.c_ulong(self._thread.ident or 0)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(Abandoned))
        self._jobs.put(None)

    @property
    def alive(self) -> bool:
        """Returns whether there is such a thread still."""
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            while (job := self._jobs.get()) is not None:
                future, call = job
                if future.set_running_or_notify_cancel():
                    future.set_result(call())
        except Abandoned:
            pass
