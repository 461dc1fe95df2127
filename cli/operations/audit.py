"""The audit trail of a page's actions: a line of JSON before each is sent, and one with its outcome."""

from __future__ import annotations

import json
import os
import pwd
import stat
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TextIO, TypeAlias

MODE = 0o600
FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK

Outcome: TypeAlias = Literal["intended", "done", "refused", "unknown"]


class AuditTrail:
    """Writes what is done, to a stream and a file.

    Args:
        file: is appended to, and only its user may read it; None: there is none.
        stream: left out: standard output.

    Attributes:
        user: the user of the operating system that this process runs as.

    Raises:
        OSError: the file cannot be written.
    """

    def __init__(self, file: Path | None, stream: TextIO | None = None) -> None:
        self.file, self.stream, self.user = file, stream, _user()
        if file is not None:
            os.close(_opened(file))

    def write(self, number: int, session: int, action: str, target: str, outcome: Outcome, words: str = "") -> None:
        """Writes a line.

        Args:
            number: of the action; the line of its intent and the one of its outcome have the same.
            session: in which somebody asked for it.
            action: its name.
            target: the lease or unit.
            outcome: `unknown` where the actor did not answer, so that it may have done it.
            words: of the outcome.

        Raises:
            OSError: it cannot be written, and so is not known to others.
        """
        line = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "who": {"user": self.user, "session": session},
            "number": number,
            "action": action,
            "target": target,
            "outcome": outcome,
            "words": words,
        }
        text = json.dumps(line) + "\n"
        if self.file is not None:
            descriptor = _opened(self.file)
            try:
                if os.write(descriptor, text.encode()) != len(text.encode()):
                    raise OSError("only a part of the line could be written")
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        stream = self.stream or sys.stdout
        stream.write(text)
        stream.flush()


def _opened(file: Path) -> int:
    """A descriptor of the file, which is opened each time, as somebody may have moved it away."""
    descriptor = os.open(file, FLAGS, MODE)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("it is no plain file")
        os.fchmod(descriptor, MODE)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # an account that no list has, as in containers
        return str(os.getuid())
