"""The progress of long work: shown in place on a terminal, by a line a minute into a file or a pipe.

All of it goes to the standard error, so that it mixes with no result. A thread of its own prints,
so that a part of the work that reports nothing for long is not silent either.
"""

from __future__ import annotations

import shutil
import sys
import time
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Self

PIPE_SECONDS = 60.0  # between two lines into a file or a pipe
TERMINAL_SECONDS = 1.0  # between two redraws on a terminal, where nothing is reported
_REDRAW_SECONDS = 0.1  # between two redraws on a terminal, however often something is reported
_ERASE = "\r\x1b[2K"


class Status:
    """The progress of some work; a context manager around it.

    `show` takes the latest words, the most important first: those that do not fit on a terminal are left out.
    """

    def __init__(self, *parts: str) -> None:
        self._terminal = sys.stderr.isatty()
        self._parts = parts
        self._started = time.monotonic()
        self._drawn = 0.0  # when the terminal was drawn on; 0 where nothing stands there
        self._done = Event()
        self._lock = Lock()
        self._thread = Thread(target=self._repeat, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._done.set()
        self._thread.join()
        self.clear()

    def show(self, *parts: str) -> None:
        """The latest words."""
        self._parts = parts
        if self._terminal and time.monotonic() - self._drawn >= _REDRAW_SECONDS:
            self._print()

    def say(self, line: str) -> None:
        """A line that stays."""
        self.clear()
        self._write(f"leasehold: {line}\n")

    def clear(self) -> None:
        """Takes the words off a terminal, before something else is printed there."""
        self._parts = ()
        with self._lock:
            if self._drawn:
                self._write(_ERASE)
                self._drawn = 0.0

    def _repeat(self) -> None:
        while not self._done.wait(TERMINAL_SECONDS if self._terminal else PIPE_SECONDS):
            if self._parts or not self._terminal:
                self._print()

    def _print(self) -> None:
        parts = [f"{time.monotonic() - self._started:,.0f} s", *(self._parts or ["at work"])]
        if not self._terminal:
            self._write(f"leasehold: {'  '.join(parts)}\n")
            return
        parts.append("Ctrl-C stops and reports")
        width = shutil.get_terminal_size().columns
        while len("  ".join(parts)) >= width and len(parts) > 1:
            parts.pop()
        with self._lock:
            if not self._done.is_set():
                self._write(_ERASE + "  ".join(parts)[: width - 1])
                self._drawn = time.monotonic()

    @staticmethod
    def _write(text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError):
            pass  # whoever watched has gone; the work goes on
