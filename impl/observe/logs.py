"""Logs of an actor: one line per record, for terminals or as JSON.

Theory of operation. All modules log through the standard library; this module formats the records. A peer, a handler or
a database may have put any characters into a message, so characters that could end a line or move a terminal's cursor
are written as escapes. Only a traceback takes several lines, and only as text.

Standard error may be a pipe that nobody reads, or lie on a disk that does not answer. So a thread writes the lines: who
logs leaves them in a line that is bounded, and goes on. Lines that find no place are left out, and their number is
logged as soon as there is one.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

from leasehold.impl.words import visible

Form = Literal["text", "json"]
LEVELS = ("debug", "info", "warning", "error")
ABOUT = "about"  # the attribute of a record that has its fields
MOST_LINES = 10_000  # that wait to be written
FLUSH_SECONDS = 1.0  # for which what waits is written at the end
_COLOURS = {"debug": "2", "warning": "33", "error": "31", "critical": "31;1"}


class JsonLines(logging.Formatter):
    """A JSON object per record: time, level, logger, actor, digest, message, and the record's own fields."""

    def __init__(self, actor: str = "", digest: str = "") -> None:
        super().__init__()
        self._own = {name: value for name, value in (("actor", actor), ("digest", digest)) if value}

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {"time": _time(record), "level": record.levelname.lower(), "logger": record.name}
        line |= {**self._own, **_acting.get({}), **about(record), "message": record.getMessage()}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class TextLines(logging.Formatter):
    """Time, level, actor and message; on a terminal the levels have colours."""

    def __init__(self, actor: str = "", digest: str = "", colour: bool = False) -> None:
        super().__init__()
        self._actor, self._colour = _named(actor, digest), colour

    def format(self, record: logging.LogRecord) -> str:
        level = record.levelname.lower()
        shown = f"{level:<7}"
        if self._colour and level in _COLOURS:
            shown = f"\x1b[{_COLOURS[level]}m{shown}\x1b[0m"
        acting = _acting.get({})
        own = _named(acting["actor"], acting["digest"]) if acting else self._actor
        actor = own or about(record).get("actor", "")
        parts = (_time(record), shown, visible(str(actor)), visible(record.getMessage()))
        line = " ".join(word for word in parts if word)
        if record.exc_info:
            trace = self.formatException(record.exc_info).splitlines()
            line += "".join(f"\n    {visible(row)}" for row in trace)
        return line


_acting: ContextVar[dict[str, str]] = ContextVar("acting")


def act_as(actor: str, digest: str) -> None:
    """The records of this task, and of those that it starts, are of an actor now; a process may have several."""
    _acting.set({"actor": actor, "digest": digest})


def _named(actor: str, digest: str) -> str:
    return actor + (f"@{digest[:12]}" if actor and digest else "")


def about(record: logging.LogRecord) -> Mapping[str, Any]:
    """The fields of a record: lease, machine, transition; empty where it has none."""
    fields: Mapping[str, Any] = getattr(record, ABOUT, {})
    return fields


def configure(
    form: Form = "text", level: str = "info", actor: str = "", digest: str = "", stream: TextIO | None = None
) -> None:
    """Sets the format and level of the process's logs; the last call counts.

    Args:
        form: of a line.
        level: the lowest for records of the package; records of libraries are shown from warnings on.
        actor: the name in every line.
        digest: of the specification that it runs.
        stream: of the lines; left out: standard error.

    Raises:
        ValueError: there is no such form or level.
    """
    if form not in ("text", "json"):
        raise ValueError(f"there is no form of logs {form!r} (forms: text, json)")
    if level not in LEVELS:
        raise ValueError(f"there is no level of logs {level!r} (levels: {', '.join(LEVELS)})")
    stream = stream or sys.stderr
    handler = _Shown(stream)
    colour = stream.isatty() and not os.environ.get("NO_COLOR")
    handler.setFormatter(JsonLines(actor, digest) if form == "json" else TextLines(actor, digest, colour))
    root = logging.getLogger()
    for other in [other for other in root.handlers if isinstance(other, _Shown)]:
        root.removeHandler(other)
        other.close()
    root.addHandler(handler)
    logging.getLogger("leasehold").setLevel(level.upper())


class _Shown(logging.Handler):
    """The one handler of `configure`: lines are worded by who logs, and written by a thread.

    Args:
        stream: of the lines.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self.stream = stream
        self._lines: deque[str] = deque()
        self._left_out = 0
        self._change = threading.Condition()
        self._writing = self._closed = False
        threading.Thread(target=self._write, name="log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception:
            self.handleError(record)
            return
        with self._change:
            if len(self._lines) >= MOST_LINES:
                self._left_out += 1
                return
            self._lines.append(line)
            self._change.notify_all()

    def flush(self) -> None:
        """Waits until all is written, and not for ever: nobody may read it."""
        with self._change:
            self._change.wait_for(lambda: not self._lines and not self._writing, FLUSH_SECONDS)

    def close(self) -> None:
        """Ends the thread, when all is written or nobody reads it."""
        self.flush()
        with self._change:
            self._closed = True
            self._change.notify_all()
        super().close()

    def _write(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._lines or self._closed)
                if not self._lines:
                    return
                text = "".join(f"{line}\n" for line in self._lines)
                self._lines.clear()
                if self._left_out:
                    text += f"{self.format(_note(self._left_out))}\n"
                    self._left_out = 0
                self._writing = True
            with suppress(OSError, ValueError):  # the other end is closed, or the stream is
                _put(self.stream, text)
            with self._change:
                self._writing = False
                self._change.notify_all()


def _put(stream: TextIO, text: str) -> None:
    """Writes past the stream's buffer where it has a file: the interpreter waits at its end for the buffer's lock."""
    try:
        file = stream.fileno()
    except OSError:  # it is in memory
        stream.write(text)
        stream.flush()
        return
    left = text.encode(stream.encoding or "utf-8", "backslashreplace")
    while left:
        left = left[os.write(file, left) :]


def _note(left_out: int) -> logging.LogRecord:
    """The record that says how many were left out."""
    message = "%d lines were left out, as nobody read the log"
    return logging.LogRecord("leasehold.logs", logging.WARNING, __file__, 0, message, (left_out,), None)


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
