"""A detector that is a program: each line that it prints is an event that it raises, as JSON.

    detectors:
      kernel: {name: command, run: [/opt/site/watch-kernel, --follow]}

    {"unit": "node1", "event": "lost", "reason": "machine check on cpu 3"}

Theory of operation. The program runs as long as the actor watches; it is killed with its process group then. Where
`setpriv` is there, the kernel kills it with an actor that was killed itself. A line that raises nothing is logged, and
passed over; what it prints to standard error goes to the actor's own.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shlex
import shutil
import signal
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress

from leasehold.impl import descriptors
from leasehold.impl.handlers.handler import HandlerError
from leasehold.impl.raised import RaisedEvent, raised_event
from leasehold.impl.transport.limits import SparseLog

log = logging.getLogger("leasehold.detectors")

MOST_LINE = 64 * 1024  # bytes


class CommandDetector:
    """The detector.

    Args:
        run: the command line, as text or as a list of words.
        environment: variables for it, beside the actor's own.
    """

    def __init__(self, run: str | Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        words = shlex.split(run) if isinstance(run, str) else list(run)
        if not words or not all(isinstance(word, str) for word in words):
            raise HandlerError(f"run: {str(run)[:80]!r} is no command line; write text, or a list of words")
        self._command, self._environment = words, dict(environment or {})
        self._sparse = SparseLog(log)

    async def watch(self) -> AsyncIterator[RaisedEvent]:
        """Yields the events that the program prints, until it ends.

        Raises:
            HandlerError: it cannot be started, or ends badly.
        """
        if shutil.which(self._command[0]) is None:
            raise HandlerError(f"{self._command[0]} cannot be started: there is no such program")
        own = ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
        try:
            process = await asyncio.create_subprocess_exec(
                *own,
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                env={**os.environ, **self._environment},
                start_new_session=True,
                limit=MOST_LINE,
            )
        except OSError as error:
            raise HandlerError(f"{self._command[0]} cannot be started: {error.strerror or error}") from None
        assert process.stdout is not None
        too_long = False
        try:
            descriptors.limit_child(process.pid)
            while True:
                try:
                    line = await process.stdout.readuntil()
                except asyncio.IncompleteReadError:  # half a line says nothing
                    break
                except asyncio.LimitOverrunError as error:
                    await process.stdout.readexactly(error.consumed)
                    too_long = True
                    continue
                if too_long:
                    self._pass_over("a line has more than %d bytes", MOST_LINE)
                    too_long = False
                    continue
                try:
                    raised = raised_event(json.loads(line))
                except ValueError as error:
                    self._pass_over("%s", error)
                    continue
                yield raised
            if code := await process.wait():
                raise HandlerError(f"{self._command[0]} ended with {code}")
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()

    def _pass_over(self, message: str, value: object) -> None:
        self._sparse.warning(time.monotonic(), "line", f"{self._command[0]} raises nothing: {message}", value)
